# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Which way a datagram takes through a router: past the kernel's forwarding, or by it."""

from __future__ import annotations

import ctypes
import io
import os
import re
import socket
import sys
import threading

import pytest
from network import create_socket
from siit import V4, V4_IN_IPV6, V6, V6_MAPPED, SiitNetwork

# From where to where: the asker's namespace and address, the address asked, that which hears, and its namespace.
TO_IPV6 = ("v4", V4, V6_MAPPED, V6, "v6")
TO_IPV4 = ("v6", V6, V4_IN_IPV6, V4, "v4")
DIRECT, FORWARDED = "direct", "forwarded"
# Of a datagram that had 64.
HOPS_LEFT = 62
# linux/in.h, linux/in6.h
IP_RECVTTL, IPV6_RECVHOPLIMIT = 12, 51
# linux/sched.h
CLONE_NEWNET = 0x40000000


class Forwarded:
    """How many packets of a family the kernel of a namespace has forwarded (RFC 4293)."""

    def __init__(self, namespace: str, family: int) -> None:
        self.family = family
        opened: list[io.FileIO] = []

        def enter() -> None:
            with open(f"/run/netns/{namespace}") as entered:
                assert ctypes.CDLL(None, use_errno=True).setns(entered.fileno(), CLONE_NEWNET) == 0
            table = "snmp6" if family == socket.AF_INET6 else "snmp"
            opened.append(open(f"/proc/thread-self/net/{table}", "rb", buffering=0))  # noqa: SIM115

        # A thread of its own, which is all that changes its namespace; the file stays one of that namespace.
        thread = threading.Thread(target=enter)
        thread.start()
        thread.join()
        self.file = opened[0]

    def count(self) -> int:
        text = os.pread(self.file.fileno(), 1 << 16, 0).decode()
        if self.family == socket.AF_INET6:
            return int(re.search(r"^Ip6OutForwDatagrams\s+(\d+)", text, re.MULTILINE)[1])
        names, values = (line.split() for line in text.splitlines()[:2])
        return int(values[names.index("ForwDatagrams")])


class Probe:
    """Datagrams one way, and whether the kernel has forwarded them."""

    def __init__(self, net: SiitNetwork, way: tuple[str, str, str, str, str], patience: float = 0.3) -> None:
        asker, source, self.to, heard_at, hearer = way
        family, other = (socket.AF_INET6, socket.AF_INET) if ":" in source else (socket.AF_INET, socket.AF_INET6)
        self.sender = create_socket(getattr(net, asker), family, socket.SOCK_DGRAM)
        self.sender.bind((source, 0))
        self.hearer = create_socket(getattr(net, hearer), other, socket.SOCK_DGRAM)
        self.hearer.bind((heard_at, 4000))
        self.hearer.settimeout(patience)
        option = (socket.IPPROTO_IPV6, IPV6_RECVHOPLIMIT) if other == socket.AF_INET6 else (socket.IPPROTO_IP, IP_RECVTTL)
        self.hearer.setsockopt(*option, 1)
        self.forwarded = Forwarded(net.translator, other)

    def goes(self) -> str | None:
        """Which way a datagram goes, or None if it does not come. Every way takes as many hops."""
        before = self.forwarded.count()
        try:
            self.sender.sendto(b"probe", (self.to, 4000))
            _, ancillary, _, _ = self.hearer.recvmsg(100, 100)
        except OSError:
            return None
        assert int.from_bytes(ancillary[0][2], sys.byteorder) == HOPS_LEFT
        return DIRECT if self.forwarded.count() == before else FORWARDED

    def until(self, net: SiitNetwork, expected: str | None) -> None:
        """Send until it goes as expected."""
        net.until(lambda: self.goes() == expected)

    def close(self) -> None:
        self.sender.close()
        self.hearer.close()
        self.forwarded.file.close()


BOTH = pytest.mark.parametrize("way", [TO_IPV6, TO_IPV4], ids=["to-ipv6", "to-ipv4"])
