# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Routers of BPF programs: what they forward, what they leave to the kernel, and that the known loss is the paper's."""

import ctypes
import math
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from diolkos_lab.curve import known_curves
from diolkos_lab.curve.judge import judge
from diolkos_lab.curve.loss import measure
from diolkos_lab.experiment.definition import Subject, Topology
from diolkos_lab.sut import definition, lookup
from diolkos_lab.sut.program import SutFault
from diolkos_lab.sut.running import RunningSystem
from diolkos_lab.topology import addresses as plan
from diolkos_lab.topology import namespace
from diolkos_lab.topology.lane import Lane, Shape
from diolkos_lab.topology.process import run_to_end

sys.path.insert(0, str(Path(__file__).parent / "curve"))
import paper_curves

NOTHING_IS_FORWARDED = "table inet t { chain c { type filter hook forward priority 0; policy drop; }; }"
TARGETS = {"ipv4": str(plan.SERVER4), "ipv6": str(plan.SERVER6)}


@pytest.fixture
def lane() -> Iterator[Lane]:
    with Lane("test", Shape(1, ipv6_only=False, offloads=True, pref64=Topology().pref64, mtu=1500)) as made:
        yield made


def _running(tmp_path: Path, lane: Lane, system: definition.System, datapath: str) -> RunningSystem:
    found = lookup.find(system, {})
    assert isinstance(found, lookup.Found), found
    return RunningSystem(found, Subject(system=system.system, datapath=datapath, family="ipv6"), lane, tmp_path / "system")


@pytest.mark.root
@pytest.mark.usefixtures("clean_machine")
@pytest.mark.parametrize("datapath", ["tc", "xdp"])
def test_a_forwarder_forwards_past_the_kernel_and_leaves_it_the_rest(tmp_path: Path, lane: Lane, datapath: str) -> None:
    def run(role: str, *command: str) -> tuple[int, str]:
        (tmp_path / "out").write_text("")
        return run_to_end(lane.namespace(role), list(command), tmp_path / "out")

    running = _running(tmp_path, lane, definition.load_all()["forwarder"], datapath)
    running.start()
    assert not running.keeps_state
    for target in TARGETS.values():
        assert run("client", "ping", "-n", "-c1", "-W2", target)[0] == 0, "the kernel learns the neighbours"
    rules = tmp_path / "rules"
    rules.write_text(NOTHING_IS_FORWARDED)
    assert run("router", "nft", "-f", str(rules))[0] == 0
    for target in TARGETS.values():
        status, text = run("client", "ping", "-n", "-c3", "-i0.2", "-W2", target)
        assert status == 0 and text.count("ttl=63") == 3, "one hop less, and a checksum that the other end takes"
    for target in TARGETS.values():
        text = run("client", "ping", "-n", "-c1", "-W2", "-t1", target)[1]
        assert "exceeded" in text or "limit" in text, "the kernel answers what has no hops left"
    run("router", "ip", "link", "set", plan.SERVER_LINK, "mtu", "1400")
    for target in TARGETS.values():
        text = run("client", "ping", "-n", "-c1", "-W2", "-Mdo", "-s1400", target)[1]
        assert "mtu" in text.lower(), "and what is too big"
    running.stop()
    running.start()


COUNTED = """table inet t { chain c { type filter hook input priority 0; udp dport 9 counter; }; }"""
MAGIC = 0xD1  # of the generator's signature, as in sut/bpf/router/signature.h


def _send(lane: Lane, version: int, rate: int, packets: int) -> None:
    """What a trial of the generator sends, as fast as it goes: the moments of sending stand in the packets."""
    source, target = lane.client_address(version), plan.SERVER6 if version == 6 else plan.SERVER4
    with namespace.entered(lane.namespace("client")):
        sender = socket.socket(socket.AF_INET6 if version == 6 else socket.AF_INET, socket.SOCK_DGRAM)
    with sender:
        sender.bind((str(source), 0))
        for number in range(packets):
            stamp = (number * 1_000_000_000 // rate + 2**48 - 10_000_000) % 2**48  # the clock of the stamps goes round, too
            sender.sendto(struct.pack("!QQH", number, MAGIC << 48 | stamp, 0), (str(target), 9))


@pytest.mark.root
@pytest.mark.usefixtures("clean_machine")
@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize(
    ("datapath", "rate", "loss"),
    [
        ("ideal", 45_000, 0.0),
        ("ideal", 60_000, 1 - 50_000 / 60_000),
        ("realistic", 47_492, 0.005),
        ("realistic", 60_000, 1 - 49_500 / 60_000),
        ("realistic", 100_000, 1 - 0.5 * 49_500 / 100_000),
        ("leaky", 40_000, 0.01),
    ],
)
def test_the_known_router_loses_by_the_formula(
    tmp_path: Path, lane: Lane, datapath: str, rate: int, loss: float, version: int
) -> None:
    packets, log, rules = 20_000, tmp_path / "out", tmp_path / "rules"
    _running(tmp_path, lane, definition.load_all()["synthetic"], datapath).start()
    rules.write_text(COUNTED)
    assert run_to_end(lane.namespace("server"), ["nft", "-f", str(rules)], log)[0] == 0
    arrived = []
    for _ in range(2):  # the second is a trial of its own
        _send(lane, version, rate, packets)
        log.write_text("")
        text = run_to_end(lane.namespace("server"), ["nft", "list", "ruleset"], log)[1]
        arrived.append(int(text.partition("packets ")[2].split()[0]) - sum(arrived))
    # By chance: six standard errors. And one that is still owed.
    allowed = 6 * math.sqrt(packets * loss * (1 - loss)) + 2 * (loss > 0)
    assert [packets - count for count in arrived] == pytest.approx([packets * loss] * 2, abs=allowed)


@pytest.mark.root
@pytest.mark.usefixtures("clean_machine")
def test_a_program_that_cannot_be_used_says_why(tmp_path: Path, lane: Lane) -> None:
    system = definition.load_all()["forwarder"]
    off = ("ip", "link", "set", "dev", "{downlink}", "xdpdrv", "object", "{object}", "section", "nothing")
    path = system.datapath["xdp"]
    broken = path.model_copy(update={"prepare": (off,)})
    with pytest.raises(SutFault, match=r"`ip link set .*` ended with exit code .*nothing"):
        _running(tmp_path, lane, system.model_copy(update={"datapath": {"xdp": broken}}), "xdp").start()


def test_routers_know_the_signature_as_the_generator_writes_it() -> None:
    def defined(header: Path) -> dict[str, str]:
        words = [line.split() for line in header.read_text().splitlines() if line.startswith("#define PKTGEN_")]
        return {word[1]: word[2] for word in words if word[1] in ("PKTGEN_MAGIC", "PKTGEN_STAMP_BITS")}

    known_here = defined(lookup.PROGRAMS / "router" / "signature.h")
    assert len(known_here) == 2 and known_here == defined(lookup.CLONE / "lab" / "pktgen" / "bpf" / "abi.h")
    assert int(known_here["PKTGEN_MAGIC"], 16) == MAGIC


def test_without_the_sources_there_is_a_reason() -> None:
    system = definition.load_all()["forwarder"].model_copy(update={"programs": "elsewhere"})
    looked = lookup.find(system, {})
    assert isinstance(looked, lookup.Missing) and "/bpf/elsewhere is missing" in looked.reason


@pytest.mark.root
@pytest.mark.usefixtures("clean_machine")
def test_peers_of_an_xdp_forwarder_poll_for_as_long_as_it_needs_them(lane: Lane) -> None:
    lane.set_gro_on_peers("router")
    lane.set_gro("server", plan.SERVER_LINK, on=False)
    assert lane.features("server", plan.SERVER_LINK)["rx-gro"] and lane.features("client", plan.UPLINK)["rx-gro"]
    lane.set_gro("router", plan.DOWNLINK, on=True)
    lane.set_gro("router", plan.DOWNLINK, on=False)
    assert not lane.features("router", plan.DOWNLINK)["rx-gro"]


@pytest.fixture(params=["ideal", "realistic", "leaky"])
def router(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, ctypes.CDLL]:
    """sut/bpf/router/loss.h as the system compiles it, for this machine."""
    command = definition.load_all()["synthetic"].datapath[request.param].compile
    assert command
    given = [word for word in command if word.startswith("-D")]
    source, library = tmp_path / "loss.c", tmp_path / "loss.so"
    header = lookup.PROGRAMS / "router" / "loss.h"
    source.write_text(f'#include "{header}"\nunsigned long long loss(unsigned long long rate) {{ return loss_of(rate); }}\n')
    compiled = ["-shared", "-fPIC", "-O1", *given, str(source), "-o", str(library)]
    clang = lookup.program("clang", None, None)
    assert clang
    subprocess.run([str(clang), *compiled], check=True)
    loaded = ctypes.CDLL(str(library))
    loaded.loss.restype, loaded.loss.argtypes = ctypes.c_ulonglong, (ctypes.c_ulonglong,)
    return request.param, loaded


def _formula(name: str, rates: np.ndarray) -> np.ndarray:
    scale = paper_curves.SATURATION / known_curves.SATURATION
    if name == "ideal":
        declining = rates * scale > paper_curves.TRASHING
        decline = np.where(declining, np.maximum(0, 1 - (rates * scale - paper_curves.TRASHING) / paper_curves.DECLINE), 1)
        return np.maximum(0, 1 - decline * known_curves.SATURATION / rates)
    if name == "leaky":
        early = paper_curves.realistic(np.minimum(rates / known_curves.EARLY, known_curves.SATURATION) * scale)
        return np.where(rates <= known_curves.SATURATION, early, paper_curves.realistic(rates * scale))
    return paper_curves.realistic(rates * scale)


def test_the_known_loss_is_that_of_the_paper(router: tuple[str, ctypes.CDLL]) -> None:
    name, library = router
    rates = np.unique(np.geomspace(10, 1e6, 4000).astype(int))
    lost = np.array([library.loss(int(rate)) for rate in rates]) / 2**32
    assert lost == pytest.approx(_formula(name, rates.astype(float)), rel=1e-3, abs=1e-9)
    assert library.loss(0) <= 43 and library.loss(2**63) == 2**32


def test_the_known_answers_are_those_of_the_loss(router: tuple[str, ctypes.CDLL]) -> None:
    """Measured without any chance, on a grid as fine as one likes."""
    name, library = router
    answer = known_curves.ANSWERS[name]
    assert library.loss(int(answer.pdr * 0.9999)) / 2**32 < 0.005 < library.loss(int(answer.pdr * 1.0001)) / 2**32
    rates = np.array([0.475, 0.625, 0.775, 0.925, 1.075, 1.225, 1.375, 1.525]) * answer.pdr
    loss = np.array([library.loss(int(rate)) for rate in rates]) / 2**32
    sent = np.full((len(rates), 5), 10_000_000.0)
    found = judge(measure(rates, sent, sent * (1 - loss[:, None])))
    assert found.verdict["paper"] == answer.verdict
    if answer.verdict == "GOOD":
        assert found.saturated == pytest.approx(answer.saturated, rel=1e-3)
