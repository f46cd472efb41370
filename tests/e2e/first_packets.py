# SPDX-License-Identifier: Apache-2.0 OR MIT
"""New flows of UDP one after the other, and a server that kills their gateway as soon as it has seen so many of them.

    first_packets.py send SERVER PORT PREFIX COUNT INTERVAL
    first_packets.py see ADDRESS PORT NUMBER PIDS

`send` opens COUNT flows from a host of a subscriber, one each INTERVAL seconds, with two packets, and has each send again twice
a second. `see` ends the gateway that owns the external address of the flow with this NUMBER, counted from 1, before it looks at
anything else. PIDS are those of the gateways, a JSON object. Both end with their standard input; `see` reports for each line.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import socket
import struct
import sys
import time

from plan import owner

FLOW = struct.Struct("!I")
AGAIN = 0.5  # seconds between two packets of a flow
UNDER_WAY = 0.2  # seconds after which no packet arrives that the dead gateway has sent


def has_ended() -> bool:
    """Whether standard input has, without waiting."""
    with selectors.DefaultSelector() as selector:
        selector.register(sys.stdin, selectors.EVENT_READ)
        return bool(selector.select(0)) and not sys.stdin.readline()


def put(sock: socket.socket, number: int) -> None:
    """Send a packet of a flow. An ICMP error can come while gateways change."""
    with contextlib.suppress(OSError):
        sock.send(FLOW.pack(number))


def send(server: str, port: int, prefix: str, count: int, interval: float) -> None:
    """Of each flow, the first packet when its turn comes, and others later."""
    flows: list[socket.socket] = []
    start = time.monotonic()
    again = start + AGAIN
    while True:
        now = time.monotonic()
        if len(flows) < count and now >= start + interval * len(flows):
            sock = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
            sock.bind((f"{prefix}1", 0))
            sock.connect((server, port))
            flows.append(sock)
            # The second one comes while the first one may wait.
            for _ in range(2):
                put(sock, len(flows))
        if now >= again:
            again = now + AGAIN
            if has_ended():
                return
            for number, sock in enumerate(flows, 1):
                put(sock, number)
        time.sleep(interval / 4)


def see(address: str, port: int, number: int, pids: dict[str, int]) -> None:
    """Report the external ends of each flow, one after the other, and which flows have sent since the gateway was killed."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    sock.bind((address, port))
    seen: dict[int, list[tuple[str, int]]] = {}
    lately: set[int] = set()
    killed, deadline = "", float("inf")
    with selectors.DefaultSelector() as selector:
        selector.register(sock, selectors.EVENT_READ)
        selector.register(sys.stdin, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is sys.stdin:
                    if not sys.stdin.readline():
                        return
                    print(
                        json.dumps({"killed": killed, "seen": seen, "lately": sorted(lately)}),
                        flush=True,
                    )
                    continue
                data, source = sock.recvfrom(64)
                (flow,) = FLOW.unpack(data)
                if not killed and len(seen) + (flow not in seen) == number:
                    killed = owner(source[0])
                    os.kill(pids[killed], signal.SIGKILL)
                    deadline = time.monotonic() + UNDER_WAY
                ends = seen.setdefault(flow, [])
                if source not in ends:
                    ends.append(source)
                if time.monotonic() > deadline:
                    lately.add(flow)


if __name__ == "__main__":
    role, host, at, *rest = sys.argv[1:]
    if role == "send":
        send(host, int(at), rest[0], int(rest[1]), float(rest[2]))
    else:
        see(host, int(at), int(rest[0]), json.loads(rest[1]))
