# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Clients of PCP (RFC 6887): one written from the figures of the RFC, and libtorrent, which Debian has."""

from __future__ import annotations

import json
import socket
import struct
import subprocess
from dataclasses import dataclass
from ipaddress import IPv6Address
from pathlib import Path

from nat64 import Nat64Network, with_keys
from siit import TRANSLATOR6, V6

SERVER = (TRANSLATOR6, 5351)
ANNOUNCE, MAP = 0, 1
SUCCESS, NOT_AUTHORIZED, USER_EX_QUOTA, ADDRESS_MISMATCH = 0, 2, 10, 12
PREFER_FAILURE = bytes((2, 0, 0, 0))
ANY = "::ffff:0.0.0.0"

# What any BitTorrent client made of libtorrent does at its start: it opens its port to peers.
LIBTORRENT = """
import signal, sys
import libtorrent
known = libtorrent.alert.category_t
session = libtorrent.session({
    "listen_interfaces": sys.argv[1], "enable_natpmp": True, "enable_upnp": False, "enable_lsd": False, "enable_dht": False,
    "alert_mask": known.port_mapping_notification | known.error_notification | known.port_mapping_log_notification,
})
ends = []
signal.signal(signal.SIGTERM, lambda *_: ends.append(True))
while not ends:
    session.wait_for_alert(100)
    for alert in session.pop_alerts():
        print(alert.message(), flush=True)
"""


def with_pcp(
    *keys: str, listen: str = TRANSLATOR6, sources: tuple[str, ...] = ("2001:db8::/32",), nat64: tuple[str, ...] = ()
) -> str:
    """The configuration with PCP."""
    section = ["[nat64.pcp]", f'listen = ["{listen}"]', f"sources = {json.dumps(sources)}", *keys, ""]
    text = with_keys(*nat64) if nat64 else with_keys()
    return text.replace("[[nat64", "\n".join([*section, "[[nat64"]))


def request(client: str, protocol: int, internal: int, nonce: bytes, lifetime: int, port: int = 0, address: str = ANY) -> bytes:
    """A request for a mapping (figures 2 and 9)."""
    header = struct.pack("!BBHI", 2, MAP, 0, lifetime) + IPv6Address(client).packed
    ports = struct.pack("!B3xHH", protocol, internal, port)
    return header + nonce + ports + IPv6Address(address).packed


@dataclass(frozen=True)
class Answer:
    """What the server says (figures 3 and 10)."""

    code: int
    lifetime: int
    epoch: int
    port: int = 0
    address: str = ""

    @staticmethod
    def of(message: bytes, asked: bytes) -> Answer:
        """Read it; it repeats what it answers, and is no longer."""
        version, opcode, zero, code, lifetime, epoch, rest = struct.unpack_from("!BBBBII12s", message)
        assert (version, opcode, zero, rest) == (2, asked[1] | 0x80, 0, bytes(12))
        assert len(message) <= len(asked)
        if opcode & 0x7F != MAP:
            return Answer(code, lifetime, epoch)
        assert message[24:42] == asked[24:42]
        (port,) = struct.unpack_from("!H", message, 42)
        external = IPv6Address(message[44:60])
        return Answer(code, lifetime, epoch, port, str(external.ipv4_mapped or external))


@dataclass
class Client:
    """A client at an address of the IPv6 host. Datagrams to the gateway itself are lost at times, so it asks again."""

    network: Nat64Network
    address: str = V6
    nonce: bytes = b"twelve bytes"

    def __post_init__(self) -> None:
        self.socket = self.network.socket(self.address)
        self.socket.settimeout(2)

    def ask(self, message: bytes) -> Answer:
        """What is answered."""
        for attempt in range(5):
            self.socket.sendto(message, SERVER)
            try:
                return Answer.of(self.socket.recv(2000), message)
            except TimeoutError:
                assert attempt < 4, "no answer"
        raise AssertionError

    def map(
        self, internal: int, protocol: int = socket.IPPROTO_TCP, lifetime: int = 600, option: bytes = b"", **more
    ) -> Answer:
        """Ask for a mapping."""
        return self.ask(request(self.address, protocol, internal, self.nonce, lifetime, **more) + option)

    def announce(self) -> Answer:
        """Ask for the epoch."""
        return self.ask(struct.pack("!BBHI", 2, ANNOUNCE, 0, 0) + IPv6Address(self.address).packed)


def libtorrent(network: Nat64Network, port: int) -> tuple[subprocess.Popen, Path]:
    """Start it on the IPv6 host. `packaging/setup.sh` installs it."""
    log = network.scratch / "log-libtorrent"
    with log.open("w") as sink:
        command = ("/usr/bin/python3", "-c", LIBTORRENT, f"[{V6}]:{port}")
        return network.start(network.v6, *command, stdout=sink, stderr=sink), log
