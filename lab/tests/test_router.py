# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`--router`: a study over two machines, the other one played by a namespace with an OpenSSH server."""

import contextlib
import html
import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from diolkos_lab.topology import namespace
from two_hosts import NICS, SSHD, USER, TwoHosts, two_hosts

pytestmark = [pytest.mark.root, pytest.mark.skipif(SSHD is None, reason="needs sshd: apt-get install openssh-server")]

NATIVE = """
format = 1
name = "two-hosts"
title = "Two hosts"
question = "Does it work over two machines?"

[[system]]
system = "native"
datapath = "kernel"
family = "ipv6"
loads = ["ping", "tcp-upload", "udp", "http"]

[form.quick]
blocks = {blocks}

[[form.quick.load]]
name = "ping"
count = 4
interval_s = 0.01
"""
MORE = """
[[system]]
system = "native"
datapath = "kernel"
family = "ipv4"
loads = ["ping", "tcp-upload", "udp", "http"]

[[system]]
system = "tayga"
datapath = "tun"
family = "ipv4"
loads = ["ping", "tcp-upload", "udp", "http"]

[[system]]
system = "nat44"
datapath = "nftables"
family = "ipv4"
loads = ["ping", "tcp-upload", "udp", "http"]

[[system]]
system = "natrules"
datapath = "dnat"
family = "ipv4"
loads = ["ping", "tcp-upload", "udp", "http"]
factors = {{ backend = ["iptables-legacy", "nft-list"], place = ["client", "router"], rules = 5 }}

[[system]]
system = "tayga"
datapath = "inbound"
family = "ipv4"

[topology]
empty_conntrack = true

[guards]
steal_share = 1
foreign_cpu_share = 1

[form.quick.vary]
clocksource = ["tsc", "hpet"]

[[form.quick.load]]
name = "tcp-upload"
seconds = 1

[[form.quick.load]]
name = "udp"
seconds = 1
rate = 1e6

[[form.quick.load]]
name = "http"
object_bytes = 1000
by = "literal"
seconds = 0.5
"""


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[TwoHosts]:
    with two_hosts(tmp_path) as made:
        yield made


def _study(hosts: TwoHosts, text: str, blocks: int = 2) -> Path:
    file = hosts.folder / "study.toml"
    file.write_text(text.format(blocks=blocks))
    return file


def _trials(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "samples.jsonl").read_text().splitlines()[1:]
    return [json.loads(line) for line in lines if line.endswith("}")]


def _left(hosts: TwoHosts) -> list[str]:
    """What is still missing or left over at both ends."""
    wrong = [nic for nic in NICS["tester"].values() if nic not in hosts.nics(hosts.tester)]
    wrong += [nic for nic in NICS["router"].values() if nic not in hosts.nics(hosts.other)]
    names = os.listdir(namespace.DIRECTORY)
    return wrong + [name for name in names if (owner := namespace.owner_in_name(name)) and not owner.alive()]


def test_a_study_runs_over_two_machines_and_gives_the_nics_back(hosts: TwoHosts) -> None:
    out = hosts.folder / "out"
    before = {name: hosts.nics(name) for name in (hosts.tester, hosts.other)}
    hosts.ip(hosts.other, "link", "set", "rcl", "up")
    done = hosts.run(_study(hosts, NATIVE + MORE), "--out", str(out))
    assert done.returncode == 0, done.stderr
    trials = _trials(out)
    assert {(trial["system"], trial["load"]) for trial in trials} == {
        (system, load) for system in ("native", "nat44", "natrules", "tayga") for load in ("ping", "tcp-upload", "udp", "http")
    }
    assert {trial["datapath"] for trial in trials if trial["system"] == "tayga"} == {"tun"}, "a CLAT, on the client"
    assert {trial["factors"]["place"] for trial in trials if trial["system"] == "natrules"} == {"client", "router"}
    assert [trial["error"] for trial in trials if trial["error"]] == []
    facts = json.loads((out / "host.json").read_text())
    assert facts["router"]["reached_as"] == USER and facts["router"]["kernel"] == os.uname().release
    left_out = {entry["what"] for entry in facts["left_out"]}
    assert left_out == {"clocksource", "tayga/inbound/ipv4/1"}
    page = html.unescape((out / "report.html").read_text())
    assert f"what is between them on {USER} (" in page and "on one host" not in page
    assert {name: hosts.nics(name) for name in before} == before
    links = {link["ifname"]: link["flags"] for link in json.loads(hosts.ip(hosts.other, "-json", "link"))}
    assert "UP" in links["rcl"] and "UP" not in links["rsr"]
    assert not _left(hosts)


def test_the_router_that_goes_away_ends_its_trials_with_their_reason_and_is_used_again_when_it_is_back(hosts: TwoHosts) -> None:
    out = hosts.folder / "out"
    study = _study(hosts, NATIVE.replace("[form.quick]", "[form.quick]\ntime_budget_s = 60"), blocks=8)
    arguments = ["run", str(study), "--quick", "--router", USER, "--nics", str(hosts.folder / "nics.toml"), "--out", str(out)]
    running = subprocess.Popen(hosts.command(*arguments), env=hosts.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        _until(lambda: _has(out, lambda trial: trial["error"] is None), running)
        hosts.stop_server()
        for pid in hosts.sessions():
            os.kill(pid, signal.SIGKILL)
        _until(lambda: _has(out, lambda trial: "went away" in (trial["error"] or "")), running)
        hosts.start_server()
        _, errors = running.communicate(timeout=200)
    finally:
        running.kill()
        running.wait()
    assert running.returncode == 0, errors
    states = [trial["error"] is None for trial in _trials(out)]
    assert states[0] and not all(states) and states[-1], "it worked, went away, and worked again"
    assert not _left(hosts)


def test_a_lab_that_was_killed_leaves_nothing_over_there_and_clean_gives_its_own_nics_back(hosts: TwoHosts) -> None:
    out = hosts.folder / "out"
    study = _study(hosts, NATIVE, blocks=1000)
    arguments = ["run", str(study), "--quick", "--router", USER, "--nics", str(hosts.folder / "nics.toml"), "--out", str(out)]
    running = subprocess.Popen(hosts.command(*arguments), env=hosts.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    _until(lambda: _has(out, lambda trial: trial["error"] is None), running)
    running.kill()
    running.communicate()
    assert hosts.nics(hosts.tester) == set()
    done = hosts.lab("clean", "--router", USER)
    assert done.returncode == 0, done.stderr
    assert hosts.lab("clean").returncode == 0
    assert not _left(hosts)


@pytest.mark.parametrize(
    ("spoil", "arguments", "words"),
    [
        (lambda hosts: hosts.know(""), [], "host key is not known here"),
        (lambda hosts: hosts.know((hosts.folder / "user.pub").read_text()), [], "is another one than before"),
        (lambda hosts: (hosts.folder / "user").unlink(), [], "refuses a login without a password"),
        (lambda hosts: hosts.stop_server(), [], "cannot be reached over SSH"),
        (
            lambda hosts: hosts.ip(hosts.other, "link", "set", "rsr", "name", "other"),
            [],
            'root@router: there is no NIC "rsr"; there are ',
        ),
        (
            lambda hosts: hosts.ip(hosts.tester, "link", "set", "tcl", "name", "other"),
            [],
            'this machine: there is no NIC "tcl"; there are ',
        ),
        (
            lambda hosts: hosts.ip(hosts.other, "address", "add", "192.0.2.9/32", "dev", "rcl"),
            [],
            "it has the address 192.0.2.9",
        ),
        (lambda hosts: None, ["--path", "tayga=/nowhere"], 'root@router: "/nowhere", given for tayga, is no program there'),
        (lambda hosts: None, ["--router", "-oProxyCommand=x@y"], '--router "-oProxyCommand=x@y": expected USER@HOST'),
        (lambda hosts: (hosts.folder / "nics.toml").write_text("format = 1\n"), [], "nics.toml:1:1: tester: Field required"),
    ],
    ids=[
        "unknown-key",
        "other-key",
        "wrong-user",
        "no-server",
        "no-nic",
        "no-nic-here",
        "nic-in-use",
        "no-program",
        "no-host",
        "file",
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(
    hosts: TwoHosts, spoil: Callable[[TwoHosts], Any], arguments: list[str], words: str
) -> None:
    spoil(hosts)
    study = NATIVE + '\n[[system]]\nsystem = "tayga"\ndatapath = "masquerade"\nfamily = "ipv6"\n'
    done = hosts.run(_study(hosts, study), "--out", str(hosts.folder / "out"), *arguments)
    assert done.returncode in (2, 3)
    assert words in done.stderr and done.stderr.count("\n") == 1, done.stderr
    names = [name for name in os.listdir(namespace.DIRECTORY) if name.endswith("-nics-nics")]
    assert not [name for name in names if not namespace.Owner.alive(namespace.owner_in_name(name))]  # type: ignore[arg-type]


def test_router_and_nics_need_each_other(hosts: TwoHosts) -> None:
    done = hosts.lab("run", "nat64", "--quick", "--router", USER)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1) and "--router needs --nics FILE" in done.stderr


def _has(folder: Path, wanted: Callable[[dict[str, Any]], bool]) -> bool:
    return (folder / "samples.jsonl").exists() and any(wanted(trial) for trial in _trials(folder))


def _until(true: Callable[[], bool], running: subprocess.Popen[bytes]) -> None:
    """Looks again and again while the lab runs: what it says is in files that grow."""
    while not true():
        with contextlib.suppress(subprocess.TimeoutExpired):
            running.wait(timeout=0.05)
            assert true(), f"the lab ended: {running.communicate()[1].decode()}"
