# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The list of runs: what is read of each, how often, and what becomes of folders that are damaged or hostile."""

import os
import shutil
from pathlib import Path

import pytest
import runs

from diolkos_lab.faults import UsageFault
from diolkos_lab.open_folder import OpenFolder
from diolkos_lab.serve import find_runs
from diolkos_lab.serve.index import Index


@pytest.fixture
def one(tmp_path: Path) -> Path:
    return runs.write(tmp_path / "results" / "one")


def _listed(folder: Path):
    with Index([folder]) as index:
        return {run.place: run for run in index.listing.runs}


def test_a_run_is_listed_with_what_it_is_looked_for_by(few: Path) -> None:
    found = _listed(few)
    assert list(found) == ["stopped", "other", "beta/fourth", "beta/third", "alpha/second", "alpha/first"], "newest first"
    run = found["beta/fourth"]
    assert (run.study, run.form, run.host, run.kernel, run.versions) == ("small", "quick", "beta", "6.18.2", ("diolkos 0.2.0",))
    assert (run.outcomes, run.trusted, run.remark, run.whole) == ((1, 0, 0), 1.0, "", True)


def test_a_thousand_runs_are_listed_from_small_files_that_are_read_once(
    tmp_path: Path, one: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What bounds the time: three reads for each run, none of them of all samples."""
    root = tmp_path / "many"
    for number in range(1000):
        folder = root / f"{number % 10}" / f"{number}"
        folder.mkdir(parents=True)
        for name in runs.DATA:
            os.link(one / name, folder / name)
    opened: list[str] = []
    for method in ("read", "first_line"):
        kept = getattr(OpenFolder, method)

        def counted(self, name, *arguments, kept=kept, method=method):
            opened.append(f"{method} {name}")
            return kept(self, name, *arguments)

        monkeypatch.setattr(OpenFolder, method, counted)
    with Index([root]) as index:
        assert len(index.listing.runs) == 1000
    assert len(opened) == 3000
    assert set(opened) == {"read host.json", "read summary.json", "first_line samples.jsonl"}


def _newer(text: str) -> str:
    return text.replace('"format":1', '"format":2').replace('"format": 1', '"format": 2')


@pytest.mark.parametrize(
    ("name", "damage", "said"),
    [
        ("summary.json", None, "It has no statistics yet"),
        ("summary.json", lambda text: text[: len(text) // 2], "summary.json is damaged"),
        ("summary.json", lambda text: "[" * 100_000, "summary.json is damaged"),
        ("summary.json", lambda text: "[1]", "summary.json is damaged"),
        ("summary.json", lambda text: text.replace('\n "rows": [', '\n "rows": [5, '), "summary.json is damaged: rows.0"),
        ("summary.json", _newer, "summary.json has format 2; this diolkos-lab reads format 1"),
        ("summary.json", lambda text: '{"format": 2, "rows": "of another shape"}', "summary.json has format 2"),
        ("samples.jsonl", None, "It has no samples.jsonl"),
        ("samples.jsonl", lambda text: "", "samples.jsonl is damaged"),
        ("samples.jsonl", lambda text: "x" * 10**6, "samples.jsonl is damaged"),
        ("samples.jsonl", _newer, "samples.jsonl has format 2"),
        ("samples.jsonl", lambda text: "\x1b[2J\x00" + text, "samples.jsonl is damaged"),
        ("host.json", None, "It has no host.json"),
        ("host.json", lambda text: '{"kernel": NaN}', "host.json is damaged"),
        ("host.json", lambda text: '{"kernel": ["6.1"]}', "host.json is damaged: kernel"),
    ],
)
def test_a_damaged_folder_is_listed_with_one_sentence(one: Path, name: str, damage, said: str) -> None:
    text = (one / name).read_text()
    (one / name).unlink()
    if damage:
        (one / name).write_text(damage(text))
    [run] = _listed(one.parent).values()
    assert run.remark.startswith(said)
    assert run.remark.endswith(".") and "\n" not in run.remark and "\x1b" not in run.remark and len(run.remark) < 250
    assert run.whole == (name != "samples.jsonl")


def test_no_link_is_followed_and_no_pipe_is_waited_for(tmp_path: Path, one: Path) -> None:
    outside = runs.write(tmp_path / "outside")
    (one.parent / "linked").symlink_to(outside)
    (one.parent / "round").symlink_to(one.parent)
    (one / "host.json").unlink()
    (one / "host.json").symlink_to(outside / "host.json")
    (one / "summary.json").unlink()
    os.mkfifo(one / "summary.json")
    [run] = _listed(one.parent).values()
    assert run.place == "one" and run.host == "unknown"
    assert run.remark == "summary.json: is not a regular file; put the file itself in its place."


def test_a_folder_that_becomes_a_link_is_not_opened(tmp_path: Path, one: Path) -> None:
    with Index([one.parent]) as index:
        [run] = index.listing.runs
        outside = runs.write(tmp_path / "outside")
        shutil.rmtree(one)
        one.symlink_to(outside)
        with pytest.raises(UsageFault), index.folder(run):
            pass
    assert _listed(one.parent) == {}


def test_a_search_has_bounds(tmp_path: Path, one: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = tmp_path / "deep" / "/".join("abcdefghij")
    deep.mkdir(parents=True)
    shutil.copytree(one, deep / "one")
    with Index([tmp_path / "deep"]) as index:
        found = index.listing
    assert not found.runs and "more than 8 levels deep" in found.remarks[0]
    monkeypatch.setattr(find_runs, "MOST_RUNS", 2)
    for number in range(4):
        shutil.copytree(one, tmp_path / "wide" / str(number))
    with Index([tmp_path / "wide"]) as index:
        found = index.listing
    assert len(found.runs) == 2 and found.remarks == ("The search ended after 2 runs: name a folder that holds fewer.",)
