# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Advertises a router, its prefixes, and a translation prefix (RFC 4861, RFC 8781): advertise.py INTERFACE PREF64

For clients that learn the translation prefix in no other way. The prefixes are those that the interface has itself. Answers
solicitations, and advertises every ten minutes; lifetimes outlast any run.
"""

import contextlib
import socket
import struct
import sys
import time
from collections.abc import Iterator
from ipaddress import IPv6Network
from pathlib import Path

ROUTER_SOLICITATION, ROUTER_ADVERTISEMENT = 133, 134
PREFIX_INFORMATION, PREF64 = 3, 38
ON_LINK_AND_AUTONOMOUS = 0xC0
FOREVER = 0xFFFFFFFF
ROUTER_LIFETIME_S = 9000  # the longest there is
PREF64_LIFETIME = 8191  # the longest, in units of 8 s
LENGTHS = (96, 64, 56, 48, 40, 32)  # by the code of RFC 8781 section 4
ALL_NODES = "ff02::1"
INTERVAL_S = 600.0
ICMPV6_FILTER = 1  # linux/icmpv6.h
SCOPE_GLOBAL = "00"


def prefixes(interface: str) -> Iterator[IPv6Network]:
    """Of the interface's global addresses."""
    for line in Path("/proc/net/if_inet6").read_text().splitlines():
        address, _, length, scope, _, name = line.split()
        if name == interface and scope == SCOPE_GLOBAL:
            yield IPv6Network((int(address, 16), int(length, 16)), strict=False)


def advertisement(on_link: Iterator[IPv6Network], pref64: IPv6Network) -> bytes:
    """The message; the kernel fills its checksum in."""
    head = struct.pack("!BBHBBHII", ROUTER_ADVERTISEMENT, 0, 0, 64, 0, ROUTER_LIFETIME_S, 0, 0)
    options = b"".join(
        struct.pack("!BBBBIII", PREFIX_INFORMATION, 4, net.prefixlen, ON_LINK_AND_AUTONOMOUS, FOREVER, FOREVER, 0)
        + net.network_address.packed
        for net in on_link
    )
    translation = struct.pack("!BBH", PREF64, 2, PREF64_LIFETIME << 3 | LENGTHS.index(pref64.prefixlen))
    return head + options + translation + pref64.network_address.packed[:12]


def main(interface: str, pref64: IPv6Network) -> None:
    """Runs until a signal ends it."""
    index = socket.if_nametoindex(interface)
    # A bit is set for each type that is not read.
    wanted = [0xFFFFFFFF] * 8
    wanted[ROUTER_SOLICITATION // 32] &= ~(1 << ROUTER_SOLICITATION % 32)
    with socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6) as icmp:
        icmp.setsockopt(socket.IPPROTO_ICMPV6, ICMPV6_FILTER, struct.pack("=8I", *wanted))
        icmp.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, interface.encode())
        icmp.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, index)
        icmp.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, 255)
        icmp.settimeout(INTERVAL_S)
        message = advertisement(prefixes(interface), pref64)
        while not sent(icmp, message, index):
            time.sleep(0.05)
        print("advertising", flush=True)
        while True:
            with contextlib.suppress(TimeoutError):
                icmp.recv(1)
            sent(icmp, message, index)


def sent(icmp: socket.socket, message: bytes, index: int) -> bool:
    """False while the link has no address to send from: the link-local one takes a moment to come."""
    with contextlib.suppress(OSError):
        icmp.sendto(message, (ALL_NODES, 0, 0, index))
        return True
    return False


if __name__ == "__main__":
    main(sys.argv[1], IPv6Network(sys.argv[2]))
