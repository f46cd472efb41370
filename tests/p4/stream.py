# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What a host does in its namespace: an echo server, and a client that checks every byte.

stream.py serve ADDRESS PORT              says "ready", then echoes TCP and UDP until it is ended
stream.py tcp ADDRESS PORT BYTES          sends so many, and has to get them back
stream.py udp ADDRESS PORT COUNT          so many datagrams of growing length
stream.py talk ADDRESS PORT               for each line of its input a datagram of one socket: says "yes" if it came back
"""

from __future__ import annotations

import hashlib
import select
import socket
import sys
import threading


def family(address: str) -> int:
    """Of an address."""
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def serve(address: str, port: int) -> None:
    """Until the process is ended."""
    listener = socket.socket(family(address), socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    datagrams = socket.socket(family(address), socket.SOCK_DGRAM)
    for bound in (listener, datagrams):
        bound.bind((address, port))
    listener.listen()
    print("ready", flush=True)
    while True:
        for readable in select.select([listener, datagrams], [], [])[0]:
            if readable is listener:
                threading.Thread(target=echo, args=(listener.accept()[0],), daemon=True).start()
            else:
                data, peer = datagrams.recvfrom(1 << 16)
                datagrams.sendto(data, peer)


def echo(connection: socket.socket) -> None:
    """Until the other end has said all."""
    with connection:
        while data := connection.recv(1 << 16):
            connection.sendall(data)


def tcp(address: str, port: int, count: int) -> None:
    """Sends in one thread, reads in the other."""
    data = hashlib.shake_128(b"diolkos").digest(count)
    with socket.create_connection((address, port), timeout=60) as connection:
        sender = threading.Thread(target=lambda: (connection.sendall(data), connection.shutdown(socket.SHUT_WR)))
        sender.start()
        back = b"".join(iter(lambda: connection.recv(1 << 16), b""))
        sender.join()
    assert back == data, f"{len(back)} of {count} bytes"


def udp(address: str, port: int, count: int) -> None:
    """One after the other; a lost one is sent again a few times, since UDP may lose it."""
    with socket.socket(family(address), socket.SOCK_DGRAM) as connection:
        connection.settimeout(5)
        connection.connect((address, port))
        for number in range(count):
            data = bytes([number & 255]) * (1 + 11 * number % 1200)
            for again in range(5):
                connection.send(data)
                try:
                    if connection.recv(1 << 16) == data:
                        break
                except TimeoutError:
                    assert again < 4, f"datagram {number} never came back"


def talk(address: str, port: int) -> None:
    """Until the input ends."""
    with socket.socket(family(address), socket.SOCK_DGRAM) as connection:
        connection.settimeout(1)
        connection.connect((address, port))
        for number, _ in enumerate(sys.stdin):
            data = number.to_bytes(4, "big") * 20
            came = b""
            try:
                connection.send(data)
                while came != data:
                    came = connection.recv(1 << 16)
            except OSError:
                pass
            print("yes" if came == data else "no", flush=True)


if __name__ == "__main__":
    what, where, number, *rest = sys.argv[1:]
    {"serve": serve, "tcp": tcp, "udp": udp, "talk": talk}[what](where, int(number), *map(int, rest))
