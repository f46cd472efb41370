# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Receives datagrams, which the kernel may join (UDP_GRO), and reports how many bytes came when.

    python receiver.py PORT

A client connects by TCP, and that connection is one trial:

    client: {"datagram": BYTES, "interval": SECONDS}    server: {"port": UDP PORT}
    datagrams
    client: {"sent": DATAGRAMS}                         server: {"bytes": …, "reads": …, "t": […], "y": […]}

`t` are ends of intervals (s since the first datagram), `y` the bytes of each. A trial ends with its connection.
"""

import json
import select
import socket
import sys
import time

SO_RCVBUFFORCE = 33
UDP_GRO = 104
SOCKET_BYTES = 8 << 20
PATIENCE_S = 5.0  # a client that is there says something in this time
QUIET_S = 0.1  # nothing came for so long: nothing is under way any more


def main() -> None:
    listening = socket.create_server(("::", int(sys.argv[1])), family=socket.AF_INET6, dualstack_ipv6=True)
    while True:
        connection, _ = listening.accept()
        with connection:
            try:
                _trial(connection)
            except (OSError, ValueError, KeyError) as error:
                print(f"a trial ended early: {error}", file=sys.stderr, flush=True)


def _trial(connection: socket.socket) -> None:
    connection.settimeout(PATIENCE_S)
    said = connection.makefile("rw")
    plan = json.loads(said.readline())
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as incoming:
        incoming.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        incoming.setsockopt(socket.IPPROTO_UDP, UDP_GRO, 1)
        # Beyond the host's limit, which holds a few packets of this size.
        incoming.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, SOCKET_BYTES)
        incoming.bind(("::", 0))
        incoming.setblocking(False)
        said.write(json.dumps({"port": incoming.getsockname()[1]}) + "\n")
        said.flush()
        report = _receive(incoming, connection, float(plan["interval"]))
        said.readline()  # how many the client sent, which only the client needs
        said.write(json.dumps(report) + "\n")
        said.flush()


def _receive(incoming: socket.socket, connection: socket.socket, interval: float) -> dict[str, object]:
    # What arrives is counted and not copied, or the receiver would be slower than the sender.
    nothing = bytearray(1)
    poll = select.poll()
    poll.register(incoming, select.POLLIN)
    poll.register(connection, select.POLLIN)
    first = last = 0.0
    total = reads = 0
    ends: list[float] = []
    amounts: list[int] = []
    since = 0
    ending = False
    while True:
        try:
            count = incoming.recv_into(nothing, 1, socket.MSG_TRUNC)
        except BlockingIOError:
            ready = {fd for fd, _ in poll.poll(1000 * (QUIET_S if ending else PATIENCE_S))}
            if incoming.fileno() not in ready:
                if ending or not ready:
                    break
                # The client has sent all. What is still on its way comes soon, or never.
                ending = True
                poll.unregister(connection)
            continue
        last = time.monotonic()
        if not first:
            first = last
        while last - first >= (len(ends) + 1) * interval:
            ends.append(round((len(ends) + 1) * interval, 6))
            amounts.append(since)
            since = 0
        total += count
        since += count
        reads += 1
    return {"bytes": total, "reads": reads, "t": ends, "y": amounts, "seconds": last - first}


if __name__ == "__main__":
    main()
