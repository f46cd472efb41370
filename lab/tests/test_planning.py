# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What a plan says is what a run does."""

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from diolkos_lab import planning
from diolkos_lab.experiment.length import expected_of_form_s
from diolkos_lab.run_study import RunRequest, run
from diolkos_lab.sut import lookup
from diolkos_lab.topology import clocksource
from observer import Silent

HERE = Path(__file__).parent
SMALL = str(HERE / "study_small.toml")
DOUBLE = {"diolkos": str(HERE / "doubles" / "working")}


def _cells(found: planning.Plan, block: int) -> list[tuple[str, str]]:
    return [(found.cells[n].lane.subject.system, found.cells[n].load.name) for n in found.order(block)]


def test_the_seed_decides_the_order() -> None:
    plans = {seed: planning.plan(RunRequest(SMALL, True, seed=seed, paths=DOUBLE)) for seed in range(9)}
    assert len({tuple(plan.order(1)) for plan in plans.values()}) > 1
    assert all(sorted(plan.order(block)) == list(range(6)) for plan in plans.values() for block in (0, 1))
    again = planning.plan(RunRequest(SMALL, True, seed=3, paths=DOUBLE))
    assert again.order(1) == plans[3].order(1)
    loads = [load for _, load in _cells(again, 1)]
    assert loads[0] == loads[1] and loads[2] == loads[3], "all lanes have one load after the other"


@pytest.mark.root
@pytest.mark.usefixtures("clean_machine")
def test_a_run_has_the_order_of_its_plan(tmp_path: Path) -> None:
    request = RunRequest(SMALL, True, (), tmp_path / "r", 11, DOUBLE)
    found = planning.plan(request)
    result, _ = run(request, Silent())
    for block in (0, 1):
        made = [(trial["system"], trial["load"]) for trial in result.trials if trial["block"] == block]
        assert made == _cells(found, block)


def test_what_cannot_run_here_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(lookup, "BESIDE", tmp_path)
    monkeypatch.delenv("DIOLKOS", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    found = planning.document(planning.plan(RunRequest(SMALL, True, seed=1)))
    reasons = {cell["system"]: cell["reason"] for cell in found["cells"]}
    assert reasons["diolkos"] == "the program diolkos is not on this host"
    assert all(cell["how"] for cell in found["cells"] if not cell["runs_here"])
    assert not any(cell in block["cells"] for block in found["order"] for cell in (3, 4, 5)), "what is missing has no place"


def test_the_document_is_whole() -> None:
    command = [sys.executable, "-m", "diolkos_lab", "plan", "router-accuracy", "--quick", "--seed", "1", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    found = json.loads(done.stdout)
    assert found["format"] == 1 and found["study"] == "router-accuracy" and found["form"] == "quick" and found["seed"] == 1
    assert [block["block"] for block in found["order"]] == list(range(found["blocks"]))
    assert found["order"][0]["cells"] == [], "the warm-up looks for the rates of curves"
    here = [cell["cell"] for cell in found["cells"] if cell["runs_here"]]
    assert sorted(found["order"][1]["cells"]) == here
    assert all(cell["expected_s"] > 0 for cell in found["cells"])


def test_the_time_is_that_of_the_form_where_nothing_is_missing() -> None:
    found = planning.plan(RunRequest(SMALL, True, paths=DOUBLE))
    assert found.expected_s == expected_of_form_s(found.study, "quick")


VARIED = """
[form.quick.vary]
clocksource = ["tsc", "hpet", "sundial"]
"""


@pytest.fixture
def varied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> planning.Plan:
    """A study that varies what this host has and what it has not."""
    monkeypatch.setattr(clocksource, "offered", lambda: ("tsc", "hpet"))
    study = tmp_path / "varied.toml"
    study.write_text(Path(SMALL).read_text() + VARIED)
    return planning.plan(RunRequest(str(study), True, seed=4, paths=DOUBLE))


def test_what_is_varied_has_a_line_for_each_level(varied: planning.Plan) -> None:
    """The levels that the host has, each with all cells; the others with their reason, and without a place in a block."""
    found = planning.document(varied)
    here = [cell for cell in found["cells"] if cell["runs_here"]]
    assert [cell["factors"]["clocksource"] for cell in here] == ["tsc"] * 6 + ["hpet"] * 6
    (lacking,) = {(c["factors"]["clocksource"], c["reason"]) for c in found["cells"] if not c["runs_here"]}
    assert lacking == ("sundial", "this host offers tsc, hpet")
    assert all("sundial" in cell["how"] for cell in found["cells"] if not cell["runs_here"])
    for block in found["order"]:
        assert sorted(block["cells"]) == [cell["cell"] for cell in here]
        levels = [found["cells"][number]["factors"]["clocksource"] for number in block["cells"]]
        assert levels in (["tsc"] * 6 + ["hpet"] * 6, ["hpet"] * 6 + ["tsc"] * 6), "one after the other"
    assert varied.expected_s == pytest.approx(2 * planning.plan(RunRequest(SMALL, True, paths=DOUBLE)).expected_s)


def test_people_see_the_levels_too(varied: planning.Plan) -> None:
    text = io.StringIO()
    planning.show(Console(file=text, width=200), varied)
    assert "clocksource hpet" in text.getvalue() and ": this host offers tsc, hpet; " in text.getvalue()


@pytest.mark.root
@pytest.mark.usefixtures("clean_machine")
def test_a_run_under_several_settings_has_the_order_of_its_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clocksource, "offered", lambda: ("tsc", "hpet"))
    monkeypatch.setattr(clocksource, "current", lambda: "tsc")
    monkeypatch.setattr(clocksource, "use", lambda name: None)
    study = tmp_path / "varied.toml"
    study.write_text(Path(SMALL).read_text() + VARIED)
    request = RunRequest(str(study), True, (), tmp_path / "r", 4, DOUBLE)
    found = planning.document(planning.plan(request))
    result, _ = run(request, Silent())
    names = ("system", "load", "factors")
    for block in (0, 1):
        made = [tuple(trial[name] for name in names) for trial in result.trials if trial["block"] == block]
        planned = [found["cells"][number] for number in found["order"][block]["cells"]]
        assert made == [tuple(cell[name] for name in names) for cell in planned]
