# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A whole run in this process: it works, and every fault of a system under test becomes part of the record."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from diolkos_lab import run_study
from diolkos_lab.faults import MissingFault
from diolkos_lab.run import testbed
from diolkos_lab.samples import folder
from diolkos_lab.sut import lookup, program, running
from diolkos_lab.topology import namespace
from observer import Silent

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("clean_machine")]
HERE = Path(__file__).parent
SMALL = str(HERE / "study_small.toml")


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(program, "READY_S", 1.0)
    monkeypatch.setattr(running, "REACHABLE_S", 1.5)
    monkeypatch.setattr(testbed, "PATIENCE_S", 3.0)
    yield


def _run(tmp_path: Path, double: str) -> tuple[folder.Result, dict[str, Any]]:
    request = run_study.RunRequest(SMALL, True, (), tmp_path / "r", 1, {"diolkos": str(HERE / "doubles" / double)})
    return run_study.run(request, Silent())


def test_a_run_measures_translates_and_leaves_a_readable_result(tmp_path: Path) -> None:
    result, summary = _run(tmp_path, "working")
    assert [trial for trial in result.trials if trial["error"]] == []
    assert [trial["distrust"] for trial in result.trials if trial["distrust"]] == [], "it went through the TUN device as IPv6"
    cells = {(trial["block"], trial["system"], trial["load"]) for trial in result.trials}
    assert len(cells) == len(result.trials) == 2 * 2 * 3
    rows = {(row["system"], row["load"], row["metric"]): row for row in summary["rows"]}
    assert 0 < rows["diolkos", "tcp-upload", "throughput"]["ratio"] < 1
    assert rows["diolkos", "ping", "rtt"]["ratio"] > 0
    assert rows["native", "tcp-upload", "cpu_s_per_gb"]["median"] > 0
    shares = [t["metrics"]["system_share"] for t in result.trials if t["system"] == "diolkos" and t["load"] != "ping"]
    assert all(share > 0.01 for share in shares), "the double is a script: the translator is its child"
    assert all(t["metrics"]["cpu_s_per_gb"] > 0 for t in result.trials if t["load"] != "ping")
    assert summary["failures"] == summary["missing"] == []
    assert summary["verdicts"][0]["outcome"] == "undecided", "one block decides nothing"
    host = json.loads((tmp_path / "r" / "host.json").read_text())
    assert host["veth"]["offloads"]["on"]["tx-tcp-segmentation"] is True
    assert host["systems"]["diolkos"]["version"] == "double 1.0"


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("double", "reason"),
    [
        ("dies_at_once", "diolkos: dies_at_once ended with exit code 3; its last words: no such uplink"),
        ("never_ready", 'did not print "ready" within 1 s; its last words: still looking for a prefix'),
        ("never_answers", "192.0.0.171 did not answer through it within 1.5 s; its last words: ready, it says"),
        ("deaf", 'did not print "ready" within 1 s; its last words: no prefix, and no ear for signals'),
    ],
)
def test_a_system_that_does_not_work_is_recorded_and_the_study_goes_on(tmp_path: Path, double: str, reason: str) -> None:
    result, summary = _run(tmp_path, double)
    failed = [trial for trial in result.trials if trial["system"] == "diolkos"]
    assert failed and all(reason in trial["error"] and not trial["valid"] for trial in failed)
    assert all(trial["valid"] for trial in result.trials if trial["system"] == "native")
    assert len([trial for trial in result.trials if trial["system"] == "native"]) == 2 * 3
    assert reason in summary["failures"][0]["reason"]
    assert "not decided" in summary["verdicts"][0]["sentence"]


@pytest.mark.usefixtures("impatient")
def test_a_system_that_dies_in_the_middle_is_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIE_AFTER", "0.9")
    monkeypatch.setattr(running, "REACHABLE_S", 5.0)
    result, summary = _run(tmp_path, "working")
    failed = [trial for trial in result.trials if trial["error"]]
    assert failed and {trial["system"] for trial in failed} == {"diolkos"}
    assert all("diolkos: working was killed by SIGKILL; its last words: " in trial["error"] for trial in failed)
    assert any("the double was told to die" in trial["error"] for trial in failed)
    assert {trial["block"] for trial in failed} == {0, 1}, "the second block started it again, and it died again"
    assert sum(entry["trials"] for entry in summary["failures"]) == len(failed)


def test_a_command_of_the_lab_that_takes_too_long_is_nobodys_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What prepares a load does not come back, once: the run goes on, and so does the path."""
    original = testbed.Testbed._prepare
    slow: list[bool] = []

    def once_slow(self: testbed.Testbed, *arguments: Any) -> None:
        if self.cell.subject.system == "diolkos" and not slow:
            slow.append(True)
            raise TimeoutError("nft took longer than 10 s")
        original(self, *arguments)

    monkeypatch.setattr(testbed.Testbed, "_prepare", once_slow)
    result, summary = _run(tmp_path, "working")
    assert [trial["error"] for trial in result.trials if trial["error"]] == []
    (failure,) = summary["instrument_failures"]
    assert (failure["reason"], failure["trials"]) == ("nft took longer than 10 s", 1)
    assert any(trial["system"] == "diolkos" and trial["valid"] for trial in result.trials)


@pytest.mark.parametrize("side", ["native", "diolkos"])
def test_a_server_of_the_lab_that_dies_is_started_again_and_its_trial_made_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, side: str
) -> None:
    """On the path of the system as on the native one: it gives neither a result, and the trial is repeated in its block."""
    original = testbed.Testbed._wait
    killed: list[str] = []

    def kill_server(self: testbed.Testbed, client: Any, patience_s: float) -> float:
        if self.cell.subject.system == side and client.command[0] == "iperf3" and self._serial > 3 and not killed:
            assert self._servers
            killed.append("iperf3")
            self._servers._running["iperf3"].kill()
        return original(self, client, patience_s)

    monkeypatch.setattr(testbed.Testbed, "_wait", kill_server)
    _, summary = _run(tmp_path, "working")
    assert killed and summary["failures"] == []
    (failure,) = summary["instrument_failures"]
    assert failure["system"] == side and failure["reason"].startswith("the server iperf3 was killed by SIGKILL")
    assert all(row["blocks"] == 1 for row in summary["rows"]), "it was made again"
    assert not any(row["failed_trials"] for row in summary["rows"])


def test_a_load_that_gets_no_answer_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The translator lives but passes nothing more: the trial ends after its patience, not never."""
    monkeypatch.setattr(testbed, "PATIENCE_S", 2.0)
    original = running.RunningSystem.check_alive
    blocked: list[bool] = []

    def block_after_start(self: running.RunningSystem) -> None:
        original(self)
        if self.subject.system == "diolkos" and self._ready and not blocked:
            blocked.append(True)
            with namespace.netlink(self.place) as route:
                route.link("set", index=route.link_lookup(ifname="up0")[0], state="down")

    monkeypatch.setattr(running.RunningSystem, "check_alive", block_after_start)
    result, _ = _run(tmp_path, "working")
    assert blocked
    failed = [trial for trial in result.trials if trial["error"]]
    assert failed and {trial["system"] for trial in failed} == {"diolkos"}


def test_a_missing_system_is_skipped_with_its_reason_or_refused_when_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookup, "BESIDE", tmp_path)
    monkeypatch.delenv("DIOLKOS", raising=False)
    observer = Silent()
    result, summary = run_study.run(run_study.RunRequest(SMALL, True, (), tmp_path / "r", 1), observer)
    assert observer.missing == ["diolkos"]
    (entry,) = summary["missing"]
    assert entry["system"] == "diolkos" and "not on this host" in entry["reason"] and "make build" in entry["how"]
    assert {trial["system"] for trial in result.trials} == {"native"}
    with pytest.raises(MissingFault, match="Diolkos cannot run here: the program diolkos is not on this host; build it"):
        run_study.run(run_study.RunRequest(SMALL, True, ("diolkos",), tmp_path / "s", 1), observer)
    assert not (tmp_path / "s").exists()
