# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A CLAT that uses its address while neighbours are asked whether one of them has it (RFC 4429)."""

from __future__ import annotations

import subprocess
import sys

import pytest
from forgers import FORGERY, defend
from kernel import remains
from network import Network

RUN_TIME = 1
# One for each collision (RFC 7217 section 6, IDGEN_RETRIES), and the first.
CANDIDATES = 4
OVERRIDE, SOLICITED = 0x20, 0x40

# Asks for each address that is tried out as soon as that begins, and prints the flags of each advertisement for it
# (RFC 4861 section 4.4) and its destination's first byte, until one of them is for all nodes.
CURIOUS = """
hears = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x86DD))
hears.bind(("down0", 0x86DD))
source = address("2001:2:0:1::99")
print("listening", flush=True)
tried = None
while True:
    packet = hears.recv(2048)
    if packet[20] != 58 or packet[54] not in (135, 136):
        continue
    target = packet[62:78]
    if packet[54] == 135 and packet[22:38] == bytes(16):
        tried = target
        body = struct.pack("!BBHI", 135, 0, 0, 0) + target + b"\\x01\\x01" + bytes.fromhex("020000000066")
        link.send(frame(source, bytes.fromhex("ff0200000000000000000001ff") + target[13:], body))
    elif packet[54] == 136 and target == tried:
        print(packet[58], packet[38] == 0xFF, flush=True)
        if packet[38] == 0xFF:
            break
"""


@pytest.fixture(name="net")
def careful(net: Network) -> Network:
    """A network in which the kernel would run Duplicate Address Detection."""
    net.sysctl(net.client, "net.ipv6.conf.wan0.dad_transmits", "1")
    return net


def curious(net: Network) -> subprocess.Popen:
    """A neighbour that asks for addresses that are tried out."""
    process = net.start(net.router, sys.executable, "-c", FORGERY + CURIOUS, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "listening\n"
    return process


def test_a_tentative_address_overrides_nobody(net: Network, datapath: str) -> None:
    """RFC 4429 section 3.3: who asks is answered without Override. Only when nobody objected, all nodes hear of it."""
    neighbour = curious(net)
    net.clat(datapath)
    assert "3 received" in net.ping("-c3").stdout
    answers, _ = neighbour.communicate(timeout=60)
    # The router's kernel asks, too.
    *early, last = answers.splitlines()
    assert set(early) == {f"{SOLICITED} False"}
    assert last == f"{OVERRIDE} True"


def test_an_address_that_the_operator_set_is_tested_first(net: Network) -> None:
    """RFC 4429 section 3.1: another host may well have it, so that nobody is answered before."""
    neighbour = curious(net)
    net.clat("tc", "--v6", "2001:2:0:1::464")
    answers, _ = neighbour.communicate(timeout=60)
    assert answers.splitlines() == [f"{OVERRIDE} True"]


def test_another_host_has_it(net: Network, datapath: str) -> None:
    """The CLAT leaves the address to it, says so, and takes another one."""
    first = net.clat(datapath)
    taken = address(first.log())
    assert first.stop() == 0
    net.ip(net.router, "address", "add", f"{taken}/64", "dev", "down0", "nodad")
    second = net.clat(datapath)
    net.until(lambda: address(second.log()) != taken)
    assert f"{taken} is already the address of another host on wan0" in second.log()
    assert "3 received" in net.ping("-c3").stdout
    assert second.stop() == 0
    assert remains(net) == []


def test_all_addresses_are_defended(net: Network) -> None:
    """A CLAT with no address that it may use ends, and leaves nothing."""
    defend(net, CANDIDATES)
    clat = net.clat("tc", ready=False)
    assert clat.wait() == RUN_TIME
    last = clat.log().splitlines()[-1]
    assert last.startswith("diolkos: ") and last.endswith(
        "is already the address of another host on wan0: choose another with --v6"
    ), clat.log()
    assert remains(net) == []


def address(log: str) -> str:
    """The address of the last line that says ready."""
    return log.rsplit("<-> ", 1)[1].split(maxsplit=1)[0]
