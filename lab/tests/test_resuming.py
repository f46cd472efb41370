# SPDX-License-Identifier: Apache-2.0 OR MIT
"""An interrupted run goes on: what is whole stays, what is half is made again, and nothing is mixed that differs."""

import fcntl
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from diolkos_lab import resuming, run_study
from diolkos_lab.experiment import document
from diolkos_lab.experiment.definition import Study
from diolkos_lab.faults import UsageFault
from diolkos_lab.samples import folder, host, unfinished
from observer import Silent

HERE = Path(__file__).parent
DOUBLE = HERE / "doubles" / "working"
SMALL = (HERE / "study_small.toml").read_text()
HEAD, *LOADS = SMALL[: SMALL.index("# The tests run")].split("[[form.quick.load]]")
# Pings alone, so that a block takes a second.
PINGS = HEAD.replace("blocks = 2", "blocks = 4") + "[[form.quick.load]]" + LOADS[-1]
PINGS += "[guards]\nforeign_cpu_share = 1.0\nsteal_share = 1.0\ndrop_ratio = 1.0\n"
# A run that the kernel ends, without a word, after a trial in the middle of block 3.
KILLED = """
import os, signal, sys
from pathlib import Path
from diolkos_lab import run_study
from observer import Silent

class Deadly(Silent):
    def trial_done(self, trial, session):
        super().trial_done(trial, session)
        if trial.block == 3:
            os.kill(os.getpid(), signal.SIGKILL)

study, out, double = sys.argv[1:]
run_study.run(run_study.RunRequest(study, True, (), Path(out), 5, {"diolkos": double}), Deadly())
"""
Trial = dict[str, Any]


def _trial(block: int, **more: Any) -> Trial:
    return {"block": block, "started": f"2026-01-01T00:{block:02}:00+00:00", "duration": 1.0, **more}


def _result(blocks: list[int], **facts: Any) -> folder.Result:
    study = document.parse(PINGS, Path("study.toml"), Study)
    return folder.Result(Path("r"), study, facts, {}, [_trial(block) for block in blocks])


@pytest.mark.parametrize(
    ("blocks", "starts", "kept"),
    [
        ([], [1], []),
        ([0, 0], [1], []),  # in the warm-up
        ([0, 0, 1, 1], [1], []),  # block 1 may be half; a warm-up alone is worth nothing
        ([0, 0, 1, 1, 2], [1], [0, 0, 1, 1]),
        ([0, 1, 1, 2, 2], [], [0, 1, 1]),  # of an older lab
        ([0, 1, 1, 0, 0], [1, 2], [0, 1, 1]),  # killed while it warmed up again
        ([0, 1, 1, 0, 2, 2], [1, 2], [0, 1, 1, 0]),
        ([0, 1, 1], [1, 2], [0, 1, 1]),  # killed before it warmed up again: block 1 was found whole
        ([0, 1, 0, 2, 3], [1, 2], [0, 1, 0, 2]),
    ],
)
def test_blocks_are_whole_when_a_later_one_was_begun(blocks: list[int], starts: list[int], kept: list[int]) -> None:
    result = _result(blocks, parts=[{"next_block": block} for block in starts])
    found = unfinished.look(result)
    assert [trial["block"] for trial in found.kept] == kept
    assert [*found.kept, *found.left_out] == result.trials


def test_time_between_two_parts_does_not_count() -> None:
    result = _result([0, 1, 2, 0, 7, 8, 9], parts=[{"next_block": 1}, {"next_block": 7}])
    assert unfinished.look(result).seconds == (60 + 1) + (60 + 1)


@pytest.fixture
def half(tmp_path: Path) -> Path:
    """A folder as a kill leaves it: two whole blocks, half of the third, and a torn line."""
    study = document.parse(PINGS, tmp_path / "study.toml", Study)
    order = run_study.RunRequest("", True, paths={"diolkos": str(DOUBLE)})
    found, _ = run_study.choose(study, order)
    header = {"quick": True, "seed": 5, "started": "2026-01-01T00:00:00+00:00", "missing": []}
    writer = folder.Writer(tmp_path / "half", study, run_study.resolved(found), header)
    writer.host({**host.facts(), "parts": [{"next_block": 1}], "complete": False})
    writer.close()
    return tmp_path / "half"


def _edit(change: Callable[[dict[str, Any]], None]) -> Callable[[Path], None]:
    def edit(where: Path) -> None:
        facts = json.loads((where / "host.json").read_text())
        change(facts)
        (where / "host.json").write_text(json.dumps(facts))

    return edit


def _study(before: str, after: str) -> Callable[[Path], None]:
    def edit(where: Path) -> None:
        text = (where / "study.toml").read_text()
        assert before in text
        (where / "study.toml").write_text(text.replace(before, after, 1))

    return edit


def _resume(where: Path, **order: Any) -> None:
    resuming.resume(
        run_study.RunRequest(order.pop("study", ""), order.pop("quick", False), resume=where, **order), Silent(), print
    )


@pytest.mark.root
@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (_edit(lambda facts: facts.update(kernel="5.4.0")), "kernel was “5.4.0” and is “"),
        (_edit(lambda facts: facts.update(hostname="elsewhere")), "hostname was “elsewhere” and is “"),
        (_edit(lambda facts: facts["versions"].update(iperf3="iperf 2.0")), "versions.iperf3 was “iperf 2.0” and is “"),
        (_study("double 1.0", "double 0.9"), "diolkos was version “double 0.9” and is “double 1.0”"),
        (_study('sha256 = "', 'sha256 = "00'), "the program of diolkos was changed since the run began"),
        (_study(str(DOUBLE), "/nowhere/diolkos"), "the program /nowhere/diolkos of diolkos is gone"),
    ],
)
def test_what_differs_is_refused_in_one_sentence(half: Path, change: Callable[[Path], None], sentence: str) -> None:
    change(half)
    before = (half / "samples.jsonl").read_bytes()
    with pytest.raises(UsageFault) as raised:
        _resume(half)
    assert (
        sentence in str(raised.value) and str(raised.value).startswith(f"{half}: ") and "diolkos-lab merge" in str(raised.value)
    )
    assert (half / "samples.jsonl").read_bytes() == before


@pytest.mark.root
def test_what_the_command_line_asks_for_has_to_be_the_same(half: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageFault, match="has the seed 5, not 6; leave --seed out"):
        _resume(half, seed=6)
    with pytest.raises(UsageFault, match="leave --only out"):
        _resume(half, only=("diolkos",))
    with pytest.raises(UsageFault, match="holds the study small, not clat; leave STUDY out"):
        _resume(half, study="clat")
    (tmp_path / "mine.toml").write_text(PINGS.replace("count = 12", "count = 13"))
    with pytest.raises(UsageFault, match="cannot resume: `form` of the study small differs from when the run began"):
        _resume(half, study=str(tmp_path / "mine.toml"))
    with pytest.raises(UsageFault, match="there is nothing of that name"):
        _resume(tmp_path / "nothing")


@pytest.mark.root
def test_a_folder_into_which_a_run_still_writes_is_left_alone(half: Path) -> None:
    descriptor = os.open(half, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        with pytest.raises(UsageFault, match="a run still writes into it; wait for its end, or stop it"):
            _resume(half)
    finally:
        os.close(descriptor)


@pytest.mark.root
@pytest.mark.usefixtures("clean_machine")
def test_a_run_that_was_killed_goes_on(tmp_path: Path) -> None:
    """Twice: in the middle of a block, with a line torn; and when all is there."""
    study, out = tmp_path / "pings.toml", tmp_path / "r"
    study.write_text(PINGS)
    command = [sys.executable, "-c", KILLED, str(study), str(out), str(DOUBLE)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path])}
    done = subprocess.run(command, check=False, timeout=120, env=environment)
    assert done.returncode == -signal.SIGKILL
    with (out / "samples.jsonl").open("a") as stream:
        stream.write('{"block":3,"ord')
    before = folder.read(out)
    assert [trial["block"] for trial in before.trials] == [0, 0, 1, 1, 2, 2, 3]

    observer = Silent()
    result, summary = resuming.resume(run_study.RunRequest("", False, resume=out), observer, print)
    assert [trial["block"] for trial in result.trials] == [0, 0, 1, 1, 2, 2, 0, 0, 3, 3]
    assert result.trials[:6] == before.trials[:6] and result.header == before.header
    assert observer.trials == 4
    assert {trial["build"] for trial in result.trials[6:]}.isdisjoint({trial["build"] for trial in result.trials[:6]})
    left_out = [json.loads(line) for line in (out / resuming.LEFT_OUT).read_text().splitlines()]
    assert left_out == before.trials[6:]
    assert [part["next_block"] for part in result.host["parts"]] == [1, 3] and result.host["complete"] is True
    assert result.host["run"] == before.host["run"]
    assert {row["trials"] for row in summary["rows"]} == {3}

    again = Silent()
    same, _ = resuming.resume(run_study.RunRequest("", False, resume=out), again, print)
    assert same.trials == result.trials and again.trials == 0


CURVES = """format = 1
name = "curves"
title = "Curves"
question = "Do they go on?"

[[system]]
system = "native"
datapath = "kernel"
family = "ipv6"
loads = ["pps", "mlrsearch"]

[[system]]
system = "nat44"
datapath = "nftables"
family = "ipv4"
baseline_family = "ipv6"
loads = ["pps", "mlrsearch"]

[form.quick]
blocks = 5

[[form.quick.load]]
name = "pps"
seconds = 0.5
lowest = 400_000

[[form.quick.load]]
name = "mlrsearch"
seconds = 0.2
lowest = 500_000
highest = 2_000_000

[[form.quick.load.goal]]
loss_ratio = 0.005
relative_width = 0.1
duration_sum_s = 0.2

[guards]
foreign_cpu_share = 1.0
steal_share = 1.0
drop_ratio = 1.0
behind_s = 60
clock_jump_s = 60
"""


@pytest.mark.root
@pytest.mark.usefixtures("clean_machine")
def test_curves_and_procedures_of_a_run_that_was_killed_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Curves with the rates that they began with, procedures with a search for each block that is left."""
    monkeypatch.setenv("DIOLKOS_PKTGEN", str(HERE / "doubles" / "pktgen"))
    monkeypatch.setenv("SATURATION", "1e6")
    study, out = tmp_path / "curves.toml", tmp_path / "r"
    study.write_text(CURVES)
    command = [sys.executable, "-c", KILLED, str(study), str(out), str(DOUBLE)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path])}
    done = subprocess.run(command, check=False, timeout=240, env=environment)
    assert done.returncode == -signal.SIGKILL
    before = folder.read(out)
    assert {trial["block"] for trial in before.trials} == {0, 1, 2, 3}

    result, summary = resuming.resume(run_study.RunRequest("", False, resume=out), Silent(), print)
    kept = [trial for trial in before.trials if trial["block"] < 3]
    assert result.trials[: len(kept)] == kept and result.host["complete"] is True
    assert {trial["error"] for trial in result.trials} == {None}
    later = result.trials[len(kept) :]
    for system in ("native", "nat44"):
        mine = [trial for trial in later if (trial["system"], trial["load"]) == (system, "pps")]
        assert len([trial for trial in mine if trial["block"] == 0]) == 1, "the rates are known; one trial warms up"
        steps = {block: _offered(result, system, block, refines=0) for block in range(1, 5)}
        assert len(steps[1]) == 8 and all(steps[block] == steps[1] for block in steps)
        assert _offered(result, system, 2, refines=1) <= _offered(result, system, 3, refines=1), "and those that were added"
    assert len(summary["curves"]) == 2
    for curve in summary["curves"]:
        assert curve["pdr_0_5_pps"] == pytest.approx(949_800, rel=0.02)
    outcomes = [trial for trial in result.trials if trial.get("outcome")]
    assert {(trial["system"], trial["block"]) for trial in outcomes} == {
        (s, b) for s in ("native", "nat44") for b in range(1, 5)
    }
    assert len(outcomes) == 8, "one search for each block"
    for trial in outcomes:
        [goal] = trial["outcome"]["goals"]
        assert goal["lower_pps"] < 1.02 * 949_800 and goal["upper_pps"] > 0.98 * 949_800


def _offered(result: folder.Result, system: str, block: int, refines: int) -> set[int]:
    return {
        trial["factors"]["offered"]
        for trial in result.trials
        if (trial["system"], trial["load"], trial["block"]) == (system, "pps", block) and trial["factors"]["refines"] == refines
    }
