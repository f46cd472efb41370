# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Resolvers asked by TLS that misbehave, and a look at what is sent on the link to them."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

from dns64 import Dns64Network
from network import Running, create_socket

# linux/if_ether.h
ETH_P_ALL = 0x0003
# The certificate's name that the configuration demands.
NAME = "dns.example"

# A resolver on TLS: its port, its certificate, its key and how it misbehaves are its arguments. Says when it listens.
SERVER = """
import socket, ssl, struct, sys, threading
port, certificate, key, how = int(sys.argv[1]), *sys.argv[2:5]
tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
tls.load_cert_chain(certificate, key)
if how == "speaks_tls12":
    tls.maximum_version = ssl.TLSVersion.TLSv1_2
listener = socket.create_server(("::", port), family=socket.AF_INET6)
print("listening", flush=True)

def read(stream, length):
    found = b""
    while len(found) < length:
        more = stream.recv(length - len(found))
        if not more:
            raise EOFError
        found += more
    return found

def answer(query, id_=None, name=None):
    end = query.index(b"\\0", 12) + 5
    question = (name or query[12:end - 4]) + query[end - 4:end]
    is_a = query[end - 4:end - 2] == b"\\0\\1"
    record = b"\\xc0\\x0c" + struct.pack("!HHIH4s", 1, 1, 300, 4, bytes([192, 0, 2, 77]))
    head = (id_ or query[:2]) + struct.pack("!HHHHH", 0x8180, 1, is_a, 0, 0)
    message = head + question + (record if is_a else b"")
    return struct.pack("!H", len(message)) + message

def serve(plain):
    if how == "is_silent_at_once":
        return held.append(plain)
    if how == "says_garbage":
        plain.recv(64)
        plain.sendall(bytes(range(256)) * 4)
        return plain.close()
    if how == "speaks_plain":
        plain.recv(4096)
        plain.sendall(answer(bytes(12) + b"\\5other\\0\\0\\1\\0\\1"))
        return plain.close()
    stream = tls.wrap_socket(plain, server_side=True)
    while True:
        query = read(stream, struct.unpack("!H", read(stream, 2))[0])
        if how == "is_silent" or how == "is_silent_of_slow" and b"\\4slow" in query:
            continue
        if how == "cuts":
            stream.sendall(answer(query)[:20])
            return stream.close()
        if how == "lies":
            stream.sendall(answer(query, id_=bytes([query[0] ^ 1, query[1]])))
            stream.sendall(answer(query, name=b"\\5other\\7example\\0"))
        stream.sendall(answer(query))
        if how == "closes":
            return stream.close()

def guarded(plain):
    try:
        serve(plain)
    except (OSError, EOFError, struct.error, ValueError):
        plain.close()

held = []
while True:
    threading.Thread(target=guarded, args=listener.accept()[:1], daemon=True).start()
"""


def resolver_by_tls(net: Dns64Network, port: int, credentials: tuple[Path, Path], how: str = "works") -> Running:
    """Start a resolver that has these credentials, and misbehaves so."""
    log = net.scratch / f"tls-{port}-{how}"
    with log.open("w") as sink:
        arguments = (str(port), *map(str, credentials), how)
        process = net.start(net.server, sys.executable, "-c", SERVER, *arguments, stdout=sink, stderr=sink)
    net.until(lambda: "listening" in log.read_text())
    return Running(process, log)


class Listener:
    """Whoever reads every frame at the resolver's link."""

    def __init__(self, net: Dns64Network) -> None:
        self.socket = create_socket(net.server, socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
        self.socket.setblocking(False)

    def heard(self) -> bytes:
        """Everything that was sent since the last call."""
        frames = b""
        while True:
            try:
                frames += self.socket.recv(1 << 16) + b"|"
            except BlockingIOError:
                return frames
