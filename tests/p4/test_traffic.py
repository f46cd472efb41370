# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Ping, TCP and UDP between two hosts through the switch, in each mode; what it answers itself; its end."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_network
from pathlib import Path

import pytest
from control import INSERT, ROOT, Change, Control
from tables import LEARN, PREFIXES, STATELESS, Bits, mapped, settings, ternary
from wires import GATEWAY4, GATEWAY6, POOL, PREF64, V4, V4_IN_IPV6, V6, V6_MAPPED, Wires

STREAM = str(Path(__file__).with_name("stream.py"))
PORT = 7007
COUNTS = [
    "translated_6to4",
    "translated_4to6",
    "answered_arp",
    "answered_ndp",
    "answered_echo4",
    "answered_echo6",
    "from_kernel",
    "declined_off",
]


@contextmanager
def serving(wires: Wires, namespace: str, address: str) -> Iterator[None]:
    """An echo server there."""
    command = ["ip", "netns", "exec", namespace, sys.executable, STREAM, "serve", address, str(PORT)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout and server.stdout.readline() == "ready\n"
        try:
            yield
        finally:
            server.kill()


def client(wires: Wires, namespace: str, what: str, address: str, count: int) -> None:
    """It fails if a byte is not that which was sent."""
    wires.run(namespace, sys.executable, STREAM, what, address, str(PORT), str(count))


def counts(control: Control) -> dict[str, int]:
    """The first counters of the program, by name."""
    return dict(zip(COUNTS, control.read("counts", 0, len(COUNTS)), strict=True))


def stateless_tables(wires: Wires) -> list[Change]:
    """One mapping, one prefix."""
    prefix, everything = ip_network(PREF64), ip_network("0.0.0.0/0")
    bits = Bits.of_prefix(96)
    changes = [settings(STATELESS), *wires.hops(), *mapped(ip_network(f"{V6_MAPPED}/32"), ip_network(f"{V6}/128"), False)]
    for six, four in (("src6", "src4"), ("dst6", "dst4")):
        changes.append(ternary(six, "from6", prefix, bits.from6(0), PREFIXES))
        changes.append(ternary(four, "from4", everything, bits.from4(int(prefix.network_address)), PREFIXES))
    return changes


def learning_tables(wires: Wires) -> list[Change]:
    """A pool of one address, whose ports from 1024 on the pipeline gives away itself."""
    pool = int.from_bytes(bytes(map(int, POOL.split("."))), "big")
    bits = Bits.of_prefix(96)
    data = bits.from6(0)[4:]
    return [
        settings(LEARN, pool4=pool, ports=(1024, 0x7FFF)),
        *wires.hops(),
        ternary("learn_prefix", "nat64_prefix", ip_network(PREF64), data),
    ]


@pytest.mark.parametrize("mode", ["stateless", "learn"])
def test_ping_tcp_and_udp_from_ipv6(wires: Wires, mode: str) -> None:
    """Every byte arrives, and all of it through the program."""
    control = wires.start()
    control.write(stateless_tables(wires) if mode == "stateless" else learning_tables(wires))
    wires.run(wires.six, "ping", "-c", "3", "-i", "0.2", "-w", "30", V4_IN_IPV6)
    with serving(wires, wires.four, V4):
        client(wires, wires.six, "tcp", V4_IN_IPV6, 2_000_000)
        client(wires, wires.six, "udp", V4_IN_IPV6, 100)
    seen = counts(control)
    assert seen["translated_6to4"] > 1000
    assert seen["translated_4to6"] > 1000
    assert wires.end() == 0


def test_ping_tcp_and_udp_from_ipv4(wires: Wires) -> None:
    """The other way, to a host with a mapping."""
    control = wires.start()
    control.write(stateless_tables(wires))
    wires.run(wires.four, "ping", "-c", "3", "-i", "0.2", "-w", "30", V6_MAPPED)
    with serving(wires, wires.six, V6):
        client(wires, wires.four, "tcp", V6_MAPPED, 2_000_000)
        client(wires, wires.four, "udp", V6_MAPPED, 100)
    assert counts(control)["translated_4to6"] > 1000


def test_nobody_outside_begins_what_the_pipeline_learns(wires: Wires) -> None:
    """A packet to the pool that answers nothing is declined."""
    control = wires.start()
    control.write(learning_tables(wires))
    wires.run(wires.four, "ping", "-c", "1", "-w", "2", POOL, code=1)
    assert counts(control)["translated_4to6"] == 0


def test_the_switch_answers_for_itself(wires: Wires) -> None:
    """ARP, neighbour discovery and echoes, while the kernel has no address there."""
    control = wires.start(addresses=False)
    control.write([settings(STATELESS), *wires.hops(), *wires.owns()])
    wires.run(wires.four, "ping", "-c", "2", "-i", "0.2", "-w", "30", GATEWAY4)
    wires.run(wires.six, "ping", "-c", "2", "-i", "0.2", "-w", "30", GATEWAY6)
    seen = counts(control)
    assert seen["answered_arp"] >= 1
    assert seen["answered_ndp"] >= 1
    assert seen["answered_echo4"] >= 2
    assert seen["answered_echo6"] >= 2


def test_with_empty_tables_the_kernel_has_everything(wires: Wires) -> None:
    """As if there were no switch: so it is after every start."""
    control = wires.start()
    wires.run(wires.four, "ping", "-c", "2", "-i", "0.2", "-w", "30", GATEWAY4)
    wires.run(wires.six, "ping", "-c", "2", "-i", "0.2", "-w", "30", GATEWAY6)
    wires.run(wires.router, "ping", "-c", "2", "-i", "0.2", "-w", "30", V4)
    seen = counts(control)
    assert seen["declined_off"] >= 6
    assert seen["from_kernel"] >= 6
    assert not seen["translated_6to4"] + seen["translated_4to6"]


def test_killed_it_passes_nothing_and_the_next_one_begins_anew(wires: Wires) -> None:
    """The kernel gets no frame of the wire that nobody translates; the next switch has empty tables and another `boot`."""
    control = wires.start()
    control.write(stateless_tables(wires))
    wires.run(wires.six, "ping", "-c", "1", "-w", "30", V4_IN_IPV6)
    first = control.ask(Change(1))[0].payload[:8]
    wires.end(signal.SIGKILL)
    wires.run(wires.six, "ping", "-c", "1", "-w", "2", V4_IN_IPV6, code=1)
    control = wires.start()
    assert control.ask(Change(1))[0].payload[:8] != first
    assert control.ask(Change(9, "hop4"))[0].payload[:8] == bytes(8)
    control.write(stateless_tables(wires))
    wires.run(wires.six, "ping", "-c", "1", "-w", "30", V4_IN_IPV6)
    assert wires.end() == 0
    assert not wires.is_deaf("w4"), "its filter is left behind"


def test_a_second_switch_leaves_the_first_alone(wires: Wires) -> None:
    """One line, its tables stand, the kernel is still deaf to its device, and it takes connections."""
    control = wires.start()
    control.write([Change(INSERT, "local_mac", "mine", bytes(6))])
    second = wires.process
    with pytest.raises(AssertionError, match="s4"):
        wires.start()
    wires.process, wires.control = second, control
    assert control.ask(Change(9, "local_mac"))[0].payload[:8] == (1).to_bytes(8, "big")
    assert wires.is_deaf("w4")
    another = Control(control.path)
    with another.socket:
        assert another.ask(Change(9, "local_mac"))[0].payload[:8] == (1).to_bytes(8, "big")


def test_the_page_from_the_first_line_to_a_ping(wires: Wires) -> None:
    """What docs/p4.md has: the switch, `p4/learn.py`, and a ping."""
    wires.start()
    of = {name.split("-")[-1]: mac.hex() for name, mac in wires.macs.items()}
    hops = [f"{V4}/32=0,{of['four/a0']},{of['sw/w4']}", f"{V6}/128=2,{of['six/a0']},{of['sw/w6']}"]
    command = [str(ROOT / "p4/learn.py"), "--control", str(wires.folder / "switch.sock"), "--pref64", PREF64, "--pool", POOL]
    for address in (of["sw/w4"], of["sw/w6"]):
        command += ["--local", address]
    for hop in hops:
        command += ["--hop", hop]
    wires.run(wires.router, *command)
    wires.run(wires.six, "ping", "-c", "2", "-i", "0.2", "-w", "30", V4_IN_IPV6)
