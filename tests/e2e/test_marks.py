# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A packet's mark and priority survive translation, whichever path it takes; nothing gets those of another packet."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import struct
import threading
from collections.abc import Iterator

import pytest
from conftest import ROUTER_DATAPATHS
from marks import SO_RCVMARK, Tap, labelled
from nat64 import Nat64Network, in_ipv6
from network import SERVER4, SERVER_SYNTHESIZED, Network, create_socket
from siit import V4_IN_IPV6, V6, V6_MAPPED, SiitNetwork
from stateful import start
from test_clat_faults import NO_BPF

PORT = 4000
# What is sent of each socket, in random order: (kind, size of the data).
MIX = [
    ("udp", 100),
    ("udp", 1200),
    ("udp", 3000),
    ("udp", 9000),
    ("options", 200),
    ("echo", 300),
    ("echo", 4000),
    ("udplite", 100),
]
# The slow path's with every placement.
SLOW4 = [("udp", 3000), ("udp", 9000), ("options", 200)]
SLOW6 = [("udp", 3000), ("udp", 9000)]
NOP = b"\x01\x01\x01\x01"
# linux/in.h, linux/in6.h, linux/udp.h
IP_MTU_DISCOVER, UDP_SEGMENT = 10, 103
MANY = 24
# Most have a mark and a priority, some one of both, and one has nothing.
LABELS = [(n % 7 and 0x51820 + n, n % 5 and 0x10000 + n) for n in range(MANY)]
assert len(set(LABELS)) == MANY


@contextlib.contextmanager
def tapped(name: str, link: str, **options: bool) -> Iterator[Tap]:
    """A tap while a test needs it."""
    tap = Tap(name, link, **options)
    try:
        yield tap
    finally:
        tap.close()


class Sender:
    """Sockets of an address, whose packets say that they have this mark and this priority."""

    def __init__(self, name: str, mark: int, priority: int, source: str = "0.0.0.0") -> None:
        self.label = (mark, priority)
        self.is_v6 = ":" in source
        family, icmp = (socket.AF_INET6, socket.IPPROTO_ICMPV6) if self.is_v6 else (socket.AF_INET, socket.IPPROTO_ICMP)
        datagrams = (socket.SOCK_DGRAM, 0)
        kinds = {
            "udp": datagrams,
            "options": datagrams,
            "echo": (socket.SOCK_RAW, icmp),
            # Raw, since Linux 7.2 has no sockets of UDP-Lite any more.
            "udplite": (socket.SOCK_RAW, socket.IPPROTO_UDPLITE),
        }
        self.sockets = {kind: create_socket(name, family, *of) for kind, of in kinds.items()}
        for sock in self.sockets.values():
            sock.bind((source, 0))
            sock.setblocking(False)
        if not self.is_v6:
            self.sockets["options"].setsockopt(socket.IPPROTO_IP, socket.IP_OPTIONS, NOP)
            for sock in self.sockets.values():
                # The host fragments what is too long.
                sock.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, 0)

    def mark(self) -> Sender:
        """Give the packets what they say that they have."""
        for sock in self.sockets.values():
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, self.label[0])
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, self.label[1])
        return self

    def send(self, kind: str, size: int, to: str) -> None:
        """Send one packet, in fragments if it is too long."""
        data = labelled(*self.label, size)
        if kind == "echo":
            head = bytes([128 if self.is_v6 else 8, 0, 0, 0, 0, 1, 0, 1])
            # The kernel computes that of ICMPv6.
            data = head[:2] + checksum(head + data) + head[4:] + data
        elif kind == "udplite":
            # RFC 3828, but that the checksum lacks the pseudo-header: translation adjusts it and does not verify it.
            head = struct.pack("!HHH", PORT, PORT, 0)
            data = head + checksum(head + data) + data
        is_raw = self.sockets[kind].type == socket.SOCK_RAW
        with contextlib.suppress(OSError):  # An ICMP error about one before it.
            self.sockets[kind].sendto(data, (to, 0 if is_raw else PORT))

    def close(self) -> None:
        """End it."""
        for sock in self.sockets.values():
            sock.close()


def checksum(data: bytes) -> bytes:
    """RFC 1071."""
    data += b"\0" * (len(data) % 2)
    total = sum(int.from_bytes(data[at : at + 2]) for at in range(0, len(data), 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return (~total & 0xFFFF).to_bytes(2)


def mingle(senders: list[Sender], to: str, mix: list[tuple[str, int]], tap: Tap) -> None:
    """Send packets of all senders in random order, until the tap has seen fragments of each."""
    dice = random.Random(6877)
    for _ in range(15):
        turns = [(sender, *packet) for sender in senders for packet in mix]
        dice.shuffle(turns)
        for at, (sender, kind, size) in enumerate(turns):
            sender.send(kind, size, to)
            if at % 50 == 0:
                tap.listen()
        tap.listen()
    labels = {sender.label for sender in senders}
    Network.until(lambda: tap.listen() or labels <= set(tap.fragments))


@pytest.mark.parametrize("datapath", ["tc", "tun", "clsact"])
def test_everything_a_host_sends_keeps_its_mark(net: Network, datapath: str) -> None:
    """Datagrams whole and in fragments, echoes, packets with options and of another protocol, of many sockets at once."""
    clat = net.clat(datapath)
    sink = create_socket(net.server, socket.AF_INET6, socket.SOCK_DGRAM)
    sink.bind((SERVER_SYNTHESIZED, PORT))
    senders = [Sender(net.client, *label).mark() for label in LABELS]
    with tapped(net.client, "wan0") as tap, contextlib.ExitStack() as stack:
        for sender in senders:
            stack.callback(sender.close)
        mingle(senders, SERVER4, MIX, tap)
    assert tap.wrong == [], clat.log()
    counters = net.counters()
    assert counters["slow.translated_4to6"] > 1000
    assert (counters.get("fast.translated_4to6", 0) > 100) == (datapath != "tun")


def stream(net: Network, listener: socket.socket, label: tuple[int, int], size: int) -> None:
    """Send a stream with a mark and a priority, and have it received."""
    with create_socket(net.client, socket.AF_INET, socket.SOCK_STREAM) as sender:
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, label[0])
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, label[1])
        sender.connect((SERVER4, PORT))
        peer = listener.accept()[0]
        pump = threading.Thread(target=lambda: [None for _ in iter(lambda: peer.recv(1 << 16), b"")])
        pump.start()
        sender.sendall(labelled(*label, size))
        sender.shutdown(socket.SHUT_WR)
        pump.join()
        peer.close()


def test_super_packets_keep_their_mark(net: Network) -> None:
    """Streams and joined datagrams stay whole, and those of several marks are never joined with each other."""
    clat = net.clat("tun")
    listener = create_socket(net.server, socket.AF_INET6, socket.SOCK_STREAM)
    listener.bind((SERVER_SYNTHESIZED, PORT))
    listener.listen(64)
    sink = create_socket(net.server, socket.AF_INET6, socket.SOCK_DGRAM)
    sink.bind((SERVER_SYNTHESIZED, PORT))
    with tapped(net.client, "wan0") as tap:
        for label in LABELS[:8]:
            stream(net, listener, label, 1_000_000)
            tap.listen()
        assert tap.largest > 10_000
        # One flow whose mark changes with every datagram, as one socket may set it.
        with create_socket(net.client, socket.AF_INET, socket.SOCK_DGRAM) as sender:
            for at in range(600):
                label = LABELS[(at // 3) % MANY]
                sender.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, label[0])
                sender.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, label[1])
                sender.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, 1000 if at % 5 == 0 else 0)
                sender.sendto(labelled(*label, 20_000 if at % 5 == 0 else 640), (SERVER4, PORT))
                if at % 50 == 0:
                    tap.listen()
        net.until(lambda: tap.listen() or len(tap.seen) == MANY)
    assert tap.wrong == [], clat.log()


def test_what_a_host_receives_keeps_its_mark(net: Network) -> None:
    """A mark that a rule gives to an IPv6 packet is that of the IPv4 packet that a program receives."""
    clat = net.clat("tun")
    sizes = (*range(100, 130), 1000, 1400)
    marks = ", ".join(f"{size + 8} : {size + 8}" for size in sizes)
    net.run(net.client, "nft", "-f", "-", input=f"""
        table ip6 marks {{
            chain pre {{
                type filter hook prerouting priority -300;
                meta mark set udp length map {{ {marks} }}
            }}
        }}""")  # fmt: skip
    sink = create_socket(net.server, socket.AF_INET6, socket.SOCK_DGRAM)
    sink.bind((SERVER_SYNTHESIZED, PORT))
    sink.settimeout(5)
    with create_socket(net.client, socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.setsockopt(socket.SOL_SOCKET, SO_RCVMARK, 1)
        client.settimeout(5)
        for size in sizes:
            client.sendto(b"question", (SERVER4, PORT))
            _, peer = sink.recvfrom(100)
            sink.sendto(b"a" * size, peer)
            data, control, _, _ = client.recvmsg(2000, 256)
            told = [struct.unpack("=I", mark)[0] for _, kind, mark in control if kind == socket.SO_MARK]
            assert (len(data), told) == (size, [size + 8]), clat.log()


def counted_by(net: Network, counter: str) -> int:
    """What a named counter of nftables says."""
    return int(net.run(net.client, "nft", "list", "counter", "ip", "marks", counter).stdout.split("packets ")[1].split()[0])


@pytest.mark.parametrize("datapath", ["tc", "tun"])
def test_an_error_has_no_mark(net: Network, datapath: str) -> None:
    """What the CLAT itself answers to a marked packet has nothing of it, as the kernel's own answers."""
    clat = net.clat(datapath)
    net.run(net.client, "nft", "-f", "-", input="""
        table ip marks {
            counter marked {}
            counter errors {}
            chain pre {
                type filter hook prerouting priority -300;
                iifname "diolkos0" icmp type { time-exceeded, destination-unreachable } counter name errors
                iifname "diolkos0" meta mark != 0 counter name marked
            }
        }""")  # fmt: skip
    with create_socket(net.client, socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, 7)
        sender.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, 1)
        for _ in range(5):
            with contextlib.suppress(OSError):
                sender.sendto(labelled(7, 0, 100), (SERVER4, PORT))
    net.until(lambda: counted_by(net, "errors") > 0)
    assert counted_by(net, "marked") == 0, clat.log()


def test_a_rule_leads_marked_packets_elsewhere(net: Network) -> None:
    """Whole and in fragments, by the link of the mark's table."""
    clat = net.clat("tun")
    # The rule comes before the table `local`, in which the CLAT's own way stands.
    net.host(
        "ip",
        "link",
        "add",
        "other0",
        "netns",
        net.client,
        "type",
        "veth",
        "peer",
        "other1",
        "netns",
        net.router,
    )
    net.ip(net.client, "address", "add", "2001:db8:77::2/64", "dev", "other0", "nodad")
    net.ip(net.router, "address", "add", "2001:db8:77::1/64", "dev", "other1", "nodad")
    for name, link in ((net.client, "other0"), (net.router, "other1")):
        net.ip(name, "link", "set", link, "up")
    for command in (
        "rule add pref 10 fwmark 7 lookup 77",
        "route add default via 2001:db8:77::1 dev other0 table 77",
        "rule add pref 20 lookup local",
        "rule del pref 0",
    ):
        net.run(net.client, "ip", "-6", *command.split())
    senders = [Sender(net.client, mark, 0).mark() for mark in (7, 8)]
    with (
        tapped(net.client, "wan0") as uplink,
        tapped(net.client, "other0") as other,
        contextlib.ExitStack() as stack,
    ):
        for sender in senders:
            stack.callback(sender.close)
        for _ in range(20):
            for size in (100, 3000):
                for sender in senders:
                    sender.send("udp", size, SERVER4)
        net.until(lambda: other.listen() or other.fragments[7, 0] >= 40)
        net.until(lambda: uplink.listen() or uplink.fragments[8, 0] >= 40)
    assert set(other.seen) == {(7, 0)}, clat.log()
    assert set(uplink.seen) == {(8, 0)}, clat.log()


def test_without_programs_it_is_said(net: Network) -> None:
    """A CLAT that may load no programs translates, and says that marks are lost."""
    clat = net.clat("tun", wrapper=NO_BPF)
    assert "marks (SO_MARK) and priorities do not survive the slow path" in clat.log()
    assert "BPF" in net.status()["marks_trouble"]
    assert net.status()["state"] == "ready"
    assert net.ping("-c1").returncode == 0
    shown = net.run(net.client, str(net.program), "show", "status").stdout
    assert "\nmarks     lost on the slow path: " in shown


def mark_in(net: SiitNetwork, family: str, sources: dict[str, tuple[int, int]]) -> None:
    """Have the router's rules give packets of these sources their mark and, on their way to the translator, their priority."""
    of = lambda at: ", ".join(f"{source} : {label[at]:#x}" for source, label in sources.items())  # noqa: E731
    priorities = ", ".join(f"{source} : {label[1] >> 16:x}:{label[1] & 0xFFFF:x}" for source, label in sources.items())
    net.run(net.translator, "nft", "-f", "-", input=f"""
        table {family} marks {{
            chain pre {{
                type filter hook prerouting priority -300;
                meta mark set {family} saddr map {{ {of(0)} }}
            }}
            chain post {{
                type filter hook postrouting priority 0;
                oifname "diolkos0" meta priority set {family} saddr map {{ {priorities} }}
            }}
        }}""")  # fmt: skip


def add_addresses(
    net: SiitNetwork,
) -> tuple[dict[str, tuple[int, int]], dict[str, tuple[int, int]]]:
    """Give each host an address for each label, and links that fragment."""
    four = {f"198.51.100.{10 + n}": label for n, label in enumerate(LABELS)}
    six = {f"2001:db8:64::cb00:71{10 + n:02x}": label for n, label in enumerate(LABELS)}
    for name in (net.v4, net.v6):
        net.run(name, "ip", "link", "set", "a0", "mtu", "1500")
    for address in four:
        net.run(net.v4, "ip", "address", "add", f"{address}/24", "dev", "a0")
    for address in six:
        net.ip(net.v6, "address", "add", f"{address}/128", "dev", "lo")
    return four, six


@pytest.mark.parametrize("siit", ROUTER_DATAPATHS, indirect=True)
def test_a_router_keeps_marks(siit: SiitNetwork) -> None:
    """What its rules say of packets of one family holds in the other, in both directions."""
    four, six = add_addresses(siit)
    router = siit.siit()
    mark_in(siit, "ip", four)
    mark_in(siit, "ip6", six)
    for sources, link, to, mix in (
        (four, "b6", V6_MAPPED, SLOW4),
        (six, "b4", V4_IN_IPV6, SLOW6),
    ):
        name = siit.v4 if link == "b6" else siit.v6
        senders = [Sender(name, *label, source) for source, label in sources.items()]
        # The kernel gives what it forwards as IPv4 the priority of its type of service.
        with (
            tapped(siit.translator, link, has_priority=link == "b6") as tap,
            contextlib.ExitStack() as stack,
        ):
            for sender in senders:
                stack.callback(sender.close)
            mingle(senders, to, mix + (MIX[:2] if siit.datapath == "tun" else []), tap)
        assert tap.wrong == [], router.log()


@pytest.mark.parametrize("siit", ["tun"], indirect=True)
def test_a_packet_that_is_too_long_for_its_mark_is_counted(siit: SiitNetwork) -> None:
    """It is translated, without: the kernel takes no more than 16 KiB where something is put in front of a single packet."""
    four, _ = add_addresses(siit)
    for name, link in ((siit.v4, "a0"), (siit.translator, "b4"), (siit.translator, "b6"), (siit.v6, "a0")):
        siit.run(name, "ip", "link", "set", link, "mtu", "20000")
    siit.siit()
    mark_in(siit, "ip", four)
    source = next(source for source, label in four.items() if all(label))
    receiver = create_socket(siit.v6, socket.AF_INET6, socket.SOCK_DGRAM)
    sender = create_socket(siit.v4, socket.AF_INET, socket.SOCK_DGRAM)
    with receiver, sender:
        receiver.bind((V6, PORT))
        receiver.settimeout(5)
        sender.bind((source, 0))
        for size, lost in ((1000, 0), (18_000, 1)):
            sender.sendto(bytes(size), (V6_MAPPED, PORT))
            assert len(receiver.recv(20_000)) == size
            assert siit.counters()["slow.mark_lost"] == lost
    assert siit.counters()["slow.drop.no_memory"] == 0


@pytest.mark.parametrize("nat64", ROUTER_DATAPATHS, indirect=True)
def test_a_nat64_keeps_marks(nat64: Nat64Network) -> None:
    """Also of fragments that wait for the first, and of echoes that it puts together."""
    four, six = add_addresses(nat64)
    six = {f"2001:db8:6::1:{n + 1:x}": label for n, label in enumerate(LABELS)}
    for address in six:
        nat64.ip(nat64.v6, "address", "add", f"{address}/64", "dev", "a0", "nodad")
    router = nat64.nat64()
    mark_in(nat64, "ip6", six)
    mark_in(nat64, "ip", four)
    senders = [Sender(nat64.v6, *label, source) for source, label in six.items()]
    peers = {to: nat64.socket(to, PORT) for to in four}
    with contextlib.ExitStack() as stack:
        out = stack.enter_context(tapped(nat64.translator, "b4", has_priority=False))
        back = stack.enter_context(tapped(nat64.translator, "b6"))
        for sender in senders:
            stack.callback(sender.close)
        for to, peer in peers.items():
            peer.settimeout(5)
            peer.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, 0)
            for sender in senders[::5]:
                sender.send("udp", 3000, in_ipv6(to))
                sender.send("echo", 3000, in_ipv6(to))
                _, node = peer.recvfrom(10_000)
                peer.sendto(labelled(*four[to], 3000), node)
            out.listen()
            back.listen()
        mingle(senders, in_ipv6(next(iter(four))), [*SLOW6, ("echo", 3000)], out)
        nat64.until(lambda: back.listen() or set(four.values()) <= set(back.fragments))
    assert (out.wrong, back.wrong) == ([], []), router.log()


@pytest.mark.parametrize("nat64", ["tc", "clsact"], indirect=True)
def test_marks_survive_where_a_run_takes_over(nat64: Nat64Network) -> None:
    """The programs of an earlier run are still at the device, in part; each run puts its own there."""
    add_addresses(nat64)
    six = {f"2001:db8:6::1:{n + 1:x}": label for n, label in enumerate(LABELS[:6])}
    for address in six:
        nat64.ip(nat64.v6, "address", "add", f"{address}/64", "dev", "a0", "nodad")
    mark_in(nat64, "ip6", six)
    for how in (signal.SIGTERM, signal.SIGKILL, signal.SIGTERM):
        router = start(nat64)
        senders = [Sender(nat64.v6, *label, source) for source, label in six.items()]
        with tapped(nat64.translator, "b4", has_priority=False) as tap, contextlib.ExitStack() as stack:
            for sender in senders:
                stack.callback(sender.close)
            mingle(senders, V4_IN_IPV6, SLOW6, tap)
        assert tap.wrong == [], router.log()
        router.stop(how)


def test_a_mark_is_lost_rather_than_given_to_another_packet(net: Network) -> None:
    """Where the kernel takes packets to other CPUs first (RPS), they find the slot empty, or with another packet's mark."""
    clat = net.clat("tun")
    cpus = f"{(1 << (os.cpu_count() or 1)) - 1:x}"
    steer = f"mount -t sysfs none /sys && for f in /sys/class/net/diolkos0/queues/rx-*/rps_cpus; do echo {cpus} > $f; done"
    net.run(net.client, "unshare", "-m", "sh", "-c", steer)
    senders = [Sender(net.client, *label).mark() for label in LABELS]
    with tapped(net.client, "wan0", may_lose=True) as tap, contextlib.ExitStack() as stack:
        for sender in senders:
            stack.callback(sender.close)
        mingle(senders, SERVER4, MIX, tap)
    assert tap.wrong == [], clat.log()


def test_the_longest_packets_keep_their_mark(net: Network) -> None:
    """On links with a great MTU: a CLAT's device takes no longer packets than those in front of which the kernel makes room."""
    for name, link in ((net.client, "wan0"), (net.router, "down0"), (net.router, "out0"), (net.server, "in0")):
        net.run(name, "ip", "link", "set", link, "mtu", "40000")
    clat = net.clat("tun")
    sink = create_socket(net.server, socket.AF_INET6, socket.SOCK_DGRAM)
    sink.bind((SERVER_SYNTHESIZED, PORT))
    sink.settimeout(5)
    sender = Sender(net.client, 7, 0).mark()
    with tapped(net.client, "wan0") as tap:
        for size in (15_000, 15_944, 18_000, 30_000):
            sender.send("udp", size, SERVER4)
            assert len(sink.recv(1 << 16)) == size, clat.log()
        tap.listen()
    sender.close()
    assert tap.wrong == []
