# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The clients' side of the witness: many flows of some subscribers, and new ones all the while.

    subscribing.py OPTIONS              orders on its standard input: `report`, `fresh`; it ends with its input

OPTIONS is a JSON object: the keys of `Options`. Each flow sends a request at its interval, and hears the answers. An answer
that is not the flow's own is reported, and so is the external address and port that the server saw. `Flows` keep their sockets;
`Openers` open a flow, wait for one answer, close it, and open the next one.
"""

from __future__ import annotations

import errno
import heapq
import itertools
import json
import resource
import selectors
import socket
import struct
import sys
import time
from collections import deque
from dataclasses import dataclass, field

from flow_payload import LONG, SEEN, SHORT, read, request

HOSTS = 8  # of each subscriber
MOST_TOLD = 20
LATE = 2.0  # seconds after which a request counts as lost
SHORT_FLOWS = 1 << 20  # numbers of flows of `Opener` begin here
ECHO_REQUEST, ECHO_REPLY = 128, 129


@dataclass(frozen=True)
class Options:
    """What is to run. Counts are those of each subscriber."""

    server: str
    port: int
    prefixes: dict[str, str]  # the first address of each subscriber's /64, by number
    udp: int = 160
    tcp: int = 40
    long: int = 4
    ping: int = 4
    fast: int = 2
    openers: int = 1
    interval: float = 0.5  # seconds between two requests of a flow
    fast_interval: float = 0.05
    opening: float = 0.2  # seconds between two new flows of an opener
    kept: float = 0.0  # seconds for which an opener's UDP sockets hear what may still come


@dataclass
class Flow:
    """One flow, of any kind."""

    witness: Witness
    subscriber: int
    number: int
    kind: str
    interval: float
    length: int = SHORT
    sequence: int = 0
    heard: int = 0
    gap: float = 0.0
    last: float = 0.0
    broken: str = ""
    seen: list[tuple[str, int]] = field(default_factory=list)
    waiting: dict[int, float] = field(default_factory=dict)
    held: bytes = b""
    begun: bool = False
    local: tuple[str, int] = ("", 0)
    sock: socket.socket = None  # type: ignore[assignment]

    def open(self) -> None:
        """Make its socket, at an address of its own among its subscriber's."""
        source = f"{self.witness.options.prefixes[str(self.subscriber)]}{self.number % HOSTS + 1:x}"
        protocol = {"tcp": socket.SOCK_STREAM}.get(self.kind, socket.SOCK_DGRAM)
        self.sock = socket.socket(socket.AF_INET6, protocol, socket.IPPROTO_ICMPV6 if self.kind == "ping" else 0)
        self.sock.setblocking(False)
        self.sock.bind((source, 0))
        self.local = self.sock.getsockname()[:2]
        code = self.sock.connect_ex((self.witness.options.server, self.witness.options.port if self.kind != "ping" else 0))
        if code not in (0, errno.EINPROGRESS):
            self.broken = errno.errorcode.get(code, str(code))
        self.last = time.monotonic()
        self.witness.selector.register(self.sock, selectors.EVENT_READ, self.hear)

    def close(self) -> None:
        """Forget its socket."""
        self.witness.selector.unregister(self.sock)
        self.sock.close()

    def fresh(self) -> None:
        """Forget what was measured so far."""
        self.gap = 0.0
        self.last = time.monotonic()
        self.waiting.clear()
        del self.seen[:-1]

    def send(self, now: float) -> None:
        """The next request."""
        if self.broken:
            return
        self.sequence += 1
        data = request(self.subscriber, self.number, self.sequence, self.length)
        if self.kind == "ping":
            data = struct.pack("!BBHHH", ECHO_REQUEST, 0, 0, 0, self.sequence & 0xFFFF) + data
        try:
            self.sock.send(data)
            self.waiting[self.sequence] = now
        except BlockingIOError:
            pass
        except OSError as fault:
            self.fault(fault)

    def fault(self, fault: OSError) -> None:
        """An ICMP error about a datagram does not end a flow; a connection is over."""
        if self.kind == "tcp" and fault.errno not in (errno.ENOTCONN, errno.EAGAIN):
            self.broken = errno.errorcode.get(fault.errno or 0, str(fault))

    def hear(self) -> None:
        """All that has arrived."""
        for _ in range(32):
            try:
                data = self.sock.recv(65536)
            except BlockingIOError:
                return
            except OSError as fault:
                self.fault(fault)
                if self.broken:
                    self._mute()
                return
            if self.kind == "tcp":
                if not data:
                    self.broken = self.broken or "closed"
                    self._mute()
                    return
                self.held += data
                while len(self.held) >= self.length + SEEN.size and not self.broken:
                    answer, self.held = self.held[: self.length + SEEN.size], self.held[self.length + SEEN.size :]
                    self.answer(answer)
            elif self.kind == "ping":
                self.answer(data[8:])
            else:
                self.answer(data)

    def _mute(self) -> None:
        """What is broken has always something to read."""
        self.witness.selector.unregister(self.sock)
        self.sock.close()
        self.sock = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        self.witness.selector.register(self.sock, selectors.EVENT_READ, self.hear)

    def answer(self, data: bytes) -> None:
        """One answer, which has to be to a request of this very flow."""
        found = read(data)
        if found is None or (found.subscriber, found.flow) != (self.subscriber, self.number):
            self.witness.note(f"{self.kind} flow {self.subscriber}/{self.number} got {found or data[:24].hex()}")
            return
        now = time.monotonic()
        self.heard += 1
        self.begun = True
        self.gap = max(self.gap, now - self.last)
        self.last = now
        self.waiting.pop(found.sequence, None)
        if len(data) == found.length + SEEN.size:
            address, port = SEEN.unpack_from(data, found.length)
            where = (socket.inet_ntoa(address), port)
            if not self.seen or self.seen[-1] != where:
                self.seen.append(where)

    def report(self, now: float) -> dict:
        """What `witness.Flow` has."""
        late = sum(now - at > LATE for at in self.waiting.values())
        return {
            "subscriber": self.subscriber,
            "number": self.number,
            "kind": self.kind,
            "local": self.local,
            "sent": self.sequence,
            "heard": self.heard,
            "lost": late,
            "gap": max(self.gap, now - self.last),
            "silent": now - self.last,
            "broken": self.broken,
            "seen": self.seen,
        }


class Opener:
    """Opens flows of one subscriber, one after the other."""

    def __init__(self, witness: Witness, subscriber: int, kind: str) -> None:
        self.witness, self.subscriber, self.kind = witness, subscriber, kind
        self.open: list[tuple[Flow, float]] = []
        self.over: deque[tuple[Flow, float]] = deque()
        self.fresh()

    def fresh(self) -> None:
        """Forget what was measured so far."""
        self.opened = self.failed = 0
        self.last = time.monotonic()
        self.gap = 0.0
        self.seen: dict[str, int] = {}

    def send(self, now: float) -> None:
        """Look at those that are open, and open another one."""
        left = []
        for flow, since in self.open:
            if flow.heard or flow.broken or now - since > LATE:
                if flow.heard:
                    self.opened += 1
                    self.gap = max(self.gap, flow.last - self.last)
                    self.last = max(self.last, flow.last)
                    address = flow.seen[-1][0]
                    self.seen[address] = self.seen.get(address, 0) + 1
                else:
                    self.failed += 1
                self.over.append((flow, now))
            else:
                if flow.kind == "tcp" and not flow.waiting:
                    flow.send(now)
                left.append((flow, since))
        self.open = left
        while self.over and (self.kind == "tcp" or now - self.over[0][1] >= self.witness.options.kept):
            self.over.popleft()[0].close()
        flow = Flow(self.witness, self.subscriber, next(self.witness.numbers), self.kind, 0.0)
        flow.open()
        flow.send(now)
        self.open.append((flow, now))

    def report(self, now: float) -> dict:
        """What `witness.Opened` has."""
        return {
            "subscriber": self.subscriber,
            "kind": self.kind,
            "opened": self.opened,
            "failed": self.failed,
            "gap": max(self.gap, now - self.last),
            "silent": now - self.last,
            "seen": self.seen,
        }


class Witness:
    """All flows of one namespace."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.selector = selectors.DefaultSelector()
        self.wrong: list[str] = []
        self.numbers = itertools.count(SHORT_FLOWS)
        self.flows: list[Flow] = []
        self.openers: list[Opener] = []
        self.turns: list[tuple[float, int, float, Flow | Opener]] = []
        self.selector.register(sys.stdin, selectors.EVENT_READ, self.order)
        kinds = [
            *[("udp", options.interval, SHORT)] * options.udp,
            *[("tcp", options.interval, SHORT)] * options.tcp,
            *[("udp", options.interval, LONG)] * options.long,
            *[("ping", options.interval, SHORT)] * options.ping,
            *[("udp", options.fast_interval, SHORT)] * options.fast,
        ]
        now = time.monotonic()
        for subscriber in map(int, options.prefixes):
            for number, (kind, interval, length) in enumerate(kinds):
                flow = Flow(self, subscriber, number, kind, interval, length)
                flow.open()
                self.flows.append(flow)
                self.turn(now + interval * number / len(kinds), interval, flow)
            for kind in ("udp", "tcp") * options.openers:
                self.openers.append(Opener(self, subscriber, kind))
                self.turn(now + 1.0, options.opening, self.openers[-1])

    def turn(self, at: float, interval: float, what: Flow | Opener) -> None:
        """Let it send at this time, and then at its interval."""
        heapq.heappush(self.turns, (at, id(what), interval, what))

    def run(self) -> None:
        """Until standard input ends."""
        while True:
            pause = max(0.0, self.turns[0][0] - time.monotonic()) if self.turns else 1.0
            for key, _ in self.selector.select(pause):
                key.data()
            now = time.monotonic()
            for _ in range(64):
                if not self.turns or self.turns[0][0] > now:
                    break
                at, _, interval, what = heapq.heappop(self.turns)
                what.send(now)
                # One that is late does not hurry.
                self.turn(max(at + interval, now), interval, what)

    def order(self) -> None:
        """One line of standard input."""
        word = sys.stdin.readline().strip()
        if not word:
            sys.exit(0)
        if word == "fresh":
            for each in (*self.flows, *self.openers):
                each.fresh()
        now = time.monotonic()
        report = {
            "wrong": self.wrong,
            "begun": all(flow.begun for flow in self.flows),
            "flows": [flow.report(now) for flow in self.flows],
            "new": [opener.report(now) for opener in self.openers],
        }
        print(json.dumps(report), flush=True)

    def note(self, text: str) -> None:
        """Something that must not be."""
        if len(self.wrong) < MOST_TOLD:
            self.wrong.append(text)


if __name__ == "__main__":
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    Witness(Options(**json.loads(sys.argv[1]))).run()
