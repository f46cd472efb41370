#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Writes the tables of a NAT64 without a controller into a running diolkos-switch: its pipeline learns sessions itself.

    learn.py --control /run/switch.sock --pref64 64:ff9b::/96 --pool 192.0.2.1 \\
        --local MAC … --hop 198.51.100.0/24=0,MAC-of-next-hop,MAC-of-device --hop 2001:db8:6::/64=2,MAC,MAC

A next hop is a network, the port by which it is reached (0 for the first pair of ports, 2 for the second), and two MACs.
What the mode cannot do stands in p4/swx/learn.p4. The record format is that of p4/PROTOCOL.md.
"""

from __future__ import annotations

import argparse
import socket
import struct
import sys
from ipaddress import IPv4Address, ip_network
from pathlib import Path

VERSION, INSERT, DEFAULT, FLUSH = 0x64703401, 2, 4, 5
LEARN, MTU, FIRST_PORT, PORT_MASK = 3, 1500, 1024, 0x7FFF
REPLY = 64
# Where the 32 bits of an IPv4 address begin: RFC 6052 section 2.2, /96 only. hr, hl, hm, lr, lm.
SLASH_96 = struct.pack("!BBIBI", 0, 0, 0, 0, 0xFFFFFFFF)


def main() -> int:
    """Exit code 0: all of it is written."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--control", type=Path, required=True, metavar="SOCKET")
    parser.add_argument("--pref64", type=ip_network, required=True, metavar="PREFIX", help="of 96 bits")
    parser.add_argument("--pool", type=IPv4Address, required=True, metavar="ADDRESS", help="one IPv4 address")
    parser.add_argument("--local", type=mac, action="append", default=[], metavar="MAC", help="of a device of the switch")
    parser.add_argument("--hop", action="append", default=[], metavar="NETWORK=PORT,MAC,MAC")
    arguments = parser.parse_args()
    if arguments.pref64.version != 6 or arguments.pref64.prefixlen != 96:
        parser.error("--pref64: a prefix of 96 bits, such as 64:ff9b::/96")
    settings = struct.pack("!BBHIHH", LEARN, 255, 1280, int(arguments.pool), FIRST_PORT, PORT_MASK)
    prefix = arguments.pref64
    records = [record(INSERT, "local_mac", "mine", address) for address in arguments.local]
    records.append(
        record(INSERT, "learn_prefix", "nat64_prefix", prefix.network_address.packed, prefix.netmask.packed, SLASH_96)
    )
    records += [hop(text) for text in arguments.hop]
    records.append(record(DEFAULT, "settings", "set", data=settings))
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as control:
        control.connect(str(arguments.control))
        for datagram in (record(FLUSH), b"".join(records)):
            control.send(datagram)
            reply = control.recv(1 << 16)
            for at in range(0, len(reply), REPLY):
                if any(reply[at + 10 : at + 12]):
                    print(f"record {at // REPLY}: {reply[at + 16 : at + REPLY].rstrip(bytes(1)).decode()}", file=sys.stderr)
                    return 1
    return 0


def record(
    op: int, table: str = "", action: str = "", key: bytes = b"", mask: bytes = b"", data: bytes = b"", rank: int = 0
) -> bytes:
    """One record of a request."""
    return struct.pack("!IIHHI48s48s48s48s48s", VERSION, 0, op, 0, rank, table.encode(), action.encode(), key, mask, data)


def hop(text: str) -> bytes:
    """An entry of hop4 or hop6; longer prefixes come first."""
    network, _, rest = text.partition("=")
    found, (port, to, by) = ip_network(network), rest.split(",")
    data = struct.pack("!I6s6sH", int(port), mac(to), mac(by), MTU)
    rank = found.max_prefixlen - found.prefixlen
    return record(INSERT, f"hop{found.version}", "forward", found.network_address.packed, found.netmask.packed, data, rank)


def mac(text: str) -> bytes:
    """Six bytes."""
    found = bytes.fromhex(text.replace(":", ""))
    if len(found) != 6:
        raise argparse.ArgumentTypeError(f"{text!r} is no MAC address")
    return found


if __name__ == "__main__":
    sys.exit(main())
