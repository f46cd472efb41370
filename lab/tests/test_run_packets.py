# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Load–loss curves from the definition to the report: a generator with a formula inside, and who runs where."""

import json
import os
from collections.abc import Iterator
from ipaddress import IPv6Network
from pathlib import Path
from typing import Any

import pytest

from diolkos_lab import report, run_study
from diolkos_lab.outcome import Outcome, outcome
from diolkos_lab.run import placement
from diolkos_lab.run.placement import CpuPinning, CpuRoles, assign_cpus
from diolkos_lab.topology.lane import Lane, Shape
from diolkos_lab.topology.process import Process
from diolkos_lab.topology.scheduling import FIRST, SLICE_NS, slice_ns
from observer import Silent

HERE = Path(__file__).parent
SATURATION = 1e6
PDR = SATURATION * 0.9498  # where 10 ** (-8 + 6x) is 0.5 %


@pytest.fixture
def double(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIOLKOS_PKTGEN", str(HERE / "doubles" / "pktgen"))
    monkeypatch.setenv("SATURATION", str(SATURATION))


def _run(tmp_path: Path) -> tuple[Any, dict[str, Any]]:
    request = run_study.RunRequest(str(HERE / "study_packets.toml"), True, (), tmp_path / "r", 1, {})
    return run_study.run(request, Silent())


def _made_again(trials: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those that were made in place of one that guards object to: one for each, when the others of the block are done."""
    found: list[dict[str, Any]] = []
    for block in {trial["block"] for trial in trials} - {0}:
        mine = [trial for trial in trials if trial["block"] == block]
        doubtful = [trial for trial in mine if trial["distrust"]]
        again = mine[len(mine) - len(doubtful) :]
        assert sorted(map(_where, again)) == sorted(map(_where, doubtful))
        found += again
    return found


def _where(trial: dict[str, Any]) -> str:
    return json.dumps([trial[name] for name in ("system", "datapath", "factors")])


@pytest.mark.root
@pytest.mark.usefixtures("clean_machine", "double")
def test_a_sweep_gives_the_known_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LATE", "0.01")
    result, summary = _run(tmp_path)
    assert [trial["error"] for trial in result.trials if trial["error"]] == []
    late = [trial for trial in result.trials if trial["distrust"]]
    again = _made_again(result.trials)
    assert bool(again) == any(trial["block"] for trial in late)
    assert {entry["guard"] for trial in late for entry in trial["distrust"]} == {"pace"}, "late bursts, and nothing else"
    assert len(summary["curves"]) == 2
    for curve in summary["curves"]:
        assert curve["trusted"] and curve["distrusted"] < curve["trials"]
        # So narrow that chance puts the PDR on either side of an end of it.
        assert curve["bracket"][1] / curve["bracket"][0] < 1.025
        assert curve["pdr_0_5_pps"] == pytest.approx(PDR, rel=0.02)
        assert curve["verdict"]["paper"] == "GOOD"
        assert not curve["generator_bound"], "alone it is ten times as fast"
    assert result.host["seats"]["apart"].keys() == {"generator", "system", "sink"}
    [row] = [row for row in summary["rows"] if row["system"] == "nat44"]
    assert row["ratio"] == pytest.approx(1, abs=0.05)
    steps = [trial for trial in result.trials if not trial["factors"]["refines"] and trial not in again]
    blocks = [[trial["factors"]["offered"] for trial in steps if trial["block"] == block] for block in (1, 2)]
    assert sorted(blocks[0]) == sorted(blocks[1]) and blocks[0] != sorted(blocks[0]), "the same rates in random order"
    assert "2 of 2 curves are GOOD" in report.write(tmp_path / "r").read_text()


@pytest.mark.root
@pytest.mark.usefixtures("clean_machine")
def test_a_generator_that_fails_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIOLKOS_PKTGEN", str(HERE / "doubles" / "dies_at_once"))
    result, summary = _run(tmp_path)
    assert result.trials and {outcome(trial) for trial in result.trials} == {Outcome.INSTRUMENT_FAILED}
    assert summary["curves"] == []
    assert report.write(tmp_path / "r").exists()


def test_roles_follow_the_number_of_cpus() -> None:
    assert assign_cpus("apart", [0, 1]) == CpuRoles(generator=1, system=0, sink=0)
    assert assign_cpus("apart", [0, 1, 2, 3]) == CpuRoles(generator=3, system=0, sink=1)
    assert assign_cpus("apart", [5]) == assign_cpus("one-cpu", [5]) == CpuRoles(5, 5, 5)
    assert assign_cpus("free", [0, 1]) == CpuRoles(None, None, None)


@pytest.fixture
def lane() -> Iterator[Lane]:
    with Lane("test", Shape(1, False, True, IPv6Network("64:ff9b::/96"), 1500)) as made:
        yield made


@pytest.mark.root
@pytest.mark.usefixtures("clean_machine")
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_apart_the_first_device_of_the_path_has_a_thread_on_a_cpu_of_its_own(lane: Lane, tmp_path: Path) -> None:
    cpus = sorted(os.sched_getaffinity(0))
    pinning = CpuPinning(lane, cpus, tmp_path)
    system = Process(lane.namespace("router"), ["sleep", "10"], tmp_path / "out", tmp_path / "err")
    try:
        chosen = pinning.apply("apart", [system.pid])
        assert len(pinning.threads) == 1
        assert os.sched_getaffinity(pinning.threads[0]) == os.sched_getaffinity(system.pid) == {chosen.system}
        assert chosen.generator != chosen.system
        thread = pinning.threads[0]
        assert os.getpriority(os.PRIO_PROCESS, thread) == os.getpriority(os.PRIO_PROCESS, system.pid) == FIRST
        assert slice_ns(thread) == slice_ns(system.pid) == (slice_ns(0) and SLICE_NS), "where the kernel has slices"
        pinning.apply("apart", [system.pid])
        assert pinning.threads == [thread], "devices are left alone when nothing changes"

        pinning.apply("free", [system.pid])
        assert pinning.threads == [] and thread not in placement._threads("down0")
        assert os.sched_getaffinity(system.pid) == set(cpus)
        assert lane.features("router", "down0")["rx-gro"], "frames of XDP enter only with it"
        pinning.release()
        assert not lane.features("router", "down0")["rx-gro"]
    finally:
        system.kill()
