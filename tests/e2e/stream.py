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
    """A TCP connection that always has something to send, in one direction; it must arrive, all of it and in order."""

    def __init__(self, nat64: Nat64Network, inwards: bool = False, port: int = 4000) -> None:
        listener = nat64.listener(V4, port)
        near = nat64.connect(V6, (V4_IN_IPV6, port))
        far, _ = listener.accept()
        nat64.sockets.append(far)
        listener.close()
        self.source, self.sink = (far, near) if inwards else (near, far)
        for sock in (near, far):
            sock.settimeout(60)
        self.received, self.failure, self.stopping = 0, None, False
        self.digests = (hashlib.sha256(), hashlib.sha256())
        self.threads = [threading.Thread(target=part, daemon=True) for part in (self.send, self.receive)]
        for thread in self.threads:
            thread.start()

    def send(self) -> None:
        """Send until told to stop."""
        number = 0
        try:
            while not self.stopping:
                chunk = number.to_bytes(8, "big") * 2048
                self.source.sendall(chunk)
                self.digests[0].update(chunk)
                number += 1
                time.sleep(0.001)
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

    def finish(self) -> None:
        """End it; everything has come."""
        self.stopping = True
        for thread in self.threads:
            thread.join(20)
        assert self.failure is None, self.failure
        assert self.digests[0].digest() == self.digests[1].digest()
