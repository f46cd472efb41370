# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Commands that take a result folder, given folders of this study: each does its work, or says in one sentence why not."""

import csv
import hashlib
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from failover_runs import host, read, row, study, write

from diolkos_lab import merging, report, resuming, summary
from diolkos_lab.experiment.failover import FailoverStudy
from diolkos_lab.failover import command, comparing, trial
from diolkos_lab.failover.trial import Planned
from diolkos_lab.faults import Interrupted, UsageFault
from diolkos_lab.serve import changes as two_runs
from diolkos_lab.serve import reports, site
from diolkos_lab.serve.index import Index
from lines import line
from whole_program import Lab, refused

SMALL = (Path(__file__).parents[1] / "study_small.toml").read_text()
FILE = "samples.jsonl"
LATE = ["the generator of fine was 0.20 s late"]


def _ok(called: tuple[int, str, str]) -> str:
    code, output, errors = called
    assert (code, errors) == (0, ""), errors
    return output


def _gaps(*gaps: float | None, **changes: Any) -> list[dict[str, Any]]:
    return [row(repetition=number, gap_s=gap, **changes) for number, gap in enumerate(gaps)]


def _with(**changes: Any) -> FailoverStudy:
    return study().model_copy(update=changes)


@pytest.fixture
def lanes(tmp_path: Path) -> Path:
    """A run of another study."""
    path = tmp_path / "lanes"
    path.mkdir()
    (path / "study.toml").write_text(SMALL)
    (path / "host.json").write_text('{"format": 1}')
    lines = [{"format": 1, "study": "small"}, *(line(block=block) for block in range(7))]
    (path / "samples.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines))
    return path


# ---- merge


def test_trials_of_several_runs_become_one_folder(tmp_path: Path, lab: Lab) -> None:
    one = write(tmp_path / "one", _gaps(0.1, 0.2), seed=1)
    two = write(tmp_path / "two", _gaps(0.3, 2.0), seed=2)
    said = _ok(lab("merge", one, two, "--out", tmp_path / "whole"))
    assert "2 runs of one host: alpha #1, alpha #2." in said and "random effect" not in said
    whole = read(tmp_path / "whole")
    assert [(each["run"], each["block"], each["metrics"]["gap_s"]) for each in whole.trials] == [
        ("alpha #1", 1, 0.1),
        ("alpha #1", 2, 0.2),
        ("alpha #2", 3, 0.3),
        ("alpha #2", 4, 2.0),
    ]
    assert (whole.planned, whole.host["kernel"], whole.header["started"]) == (16, "6.12.1", "2026-01-01T00:00:00+00:00")
    text = (tmp_path / "whole" / "report.html").read_text()
    assert "kill-gateway, trial 4: 2.0000 s" in text and "Only 4 of 16 trials are here" in text
    assert "alpha #2 (two) began 2026-01-02" in text and "native" not in said


def test_merged_folders_can_be_merged_and_the_order_of_time_numbers_runs(tmp_path: Path) -> None:
    folders = [write(tmp_path / f"{seed}", seed=seed) for seed in (3, 2, 1)]
    merging.merge(folders[:2], tmp_path / "some")
    merging.merge([tmp_path / "some", folders[2]], tmp_path / "all")
    whole = read(tmp_path / "all")
    assert [(run["run"], run["folder"]) for run in whole.host["merged"]] == [
        ("alpha #1", "1"),
        ("alpha #2", "2"),
        ("alpha #3", "3"),
    ]
    assert [each["run"] for each in whole.trials] == ["alpha #3"] * 6 + ["alpha #2"] * 6 + ["alpha #1"] * 6
    assert sorted(each["block"] for each in whole.trials) == list(range(1, 19))
    with pytest.raises(UsageFault, match="hold the same run"):
        merging.merge([tmp_path / "all", folders[0]], tmp_path / "twice")


OTHER_RULES = study().model_copy(update={"rule": study().rule[:2]})


@pytest.mark.parametrize(
    ("other", "says"),
    [
        ({"facts": host(kernel="6.18.2")}, "the kernel differs between"),
        ({"facts": host(digest="bb" * 32)}, "the program diolkos differs between"),
        ({"facts": host(digest=None)}, "not recorded"),
        ({"of": OTHER_RULES}, "`rule` of the study differs between"),
        ({"form": "full"}, "the quick form and"),
        ({"rows": []}, "holds no trials"),
    ],
)
def test_runs_that_would_mix_what_differs_are_not_merged(other: dict[str, Any], says: str, tmp_path: Path, lab: Lab) -> None:
    one, two = write(tmp_path / "one"), write(tmp_path / "two", seed=2, **other)
    assert says in refused(lab("merge", one, two, "--out", tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_what_merge_asks_of_every_study(tmp_path: Path, lanes: Path, lab: Lab) -> None:
    one, two = write(tmp_path / "one"), write(tmp_path / "two", seed=2)
    assert "name two or more" in refused(lab("merge", one, "--out", tmp_path / "out"))
    assert "is one of the folders" in refused(lab("merge", one, two, "--out", two))
    assert "--by kernel: means nothing" in refused(lab("merge", one, two, "--by", "kernel", "--out", tmp_path / "out"))
    assert "only runs of one study can be put together" in refused(lab("merge", lanes, one, "--out", tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_runs_without_a_record_of_their_program_are_merged(tmp_path: Path) -> None:
    folders = [write(tmp_path / f"{seed}", seed=seed, facts=host(digest=None)) for seed in (1, 2)]
    merging.merge(folders, tmp_path / "out")
    assert len(read(tmp_path / "out").trials) == 12


# ---- compare


def _compared(tmp_path: Path, before: list[dict[str, Any]], after: list[dict[str, Any]]) -> comparing.Comparison:
    first, second = (read(write(tmp_path / f"{seed}", rows, seed=seed)) for seed, rows in ((1, before), (2, after)))
    return comparing.compare(first, second)


def test_a_gap_that_became_longer_is_more_than_chance_and_what_stayed_is_not(tmp_path: Path) -> None:
    found = _compared(tmp_path, _gaps(0.1, 0.11, 0.12, 0.13, 0.14, 0.15), _gaps(0.5, 0.51, 0.52, 0.53, 0.54, None))
    by_name = {each.quantity: each for each in found.figures}
    assert list(by_name) == list(comparing.COMPARED), "all of them, whatever they are"
    gap, kept = by_name["gap_s"].difference, by_name["kept_share"].difference
    assert gap and gap.significant and gap.value == pytest.approx(0.4) and gap.ci95[0] > 0.3
    assert kept and not kept.significant and (kept.value, kept.ci95) == (0.0, (0.0, 0.0))
    assert found.sentence == "1 of 5 figures changed by more than chance explains (5 % level)."
    shown = next(each for each in comparing.table(found).lines if each[2] == "longest gap")
    assert shown[5].startswith("+0.400 s [")


def test_trials_that_decide_nothing_are_counted_and_not_compared(tmp_path: Path) -> None:
    """Three of six decide: too few, however far apart they are."""
    late = _gaps(9.0, 9.0, 9.0, guards=LATE)
    found = _compared(tmp_path, _gaps(0.1, 0.1, 0.1) + late, _gaps(5.0, 5.0, 5.0, 5.0))
    gap = next(each for each in found.figures if each.quantity == "gap_s")
    assert (gap.first.values, gap.first.disturbed, gap.difference) == ((0.1, 0.1, 0.1), 3, None)
    assert "Of 5 figures, nothing can be said: fewer than 4 trials decide in one of the runs" in found.sentence
    line_of_gap = next(each for each in comparing.table(found).lines if each[2] == "longest gap")
    assert line_of_gap[3:] == ["0.10 s · 3 + 3", "5.00 s · 4", "–", "–"]


def test_gaps_without_end_in_both_runs_are_no_change(tmp_path: Path) -> None:
    found = _compared(tmp_path, _gaps(None, None, None, None), _gaps(None, None, None, None))
    gap = next(each for each in found.figures if each.quantity == "gap_s")
    assert gap.difference and (gap.difference.value, gap.difference.p) == (0.0, 1.0)
    assert json.dumps([each.as_json for each in found.figures], allow_nan=False)


def test_compare_prints_a_table_and_one_document(tmp_path: Path, lab: Lab) -> None:
    one = write(tmp_path / "one", _gaps(0.1, 0.2, 0.3, 0.4))
    two = write(tmp_path / "two", _gaps(1.1, 1.2, 1.3, 1.4), seed=2, facts=host(kernel="6.18.2"))
    shown = _ok(lab("compare", one, two))
    assert "host differs kernel: 6.12.1 → 6.18.2" in shown and "figures changed by more than chance" in shown
    found = json.loads(_ok(lab("compare", one, two, "--json")))
    gap = next(each for each in found["changes"] if each["quantity"] == "gap_s")
    assert (found["format"], found["study"], gap["unit"], gap["better"]) == (1, "failover", "s", "lower")
    assert gap["difference"] == pytest.approx(1.0) and (gap["first_trials"], gap["first_decide_nothing"]) == (4, 0)


def test_several_hosts_are_each_compared_with_itself(tmp_path: Path) -> None:
    for place, level in (("before", 0.1), ("after", 0.5)):
        folders = []
        for number, name in enumerate(("alpha", "beta"), 1):
            gaps = _gaps(*(level + number + each / 100 for each in range(4)))
            seed = number + (10 if place == "after" else 0)
            folders.append(write(tmp_path / f"{place}-{name}", gaps, seed=seed, facts=host(name=name)))
        merging.merge(folders, tmp_path / place)
    places = (tmp_path / "before", tmp_path / "after")
    first, second = map(read, places)
    gap = next(each for each in comparing.compare(first, second).figures if each.quantity == "gap_s")
    assert gap.difference and gap.difference.value == pytest.approx(0.4), "and not what hosts differ by"
    other = read(write(tmp_path / "gamma", seed=20, facts=host(name="gamma")))
    with pytest.raises(UsageFault, match="have no host in common"):
        comparing.compare(first, other)


def test_what_measured_something_else_is_not_compared(tmp_path: Path, lanes: Path, lab: Lab) -> None:
    one = write(tmp_path / "one")
    traffic = study().traffic
    others = {
        "`traffic` differs": {"of": _with(traffic=traffic.model_copy(update={"before_s": 9.0}))},
        "`bfd` differs": {"of": _with(bfd=study().bfd.model_copy(update={"interval_ms": 300}))},
        "they cannot be compared": {"of": _with(name="another")},
        "have no fault and kind of gateway in common": {"rows": [row(fault="cut-lan")]},
        "holds no trials": {"rows": []},
        "`fault kill-gateway` differs": {
            "of": _with(fault=tuple(each.model_copy(update={"after_s": 99.0}) for each in study().fault))
        },
    }
    for number, (says, changes) in enumerate(others.items(), 2):
        other = write(tmp_path / f"{number}", seed=number, **changes)  # type: ignore[arg-type]
        assert says in refused(lab("compare", one, other)), says
    assert "are not of one study: they cannot be compared" in refused(lab("compare", lanes, one))


# ---- export


def test_a_run_becomes_tables_every_trial_and_checksums(tmp_path: Path, lab: Lab) -> None:
    one = write(tmp_path / "one", [*_gaps(0.1, None), row(fault="cut-lan", guards=LATE), row(fault="cut-lan", error="x")])
    before = (one / FILE).read_bytes()
    assert "Tables and text" in _ok(lab("export", one, "--out", tmp_path / "out"))
    out = tmp_path / "out"
    assert f"{hashlib.sha256(before).hexdigest()}  {FILE}\n" in (out / "SHA256SUMS").read_text()
    trials = list(csv.DictReader(io.StringIO((out / "tables" / "trials.csv").read_text())))
    assert [(each["fault"], each["gap_s"], each["decides"], each["why_not"]) for each in trials] == [
        ("kill-gateway", "0.1", "yes", ""),
        ("kill-gateway", "never", "yes", ""),
        ("cut-lan", "0.2", "no", LATE[0]),
        ("cut-lan", "", "no", "x"),
    ]
    figures = list(csv.DictReader(io.StringIO((out / "tables" / "figures.csv").read_text())))
    gap = next(each for each in figures if (each["fault"], each["quantity"]) == ("kill-gateway", "gap_s"))
    assert (gap["trials"], gap["decide_nothing"], gap["least"], gap["most"]) == ("2", "0", "0.1", "never")
    rules = list(csv.DictReader(io.StringIO((out / "tables" / "rules.csv").read_text())))
    assert [each["verdict"] for each in rules if each["quantity"] == "gap_s"] == ["not met", "not met"]
    text = " ".join((out / "method.txt").read_text().split())
    assert "3 trials of 8 planned and 1 trial again, since they decided nothing" in text and "Programs: diolkos 0.1.0." in text
    assert r"\toprule" in (out / "tables" / "figures.tex").read_text()


def test_a_site_has_its_report_and_its_comparison(tmp_path: Path, lab: Lab) -> None:
    for seed in (1, 2):
        write(tmp_path / "runs" / f"{seed}", seed=seed)
    _ok(lab("export", tmp_path / "runs", "--out", tmp_path / "site"))
    written = {str(path.relative_to(tmp_path / "site")) for path in (tmp_path / "site").rglob("*.html")}
    assert len([name for name in written if name.startswith("run/")]) == 2
    assert len([name for name in written if name.startswith("compare/")]) == 1


# ---- serve


def test_serve_lists_and_shows_runs_of_this_study(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    write(root / "one", [*_gaps(0.1, 0.2), row(guards=LATE, repetition=2)])
    write(root / "two", seed=2)
    for name in ("one", "two"):
        summary.write(read(root / name))
    report.write(root / "two")
    with Index([root]) as index:
        two, one = index.listing.runs
        assert (one.study, one.form, one.host, one.kernel, one.versions) == (
            "failover",
            "quick",
            "alpha",
            "6.12.1",
            ("diolkos 0.1.0",),
        )
        assert (one.outcomes, one.trusted, one.whole) == ((0, 0, 8), pytest.approx(2 / 3), True)
        assert one.remark == ""
        made: dict[str, bytes] = {}
        site.write("SYNTHETIC", index, 1, 2, made.__setitem__, lambda _: None)
    assert b"kill-gateway" in made[f"run/{one.key}/report.html"], "made without a file"
    assert not (root / "one" / "report.html").exists()
    assert made[f"run/{two.key}/report.html"] == (root / "two" / "report.html").read_bytes()
    compared = made[f"compare/{one.key}-{two.key}.html"]
    assert b"nothing can be said" in compared and b"longest gap" in compared
    assert b"failover" in made["index.html"] and b"Only 3 of 8 trials" in made[f"run/{one.key}/report.html"]


def test_a_run_without_trials_is_listed_and_not_compared(tmp_path: Path, lanes: Path) -> None:
    root = tmp_path / "runs"
    write(root / "none", [])
    lanes.rename(root / "lanes")
    with Index([root]) as index:
        found = {run.place: run for run in index.listing.runs}
        assert set(found) == {"none", "lanes"}
        with pytest.raises(UsageFault) as fault:
            reports.made(index, found["none"])
        assert str(root) not in str(fault.value)
        with pytest.raises(UsageFault):
            two_runs.compare(index, found["lanes"], found["none"])


# ---- what is broken


def _file(path: Path, text: str | bytes) -> None:
    (path / FILE).write_bytes(text if isinstance(text, bytes) else text.encode())


def _changed(path: Path, change: Callable[[dict[str, Any]], object], line: int = 1) -> None:
    lines = (path / FILE).read_text().splitlines(keepends=True)
    value = json.loads(lines[line])
    change(value)
    lines[line] = json.dumps(value) + "\n"
    _file(path, "".join(lines))


def _study(path: Path, old: str, new: str) -> None:
    text = (path / "study.toml").read_text()
    assert old in text
    (path / "study.toml").write_text(text.replace(old, new, 1))


BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "no trials yet": (lambda path: _file(path, (path / FILE).read_text().partition("\n")[0] + "\n"), "holds no trials"),
    "no study": (lambda path: (path / "study.toml").unlink(), "it has no study.toml"),
    "newer study": (lambda path: _study(path, "format = 1", "format = 1\ncolour = 1"), "colour"),
    "another kind": (lambda path: _study(path, 'kind = "failover"', 'kind = "flood"'), "not of the study in study.toml"),
    "unknown fault": (lambda path: _changed(path, lambda value: value["factors"].update(fault="flood")), "fault"),
    "no fault": (lambda path: _changed(path, lambda value: value["factors"].clear()), "fault"),
    "unknown gateways": (lambda path: _changed(path, lambda value: value.update(datapath="tc")), "gateways"),
    "text for a gap": (lambda path: _changed(path, lambda value: value["metrics"].update(gap_s="long")), "metrics.gap_s"),
    "less than nothing": (lambda path: _changed(path, lambda value: value["metrics"].update(gap_s=-1)), "metrics.gap_s"),
    "more than all": (lambda path: _changed(path, lambda value: value["metrics"].update(kept_share=1.01)), "kept_share"),
    "late is a text": (lambda path: _changed(path, lambda value: value.update(late_by_gateways="x")), "late_by_gateways"),
}


@pytest.mark.parametrize(("harm", "says"), [*BROKEN.values()], ids=[*BROKEN])
def test_broken_folders_end_every_command_with_one_sentence(
    harm: Callable[[Path], object], says: str, tmp_path: Path, lab: Lab
) -> None:
    one, good = write(tmp_path / "one"), write(tmp_path / "good", seed=2)
    harm(one)
    before = sorted(one.iterdir())
    calls = {
        "report": ("report", one),
        "compare": ("compare", one, one, "--json"),
        "merge": ("merge", one, one, "--out", tmp_path / "out"),
        "export": ("export", one, "--out", tmp_path / "out"),
    }
    for call in calls.values():
        assert says in refused(lab(*call))
    refused(lab("compare", good, one))
    refused(lab("merge", good, one, "--out", tmp_path / "out"))
    assert sorted(one.iterdir()) == before and not (tmp_path / "out").exists()


def test_texts_of_a_folder_are_texts(tmp_path: Path, lab: Lab) -> None:
    """Neither markup nor LaTeX nor the terminal obeys them."""
    harm = "<script>x</script>\x1b[2J[/red]\\input{x}"
    facts = {**host(), "hostname": harm, "cpu_model": harm}
    folders = [
        write(
            tmp_path / f"{seed}",
            [{**row(guards=[harm]), "victim": harm}, row(lost=harm, **trial.LOST)],
            seed=seed,
            facts={**facts, "note": f"{seed}{harm}"},
        )
        for seed in (1, 2)
    ]
    for called in (
        lab("report", folders[0]),
        lab("compare", *folders),
        lab("merge", *folders, "--out", tmp_path / "whole"),
        lab("export", folders[0], "--out", tmp_path / "out"),
    ):
        assert "\x1b" not in _ok(called)
    for file in (folders[0] / "report.html", tmp_path / "whole" / "report.html"):
        assert "<script>x" not in file.read_text()
    assert "\\input{x}" not in (tmp_path / "out" / "method.tex").read_text()


def test_runs_of_this_study_are_not_planned(lab: Lab) -> None:
    assert "has no plan to show" in refused(lab("plan", "failover"))


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """In place of diolkos. Nothing is looked for on the host, and nothing of it changed."""
    monkeypatch.setattr(command, "lacks", dict)
    monkeypatch.setattr(command.os, "geteuid", lambda: 0)
    monkeypatch.setattr(command.leftovers, "clean", lambda: None)
    file = tmp_path / "diolkos"
    file.write_text("#!/bin/sh\necho diolkos 0.9.0\n")
    file.chmod(0o755)
    return file


def _stops(monkeypatch: pytest.MonkeyPatch, after: int) -> list[Planned]:
    """Trials are replaced, and the run is stopped after some; what is around them is the study's."""
    made: list[Planned] = []

    def measured(_study: object, _flows: object, planned: Planned, *_: object) -> dict[str, Any]:
        if len(made) == after:
            raise Interrupted(2)
        made.append(planned)
        return row(planned.fault.name, planned.kind, planned.repetition)

    monkeypatch.setattr(trial, "run", measured)
    return made


def test_a_run_that_is_stopped_keeps_its_trials_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: Path
) -> None:
    _stops(monkeypatch, 1)
    with pytest.raises(Interrupted) as stopped:
        command.measure(study(), "quick", tmp_path / "out", 1, str(program), lambda _: None)
    assert "Stopped after 1 trial of 8" in " ".join(stopped.value.__notes__)
    found = read(tmp_path / "out")
    assert (len(found.trials), found.planned, found.host["systems"]["diolkos"]["version"]) == (1, 8, "diolkos 0.9.0")
    assert {"frr", "etcd"} <= set(found.host["versions"])


def test_a_stopped_run_is_resumed_with_what_it_has_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: Path, lab: Lab
) -> None:
    """What decided is not made again, and what did not counts as a try."""
    monkeypatch.setattr(resuming.run_study, "require_root", lambda: None)
    out = tmp_path / "out"
    first = _stops(monkeypatch, 3)
    with pytest.raises(Interrupted):
        command.measure(study(), "quick", out, 1, str(program), lambda _: None)
    lines = (out / FILE).read_text().splitlines(keepends=True)
    spoilt = {**json.loads(lines[1]), "valid": False, "distrust": [{"guard": "generator", "detail": "late"}]}
    (out / FILE).write_text("".join([lines[0], json.dumps(spoilt) + "\n", *lines[2:]]))
    rest = _stops(monkeypatch, 99)
    shown = _ok(lab("run", "--resume", out))
    assert "6 trials, about" in shown and "too few trials decide" in shown
    assert [(each.kind, each.fault, each.attempt) for each in rest if each.attempt > 1] == [(first[0].kind, first[0].fault, 2)]
    found = read(out)
    assert (len(found.trials), found.done, found.host["complete"]) == (9, 8, True)
    assert "the run is complete" in _ok(lab("run", "--resume", out))
    program.write_text("#!/bin/sh\necho diolkos 1.0.0\n")
    _changed_host(out)
    assert "diolkos was version" in refused(lab("run", "--resume", out))


def _changed_host(path: Path) -> None:
    """The run is not complete any more."""
    value = json.loads((path / "host.json").read_text())
    (path / "host.json").write_text(json.dumps({**value, "complete": False}))


def test_only_what_began_is_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lab: Lab) -> None:
    monkeypatch.setattr(resuming.run_study, "require_root", lambda: None)
    one = write(tmp_path / "one")
    assert "leave --seed out" in refused(lab("run", "--resume", one, "--seed", "77"))
    assert "holds the study failover, not million" in refused(lab("run", "million", "--resume", one))
    assert "is gone" in refused(lab("run", "--resume", one))
