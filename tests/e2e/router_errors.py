# SPDX-License-Identifier: Apache-2.0 OR MIT
"""ICMPv6 errors of routers between subscribers and gateways."""

from __future__ import annotations

import socket
import struct
from ipaddress import IPv6Address

from network import create_socket
from plan import SERVER6, SERVER_PORT

PACKET_TOO_BIG = 2
UDP = 17


def packet_too_big(name: str, source: str, flow: tuple[str, int], mtu: int) -> None:
    """A router at `source`, in this namespace, could not send on a packet of the server to a flow of UDP, by its local end."""
    address, port = flow
    payload = bytes(mtu)
    udp = struct.pack("!HHHH", SERVER_PORT, port, 8 + len(payload), 0xBEEF)
    ends = IPv6Address(SERVER6).packed + IPv6Address(address).packed
    quoted = struct.pack("!IHBB", 6 << 28, len(udp) + len(payload), UDP, 60) + ends + udp + payload
    with create_socket(name, socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6) as sock:
        sock.bind((source, 0))
        # The kernel fills in the checksum. An error has at most 1280 bytes (RFC 4443 section 2.4).
        error = struct.pack("!BBHI", PACKET_TOO_BIG, 0, 0, mtu) + quoted
        sock.sendto(error[: 1280 - 40], (SERVER6, 0))
