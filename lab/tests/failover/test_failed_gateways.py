# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What a trial with gateways comes to when something dies: gateways, or what measures them."""

import contextlib
import errno
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from failover_runs import GOOD, read, row, study

from diolkos_lab import every_trial
from diolkos_lab.experiment.failover import FaultName
from diolkos_lab.failover import command, disruptions, processors, traffic, trial
from diolkos_lab.failover.cluster import Cluster
from diolkos_lab.failover.gateways import GatewayFault, Gateways
from diolkos_lab.failover.trial import Planned
from diolkos_lab.faults import Fault, InstrumentFault
from diolkos_lab.outcome import Outcome, outcome
from diolkos_lab.run.guards import Objection
from diolkos_lab.samples.records import TrialRecord
from diolkos_lab.topology.control_group import ProcessTree

PLANNED = Planned("cluster", study().fault[0], 0, 1)
INSTRUMENTS: list[Exception] = [
    Fault("bgpd in gw1 does not get ready"),
    InstrumentFault("the server of many was killed by SIGKILL"),
    OSError(errno.ENOSPC, "No space left on device"),
    KeyError("many-server"),
    ValueError("Expecting value: line 1 column 1"),
]


def _run(monkeypatch: pytest.MonkeyPatch, fault: Exception, tmp_path: Path) -> dict[str, Any]:
    """A trial that ends so before its traffic begins."""

    def build(*_: object) -> Cluster:
        raise fault

    monkeypatch.setattr(trial, "Network", lambda _: contextlib.nullcontext())
    monkeypatch.setattr(trial.clusters, "build", build)
    return trial.run(study(), study().traffic, PLANNED, Path("/nonexistent"), tmp_path / "trial")


@pytest.mark.parametrize("fault", INSTRUMENTS, ids=lambda fault: type(fault).__name__)
def test_an_instrument_that_fails_decides_nothing(monkeypatch: pytest.MonkeyPatch, fault: Exception, tmp_path: Path) -> None:
    found = _run(monkeypatch, fault, tmp_path)
    assert outcome(found) is Outcome.INSTRUMENT_FAILED
    judged = every_trial.judge(study(), [found] * 6)
    assert {each.verdict for each in judged} == {"undecided"}


def test_gateways_that_do_not_start_are_the_worst_result(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = _run(monkeypatch, GatewayFault("diolkos in gw1 ended with exit code 1"), tmp_path)
    assert outcome(found) is Outcome.SYSTEM_FAILED
    assert [found["metrics"][name] for name in ("flows", "established", "kept_share")] == [100_000, 0, 0.0]
    assert (found["metrics"].get("gap_s"), found["bounds"]["gap_s"]) == (None, [0.0, None])
    judged = {each.rule.quantity: each.verdict for each in every_trial.judge(study(), [found]) if each.trials}
    assert judged and set(judged.values()) == {"not met"}
    assert TrialRecord.model_validate(found).error == "diolkos in gw1 ended with exit code 1"


# ---- traffic


def _process(status: int | None) -> Any:
    return SimpleNamespace(exit_status=status, how_it_ended=lambda: "was killed", last_words=lambda *_: [], kill=lambda: None)


def _running(tmp_path: Path, **changes: int | None) -> traffic.Running:
    """At its end; `many_client=1` changes how a program has ended."""
    ends = {"client": dict.fromkeys(traffic.MEASURING, 0), "server": dict.fromkeys(traffic.SETS, 0)}
    statuses: dict[str, dict[str, int | None]] = {"client": {**ends["client"]}, "server": {**ends["server"]}}
    statuses["server"] |= {"connections": None, "files": None, "stream-0": None}
    statuses["client"] |= {"download-0": 0, "stream-0": 0}
    for name, status in changes.items():
        program, _, end = name.rpartition("_")
        statuses[end][program.replace("_", "-")] = status
    clients, servers = ({name: _process(status) for name, status in statuses[end].items()} for end in ("client", "server"))
    return traffic.Running(tmp_path, traffic.Times(0, 0, 0), "", servers, clients)


@pytest.mark.parametrize(
    "end",
    [
        *(f"{name}_client" for name in traffic.MEASURING),
        *(f"{name}_server" for name in (*traffic.SETS, "connections", "files", "stream_0")),
    ],
)
def test_a_program_of_the_lab_that_dies_is_no_loss_of_the_gateways(tmp_path: Path, end: str) -> None:
    with pytest.raises(InstrumentFault, match=end.partition("_")[0]):
        _running(tmp_path, **{end: -9}).finish()


def test_an_application_that_breaks_off_is_a_result(tmp_path: Path) -> None:
    assert _running(tmp_path).finish() == {"downloads": 1, "downloads_whole": 1}
    broken = _running(tmp_path, download_0_client=28, stream_0_client=1)
    assert broken.finish() == {"downloads": 1, "downloads_whole": 0}
    broken.wait_for_fault(0.0)


# ---- CPU time


@pytest.mark.parametrize(
    ("used_s", "share", "expected"),
    [
        ([0.0, 0.1, 2.0, 2.1], 0.95, Outcome.MEASURED),  # of two CPUs, in the second second
        ([0.0, 0.5, 1.0, 1.5], 0.25, Outcome.UNTRUSTED),
    ],
)
def test_gateways_that_take_the_cpus_do_not_excuse_themselves_by_a_late_generator(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, used_s: list[float], share: float, expected: Outcome
) -> None:
    late = Objection("generator", "the generator of fine was 0.20 s late")
    times = traffic.Times(0, 0, 100_000_000_000)
    running = SimpleNamespace(
        times=times, folder=tmp_path, wait_for_fault=lambda _: None, finish=lambda: {"downloads": 0, "downloads_whole": 0}
    )
    monkeypatch.setattr(trial.traffic, "start", lambda *_: running)
    monkeypatch.setattr(trial, "_downs", lambda *_: 0)
    monkeypatch.setattr(trial.disruptions, "carry_out", lambda *_: [SimpleNamespace(begun_ns=0, ended_ns=0)])
    monkeypatch.setattr(trial.evaluate, "row", lambda *_: {**GOOD, "guards": [late]})
    cpus = processors.Watch(ProcessTree(), 2)
    for second, each in enumerate(used_s):
        cpus.note(second, each)
    observed = trial._observe(study().traffic, PLANNED, SimpleNamespace(network=None), tmp_path, cpus)  # type: ignore[arg-type]
    found = trial.line(PLANNED, observed)
    assert outcome(found) is expected
    assert (found["metrics"]["gap_s"], found["metrics"]["gateways_cpu_share"]) == (0.2, pytest.approx(share))
    assert [*(each["detail"] for each in found["distrust"]), *found.get("late_by_gateways", [])] == [late.detail]
    assert TrialRecord.model_validate(found).late_by_gateways == found.get("late_by_gateways", [])


def test_what_gateways_run_is_counted_while_it_is_watched(tmp_path: Path) -> None:
    group = ProcessTree()
    with processors.Watch(group) as cpus:
        pass
    assert cpus.share == 0.0 and not cpus.blames_gateways


# ---- routing, engine, faults


def test_gateways_are_excused_by_a_router_or_a_member_that_has_ended() -> None:
    def cluster(etcd: int | None = None, bgpd: int | None = None) -> Cluster:
        routing = SimpleNamespace(processes=(SimpleNamespace(command=["bgpd"], **vars(_process(bgpd))),))
        engine = SimpleNamespace(processes={"etcd1": _process(etcd)})
        return Cluster(None, engine, {"ri": routing}, None)  # type: ignore[arg-type, dict-item]

    cluster().require_instruments()
    for ended, says in ((cluster(etcd=-9), "etcd1 was killed"), (cluster(bgpd=1), "bgpd of ri was killed")):
        with pytest.raises(InstrumentFault, match=says):
            ended.require_instruments()


@pytest.mark.parametrize(("name", "raises"), [("drain-gateway", GatewayFault), ("cut-lan", InstrumentFault)])
def test_a_fault_without_effect_is_the_labs_unless_the_gateway_was_told(
    monkeypatch: pytest.MonkeyPatch, name: FaultName, raises: type[Fault]
) -> None:
    monkeypatch.setattr(disruptions, "QUIET_S", 0.0)
    monkeypatch.setattr(disruptions, "EFFECT_S", 0.0)
    never: dict[FaultName, Callable[[Cluster, str], bool]] = {name: lambda *_: False}
    monkeypatch.setattr(disruptions, "EFFECTS", never)
    with pytest.raises(raises, match=f"{name} of gw1 had no effect"):
        disruptions._require_effect(None, name, "gw1")  # type: ignore[arg-type]


def test_a_command_that_hangs_is_a_gateway_that_does_not_drain(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from diolkos_lab.failover import gateways  # noqa: PLC0415  its clock is set forward

    def hangs(command: list[str], **_: object) -> None:
        raise gateways.subprocess.TimeoutExpired(command, 60)

    monkeypatch.setattr(gateways.subprocess, "run", hangs)
    network = SimpleNamespace(namespace=lambda name: name)
    made = Gateways(network, "cluster", Path("diolkos"), tmp_path, None)  # type: ignore[arg-type]
    with pytest.raises(GatewayFault, match="gw1 is not drained: no answer within 60 s"):
        made.drain("gw1")
    assert made.status("gw1") == {} and made.counters("gw1") == {}


# ---- what decides nothing is repeated


@pytest.mark.parametrize(
    ("bad", "rows"),
    [
        (lambda number: number == 0, 8 + 1),
        (lambda _: True, 2 * 8),
        (lambda _: False, 8),
    ],
)
def test_what_decides_nothing_is_repeated_and_a_run_comes_to_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad: Callable[[int], bool], rows: int
) -> None:
    made: list[Planned] = []

    def measured(_study: object, _flows: object, planned: Planned, *_: object) -> dict[str, Any]:
        made.append(planned)
        broken = {"guards": ["the generator of fine was 0.20 s late"]} if bad(len(made) - 1) else {}
        return row(planned.fault.name, planned.kind, planned.repetition, **broken)

    monkeypatch.setattr(trial, "run", measured)
    monkeypatch.setattr(command, "lacks", dict)
    monkeypatch.setattr(command.os, "geteuid", lambda: 0)
    monkeypatch.setattr(command.leftovers, "clean", lambda: None)
    program = tmp_path / "diolkos"
    program.write_text("#!/bin/sh\necho diolkos 0.9.0\n")
    program.chmod(0o755)
    command.measure(study(), "quick", tmp_path / "out", 1, str(program), lambda _: None)
    found = read(tmp_path / "out")
    assert (len(found.trials), found.done, found.planned) == (rows, 8, 8)
    again = [planned for planned in made if planned.attempt > 1]
    assert all((each.kind, each.fault, each.victim) in {(p.kind, p.fault, p.victim) for p in made[:8]} for each in again)
    assert max(planned.attempt for planned in made) <= trial.TRIES
    assert study().form["quick"].repetitions == 1
