# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What a packet is beyond its bytes, and a BPF_PROG_TEST_RUN cannot show: checksums that are left to a device or made by
one, and packets that lie in pieces of memory. Super-packets are in `test_clat_traffic`."""

from __future__ import annotations

import hashlib
import re
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from network import CLIENT6, ROUTER6, SERVER4, SERVER_SYNTHESIZED, Network, create_socket
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from test_clat_traffic import TRANSFER, UDP_ASK, UDP_ECHO, fast, server

# An address with which checksums change: those that the program chooses keep them as they are.
NOT_NEUTRAL6 = "2001:2:0:1::abcd"
OURS4, OURS6 = socket.inet_aton("192.0.0.1"), socket.inet_pton(socket.AF_INET6, NOT_NEUTRAL6)

# linux/if_packet.h
SOL_PACKET, PACKET_AUXDATA, PACKET_VNET_HDR = 263, 8, 15
TP_STATUS_CSUMNOTREADY = 8
SO_RCVBUFFORCE = 33
ETH_P_ALL, ETH_P_IP = 3, 0x0800


def count_unfinished(name: str, link: str, transfer, is_ours) -> int:
    """Packets seen on a link, while `transfer` runs, whose checksum is left to the device (CHECKSUM_PARTIAL)."""
    tap = create_socket(name, socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    tap.bind((link, ETH_P_ALL))
    tap.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
    tap.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 28)  # nothing is taken out before the end
    transfer()
    tap.setblocking(False)
    count = 0
    while True:
        try:
            packet, told, _, _ = tap.recvmsg(256, 64)
        except BlockingIOError:
            return count
        status = struct.unpack_from("I", next(data for level, kind, data in told if kind == PACKET_AUXDATA))[0]
        count += bool(status & TP_STATUS_CSUMNOTREADY and is_ours(packet))


def wrong_checksums(net: Network, name: str) -> dict[str, int]:
    """Packets that a namespace refused for their checksum, by protocol."""
    lines = [line.split() for line in net.run(name, "nstat", "-asz").stdout.splitlines()]
    counters = {fields[0]: int(fields[1]) for fields in lines if "InCsumErrors" in fields[0]}
    assert {"TcpInCsumErrors", "UdpInCsumErrors", "Udp6InCsumErrors"} <= counters.keys()
    return {key: value for key, value in counters.items() if value}


def test_checksums_that_are_left_to_the_device(net: Network, datapath: str) -> None:
    """CHECKSUM_PARTIAL: between two hosts that leave checksums to their links the translator carries the half sums on.

    The links behind it cannot compute any, so that the kernel finishes them there, and the receivers look.
    """
    behind = net.add_network_behind()
    clat = net.clat(datapath, "--v6", NOT_NEUTRAL6)
    for name, link in ((net.router, "out0"), (net.client, "lan0")):
        net.run(name, "ethtool", "-K", link, "tx", "off")
    peer = server(net, TRANSFER, "server", SERVER_SYNTHESIZED, "4000", "4")
    server(net, UDP_ECHO, SERVER_SYNTHESIZED, "4001")
    digests = []

    def transfer() -> None:
        done = net.run(behind, sys.executable, "-c", TRANSFER, "client", SERVER4, "4000", "4")
        digests.append((done.stdout.split(), peer.stdout.readline().split()))
        assert net.run(behind, sys.executable, "-c", UDP_ASK, SERVER4, "4001", "0", "1", "99", "1400").stdout == "all\n"

    unfinished = count_unfinished(net.client, "wan0", transfer, lambda frame: frame[14:15] == b"\x60" and frame[22:38] == OURS6)
    assert unfinished > 4, "packets to IPv6 were not left to the device"
    peer = server(net, TRANSFER, "server", SERVER_SYNTHESIZED, "4000", "4")
    unfinished = count_unfinished(
        net.client, "diolkos0", transfer, lambda packet: packet[:1] == b"\x45" and packet[16:20] == OURS4
    )
    assert unfinished > 4, "packets to IPv4 were not left to the device"
    for sent, got in digests:
        assert sent == got, clat.log()
    assert wrong_checksums(net, net.server) == wrong_checksums(net, behind) == {}


SUMMED = Path(__file__).parent / "summed.bpf.c"
PACKET_LEN = 128  # as there
TUNNEL_CLIENT6, TUNNEL_ROUTER6 = "2001:2:0:3::2", "2001:2:0:3::1"


def add_summing_uplink(net: Network) -> None:
    """An uplink up0 that gives CHECKSUM_COMPLETE, as many network cards do: a VXLAN tunnel with outer checksums.

    What comes out of it the kernel has summed in order to check the outer one.
    """
    net.run(net.router, "ethtool", "-K", "down0", "tx", "off")
    for name, ours, theirs in ((net.client, CLIENT6, ROUTER6), (net.router, ROUTER6, CLIENT6)):
        vxlan = ("type", "vxlan", "id", "9", "dstport", "4789", "local", ours, "remote", theirs)
        net.ip(name, "link", "add", "up0", *vxlan)
        net.ip(name, "link", "set", "up0", "mtu", "1400", "up")
    net.ip(net.client, "address", "add", f"{TUNNEL_CLIENT6}/64", "dev", "up0", "nodad")
    net.ip(net.router, "address", "add", f"{TUNNEL_ROUTER6}/64", "dev", "up0", "nodad")
    net.ip(net.client, "route", "replace", "default", "via", TUNNEL_ROUTER6)
    net.until(lambda: net.ping("-6", "-c1", "-W0.2", to=TUNNEL_ROUTER6).returncode == 0)


@pytest.mark.parametrize("v6", ["auto", "2001:2:0:3::abcd"])
@pytest.mark.parametrize("hook", ["tc", "clsact"])
def test_checksums_that_the_device_made(net: Network, hook: str, v6: str) -> None:
    """CHECKSUM_COMPLETE: the sum that comes with a packet to IPv4 is that of the translated packet."""
    add_summing_uplink(net)
    clat = net.clat(hook, "--uplink", "up0", "--v6", v6)
    program = net.scratch / "summed.o"
    subprocess.run(
        ["clang", "-O2", "-g", "-target", "bpf", f"-I/usr/include/{machine()}", "-c", SUMMED, "-o", program], check=True
    )
    net.run(net.client, "tc", "qdisc", "add", "dev", "diolkos0", "clsact", check=False)
    net.run(net.client, "tc", "filter", "add", "dev", "diolkos0", "ingress", "prio", "60000",
            "bpf", "direct-action", "object-file", str(program), "section", "tc")  # fmt: skip
    net.run(net.client, "nft", "-f", "-", input="""
        table ip seen {
            chain in {
                type filter hook input priority 0;
                iifname "diolkos0" meta mark 1 counter comment "right";
                iifname "diolkos0" meta mark 2 counter comment "wrong";
                iifname "diolkos0" meta mark 3 counter comment "none";
            }
        }""")  # fmt: skip
    server(net, UDP_ECHO, SERVER_SYNTHESIZED, "4000")
    datagrams = [str(PACKET_LEN - 28)] * 5
    assert net.run(net.client, sys.executable, "-c", UDP_ASK, SERVER4, "4000", *datagrams).stdout == "all\n", clat.log()
    assert "7 received" in net.ping("-c7", "-s", str(PACKET_LEN - 28)).stdout
    assert net.counters()["fast.translated_6to4"] == 12
    rules = net.run(net.client, "nft", "list", "ruleset").stdout
    seen = {comment: int(packets) for packets, comment in re.findall(r'packets (\d+) bytes \d+ comment "(\w+)"', rules)}
    assert seen == {"right": 12, "wrong": 0, "none": 0}


def machine() -> str:
    """Where Debian keeps the kernel's headers of this machine."""
    return subprocess.run(["cc", "-print-multiarch"], check=True, capture_output=True, text=True).stdout.strip()


IN_PAGES = """
import hashlib, os, socket, sys
way, host, port, size = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
sock = socket.create_connection((host, port))
path = sys.argv[5]
with open(path, "rb") as file:
    if way == "sendfile":
        sent = 0
        while sent < size:
            sent += os.sendfile(sock.fileno(), file.fileno(), sent, size - sent)
    else:
        SO_ZEROCOPY, MSG_ZEROCOPY = 60, 0x4000000
        sock.setsockopt(socket.SOL_SOCKET, SO_ZEROCOPY, 1)
        data = memoryview(file.read())
        while data:
            data = data[sock.send(data[: 1 << 17], MSG_ZEROCOPY) :]
    sock.shutdown(socket.SHUT_WR)
    print(sock.makefile().readline().strip())
"""

SINK = """
import hashlib, socket, sys
listener = socket.create_server((sys.argv[1], int(sys.argv[2])), family=socket.AF_INET6)
print("listening", flush=True)
sock = listener.accept()[0]
digest = hashlib.sha256()
while chunk := sock.recv(1 << 20):
    digest.update(chunk)
sock.sendall(digest.hexdigest().encode() + b"\\n")
"""


@pytest.mark.parametrize("way", ["sendfile", "zerocopy"])
def test_data_in_the_pages_of_others(net: Network, datapath: str, way: str) -> None:
    """Data that the kernel sends from a file's pages, or from the sender's own, arrives as it was."""
    data = bytes(i * i % 251 for i in range(1 << 16)) * 64
    file = net.scratch / "data"
    file.write_bytes(data)
    clat = net.clat(datapath, "--v6", NOT_NEUTRAL6)
    server(net, SINK, SERVER_SYNTHESIZED, "4000")
    arguments = (way, SERVER4, "4000", str(len(data)), str(file))
    done = net.run(net.client, sys.executable, "-c", IN_PAGES, *arguments)
    assert done.stdout.strip() == hashlib.sha256(data).hexdigest(), clat.log()


JUMBO = 9000
LARGE = bytes(i * 7 % 253 for i in range(5000))


def send_in_pages(name: str, link: str, packet: bytes, linear: int) -> None:
    """Send a packet of which only the first bytes lie where a program can read them at once (a non-linear sk_buff).

    linear is the header length of `struct virtio_net_hdr`; a packet socket takes it for packets of more than a page.
    """
    sender = create_socket(name, socket.AF_PACKET, socket.SOCK_RAW, 0)
    sender.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    sender.bind((link, ETH_P_IP if packet[0] >> 4 == 4 else 0x86DD))
    sender.send(struct.pack("BBHHHH", 0, 0, linear, 0, 0, 0) + packet)
    sender.close()


def listen(net: Network, name: str, family: socket.AddressFamily, address: tuple) -> socket.socket:
    """A UDP socket in a namespace."""
    sock = create_socket(name, family, socket.SOCK_DGRAM)
    sock.bind(address)
    sock.settimeout(10)
    return sock


def test_headers_in_pages(net: Network, datapath: str) -> None:
    """Both headers of a packet may lie outside of what a program can read at once; it is translated all the same."""
    for name, link in ((net.client, "wan0"), (net.router, "down0"), (net.router, "out0"), (net.server, "in0")):
        net.ip(name, "link", "set", link, "mtu", str(JUMBO))
    net.clat(datapath, "--v6", NOT_NEUTRAL6)
    assert net.ping("-c1").returncode == 0
    before = net.counters()

    six = listen(net, net.server, socket.AF_INET6, (SERVER_SYNTHESIZED, 6))
    four = IP(src="192.0.0.1", dst=SERVER4, flags="DF") / UDP(sport=5, dport=6) / LARGE
    send_in_pages(net.client, "diolkos0", bytes(four), 1)
    assert six.recv(JUMBO) == LARGE

    four_socket = listen(net, net.client, socket.AF_INET, ("192.0.0.1", 5))
    macs = {link: net.ip_json(name, "link", "show", link)[0]["address"]
            for name, link in ((net.client, "wan0"), (net.router, "down0"))}  # fmt: skip
    packet = IPv6(src=SERVER_SYNTHESIZED, dst=NOT_NEUTRAL6) / UDP(sport=6, dport=5) / LARGE
    send_in_pages(net.router, "down0", bytes(Ether(dst=macs["wan0"], src=macs["down0"]) / packet), 14)
    assert four_socket.recv(JUMBO) == LARGE

    after = net.counters()
    path = "fast" if fast(datapath) else "slow"
    for way in ("4to6", "6to4"):
        assert after[f"{path}.translated_{way}"] == before[f"{path}.translated_{way}"] + 1
