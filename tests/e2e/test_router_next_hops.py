# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Next hops that share a place: no packet goes to the other one (`bpf/hop_cache.h`)."""

from __future__ import annotations

import ipaddress
import struct
import subprocess
import sys

import pytest
from siit import CONFIG, SiitNetwork

HOPS, GOLDEN, WORD = 4096, 0x9E3779B97F4A7C15, (1 << 64) - 1
FIRST = ipaddress.IPv6Address("2001:db8:6::1:0")
# A packet of one of both in the middle of each tick of the kernel's clock would do; this has several in each, in any order.
ROUNDS, PORT = 400, 4000

# Of each frame: to which link-layer address, and to which IPv6 address.
HEAR = """
import socket, sys
heard = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
heard.bind(("a0", 0))
heard.settimeout(3)
print("listening", flush=True)
try:
    while True:
        frame = heard.recv(2048)
        if frame[12:14] == b"\\x86\\xdd" and frame[20] == 17 and frame[56:58] == (4000).to_bytes(2, "big"):
            print(frame[:6].hex(":"), socket.inet_ntop(socket.AF_INET6, frame[38:54]), flush=True)
except TimeoutError:
    pass
"""
SEND = """
import random, socket, sys, time
rounds, *hosts = sys.argv[1:]
out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
chance = random.Random(7)
for _ in range(int(rounds)):
    for host in chance.sample(hosts, 2) * 2:
        out.sendto(b"x", (host, 4000))
    time.sleep(chance.uniform(0.0005, 0.006))
"""


def place(exit_index: int, address: ipaddress.IPv6Address) -> int:
    """`place_of_known_hop`."""
    first, *rest = struct.unpack("=4I", address.packed)
    number = exit_index << 32 | first
    for word in rest:
        number = (number ^ word) * GOLDEN & WORD
        number ^= number >> 32
    return number % HOPS


def two_of_one_place(exit_index: int) -> list[ipaddress.IPv6Address]:
    seen: dict[int, ipaddress.IPv6Address] = {}
    for address in (FIRST + n for n in range(1, HOPS + 2)):
        if (other := seen.setdefault(place(exit_index, address), address)) != address:
            return [other, address]
    raise AssertionError("more addresses than places, and no two of one place")


@pytest.mark.parametrize("siit", ["direct", "xdp"], indirect=True)
def test_next_hops_of_one_place_get_their_own_packets(siit: SiitNetwork) -> None:
    """In each tick, the one that comes first has the place; the other's packets ask the kernel."""
    (link,) = siit.ip_json(siit.translator, "link", "show", "b6")
    hosts = {f"192.0.2.{11 + n}": address for n, address in enumerate(two_of_one_place(link["ifindex"]))}
    macs = {str(address): f"02:00:00:00:00:{11 + n:02x}" for n, address in enumerate(hosts.values())}
    mappings = "".join(f'\n[[eam]]\nv4 = "{v4}/32"\nv6 = "{v6}/128"\n' for v4, v6 in hosts.items())
    siit.configure(CONFIG + mappings)
    for address, mac in macs.items():
        siit.run(siit.translator, "ip", "neigh", "replace", address, "lladdr", mac, "dev", "b6", "nud", "permanent")
    running = siit.siit()
    ear = siit.start(siit.v6, sys.executable, "-c", HEAR, stdout=subprocess.PIPE, text=True)
    assert ear.stdout is not None
    assert ear.stdout.readline() == "listening\n"
    siit.script(siit.v4, SEND, str(ROUNDS), *hosts)
    heard = [tuple(line.split()) for line in ear.communicate(timeout=30)[0].splitlines()]
    wrong = [(mac, address) for mac, address in heard if macs.get(address) != mac]
    assert not wrong, f"{len(wrong)} of {len(heard)} frames, {wrong[0]}"
    assert len(heard) == ROUNDS * 4
    # By programs; the others of a tick, too.
    assert siit.counters()["fast.translated_4to6"] == ROUNDS * 4
    assert running.stop() == 0
