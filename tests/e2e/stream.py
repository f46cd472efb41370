# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A transfer that must live through everything a test does meanwhile."""

from __future__ import annotations

import hashlib
import socket
import threading
import time

from nat64 import Nat64Network
from siit import V4, V4_IN_IPV6, V6


class Stream:
    """A TCP connection that always has something to send, in one direction; it must arrive, all of it and in order.

    `pause` is the time between two chunks of 16 KiB, `patience` the longest silence that is no failure, both in seconds.
    """

    def __init__(self, source: socket.socket, sink: socket.socket, pause: float = 0.001, patience: float = 60) -> None:
        self.source, self.sink, self.pause = source, sink, pause
        for sock in (source, sink):
            sock.settimeout(patience)
        self.received, self.failure, self.stopping = 0, None, False
        self.digests = (hashlib.sha256(), hashlib.sha256())
        self.threads = [threading.Thread(target=part, daemon=True) for part in (self.send, self.receive)]
        for thread in self.threads:
            thread.start()

    @classmethod
    def through(cls, nat64: Nat64Network, inwards: bool = False, port: int = 4000) -> Stream:
        """From a node behind the NAT64 to a peer, or back over a connection that the node has opened."""
        listener = nat64.listener(V4, port)
        near = nat64.connect(V6, (V4_IN_IPV6, port))
        far, _ = listener.accept()
        nat64.sockets.append(far)
        listener.close()
        return cls(far, near) if inwards else cls(near, far)

    def send(self) -> None:
        """Send until told to stop."""
        number = 0
        try:
            while not self.stopping:
                chunk = number.to_bytes(8, "big") * 2048
                self.source.sendall(chunk)
                self.digests[0].update(chunk)
                number += 1
                time.sleep(self.pause)
            self.source.shutdown(socket.SHUT_WR)
        except OSError as error:
            self.failure = error

    def receive(self) -> None:
        """Receive until the end."""
        try:
            while chunk := self.sink.recv(1 << 16):
                self.digests[1].update(chunk)
                self.received += len(chunk)
        except OSError as error:
            self.failure = error

    def flow(self, patience: float = 15) -> None:
        """Wait until a megabyte more has come."""
        until, end = self.received + (1 << 20), time.monotonic() + patience
        while self.received < until:
            assert self.failure is None, self.failure
            assert time.monotonic() < end, f"{until - self.received} bytes of a megabyte have not come"
            time.sleep(0.01)

    def finish(self, patience: float = 20) -> None:
        """End it; everything has come."""
        self.stopping = True
        for thread in self.threads:
            thread.join(patience)
        assert self.failure is None, f"the stream broke after {self.received} bytes: {self.failure!r}"
        assert self.digests[0].digest() == self.digests[1].digest(), f"of the stream other bytes came, {self.received} of them"
