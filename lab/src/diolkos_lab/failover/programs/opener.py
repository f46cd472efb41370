# SPDX-License-Identifier: Apache-2.0 OR MIT
"""New TCP connections at a steady rate: when is one opened, and when not?

    opener.py client SPEC REPORT        opener.py server SPEC

Each connection comes from the next of the client's addresses and is reset as soon as it is open. One that is not open within
`patience_s` has failed; that is shorter than a second, after which TCP would try again by itself (RFC 6298 §2.1).
REPORT is a JSON array of [begun ns, seconds it took or null].
"""

import ipaddress
import json
import select
import socket
import struct
import sys
import time
from dataclasses import dataclass
from pathlib import Path

RESET = struct.pack("ii", 1, 0)  # SO_LINGER: on, 0 s
BACKLOG = 1024


@dataclass(frozen=True)
class Spec:
    sources: int
    first_source: str  # IPv6; the others follow, each in the next /64
    server6: str
    server4: str
    port: int
    interval_s: float
    patience_s: float
    start_ns: int
    end_ns: int


def client(spec: Spec) -> list[tuple[int, float | None]]:
    first = int(ipaddress.IPv6Address(spec.first_source))
    sources = [str(ipaddress.IPv6Address(first + (number << 64))) for number in range(spec.sources)]
    poll = select.epoll()
    open_: dict[int, tuple[socket.socket, int]] = {}
    found: list[tuple[int, float | None]] = []
    begun = 0

    def ended(descriptor: int, took_s: float | None) -> None:
        one, at_ns = open_.pop(descriptor)
        poll.unregister(descriptor)
        one.close()
        found.append((at_ns, took_s))

    while (now := time.monotonic_ns()) < spec.end_ns or open_:
        while now < spec.end_ns and begun < (now - spec.start_ns) / 1e9 / spec.interval_s:
            one = socket.socket(socket.AF_INET6, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            one.bind((sources[begun % spec.sources], 0))
            begun += 1
            open_[one.fileno()] = one, now
            poll.register(one, select.EPOLLOUT)
            try:
                one.connect((spec.server6, spec.port))
            except BlockingIOError:
                pass
            except OSError:
                ended(one.fileno(), None)
        for descriptor, _ in poll.poll(0.002):
            one, at_ns = open_[descriptor]
            failed = one.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            ended(descriptor, None if failed else (time.monotonic_ns() - at_ns) / 1e9)
        now = time.monotonic_ns()
        for descriptor in [key for key, (_, at_ns) in open_.items() if now - at_ns > spec.patience_s * 1e9]:
            ended(descriptor, None)
    return sorted(found, key=lambda each: each[0])


def server(spec: Spec) -> None:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((spec.server4, spec.port))
    listener.listen(BACKLOG)
    while True:
        one, _ = listener.accept()
        one.close()


def main(role: str, spec_file: str, report: str = "") -> None:
    spec = Spec(**json.loads(Path(spec_file).read_text()))
    if role == "server":
        server(spec)
    else:
        Path(report).write_text(json.dumps(client(spec)))


if __name__ == "__main__":
    main(*sys.argv[1:])
