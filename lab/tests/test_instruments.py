# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What measures fails, on either side: it is nobody's result, and no rule is met by it.

The failures are those of instruments, the trials are recorded as a testbed records them, and the verdict is that of a study.
"""

import errno
import math
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from diolkos_lab import studies, summary
from diolkos_lab.experiment.cells import TrialCell, lane_cells, trial_cells
from diolkos_lab.faults import Fault, InstrumentFault
from diolkos_lab.load import iperf3, pktgen, registry
from diolkos_lab.load.reading import LoadFault
from diolkos_lab.outcome import Outcome, outcome
from diolkos_lab.run import testbed
from diolkos_lab.run.lane_servers import LaneServers
from diolkos_lab.stats import comparison, effects, rows
from diolkos_lab.stats.bounds import UNKNOWN
from diolkos_lab.stats.pairing import Samples
from diolkos_lab.sut import definition, lookup
from diolkos_lab.sut.program import SutFault
from diolkos_lab.verdict import verdicts

Make = Callable[..., dict[str, Any]]
STUDY = studies.load("clat")
BLOCKS = 8  # the first warms up
REFUSED = "iperf3: unable to connect to server"


def _ended(status: int | None, text: str = "", stopped: bool = False) -> Any:
    """A process that has ended with this status; None for one that runs."""
    how = "was killed by SIGKILL" if status == -9 else f"ended with exit code {status}"
    return SimpleNamespace(
        exit_status=status,
        is_stopped=stopped,
        command=["tool"],
        output=SimpleNamespace(read_text=lambda **_: text),
        how_it_ended=lambda: how,
        last_words=lambda: ["last words"],
    )


def _printed(load: str, status: int, text: str = "") -> Fault:
    """What the client of a load makes of its end."""
    with pytest.raises(Fault) as found:
        testbed._printed(_ended(status, text), registry.LOADS[load])  # type: ignore[index]
    return found.value


def _parsed(read: Callable[[], object]) -> Fault:
    with pytest.raises(Fault) as found:
        read()
    return found.value


PPS = registry.LOADS["pps"]
BUSY = '{"error": "error - the server is busy running a test. try again later"}'
# Name: what the trial ends with, and the server beside it.
INSTRUMENTS: dict[str, tuple[Callable[[], BaseException], str, Any]] = {
    **{
        f"{name} server killed": (lambda: LoadFault(REFUSED), name, _ended(-9))
        for name in ("iperf3", "authority", "nginx", "datagrams")
    },
    "server ended by itself": (lambda: LoadFault(REFUSED), "iperf3", _ended(1)),
    "server stopped": (lambda: LoadFault("no result within 5.0 s"), "iperf3", _ended(None, stopped=True)),
    "server of the trial before is busy": (lambda: _parsed(lambda: iperf3.report_of(BUSY)), "iperf3", _ended(None)),
    "ping killed": (lambda: _printed("ping", -9, "64 bytes from 2001:2::1"), "iperf3", _ended(None)),
    "curl killed under its shell": (lambda: _printed("http", 137, "0 200"), "nginx", _ended(None)),
    "dnsperf killed": (lambda: _printed("dns", -11), "authority", _ended(None)),
    "generator or sink failed": (lambda: _printed("pps", 1), "iperf3", _ended(None)),
    "generator printed nothing": (lambda: _parsed(lambda: pktgen.report("", "measured")), "iperf3", _ended(None)),
    "disk is full": (lambda: OSError(errno.ENOSPC, "No space left on device"), "iperf3", _ended(None)),
    "command of the lab hangs": (lambda: TimeoutError("nft did not end within 10 s"), "iperf3", _ended(None)),
}
SYSTEM: dict[str, tuple[Callable[[], BaseException], str, Any]] = {
    "it ended": (lambda: SutFault("diolkos was killed by SIGKILL", []), "iperf3", _ended(None)),
    "nothing comes through": (lambda: LoadFault("no result within 5.0 s"), "iperf3", _ended(None)),
    "nobody answers": (lambda: LoadFault(REFUSED), "iperf3", _ended(None)),
    "the client says so": (lambda: _printed("tcp-upload", 1), "iperf3", _ended(None)),
}


def _testbed(fault: BaseException, name: str, server: Any, alive: Callable[[], None] = lambda: None) -> testbed.Testbed:
    """One without a network, whose trial ends so."""
    made = testbed.Testbed.__new__(testbed.Testbed)
    servers = LaneServers.__new__(LaneServers)
    servers._wanted, servers._running = (SimpleNamespace(name=name),), {name: server}  # type: ignore[assignment, dict-item]
    servers.restart = lambda: None  # type: ignore[method-assign]
    made.failure, made._servers = None, servers
    made.lane, made._groups = SimpleNamespace(wake=lambda: False), {"server": None}  # type: ignore[assignment, dict-item]
    datapath = SimpleNamespace(is_native=True)
    made._system = SimpleNamespace(check_alive=alive, sessions=None, datapath=datapath)  # type: ignore[assignment]
    made._environment = SimpleNamespace(  # type: ignore[assignment]
        idle_wait=SimpleNamespace(wait=lambda: None), topology=SimpleNamespace(empty_conntrack=False)
    )

    def load(_: TrialCell) -> Any:
        raise fault

    made._load = load  # type: ignore[method-assign]
    return made


def _trial(made: testbed.Testbed) -> dict[str, Any]:
    form = STUDY.form["quick"]
    lanes = lane_cells(STUDY, form, {"native": lookup.find(definition.load_all()["native"], {})})
    cell = next(each for each in trial_cells(form, lanes) if each.load.name == "tcp-upload")
    return made.measure(TrialCell(cell.lane, cell.load), 1, 0).as_json()  # type: ignore[arg-type]


def _records(make: Make, side: str, failed: dict[str, Any], broken: int = 6, share: float = 0.3) -> list[dict[str, Any]]:
    """The system gets 0.3 of what native gets. In so many blocks the trial of one side is that of `failed`."""
    paths = [("native", {"family": family, "metrics": {"throughput": 100.0}}) for family in ("ipv6", "ipv4")]
    paths.append(("diolkos", {"datapath": "tc", "family": "ipv4", "metrics": {"throughput": 100.0 * share}}))
    found = []
    for block in range(BLOCKS):
        for system, path in paths:
            fails = system == side and 0 < block <= broken
            ended = {name: failed[name] for name in ("valid", "distrust", "error", "metrics", "series")} if fails else {}
            found.append(make(block=block, load="tcp-upload", system=system, **{**path, **ended}))
    return found


def _first(lines: list[dict[str, Any]]) -> dict[str, Any]:
    return verdicts(STUDY, Samples(lines), {})[0]


@pytest.mark.parametrize("side", ["native", "diolkos"])
@pytest.mark.parametrize(("fault", "name", "server"), [*INSTRUMENTS.values()], ids=[*INSTRUMENTS])
def test_an_instrument_that_fails_is_nobodys_result(
    record: Make, side: str, fault: Callable[[], BaseException], name: str, server: Any
) -> None:
    made = _testbed(fault(), name, server)
    failed = _trial(made)
    assert outcome(failed) is Outcome.INSTRUMENT_FAILED and failed["error"] is None and not failed["valid"]
    assert made.failure is None, "the system may go on"
    lines = _records(record, side, failed)
    found = _first(lines)
    assert found["outcome"] == "undecided" and found["ci95"] is None
    assert "in 6 an instrument of the lab failed" in found["sentence"]
    assert "infinite" not in found["sentence"] and "∞" not in found["sentence"]
    by_system = {row["system"]: row for row in rows.rows(STUDY, Samples(lines)) if row["metric"] == "throughput"}
    assert by_system[side]["instrument_failed_trials"] == 6 and by_system[side]["failed_trials"] == 0
    assert by_system["diolkos"]["ratio"] == pytest.approx(0.3), "of the block that is left"
    entry = summary.instrument_failures(lines)[0]
    assert entry["system"] == side and entry["trials"] == 6 and summary.failures(lines) == []
    assert _first(_records(record, side, failed, broken=1))["outcome"] == "not met", "six blocks are enough"


@pytest.mark.parametrize(("fault", "name", "server"), [*SYSTEM.values()], ids=[*SYSTEM])
def test_what_the_path_has_to_answer_for_is_its_worst_result(
    record: Make, fault: Callable[[], BaseException], name: str, server: Any
) -> None:
    failed = _trial(_testbed(fault(), name, server))
    assert outcome(failed) is Outcome.SYSTEM_FAILED
    found = _first(_records(record, "diolkos", failed, broken=5, share=1.0))
    assert found["outcome"] == "undecided" and found["value"] == 0.0, "it may be good in most blocks"
    assert _first(_records(record, "diolkos", failed, broken=7, share=1.0))["outcome"] == "not met"


@pytest.mark.parametrize(("fault", "name", "server"), [*SYSTEM.values()], ids=[*SYSTEM])
@pytest.mark.parametrize("broken", range(1, 8))
def test_a_baseline_that_fails_makes_nothing_fast(
    record: Make, broken: int, fault: Callable[[], BaseException], name: str, server: Any
) -> None:
    """The system stays at 0.3 of native, whatever becomes of native."""
    failed = _trial(_testbed(fault(), name, server))
    found = _first(_records(record, "native", failed, broken))
    assert found["outcome"] != "met" and "infinite" not in found["sentence"]
    assert found["value"] in (None, pytest.approx(0.3))
    if broken >= 4:
        assert found["value_bounds"] == [0.0, None], "most blocks say nothing"


def test_what_a_native_path_failed_at_is_not_held_against_its_next_load() -> None:
    """It has no program that could have ended. A system's may have, and is started again when the next block begins."""
    made = _testbed(LoadFault("UDP GSO: no datagram arrived"), "datagrams", _ended(None))
    assert _trial(made)["error"] == "UDP GSO: no datagram arrived"

    def next_one(_: TrialCell) -> Any:
        raise LoadFault("asked anew")

    made._load = next_one  # type: ignore[method-assign]
    assert _trial(made)["error"] == "asked anew"
    made._system.datapath.is_native = False  # type: ignore[misc]
    made._load = lambda _: pytest.fail("its program is not there")  # type: ignore[method-assign]
    assert _trial(made)["error"] == "asked anew"


def test_a_system_that_has_ended_failed_whatever_became_of_the_instruments() -> None:
    def dead() -> None:
        raise SutFault("diolkos was killed by SIGKILL", [])

    for fault in (InstrumentFault("diolkos-pktgen: no output"), LoadFault(REFUSED), OSError(errno.ENODEV, "No such device")):
        assert outcome(_trial(_testbed(fault, "iperf3", _ended(-9), dead))) is Outcome.SYSTEM_FAILED


def test_a_stopped_process_is_seen(tmp_path: Path) -> None:
    """As `LaneServers` asks for it."""
    servers = LaneServers.__new__(LaneServers)
    servers._wanted = (SimpleNamespace(name="iperf3"),)  # type: ignore[assignment]
    for process, says in ((None, "does not run"), (_ended(3), "exit code 3"), (_ended(None, stopped=True), "stands still")):
        servers._running = {"iperf3": process} if process else {}
        with pytest.raises(InstrumentFault, match=f"the server iperf3 .*{says}"):
            servers.check_alive()
    servers._running = {"iperf3": _ended(None)}
    servers.check_alive()


def test_tails_hold_the_packets_of_trials_that_failed(record: Make) -> None:
    """One trial of ten failed: a tenth of the echoes never came back."""
    echoes = {"rtt": {"t": [0.1] * 100, "y": [0.001] * 100}}
    lines = [record(block=block, load="ping", metrics={"rtt": 0.001}, series=echoes) for block in range(1, 11)]
    lines[3] |= {"valid": False, "error": "it died", "metrics": {}, "series": {}}
    (row,) = (row for row in rows.rows(STUDY, Samples(lines)) if row["metric"] == "rtt")
    assert row["median"] == 0.001 and row["min"] == 0.001
    assert [row[name] for name in ("mean", "sd", "max", "p95", "p99")] == [None] * 5


def test_a_baseline_that_fails_is_no_change_between_two_runs(record: Make) -> None:
    """In the second run native fails in some blocks. The system, as fast as before, has not become slower than native."""
    died = {"valid": False, "distrust": [], "error": "it died", "metrics": {}, "series": {}}
    runs = [Samples(_records(record, "native", died, broken, share=1.0)) for broken in (0, 3)]
    changes = comparison.compare(runs[0], runs[1], {"diolkos/tc/ipv4/1": "native/kernel/ipv6/1"})
    (change,) = (each for each in changes if each.relative)
    assert change.medians == (1.0, 1.0) and change.change == 1.0 and not change.significant


def test_a_level_that_fails_makes_the_other_no_better() -> None:
    """What a factor does is told by ratios, and one to nothing tells nothing."""
    assert math.isnan(effects._log(UNKNOWN))
    assert effects._chance([math.nan] * 20) is None
    assert effects._chance([math.nan] * 20 + [0.1] * 8) == effects._chance([0.1] * 8)
