# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Lanes whose clients have IPv4 and whose server has IPv6: static bindings lead there, and nothing else does."""

from collections.abc import Iterator
from ipaddress import IPv6Network
from pathlib import Path

import pytest

from diolkos_lab import studies
from diolkos_lab.experiment.definition import Subject
from diolkos_lab.sut import definition, lookup
from diolkos_lab.sut.running import RunningSystem
from diolkos_lab.topology import addresses as plan
from diolkos_lab.topology.lane import Lane, Shape
from diolkos_lab.topology.process import run_to_end

STUDY = studies.load("nat64-parallel")
INBOUND = [subject for subject in STUDY.system if subject.datapath.startswith("inbound")]


@pytest.fixture
def lane() -> Iterator[Lane]:
    pref64: IPv6Network = STUDY.topology.pref64
    with Lane("test", Shape(1, ipv6_only=False, offloads=True, pref64=pref64, mtu=1500, inbound=True)) as made:
        yield made


def test_the_study_has_both_directions_of_each_translator() -> None:
    outbound = {(subject.system, subject.datapath.rpartition("-")[2]) for subject in STUDY.system if subject.family == "ipv6"}
    places = {place for system, place in outbound if system == "diolkos"}
    assert places == {"tc", "inline", "direct", "tun"}
    assert {subject.datapath.rpartition("-")[2] for subject in INBOUND if subject.system == "diolkos"} == places
    assert {subject.system for subject in INBOUND} == {"diolkos", "tayga", "jool64", "p4swx", "p4bmv2"}
    native = ("native/kernel/ipv4/1", "native/kernel/ipv6/1")
    assert {(subject.family, STUDY.baselines(subject)) for subject in INBOUND} == {("ipv4", native)}
    streams = [load.streams for load in STUDY.form["full"].load if load.name == "tcp-upload"]
    assert streams == [1, 10, 20, 50]
    assert all(load.start_s == 10 for load in STUDY.form["full"].load if load.name == "tcp-upload"), "iperf3 -O 10"


@pytest.mark.root
@pytest.mark.usefixtures("clean_machine")
@pytest.mark.parametrize("subject", [s for s in INBOUND if s.system != "jool64"], ids=lambda subject: subject.key)
def test_a_binding_leads_from_ipv4_to_ipv6_and_nowhere_else(tmp_path: Path, lane: Lane, subject: Subject) -> None:
    found = lookup.find(definition.load_all()[subject.system], {})
    if not isinstance(found, lookup.Found):
        pytest.skip(f"{subject.system} is not on this host")

    def ping(*more: str) -> int:
        command = ["ping", "-n", "-c1", "-W1", *more, str(plan.POOL4)]
        return run_to_end(lane.namespace("client"), command, tmp_path / "out")[0]

    running = RunningSystem(found, subject, lane, tmp_path / "system")
    assert running.target == plan.POOL4 and running.server_family == "ipv6"
    assert running.keeps_state == (subject.system != "tayga"), "Tayga's explicit mapping remembers no flow"
    assert ping("-e", str(plan.BOUND)) != 0, "without a translator nothing answers"
    running.start()
    try:
        assert ping("-e", str(plan.BOUND)) == 0
        if subject.system == "diolkos":
            assert ping("-e", str(plan.BOUND + 1)) != 0, "there is no other binding"
    finally:
        running.stop()
