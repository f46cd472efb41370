# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Echo requests whose checksum is left to the device, as a virtual machine may send them and no kernel does."""

from __future__ import annotations

import socket
import struct
import time

import pytest
from network import create_socket
from raw import internet_checksum
from scapy.layers.inet import ICMP, IP
from scapy.layers.inet6 import ICMPv6EchoRequest, IPv6
from scapy.layers.l2 import Ether
from siit import V4, V4_IN_IPV6, V6, V6_MAPPED, SiitNetwork

# linux/if_packet.h, linux/virtio_net.h
SOL_PACKET, PACKET_VNET_HDR = 263, 15
NEEDS_CSUM = 1
ETH_P_ALL = 3
ETHERNET = 14
WAYS = ["tun", "tc", "clsact", "inline", "direct", "xdp"]
COUNT = 9


def requests(family: str, hosts: tuple[str, str]) -> list[tuple[bytes, int]]:
    """Frames, and where the transport header begins. The checksum is the sum of the pseudo-header, of which ICMP has none."""
    ethernet = Ether(src=hosts[0], dst=hosts[1])
    made = []
    for sequence in range(COUNT):
        if family == "ipv4":
            packet = ethernet / IP(src=V4, dst=V6_MAPPED) / ICMP(id=77, seq=sequence) / bytes(range(56))
            at, field = ETHERNET + 20, 0
        else:
            packet = ethernet / IPv6(src=V6, dst=V4_IN_IPV6) / ICMPv6EchoRequest(id=77, seq=sequence, data=bytes(range(56)))
            at = ETHERNET + 40
            ends = bytes(packet)[ETHERNET + 8 : at]
            field = ~internet_checksum(ends + struct.pack("!II", 64, socket.IPPROTO_ICMPV6)) & 0xFFFF
        frame = bytearray(bytes(packet))
        frame[at + 2 : at + 4] = struct.pack("!H", field)
        made.append((bytes(frame), at))
    return made


def replies(tap: socket.socket, family: str) -> int:
    """Echo replies that come within three seconds of each other, until all have come."""
    kind, at = (0, ETHERNET + 20) if family == "ipv4" else (129, ETHERNET + 40)
    header = b"\x08\x00" if family == "ipv4" else b"\x86\xdd"
    found, end = 0, time.monotonic() + 3
    tap.settimeout(0.2)
    while found < COUNT and time.monotonic() < end:
        try:
            frame = tap.recv(2048)[10:]
        except TimeoutError:
            continue
        if frame[12:14] == header and frame[at : at + 1] == bytes([kind]) and frame[at + 4 : at + 6] == b"\x00\x4d":
            found, end = found + 1, time.monotonic() + 3
    return found


@pytest.mark.parametrize("family", ["ipv4", "ipv6"])
@pytest.mark.parametrize("siit", WAYS, indirect=True)
def test_the_checksum_of_an_echo_is_left_to_the_device(siit: SiitNetwork, family: str) -> None:
    """Both paths would need to know its other pseudo-header: the fast path leaves it to the slow one, which finishes it."""
    siit.offload("tx")
    translator = siit.siit()
    name, link = (siit.v4, "b4") if family == "ipv4" else (siit.v6, "b6")
    # Neighbours and paths are known, so that nothing else goes the slow path.
    assert siit.run(name, "ping", "-c2", "-i0.2", V6_MAPPED if family == "ipv4" else V4_IN_IPV6).returncode == 0
    before = siit.counters()
    hosts = tuple(siit.ip_json(space, "link", "show", "dev", dev)[0]["address"]
                  for space, dev in ((name, "a0"), (siit.translator, link)))  # fmt: skip
    tap = create_socket(name, socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    tap.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    tap.bind(("a0", ETH_P_ALL))
    for frame, at in requests(family, hosts):
        tap.send(struct.pack("=BBHHHH", NEEDS_CSUM, 0, 0, 0, at, 2) + frame)
    assert replies(tap, family) == COUNT, translator.log()
    changed = {key: value - before.get(key, 0) for key, value in siit.counters().items() if value != before.get(key, 0)}
    way = "4to6" if family == "ipv4" else "6to4"
    assert changed[f"slow.translated_{way}"] == COUNT, changed
    if siit.datapath != "tun":
        assert changed["fast.decline_offload"] == COUNT, changed
