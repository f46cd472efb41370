# SPDX-License-Identifier: Apache-2.0 OR MIT
"""One run, four ways to look at it: page, terminal, list of runs and export say the same of one thing."""

import html
import json
import re
import sys
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

import lines
from diolkos_lab import cli, open_folder, report, summary, two_runs
from diolkos_lab.report import method, terminal
from diolkos_lab.report.read import read
from diolkos_lab.samples import folder as samples_folder
from diolkos_lab.serve import changes, pages, run_details
from diolkos_lab.serve.index import Index

sys.path.insert(0, str(Path(__file__).parent / "serve"))
from runs import STUDY as TEMPLATE

STUDY = TEMPLATE.format(name="small")
DOUBTFUL = {"valid": False, "distrust": [{"guard": "steal", "detail": "the hypervisor took 9 %"}]}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """20 trials of two figures each, and of one more in some: 4 rejected, one failed. Shares by rows and by trials differ."""
    found = []
    for block in range(11):
        for system, datapath, family, level in (("native", "kernel", "ipv6", 1.0), ("diolkos", "tc", "ipv4", 0.9)):
            metrics = {"throughput": 1e10 * level * (1 + block / 100), "cpu": 1.0}
            if system == "native":
                metrics["retransmits"] = 0.0
            made = lines.line(block=block, system=system, datapath=datapath, family=family, metrics=metrics)
            if system == "diolkos" and block in (3, 5, 7, 9):
                made |= DOUBTFUL
            if system == "native" and block == 2:
                made |= {"valid": False, "error": "it died", "metrics": {}}
            found.append(made)
    (tmp_path / "study.toml").write_text(STUDY)
    (tmp_path / "host.json").write_text(json.dumps({"format": 1, "hostname": "alpha", "kernel": "6.12", "cores": 2, "seed": 7}))
    header = {"format": 1, "study": "small", "quick": True, "seed": 7, "started": "2026-01-01T12:00:00+00:00"}
    (tmp_path / "samples.jsonl").write_text("".join(json.dumps(line) + "\n" for line in [header, *found]))
    summary.write(samples_folder.read(tmp_path))
    return tmp_path


def test_page_terminal_list_and_export_say_how_many_trials_are_trusted(run: Path) -> None:
    sentence = "80 % of 20 trials are trusted: guards reject 4; 1 failed."
    assert sentence in _text(run)
    assert sentence in _terminal(run)
    assert sentence in " ".join(method.sentences(samples_folder.read(run)))
    with open_folder.to_read(run) as opened:
        listed = run_details.read(opened, "key", "small")
    assert listed.trusted_text == "80 %"


def test_page_terminal_list_and_export_have_the_same_verdicts(run: Path) -> None:
    (verdict,) = json.loads((run / "summary.json").read_text())["verdicts"]
    said = verdict["sentence"].partition(". ")[2]
    assert said in _text(run) and said in _terminal(run)
    with open_folder.to_read(run) as opened:
        listed = run_details.read(opened, "key", "small")
    assert verdict["outcome"] == "undecided" and listed.outcomes == (0, 0, 1), "a native path that failed gives no ratio"


def test_what_many_rules_do_to_each_other_is_said_on_page_and_terminal(run: Path) -> None:
    more = STUDY + STUDY[STUDY.index("[[claim]]") :].replace("0.5", "0.95")
    (run / "study.toml").write_text(more)
    summary.write(samples_folder.read(run))
    start = "2 rules are judged together"
    assert start in _text(run) and start in _terminal(run)


def test_the_terminal_ends_with_the_first_sentence_of_the_page(run: Path) -> None:
    ended = CliRunner().invoke(cli.app, ["report", str(run)])
    assert ended.exit_code == 0
    first = re.search(r"<h1>(.*?)</h1>", (run / "report.html").read_text(), re.DOTALL)
    assert first and " ".join(html.unescape(first[1]).split()) + " Report:" in " ".join(ended.output.split())


def test_the_terminal_and_the_page_of_a_comparison_have_the_same_cells(run: Path) -> None:
    console, result = Console(width=400, record=True), samples_folder.read(run)
    two_runs.show(console, two_runs.compared(result, result))
    told = " ".join(console.export_text().split())
    with Index([run]) as index:
        (listed,) = index.listing.runs
        page = pages.comparison(changes.compare(index, listed, listed), "../", ())
    cells = re.findall(r"<td[^>]*>([^<]+)</td>", page[page.index('data-table="changes"') : page.index("</table>")])
    assert len(cells) >= 14 and not [cell for cell in cells if " ".join(html.unescape(cell).split()) not in told]


def _text(run: Path) -> str:
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", "", report.write(run).read_text())))


def _terminal(run: Path) -> str:
    console = Console(width=400, record=True)
    terminal.show(console, read(run))
    return re.sub(r"\s+", " ", console.export_text())
