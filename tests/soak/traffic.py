# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What hosts on both sides do, one thing after the other; each thing is checked when it is done."""

from __future__ import annotations

import random
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from ipaddress import IPv6Address

import malformed
from nat64 import BOUND, V4_OTHER, V6_ELSEWHERE, V6_OTHER, Nat64Network, ask, in_ipv6
from siit import V4, V4_IN_IPV6, V6
from stream import Stream
from test_nat64_faults import Frames
from test_nat64_floods import datagram
from test_nat64_reload import OTHER_PREF64

NODES, PEERS = (V6, V6_OTHER, V6_ELSEWHERE), (V4, V4_OTHER)
CONNECTIONS, SOCKETS = 60, 100
# A binding that stays until the end.
OPERATORS = f"{BOUND}:443"
# Of what goes through a connection at once: what both kernels' buffers take.
CHUNK = 30_000
# Between two chunks of the stream that lasts as long as the soak: 4 MB/s at the most. And how long it may be silent.
STREAM_PAUSE_S, PATIENCE_S = 0.004, 120
# Flows that a scan begins, and how long it takes until there is another one.
SCAN, SCAN_PAUSE_S = 300, 4
# A mapping is the same again if its socket was used so lately.
MAPPING_S = 100


@dataclass
class Connection:
    """Both ends."""

    near: socket.socket
    far: socket.socket

    def carry(self, data: bytes, inwards: bool) -> None:
        """Send some bytes; they arrive."""
        source, sink = (self.far, self.near) if inwards else (self.near, self.far)
        source.sendall(data)
        got = b""
        while len(got) < len(data):
            part = sink.recv(len(data) - len(got))
            assert part, "the connection ended"
            got += part
        assert got == data, "other bytes arrived"

    def end(self, how: str) -> None:
        """By either side, in order or at once."""
        first, second = (self.near, self.far) if how in ("near", "reset") else (self.far, self.near)
        if how == "reset":
            first.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            first.close()
        else:
            first.shutdown(socket.SHUT_WR)
            assert second.recv(1) == b""
            second.close()
            first.close()


@dataclass
class Mapped:
    """A socket of a node, and as whom the peers know it."""

    sock: socket.socket
    address: tuple[str, int]
    used: float = field(default_factory=time.monotonic)


class Traffic:
    """All that is going on."""

    def __init__(self, net: Nat64Network, chance: random.Random) -> None:
        self.net, self.chance = net, chance
        self.is_filtering = False
        self.next_scan = 0.0
        self.connections: list[Connection] = []
        self.mapped: list[Mapped] = []
        self.listeners = {peer: net.listener(peer, 4000) for peer in PEERS}
        self.answerers = {peer: net.socket(peer, 4000) for peer in PEERS}
        self.stranger = net.socket(V4_OTHER, 4001)
        self.ping = net.socket(V6, 0, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)
        self.raw = net.socket(V6, 0, socket.SOCK_RAW, socket.IPPROTO_RAW)
        self.frames = {4: Frames(net, "v4"), 6: Frames(net, "v6")}
        net.bind("add", "tcp", OPERATORS, f"[{V6}]:443")
        self.inward = net.listener(V6, 443)
        # Packets to be broken are of a session of their own, which nobody reads.
        self.quiet = net.socket(V6, 5555), net.socket(V4, 5555)
        self.victim = malformed.Session(5555, *ask(self.quiet[0], (V4_IN_IPV6, 5555), self.quiet[1]), 5555)
        connection = self.open()
        self.stream = Stream(connection.near, connection.far, STREAM_PAUSE_S, PATIENCE_S)
        self.connections.clear()

    def kinds(self) -> dict[Callable[[], object], int]:
        """What can happen, and how often."""
        return {
            self.open: 10,
            self.use_a_connection: 60,
            self.end_a_connection: 8,
            self.short_connection: 20,
            self.connection_from_ipv4: 6,
            self.datagrams: 40,
            self.stranger_sends: 10,
            self.pings: 10,
            self.scan: 4,
            self.broken_packets: 3,
            self.pause: 10,
        }

    # --- connections

    def open(self) -> Connection:
        """A connection that stays."""
        if len(self.connections) >= CONNECTIONS:
            self.end_a_connection()
        node, peer = self.chance.choice(NODES), self.chance.choice(PEERS)
        near = self.net.connect(node, (in_ipv6(peer), 4000))
        connection = Connection(near, self.listeners[peer].accept()[0])
        connection.far.settimeout(5)
        self.connections.append(connection)
        self.forget(near)
        connection.carry(b"hello", inwards=self.chance.random() < 0.5)
        return connection

    def use_a_connection(self) -> None:
        """Some bytes in one direction."""
        if self.connections:
            self.carry(self.chance.choice(self.connections))

    def end_a_connection(self) -> None:
        """Of those that stayed."""
        if self.connections:
            connection = self.connections.pop(self.chance.randrange(len(self.connections)))
            connection.end(self.chance.choice(["near", "far", "reset"]))

    def short_connection(self) -> None:
        """Open, both directions, end."""
        connection = self.open()
        for _ in range(self.chance.randrange(4)):
            self.carry(connection)
        self.connections.remove(connection)
        connection.end(self.chance.choice(["near", "far", "reset"]))

    def connection_from_ipv4(self) -> None:
        """To a binding of the operator; it is short. Filtering by address lets nobody in to whom nothing was sent."""
        if self.is_filtering:
            return
        far = self.net.connect(self.chance.choice(PEERS), (BOUND, 443))
        self.forget(far)
        connection = Connection(self.inward.accept()[0], far)
        connection.near.settimeout(5)
        self.carry(connection)
        connection.end("far")

    def carry(self, connection: Connection) -> None:
        data = self.chance.randbytes(self.chance.randrange(1, CHUNK))
        connection.carry(data, inwards=self.chance.random() < 0.5)

    # --- the rest

    def datagrams(self) -> None:
        """A question and its answer, by a socket that has a mapping or by another."""
        peer = self.chance.choice(PEERS)
        if len(self.mapped) < SOCKETS and self.chance.random() < 0.2:
            sock = self.net.socket(self.chance.choice(NODES))
            self.forget(sock)
            self.mapped.append(Mapped(sock, ask(sock, (in_ipv6(peer), 4000), self.answerers[peer])))
        elif self.mapped:
            known = self.chance.choice(self.mapped)
            seen = ask(known.sock, (in_ipv6(peer), 4000), self.answerers[peer])
            if time.monotonic() < known.used + MAPPING_S:
                assert seen == known.address, f"a socket that was {known.address} is {seen}"
            known.address, known.used = seen, time.monotonic()

    def stranger_sends(self) -> None:
        """To a mapping: with endpoint-independent filtering it arrives."""
        lately = [known for known in self.mapped if time.monotonic() < known.used + MAPPING_S]
        if lately and not self.is_filtering:
            known = self.chance.choice(lately)
            self.stranger.sendto(b"unasked", known.address)
            data, by = known.sock.recvfrom(100)
            # Of several prefixes the first one names it.
            assert data == b"unasked" and by[0] in (in_ipv6(V4_OTHER), in_ipv6(V4_OTHER, OTHER_PREF64)), (data, by)

    def pings(self) -> None:
        """Some, of an identifier that was perhaps in use before."""
        name, number = self.chance.randrange(100), self.chance.randrange(1 << 16)
        for sequence in range(number, number + 3):
            echo = struct.pack("!HH", name, sequence & 0xFFFF) + b"ping"
            self.ping.sendto(b"\x80\0\0\0" + echo, (V4_IN_IPV6, 0))
            # Others' answers and errors arrive here too.
            while self.ping.recv(200) != b"\x81\0" + self.checksum_of(echo) + echo:
                pass

    def checksum_of(self, echo: bytes) -> bytes:
        """Of an echo reply (RFC 4443 section 2.3)."""
        ends = IPv6Address(V4_IN_IPV6).packed + IPv6Address(V6).packed
        whole = ends + struct.pack("!IIHH", len(echo) + 4, 58, 0x8100, 0) + echo
        total = sum(struct.unpack(f"!{len(whole) // 2}H", whole))
        return (~(total % 0xFFFF) & 0xFFFF).to_bytes(2)

    def scan(self) -> None:
        """Hundreds of flows that nobody answers, from many links."""
        if time.monotonic() < self.next_scan:
            return
        self.next_scan = time.monotonic() + SCAN_PAUSE_S
        for _ in range(SCAN):
            source = IPv6Address("2001:db8:8::") + (self.chance.randrange(500) << 64) + self.chance.randrange(9)
            ports = self.chance.randrange(1024, 65536), self.chance.randrange(20_000, 65536)
            self.raw.sendto(datagram(str(source), V4_IN_IPV6, *ports), (V4_IN_IPV6, 0))

    def broken_packets(self) -> None:
        """A storm of them."""
        packets = [packet for packet, _ in malformed.of_ipv4(self.victim) + malformed.of_ipv6(self.victim)]
        for packet in malformed.storm(packets + malformed.good(self.victim), self.chance.getrandbits(32), 100):
            if packet[0] >> 4 in self.frames:
                self.frames[packet[0] >> 4].send(packet)

    def pause(self) -> None:
        """Nothing happens for a moment."""
        time.sleep(self.chance.random() * 0.2)

    def forget(self, sock: socket.socket) -> None:
        """It is closed by whoever uses it, not with the network."""
        self.net.sockets.remove(sock)

    def use_all(self) -> None:
        """Each connection that is there is one that works, both ways."""
        for connection in self.connections:
            for inwards in (False, True):
                connection.carry(b"still here", inwards)

    def close(self) -> None:
        """All ends; the stream has lost nothing."""
        self.stream.finish(PATIENCE_S)
        for connection in self.connections:
            connection.end("near")
        for known in self.mapped:
            known.sock.close()
