# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Many UDP flows at a steady pace, in both directions, with every arrival on record.

    flows.py client SPEC ARRIVALS REPORT        flows.py server SPEC ARRIVALS REPORT

Each end sends by its own clock, whether or not the other is heard, so a direction that stops is seen as such. Flow number n
has the source address n mod `sources` and the port `first_port` + n div `sources`. The server sends to where a flow first came
from, as peers of a connection do. What arrives is written down as it is; `evaluate` says what it means.

SPEC is a JSON object: the keys of `Spec`. ARRIVALS gets records of `RECORD`; REPORT a JSON object of `Sent`.
Datagram: `HEADER`, then zeros up to the size that is the flow's own.
"""

import contextlib
import ipaddress
import json
import os
import select
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

# Magic, flow, sequence number, time of sending (CLOCK_MONOTONIC, which all namespaces of a host share), ns.
HEADER = struct.Struct("!4sIIQ")
MAGIC = b"DkFo"
# Flow, sequence number, sent and arrived (ns), where: at the server the source as address << 16 | port, at the client the
# number of the address << 16 | port of the socket it arrived at.
RECORD = struct.Struct("<IIQQQ")
NOWHERE = (1 << 48) - 1  # an address that is none of the client's flows
AT_ONCE = 64  # datagrams that are sent before the next look at what has arrived, and the other way round
LONGEST = 2048
SOCKET_BYTES = 8 << 20
# asm-generic/socket.h; Python does not name them. They pass net.core.rmem_max, with CAP_NET_ADMIN.
FORCED = {socket.SO_RCVBUF: 33, socket.SO_SNDBUF: 32}
ANSWER_S = 1.0  # that the server's rounds begin later than the client's; or
ANSWER_SHARE = 0.1  # of a round, if that is longer: a client of a million flows is late by seconds
LINGER_S = 1.0  # that the server hears on after the last client was to be silent
PKTINFO = struct.Struct("=16sI")


@dataclass(frozen=True)
class Spec:
    """One set of flows, the same for both ends."""

    flows: int
    sources: int  # addresses of the client that they come from
    first_source: str  # IPv6; the others follow, each in the next /64
    first_port: int  # of the client
    server6: str  # as the client calls it
    server4: str
    port: int  # of the server
    interval_s: float  # between two datagrams of one flow in one direction
    smallest: int  # bytes of a payload; flows have sizes from here
    largest: int  # up to here, evenly
    start_ns: int
    end_ns: int

    def source(self, number: int) -> bytes:
        return (int(ipaddress.IPv6Address(self.first_source)) + (number << 64)).to_bytes(16, "big")

    def size(self, flow: int) -> int:
        span = self.largest - self.smallest + 1
        return self.smallest + (flow * 997) % span

    def due(self, now_ns: int) -> int:
        """How many datagrams should have been sent by now, one flow after the other."""
        elapsed_s = (min(now_ns, self.end_ns) - self.start_ns) / 1e9
        return max(0, int(elapsed_s * self.flows / self.interval_s))


@dataclass
class Sent:
    """What an end did: datagrams by the round they belong to, and how late it was at worst."""

    sent: int = 0
    refused: int = 0  # by the kernel of the sender, as where there is no route
    unread: int = 0  # datagrams that had arrived and found the socket's buffer full
    latest_ns: int = 0  # by how much the sender was behind its schedule at worst
    records: int = 0


class End:
    """The loop that both ends have: send what is due, write down what has arrived."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.report = Sent()
        self.records = bytearray()
        self._padding = bytes(spec.largest)

    def payload(self, flow: int, sequence: int) -> bytes:
        header = HEADER.pack(MAGIC, flow, sequence, time.monotonic_ns())
        return header + self._padding[: self.spec.size(flow) - HEADER.size]

    def run(self, send: Callable[[int, int], None], receive: Callable[[float], None], linger_s: float) -> None:
        spec, report = self.spec, self.report
        last_ns = spec.end_ns + int(linger_s * 1e9)
        done = 0
        while (now := time.monotonic_ns()) < last_ns:
            due = spec.due(now)
            if done < due:
                late_ns = now - spec.start_ns - int(done * spec.interval_s / spec.flows * 1e9)
                report.latest_ns = max(report.latest_ns, late_ns)
                for number in range(done, min(due, done + AT_ONCE)):
                    sequence, flow = divmod(number, spec.flows)
                    send(flow, sequence)
                done = min(due, done + AT_ONCE)
            receive(0.0 if done < due else 0.001)

    def arrived(self, data: bytes, where: int) -> int | None:
        """Write down a datagram; the flow it says it is of, or None when it is none of ours."""
        if len(data) < HEADER.size:
            return None
        magic, flow, sequence, sent_ns = HEADER.unpack_from(data)
        if magic != MAGIC or flow >= self.spec.flows:
            return None
        self.records += RECORD.pack(flow, sequence, sent_ns, time.monotonic_ns(), where)
        self.report.records += 1
        return int(flow)


def buffer(one: socket.socket, size: int) -> None:
    """Room for so many bytes each way, or for as many as the kernel allows this user."""
    for option, forced in FORCED.items():
        one.setsockopt(socket.SOL_SOCKET, option, size)
        with contextlib.suppress(PermissionError):
            one.setsockopt(socket.SOL_SOCKET, forced, size)


def unread(sockets: Iterable[socket.socket]) -> int:
    """Datagrams that the kernel dropped because these had not been read in time: the last column of its tables."""
    inodes = {str(os.fstat(one.fileno()).st_ino) for one in sockets}
    lines = [line for table in ("udp", "udp6") for line in Path(f"/proc/self/net/{table}").read_text().splitlines()[1:]]
    return sum(int(row[-1]) for row in map(str.split, lines) if row[9] in inodes)


def client(spec: Spec) -> End:
    end = End(spec)
    poll = select.epoll()
    sockets: dict[int, socket.socket] = {}
    by_port: list[socket.socket] = []
    ports: dict[int, int] = {}
    for port in range(spec.first_port, spec.first_port + -(-spec.flows // spec.sources)):
        one = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)
        buffer(one, SOCKET_BYTES // 8)
        one.bind(("::", port))
        poll.register(one, select.EPOLLIN)
        sockets[one.fileno()], ports[one.fileno()] = one, port
        by_port.append(one)
    sources = [spec.source(number) for number in range(spec.sources)]
    numbers = {source: number for number, source in enumerate(sources)}
    control = [[(socket.IPPROTO_IPV6, socket.IPV6_PKTINFO, PKTINFO.pack(source, 0))] for source in sources]
    to = (spec.server6, spec.port)

    def send(flow: int, sequence: int) -> None:
        try:
            by_port[flow // spec.sources].sendmsg([end.payload(flow, sequence)], control[flow % spec.sources], 0, to)
            end.report.sent += 1
        except OSError:
            end.report.refused += 1

    def receive(patience_s: float) -> None:
        for descriptor, _ in poll.poll(patience_s, AT_ONCE):
            one = sockets[descriptor]
            for _ in range(AT_ONCE):
                try:
                    data, ancillary, _, _ = one.recvmsg(LONGEST, 64)
                except OSError:
                    break
                number = next((numbers.get(value[:16]) for _, kind, value in ancillary if kind == socket.IPV6_PKTINFO), None)
                end.arrived(data, NOWHERE if number is None else number << 16 | ports[descriptor])

    end.run(send, receive, LINGER_S)
    end.report.unread = unread(by_port)
    return end


def server(spec: Spec) -> End:
    # A flow is answered soon after it was heard first, and not only in its next round.
    later_s = max(min(spec.interval_s / 2, ANSWER_S), spec.interval_s * ANSWER_SHARE)
    end = End(replace(spec, start_ns=spec.start_ns + int(later_s * 1e9)))
    one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    buffer(one, SOCKET_BYTES)
    one.bind((spec.server4, spec.port))
    poll = select.epoll()
    poll.register(one, select.EPOLLIN)
    peers: list[tuple[str, int] | None] = [None] * spec.flows
    addresses: dict[str, int] = {}

    def send(flow: int, sequence: int) -> None:
        peer = peers[flow]
        if peer is None:  # it has not been heard yet
            return
        try:
            one.sendto(end.payload(flow, sequence), peer)
            end.report.sent += 1
        except OSError:
            end.report.refused += 1

    def receive(patience_s: float) -> None:
        if not poll.poll(patience_s, 1):
            return
        for _ in range(AT_ONCE):
            try:
                data, peer = one.recvfrom(LONGEST)
            except OSError:
                return
            address = addresses.get(peer[0])
            if address is None:
                address = addresses[peer[0]] = int(ipaddress.IPv4Address(peer[0]))
            flow = end.arrived(data, address << 16 | peer[1])
            if flow is not None and peers[flow] is None:
                peers[flow] = peer

    end.run(send, receive, LINGER_S)
    end.report.unread = unread([one])
    return end


def main(role: str, spec_file: str, arrivals: str, report: str) -> None:
    spec = Spec(**json.loads(Path(spec_file).read_text()))
    end = {"client": client, "server": server}[role](spec)
    Path(arrivals).write_bytes(end.records)
    Path(report).write_text(json.dumps(asdict(end.report)))


if __name__ == "__main__":
    main(*sys.argv[1:])
