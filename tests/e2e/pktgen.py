# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Two hosts and, between them, a relay that does to frames what a test wants done.

    left a0 ── m0 relay m1 ── a0 right

The relay passes Ethernet frames on as they are; what it loses, repeats, holds back or damages is known exactly.
"""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from network import PATIENCE, Network, create_socket

LEFT, RIGHT = "198.18.0.1", "198.18.0.2"
LEFT6, RIGHT6 = "2001:2::1", "2001:2::2"
# Ethernet, IPv4 and UDP.
SIGNATURE_AT = 42
FRAMES = 400
SLOW = ("--rate", "4k", "--count", str(FRAMES), "--burst", "1")
# linux/if_packet.h, linux/if_ether.h, asm/socket.h
SOL_PACKET, PACKET_IGNORE_OUTGOING, ETH_P_ALL, SO_RCVBUFFORCE = 263, 23, 3, 33

# A frame with its sequence number, and what is sent on instead.
Treatment = Callable[[int, bytes], Iterable[bytes]]


@dataclass
class PktgenNetwork(Network):
    """Two hosts, and a relay."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.left, self.relay, self.right = self.client, self.router, self.server
        self.pktgen = Path(self.program).with_name("diolkos-pktgen")

    def build(self) -> None:
        """Make namespaces and links. Neighbours are known, for the relay passes on nothing but frames of the generator."""
        for name in (self.left, self.relay, self.right):
            self.host("ip", "netns", "add", name)
            self.sysctl(name, "net.ipv6.conf.default.dad_transmits", "0")
        # It says nothing by itself.
        self.sysctl(self.relay, "net.ipv6.conf.default.disable_ipv6", "1")
        for name, link in ((self.left, "m0"), (self.right, "m1")):
            self.host("ip", "link", "add", "a0", "netns", name, "type", "veth", "peer", link, "netns", self.relay)
            self.run(self.relay, "ethtool", "-K", link, "gro", "on")
        for name, link, addresses in (
            (self.relay, "m0", ()),
            (self.relay, "m1", ()),
            (self.left, "a0", (f"{LEFT}/24", f"{LEFT6}/64")),
            (self.right, "a0", (f"{RIGHT}/24", f"{RIGHT6}/64")),
        ):
            for address in addresses:
                self.ip(name, "address", "add", address, "dev", link, *(["nodad"] if ":" in address else []))
            self.ip(name, "link", "set", link, "up")
        macs = {name: self.ip_json(name, "link", "show", "a0")[0]["address"] for name in (self.left, self.right)}
        for name, other, peers in ((self.left, self.right, (RIGHT, RIGHT6)), (self.right, self.left, (LEFT, LEFT6))):
            for peer in peers:
                self.run(name, "ip", "neigh", "add", peer, "lladdr", macs[other], "dev", "a0")

    # --- the program under test

    def measure(self, *options: str, source: str = LEFT, destination: str = RIGHT) -> dict:
        """What `diolkos-pktgen measure` says, from left to right."""
        ends = ("--from", f"{self.left}:a0", "--to", f"{self.right}:a0")
        done = subprocess.run([self.pktgen, "measure", *ends, "--src", source, "--dst", destination, *options],
                              check=False, capture_output=True, text=True, timeout=60)  # fmt: skip
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def one_way(self, *options: str, **ends: str) -> tuple[dict, dict]:
        """The same of the one direction: what was sent and what was received."""
        direction = self.measure(*options, **ends)["directions"][0]
        return direction["sent"], direction["received"] | {key: direction[key] for key in ("foreign", "corrupted_unattributed")}

    def refused(self, *arguments: str, wrapper: tuple[str, ...] = ()) -> tuple[int, str]:
        """Run it where it must not work: exit code and last words."""
        done = subprocess.run(
            [*wrapper, self.pktgen, *arguments], check=False, capture_output=True, text=True, timeout=PATIENCE
        )
        return done.returncode, done.stderr.strip()

    # --- the relay

    @contextmanager
    def relaying(self, treatment: Treatment):
        """Pass frames of the generator from left to right, treated; and what comes back, as it is."""
        ends = [create_socket(self.relay, socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL)) for _ in range(2)]
        for end, link in zip(ends, ("m0", "m1"), strict=True):
            end.bind((link, ETH_P_ALL))
            end.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
            end.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 26)
            end.settimeout(0.05)
        over = threading.Event()
        failed: list[BaseException] = []

        def relay(here: socket.socket, there: socket.socket, treat: Treatment) -> None:
            try:
                while not over.is_set():
                    try:
                        frame = here.recv(2048)
                    except TimeoutError:
                        continue
                    if frame[12:14] == b"\x08\x00" and len(frame) >= SIGNATURE_AT + 18:
                        for one in treat(int.from_bytes(frame[SIGNATURE_AT : SIGNATURE_AT + 8]), frame):
                            there.send(one)
            except BaseException as error:
                failed.append(error)

        ways = ((ends[0], ends[1], treatment), (ends[1], ends[0], lambda _, frame: [frame]))
        threads = [threading.Thread(target=relay, args=way) for way in ways]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            over.set()
            for thread in threads:
                thread.join()
            for end in ends:
                end.close()
        assert not failed, failed


def begun(process: subprocess.Popen, event: str) -> dict:
    """The next line of a started diolkos-pktgen, which has to be this event."""
    line = json.loads(process.stdout.readline())
    assert line["event"] == event
    return line


def interrupted(process: subprocess.Popen) -> dict:
    """Its last line after SIGINT."""
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    return json.loads(out.splitlines()[-1])
