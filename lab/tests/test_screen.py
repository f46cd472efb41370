# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The table on the terminal: what is trusted, what is not, what is not there."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console

from diolkos_lab import studies
from diolkos_lab.report import terminal
from diolkos_lab.report.read import CONSEQUENCES, from_contents
from diolkos_lab.samples import folder
from diolkos_lab.samples.contents import Contents
from diolkos_lab.samples.records import TrialRecord
from diolkos_lab.summary import summarize

Make = Callable[..., dict[str, Any]]


def _shown(lines: list[dict[str, Any]]) -> str:
    study = studies.load("clat")
    result = folder.Result(Path("nowhere"), study.model_copy(update={"claim": ()}), {}, {}, lines)
    typed, damages = [TrialRecord.model_validate(line) for line in lines], {name: [] for name in CONSEQUENCES}
    found = Contents(result.folder, {}, lines, typed, None, {}, summarize(result), frozenset(), damages)
    console = Console(file=io.StringIO(), width=80, highlight=False)
    terminal.show(console, from_contents(found))
    return console.file.getvalue()  # type: ignore[attr-defined]


def _blocks(make: Make, **given: Any) -> list[dict[str, Any]]:
    native = [make(block=block, family="ipv4", metrics={"throughput": 2e10}, **given) for block in range(9)]
    tc = {"system": "diolkos", "datapath": "tc", "family": "ipv4", "metrics": {"throughput": 1e10}}
    return native + [make(block=block, **{**tc, **given}) for block in range(9)]


def test_trusted_figures_have_no_brackets(record: Make) -> None:
    text = _shown(_blocks(record))
    assert "Not trusted" not in text
    assert "20.0" in text and "(20.0" not in text and "(50" not in text


def test_distrusted_figures_stand_in_brackets_under_a_sentence(record: Make) -> None:
    distrust = [{"guard": "foreign-cpu", "detail": "other programs used 51% of the CPUs"}]
    text = _shown(_blocks(record, valid=False, distrust=distrust))
    assert text.startswith("Not trusted: a figure in brackets is the median of all trials")
    for figure in ("(20.0\u202fGbit/s)", "(50\u202f%)", "0 of 8"):
        assert figure in text
    assert all(len(line) <= 80 for line in text.splitlines())


def test_a_run_of_which_nothing_is_trusted_is_said_to_deserve_none(record: Make) -> None:
    distrust = [{"guard": "foreign-cpu", "detail": "other programs used 51% of the CPUs"}]
    lines = _blocks(record)
    nothing = "Does this deserve trust? No: no ratio to native has an interval."
    assert nothing not in " ".join(_shown(lines).split())
    # Native's, and with it the ratio.
    native = [line | {"valid": False, "distrust": distrust} if line["system"] == "native" else line for line in lines]
    assert nothing in " ".join(_shown(native).split())


def test_failed_trials_are_rates_of_nothing(record: Make) -> None:
    text = _shown([line | {"valid": False, "error": "it died", "metrics": {}} for line in _blocks(record)])
    assert "Not trusted" not in text and "failed" in text


def test_what_tcp_keeps_never_stands_without_its_cpu_time(record: Make) -> None:
    lines = [
        line | {"metrics": {**line["metrics"], "cpu_s_per_gb": 2.17 if line["system"] == "diolkos" else 1.0}}
        for line in _blocks(record)
    ]
    text = _shown(lines)
    assert "CPU per GB" in text and "2.17" in text
    assert all(len(line) <= 80 for line in text.splitlines())


def test_streams_have_lines_and_a_noise_floor(record: Make) -> None:
    """Each is named by what tells it apart; a native path that is measured twice has all of it."""
    udp = {"load": "udp", "factors": {"offloads": "on", "streams": 10, "seconds": 1, "datagram": 1400, "rate": "most"}}
    loaded = {"direction": "upload", "streams": 1, "seconds": 1, "interval": 0.01}
    lines = _blocks(record, **udp)
    lines += [line | {"replica": 2} for line in lines if line["system"] == "native"]
    rtt = {"load": "ping-under-load", "factors": {"offloads": "on", **loaded}, "metrics": {"rtt": 3e-5, "throughput": 1e10}}
    lines += [record(block=block, **rtt) for block in range(9)]
    text = _shown(lines)
    assert "UDP: throughput" in text and "Gbit/s" in text and "20.0" in text
    assert "load: RTT" in text and "µs" in text and "30.0" in text
    assert "A path compared with itself should give 100 %: UDP" in " ".join(text.split())
