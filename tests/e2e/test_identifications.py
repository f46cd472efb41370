# SPDX-License-Identifier: Apache-2.0 OR MIT
"""IPv4 identifications on the wire (RFC 6864): packets that may be fragmented later must not share one."""

from __future__ import annotations

import socket
import struct
import sys

import pytest
from conftest import ROUTER_DATAPATHS
from network import create_socket
from siit import V4, V4_IN_IPV6, SiitNetwork
from test_clat_offloads import ETH_P_IP, SO_RCVBUFFORCE

# linux/if_packet.h
PACKET_OUTGOING = 4

SEND = """
import socket, sys
sock = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
sock.setsockopt(socket.IPPROTO_TCP, 2, int(sys.argv[3]))
sock.connect((sys.argv[2], 4000))
sock.sendall(bytes(int(sys.argv[1])))
sock.shutdown(socket.SHUT_WR)
sock.recv(1)
"""

SINK = """
import socket, sys
listener = socket.create_server((sys.argv[1], 4000))
print("listening", flush=True)
sock = listener.accept()[0]
while sock.recv(1 << 20):
    pass
"""

SEGMENT, LEN = 1000, 300_000


@pytest.mark.parametrize("siit", ROUTER_DATAPATHS, indirect=True)
def test_segments_of_a_super_packet(siit: SiitNetwork) -> None:
    """They are cut behind the translator, and each has an identification of its own.

    One CPU does all of it: each has a range of its own, and where that begins is chance.
    """
    siit.run(siit.translator, "ethtool", "-K", "b4", "tso", "off", "gso", "off")
    siit.run(siit.v4, "ethtool", "-K", "a0", "gro", "off")
    siit.siit()
    tap = create_socket(siit.v4, socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_IP))
    tap.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 28)
    tap.bind(("a0", ETH_P_IP))
    tap.setblocking(False)
    pinned = ("taskset", "-c", "0", sys.executable, "-c")
    sink = siit.start(siit.v4, *pinned, SINK, V4, stdout=-1, text=True)
    assert sink.stdout.readline().strip() == "listening"
    siit.run(siit.v6, *pinned, SEND, str(LEN), V4_IN_IPV6, str(SEGMENT))
    identifications = []
    with tap:
        while True:
            try:
                frame, address = tap.recvfrom(64)
            except BlockingIOError:
                break
            identification, flags = struct.unpack_from("!HH", frame, 18)
            if address[2] != PACKET_OUTGOING and frame[23] == socket.IPPROTO_TCP and not flags & 0x4000:
                identifications.append(identification)
    assert len(identifications) >= LEN // SEGMENT
    assert len(set(identifications)) == len(identifications)
    if siit.datapath != "xdp":
        # A virtual Ethernet whose other end has an XDP program sends none.
        ways = siit.counters()
        assert ways[f"{siit.path()}.translated_6to4"] < LEN // SEGMENT, "there were no super-packets"
