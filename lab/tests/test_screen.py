# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The table on the terminal: what is trusted, what is not, what is not there."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console

from diolkos_lab import screen, studies
from diolkos_lab.samples import folder
from diolkos_lab.summary import summarize

Make = Callable[..., dict[str, Any]]


def _shown(lines: list[dict[str, Any]]) -> str:
    study = studies.load("clat")
    result = folder.Result(Path("nowhere"), study.model_copy(update={"claim": ()}), {}, {}, lines)
    console = Console(file=io.StringIO(), width=80, highlight=False)
    screen.results(console, summarize(result))
    return console.file.getvalue()  # type: ignore[attr-defined]


def _blocks(make: Make, **given: Any) -> list[dict[str, Any]]:
    native = [make(block=block, family="ipv4", metrics={"throughput": 2e10}, **given) for block in range(9)]
    tc = {"system": "diolkos", "datapath": "tc", "family": "ipv4", "metrics": {"throughput": 1e10}}
    return native + [make(block=block, **{**tc, **given}) for block in range(9)]


def test_trusted_figures_have_no_brackets(record: Make) -> None:
    text = _shown(_blocks(record))
    assert "Not trusted" not in text
    assert "20.0" in text and "(20.0)" not in text and "(0.500)" not in text


def test_distrusted_figures_stand_in_brackets_under_a_sentence(record: Make) -> None:
    distrust = [{"guard": "foreign-cpu", "detail": "other programs used 51% of the CPUs"}]
    text = _shown(_blocks(record, valid=False, distrust=distrust))
    assert text.startswith("Not trusted: a figure in brackets is the median of all trials")
    for figure in ("(20.0)", "(10.0)", "(0.500)", "0/8"):
        assert figure in text
    assert all(len(line) <= 80 for line in text.splitlines())


def test_the_advice_says_for_how_many_answers_there_is_too_little(record: Make) -> None:
    distrust = [{"guard": "foreign-cpu", "detail": "other programs used 51% of the CPUs"}]
    lines = _blocks(record)
    assert "Too little" not in _shown(lines)
    # Native's, and with it the ratio; then all.
    native = [line | {"valid": False, "distrust": distrust} if line["system"] == "native" else line for line in lines]
    assert "Too little can be trusted for 1 of 2 answers" in _shown(native)
    every = [line | {"valid": False, "distrust": distrust} for line in lines]
    assert "Too little can be trusted for a firm answer" in _shown(every)


def test_failed_trials_are_rates_of_nothing(record: Make) -> None:
    text = _shown([line | {"valid": False, "error": "it died", "metrics": {}} for line in _blocks(record)])
    assert "Not trusted" not in text and "failed" in text


def test_what_tcp_keeps_never_stands_without_its_cpu_time(record: Make) -> None:
    lines = [
        line | {"metrics": {**line["metrics"], "cpu_s_per_gb": 2.17 if line["system"] == "diolkos" else 1.0}}
        for line in _blocks(record)
    ]
    text = _shown(lines)
    assert "0.500" in text and "CPU 2.17" in text and "CPU: of CPU time per gigabyte" in " ".join(text.split())
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
    assert "udp, most, 10 streams" in text and "20.0 Gbit/s" in text
    assert "ping-under-load, upload, 1 stream" in text and "30.0 µs" in text
    assert "native against itself, udp, most, 10 streams, throughput" in text
