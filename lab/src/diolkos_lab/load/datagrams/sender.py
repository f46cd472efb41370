# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Sends datagrams as a server of QUIC does: many with one system call, which the kernel cuts as late as it can (UDP_SEGMENT).

    python sender.py HOST PORT SECONDS DATAGRAM_BYTES DATAGRAMS_A_CALL INTERVAL

HOST and PORT are those of `receiver.py`. Prints one line of JSON: what was sent (`sent`, `calls`, `seconds`, `refused`), and
the report of the receiver (`received`).
"""

import json
import socket
import sys
import time

UDP_SEGMENT = 103
PATIENCE_S = 5.0
ENDS_S = 1.0  # the receiver waits for what is on its way


def main() -> None:
    host, port, seconds, datagram, at_once, interval = sys.argv[1:]
    with socket.create_connection((host, int(port)), PATIENCE_S) as connection:
        said = connection.makefile("rw")
        said.write(json.dumps({"datagram": int(datagram), "interval": float(interval)}) + "\n")
        said.flush()
        to = json.loads(said.readline())["port"]
        with socket.socket(connection.family, socket.SOCK_DGRAM) as outgoing:
            outgoing.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, int(datagram))
            outgoing.connect((host, to))
            sent = _send(outgoing, float(seconds), int(datagram), int(at_once))
        said.write(json.dumps({"sent": sent["sent"]}) + "\n")
        said.flush()
        connection.settimeout(PATIENCE_S + ENDS_S)
        print(json.dumps({**sent, "received": json.loads(said.readline())}))


def _send(outgoing: socket.socket, seconds: float, datagram: int, at_once: int) -> dict[str, float]:
    data = bytes(datagram * at_once)
    calls = refused = 0
    begin = time.monotonic()
    end = begin + seconds
    while time.monotonic() < end:
        try:
            outgoing.send(data)
            calls += 1
        except ConnectionRefusedError:
            # An ICMP error about an earlier datagram: it says nothing about this one.
            refused += 1
    return {"sent": calls * at_once, "calls": calls, "seconds": time.monotonic() - begin, "refused": refused}


if __name__ == "__main__":
    main()
