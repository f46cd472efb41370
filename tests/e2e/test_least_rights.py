# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What each thread of a running program may do, as the kernel says (/proc/PID/task/TID/status): capabilities, system calls."""

from __future__ import annotations

from pathlib import Path

import pytest
from dns64 import Dns64Network
from nat64 import CONFIG, Nat64Network
from network import Network
from stateful import end, start, stop_for_good
from stream import Stream

# linux/capability.h
CHOWN, DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER = 0, 1, 2, 3
NET_BIND_SERVICE, NET_ADMIN, NET_RAW, SYS_ADMIN, PERFMON, BPF = 10, 12, 13, 21, 38, 39
FILES = {CHOWN, DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER}
# linux/seccomp.h
UNFILTERED, FILTERED = 0, 2
ALL = FILES | {NET_BIND_SERVICE, NET_ADMIN, NET_RAW, SYS_ADMIN, PERFMON, BPF}


def rights(pid: int) -> dict[str, set[int]]:
    """The capabilities of each thread, by its name; all of them without a way back."""
    found = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        status = dict(line.split(":", 1) for line in (task / "status").read_text().splitlines())
        effective, permitted = (int(status[key], 16) for key in ("CapEff", "CapPrm"))
        assert effective == permitted, status
        assert (int(status["CapInh"], 16), int(status["CapAmb"], 16), int(status["NoNewPrivs"])) == (0, 0, 1), status
        assert int(status["Seccomp"]) == FILTERED, status
        found[status["Name"].strip()] = {bit for bit in range(64) if permitted >> bit & 1}
    return found


@pytest.mark.parametrize("nat64", ["tc"], indirect=True)
def test_threads_of_a_nat64(nat64: Nat64Network) -> None:
    """Who reads packets and questions of strangers has next to nothing; what they do with that still works."""
    nat64.configure(CONFIG)
    running = nat64.siit("--state", str(nat64.scratch / "nat64.state"), command="run")
    nat64.until(lambda: "ready: nat64" in running.log())
    Stream.through(nat64).flow()
    found = rights(running.process.pid)
    readers = {name for name in found if name.startswith("tun-")}
    assert readers
    expected = {name: {BPF} for name in (*readers, "sweeper", "listener", "alarms")}
    expected |= {"saver": FILES | {BPF}}
    assert {name: found[name] for name in expected} == expected
    # The event loop and its worker move devices, routes and programs.
    others = {name: caps for name, caps in found.items() if name not in expected}
    assert all(caps == ALL for caps in others.values()), others
    assert running.stop() == 0
    running = start(nat64)
    end(running, 15)
    stop_for_good(nat64)


def filters(pid: int) -> set[int]:
    """How system calls are filtered, over all threads."""
    lines = [line for task in Path(f"/proc/{pid}/task").iterdir() for line in (task / "status").read_text().splitlines()]
    return {int(line.split()[1]) for line in lines if line.startswith("Seccomp:")}


def test_all_threads_of_a_clat_are_confined(net: Network) -> None:
    """The status says so too."""
    running = net.clat()
    assert net.ping("-c1").returncode == 0
    assert filters(running.process.pid) == {FILTERED}
    assert status(net)["seccomp"] == "enforce"
    net.until(lambda: "system calls of its work" in running.log())
    assert running.stop() == 0


@pytest.mark.parametrize(("word", "kernel"), [("off", UNFILTERED), ("log", FILTERED)])
def test_confinement_can_be_switched_off(net: Network, monkeypatch: pytest.MonkeyPatch, word: str, kernel: int) -> None:
    """For whoever looks for an error: off altogether, or calls are made and logged."""
    monkeypatch.setenv("DIOLKOS_SECCOMP", word)
    running = net.clat()
    assert net.ping("-c1").returncode == 0
    assert filters(running.process.pid) == {kernel}
    assert status(net)["seccomp"] == word
    net.until(lambda: f"DIOLKOS_SECCOMP={word}" in running.log())
    assert running.stop() == 0


def status(net: Network) -> dict:
    """What the program says of itself."""
    return net.status()


def test_a_dns64_alone(dns64_network: Dns64Network) -> None:
    """It keeps the right to its port, and nothing else of root's."""
    dns64_network.unbound()
    running = dns64_network.dns64()
    assert dns64_network.dig("v4.example").data() != []
    found = rights(running.process.pid)
    assert set().union(*found.values()) == {NET_BIND_SERVICE}
    assert running.stop() == 0
