# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Packets that say in every piece of themselves which mark and priority their sender gave them, and a tap that compares."""

from __future__ import annotations

import contextlib
import re
import socket
import struct
from collections import Counter
from dataclasses import dataclass, field

from network import create_socket
from test_clat_offloads import SO_RCVBUFFORCE

ETH_P_ALL = 3
# asm-generic/socket.h; Linux 5.19 and 6.14.
SO_RCVMARK, SO_RCVPRIORITY = 75, 82
LABEL = re.compile(rb"<([0-9a-f]{6})\.([0-9a-f]{7})>")
# Of one label; the shortest data in which there is always a whole one has twice as many bytes.
UNIT = 16


def labelled(mark: int, priority: int, size: int) -> bytes:
    """Data of so many bytes."""
    unit = f"<{mark:06x}.{priority:07x}>".encode()
    return (unit * (size // UNIT + 1))[:size]


@dataclass
class Tap:
    """What leaves by a link: packets by what is said in them, and those that have another mark or priority."""

    name: str
    link: str
    # Whether the priority is compared, too.
    has_priority: bool = True
    # Whether a packet may have none at all.
    may_lose: bool = False
    seen: Counter[tuple[int, int]] = field(default_factory=Counter)
    # Of these, those in more than one piece.
    fragments: Counter[tuple[int, int]] = field(default_factory=Counter)
    # Super-packets.
    largest: int = 0
    wrong: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.socket = create_socket(self.name, socket.AF_PACKET, socket.SOCK_DGRAM, 0)
        self.socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 26)
        self.socket.setsockopt(socket.SOL_SOCKET, SO_RCVMARK, 1)
        try:
            self.socket.setsockopt(socket.SOL_SOCKET, SO_RCVPRIORITY, 1)
        except OSError:
            self.has_priority = False
        self.socket.setblocking(False)
        self.socket.bind((self.link, ETH_P_ALL))

    def close(self) -> None:
        """End it."""
        self.socket.close()

    def listen(self) -> None:
        """Take what has left so far."""
        with contextlib.suppress(BlockingIOError):
            while True:
                packet, control, _, source = self.socket.recvmsg(1 << 17, 256)
                if source[2] == socket.PACKET_OUTGOING:
                    self.take(
                        packet,
                        {kind: struct.unpack("=I", data[:4])[0] for _, kind, data in control},
                    )

    def take(self, packet: bytes, told: dict[int, int]) -> None:
        """Compare what a packet says with what the kernel says of it."""
        is_error = packet[0] >> 4 == 4 and packet[9] == socket.IPPROTO_ICMP and packet[20] in (3, 11)
        is_error |= packet[0] >> 4 == 6 and packet[6] == socket.IPPROTO_ICMPV6 and packet[40] < 128
        said = {(int(mark, 16), int(priority, 16)) for mark, priority in LABEL.findall(packet)}
        if not said:
            return
        if is_error:
            # An ICMP error of the translator's own quotes a packet, and has nothing of it.
            said = {(0, 0)}
        has = (told.get(socket.SO_MARK, 0), told.get(socket.SO_PRIORITY, 0))
        (expected,) = said
        is_right = has == expected if self.has_priority else has[0] == expected[0]
        if not is_right and not (self.may_lose and has == (0, 0)):
            self.wrong.append(f"{has} instead of {expected}: {packet[:60].hex()}")
        self.seen[expected] += 1
        self.largest = max(self.largest, len(packet))
        if (packet[0] >> 4 == 6 and packet[6] == socket.IPPROTO_FRAGMENT) or (
            packet[0] >> 4 == 4 and struct.unpack("!H", packet[6:8])[0] & 0x3FFF
        ):
            self.fragments[expected] += 1
