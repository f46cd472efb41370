# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A result folder that somebody has damaged gives a report or one sentence, never a traceback."""

import copy
import io
import json
import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
import synthetic_loads
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.console import Console
from test_report_page import only_its_own_scripts

from diolkos_lab import cli, studies
from diolkos_lab.faults import UsageFault

STUDY = studies.shipped()["clat"].read_text()
KINDS = sorted(synthetic_loads.KINDS)
LINES = {kind: synthetic_loads.lines(kind) for kind in KINDS}
EXAMPLES = int(os.environ.get("DIOLKOS_DAMAGED_CASES", "60"))
JUNK: list[Any] = [None, True, -1, 0, 3, 0.5, -7.5, 1e300, 5e-324, float("nan"), float("inf"), 10**30, 10**18]
JUNK += ["", "x", "a/b", "../x", "[/red]", "[bold", "$x^$", "\ud800", "\x1b[2J", "<script>", "é" * 300]
JUNK += [[], {}, [None], [1], [[]], {"a": 1}, [{}], [{"a": None}], {"t": [1], "y": []}]


def _places(value: Any, at: tuple = ()) -> list[tuple]:
    """The way to everything in a document, itself left out."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for key, inner in items for place in [(*at, key), *_places(inner, (*at, key))]]


@st.composite
def damaged(draw: st.DrawFn, document: Any) -> Any:
    """The document with one to three of its values taken out or replaced."""
    document = copy.deepcopy(document)
    for _ in range(draw(st.integers(1, 3))):
        places = _places(document)
        if not places:
            break
        *way, last = draw(st.sampled_from(places))
        holder = document
        for key in way:
            holder = holder[key]
        if draw(st.booleans()):
            # A copy: a later damage may be done inside of it.
            holder[last] = copy.deepcopy(draw(st.sampled_from(JUNK)))
        else:
            del holder[last]
    return document


@st.composite
def folders(draw: st.DrawFn) -> dict[str, bytes]:
    """The files of a folder of some kind with one of them damaged, as a document or as bytes."""
    kind = draw(st.sampled_from(KINDS))
    lines, host = [json.dumps(line) for line in LINES[kind]], json.dumps(synthetic_loads.HOST)
    hurt = draw(st.sampled_from(["header", "trial", "trial", "trial", "all trials", "host", "bytes"]))
    if hurt in ("header", "trial"):
        number = 0 if hurt == "header" else draw(st.integers(1, len(lines) - 1))
        lines[number] = json.dumps(draw(damaged(LINES[kind][number])))
    elif hurt == "all trials":
        way = draw(st.sampled_from(_places(LINES[kind][1])))
        junk = draw(st.sampled_from(JUNK))
        lines[1:] = [json.dumps(_with(line, way, junk)) for line in LINES[kind][1:]]
    elif hurt == "host":
        host = json.dumps(draw(damaged(synthetic_loads.HOST)))
    files = {"samples.jsonl": "".join(f"{line}\n" for line in lines), "host.json": host, "study.toml": STUDY}
    content = {name: text.encode() for name, text in files.items()}
    if hurt == "bytes":
        name = draw(st.sampled_from(sorted(content)))
        at = draw(st.integers(0, len(content[name])))
        rest = content[name][at + draw(st.integers(0, 300)) :] if draw(st.booleans()) else b""
        content[name] = content[name][:at] + draw(st.binary(max_size=6)) + rest
    return content


def _with(line: Any, way: tuple, junk: Any) -> Any:
    line = copy.deepcopy(line)
    holder = line
    for key in way[:-1]:
        if not isinstance(holder, dict | list) or (isinstance(holder, dict) and key not in holder):
            return line
        holder = holder[key]
    if isinstance(holder, dict):
        holder[way[-1]] = copy.deepcopy(junk)
    return line


def _report(folder: Path) -> str | None:
    """The sentence with which `diolkos-lab report` ends, or None."""
    try:
        cli.report(folder)
    except UsageFault as fault:
        return str(fault)
    return None


def _write(folder: Path, files: dict[str, bytes]) -> Path:
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


def _whole(kind: str) -> dict[str, bytes]:
    text = "".join(json.dumps(line) + "\n" for line in LINES[kind])
    host = json.dumps(synthetic_loads.HOST)
    return {"samples.jsonl": text.encode(), "host.json": host.encode(), "study.toml": STUDY.encode()}


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch, sketched: None) -> None:
    """No drawn pictures, which take most of the time, and no terminal."""
    monkeypatch.setattr(cli, "console", Console(file=open(os.devnull, "w"), width=160))  # noqa: SIM115


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_not_damaged_gives_a_report(tmp_path: Path, kind: str) -> None:
    assert _report(_write(tmp_path / "r", _whole(kind))) is None
    assert (tmp_path / "r" / "report.html").stat().st_size > 5000


@pytest.mark.usefixtures("quiet")
@settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
@given(files=folders())
def test_a_damaged_folder_gives_a_report_or_one_sentence(files: dict[str, bytes]) -> None:
    scratch = Path(tempfile.mkdtemp())
    try:
        sentence = _report(_write(scratch / "r", files))
        if sentence is None:
            page = (scratch / "r" / "report.html").read_text()
            assert "\x1b" not in page
            only_its_own_scripts(page)
            json.loads((scratch / "r" / "summary.json").read_text(), parse_constant=pytest.fail)
        else:
            assert sentence.startswith(str(scratch / "r")) and "\n" not in sentence and len(sentence) < 700, sentence
    finally:
        shutil.rmtree(scratch)


@pytest.mark.usefixtures("quiet")
def test_a_figure_below_zero_is_refused_with_its_name(tmp_path: Path) -> None:
    files = _whole(KINDS[0])
    lines = [_with(json.loads(line), ("metrics", "throughput"), -1) for line in files["samples.jsonl"].splitlines()]
    files["samples.jsonl"] = "".join(json.dumps(line) + "\n" for line in lines).encode()
    sentence = _report(_write(tmp_path / "r", files))
    assert sentence is not None and "throughput" in sentence and "less than 0" in sentence, sentence


@pytest.mark.usefixtures("quiet")
def test_delay_variation_may_be_below_zero(tmp_path: Path) -> None:
    """One packet of a pair may be the faster one: RFC 8219 §7.3.2 gives IPDV a sign."""
    files = _whole("everything")
    lines = [_with(json.loads(line), ("metrics", "ipdv_min"), -3.3e-5) for line in files["samples.jsonl"].splitlines()]
    files["samples.jsonl"] = "".join(json.dumps(line) + "\n" for line in lines).encode()
    assert _report(_write(tmp_path / "r", files)) is None


def test_no_text_of_the_files_is_markup_or_moves_the_cursor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every text that a file may hold freely is a script; pictures are drawn, since they are markup too."""
    script = "</title></svg><script>alert(1)</script><img src=x onerror=alert(1)>\x1b[2J[/red]$x^$"
    lines = copy.deepcopy(LINES["everything"])
    lines[0]["study"] = script
    for key in ("system", "reason", "how"):
        lines[0]["missing"][0][key] = script
    for line in lines[1:]:
        line["started"] = script
        line["error"] = line["error"] and script
        line["distrust"] = [{"guard": script, "detail": script} for _ in line["distrust"]]
        if line["load"] == "new-flows":
            line["factors"]["bindings"] = script
        if "outcome" in line:
            line["outcome"]["deviations"] = [script]
            line["outcome"]["library"] = script
    host = {**synthetic_loads.HOST, "kernel": script, "command_line": [script], script: {script: script}}
    study = STUDY.replace("title = ", f"title = {json.dumps(script[:60])}\n# ", 1)
    study = study.replace("question = ", "question = '<script>'\n# ", 1)
    files = {"samples.jsonl": "".join(json.dumps(line) + "\n" for line in lines), "host.json": json.dumps(host)}
    folder = _write(tmp_path / "r", {name: text.encode() for name, text in {**files, "study.toml": study}.items()})
    shown = Console(file=(terminal := io.StringIO()), width=160)
    monkeypatch.setattr(cli, "console", shown)
    assert _report(folder) is None
    page = (folder / "report.html").read_text()
    assert "&lt;script&gt;alert(1)" in page, "the texts are there, as texts"
    assert not re.search(r"<img\b|\x1b", page) and "\x1b" not in terminal.getvalue()
    only_its_own_scripts(page)
    for picture in (folder / "pictures").glob("*.svg"):
        assert not re.search(r"<(script|img)\b", picture.read_text()), picture
