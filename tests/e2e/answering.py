# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The server's side of the witness: it answers every request, and knows whose requests have come from which external port.

    answering.py ADDRESS PORT           orders on its standard input: `report`, `fresh`; it ends with its input

An external address, protocol and port that carries requests of two subscribers within `APART` seconds is reported. Some answers
to UDP come once more after `LATE` seconds, while the flow lives, as data of a server that speaks by itself.
"""

from __future__ import annotations

import contextlib
import heapq
import json
import selectors
import socket
import sys
import time
from typing import NamedTuple

from flow_payload import SEEN, read

APART = 1.0
LATE = 0.8
# One of so many requests gets a late answer. Flows beyond the second number are short: nobody hears late answers.
EVERY, SHORT_FLOWS = 8, 1 << 20
MOST_TOLD = 20


class Holder(NamedTuple):
    """Who has used an external port last, and when."""

    subscriber: int
    at: float


class Server:
    """One UDP socket, and a TCP socket for each connection."""

    def __init__(self, address: str, port: int) -> None:
        self.selector = selectors.DefaultSelector()
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        for sock in (self.udp, listener):
            sock.bind((address, port))
            sock.setblocking(False)
        listener.listen(1024)
        self.selector.register(self.udp, selectors.EVENT_READ, self.datagrams)
        self.selector.register(listener, selectors.EVENT_READ, self.connections)
        self.selector.register(sys.stdin, selectors.EVENT_READ, self.order)
        self.streams: dict[socket.socket, bytes] = {}
        self.holders: dict[tuple[str, str, int], Holder] = {}
        self.late: list[tuple[float, bytes, tuple[str, int]]] = []
        self.wrong: list[str] = []
        self.changed = self.requests = 0

    def run(self) -> None:
        """Until standard input ends."""
        while True:
            pause = max(0.0, self.late[0][0] - time.monotonic()) if self.late else 1.0
            for key, _ in self.selector.select(min(pause, 1.0)):
                key.data(key.fileobj)
            now = time.monotonic()
            while self.late and self.late[0][0] <= now:
                _, data, to = heapq.heappop(self.late)
                self.send(data, to)

    def order(self, _file: object) -> None:
        """One line of standard input."""
        word = sys.stdin.readline().strip()
        if not word:
            sys.exit(0)
        if word == "fresh":
            self.changed = self.requests = 0
        external = {f"{kind} {address} {port}": holder.subscriber for (kind, address, port), holder in self.holders.items()}
        report = {"wrong": self.wrong, "changed": self.changed, "requests": self.requests, "external": external}
        print(json.dumps(report), flush=True)

    def datagrams(self, _sock: object) -> None:
        """All that have arrived."""
        for _ in range(256):
            try:
                data, source = self.udp.recvfrom(4096)
            except BlockingIOError:
                return
            except OSError:
                continue
            found = self.check("udp", data, source)
            if found is None:
                continue
            answer = data + SEEN.pack(socket.inet_aton(source[0]), source[1])
            self.send(answer, source)
            if found.sequence % EVERY == 0 and found.flow < SHORT_FLOWS:
                heapq.heappush(self.late, (time.monotonic() + LATE, answer, source))

    def send(self, data: bytes, to: tuple[str, int]) -> None:
        """An ICMP error about an earlier datagram can be the answer to this one."""
        with contextlib.suppress(OSError):
            self.udp.sendto(data, to)

    def connections(self, listener: socket.socket) -> None:
        """All that wait."""
        while True:
            try:
                sock, source = listener.accept()
            except OSError:
                return
            sock.setblocking(False)
            self.streams[sock] = b""
            self.selector.register(sock, selectors.EVENT_READ, lambda sock, source=source: self.stream(sock, source))

    def stream(self, sock: socket.socket, source: tuple[str, int]) -> None:
        """What one of them has sent. A connection that ends or has other bytes is closed."""
        try:
            data = sock.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        held = self.streams[sock] + data
        answers = b""
        while data and len(held) >= 16:
            found = self.check("tcp", held, source, is_part=True)
            if found is None:
                break
            answers += held[: found.length] + SEEN.pack(socket.inet_aton(source[0]), source[1])
            held = held[found.length :]
        self.streams[sock] = held
        try:
            if answers:
                sock.send(answers)
        except OSError:
            data = b""
        if not data:
            self.selector.unregister(sock)
            del self.streams[sock]
            sock.close()

    def check(self, kind: str, data: bytes, source: tuple[str, int], is_part: bool = False):
        """The request in these bytes; None if there is no whole one. Whatever is wrong is noted."""
        found = read(data)
        if found is None:
            if not is_part or (len(data) >= 64):
                self.note(f"{kind} from {source}: not one request: {data[:24].hex()}")
            return None
        now = time.monotonic()
        self.requests += 1
        key = (kind, *source)
        before = self.holders.get(key)
        self.holders[key] = Holder(found.subscriber, now)
        if before is not None and before.subscriber != found.subscriber:
            self.changed += 1
            if now - before.at < APART:
                self.note(f"{key}: subscriber {before.subscriber}, and {now - before.at:.3f} s later {found.subscriber}")
        return found

    def note(self, text: str) -> None:
        """Something that must not be."""
        if len(self.wrong) < MOST_TOLD:
            self.wrong.append(text)


if __name__ == "__main__":
    Server(sys.argv[1], int(sys.argv[2])).run()
