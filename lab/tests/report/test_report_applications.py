# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The chapters of HTTP and DNS, from invented trials that went through the real statistics. SYNTHETIC: nothing was measured."""

import json
from pathlib import Path
from typing import Any

import pytest

from diolkos_lab import report, studies, summary
from diolkos_lab.report import page, words
from diolkos_lab.report.read import Cell, read
from diolkos_lab.samples import folder as samples_folder
from diolkos_lab.stats.pairing import Samples
from diolkos_lab.verdict import verdicts as decided

NATIVE, NAT64 = ("native", "kernel", "ipv6"), ("diolkos", "nat64-tc", "ipv6")
DNS64, UNBOUND = ("diolkos", "dns64", "ipv6"), ("unbound", "dns64", "ipv6")
NATIVE4 = ("native", "kernel", "ipv4")  # a rule has to hold against both families
SLOWER = {NATIVE: 1.0, NATIVE4: 1.1, NAT64: 1.5, DNS64: 1.2, UNBOUND: 2.4}
BLOCKS = 9


def _line(
    block: int, path: tuple[str, str, str], load: str, factors: dict[str, Any], metrics: dict[str, float]
) -> dict[str, Any]:
    middle = metrics.get("latency", 0.0)
    series = {"latency": {"t": [n / 100 for n in range(30)], "y": [middle * (1 + n / 50) for n in range(30)]}}
    return {
        **dict(zip(("system", "datapath", "family"), path, strict=True)),
        **{"block": block, "order": 0, "hops": 1, "replica": 1, "load": load, "factors": {"offloads": "on", **factors}},
        **{"started": "2026-01-01T00:00:00.000+00:00", "duration": 0.2, "valid": True, "distrust": [], "error": None},
        **{"metrics": metrics, "series": series if "latency" in metrics else {}},
    }


def _lines(busy: float) -> list[dict[str, Any]]:
    found = []
    for block in range(BLOCKS):
        drift = 1 + 0.01 * (block % 3)
        for path in (NATIVE, NATIVE4, NAT64):
            time = 1e-4 * SLOWER[path] * drift
            small, large = {"object": 1024, "seconds": 0.2}, {"object": 4 << 20, "seconds": 0.2}
            by_name = {"latency": 4 * time, "rate": 1 / time, "lookup": 3 * time}
            found += [
                _line(block, path, "http", {**small, "by": "literal"}, {"latency": time, "rate": 1 / time}),
                _line(block, path, "http", {**small, "by": "name"}, by_name),
                _line(block, path, "http", {**large, "by": "literal"}, {"throughput": 1e6 / time, "cpu_s_per_gb": 2.0}),
            ]
        for path in (NATIVE, DNS64, UNBOUND):
            time = 5e-5 * SLOWER[path] * drift
            for cache in ("cold", "warm"):
                level = {"cache": cache, "seconds": 0.2}
                most = {"rate": 1 / time, "loss": 0.0, "cpu_answer": time / 2, "busy": busy}
                found.append(_line(block, path, "dns", {**level, "offered": 1000}, {"latency": time, "loss": 0.0}))
                found.append(_line(block, path, "dns", {**level, "offered": "most"}, most))
    return found


def _folder(path: Path, busy: float = 0.95) -> Path:
    path.mkdir()
    (path / "study.toml").write_text(studies.shipped()["clat"].read_text())
    lines = [{"format": 1, "study": "clat", "quick": True}, *_lines(busy)]
    (path / "samples.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    summary.write(samples_folder.read(path))
    return path


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = _folder(tmp_path_factory.mktemp("applications") / "result")
    report.write(path)
    return path


def test_both_chapters_have_their_pictures_and_tables(whole: Path) -> None:
    page = (whole / "report.html").read_text()
    assert 'id="http"' in page and 'id="dns"' in page
    for name in ("http-latency", "http-throughput", "http-distribution-1", "dns-latency", "dns-rate", "dns-cpu"):
        assert f'id="picture-{name}"' in page and (whole / "pictures" / f"{name}.svg").exists(), name
    for name in ("http-latency", "http-lookup", "http-throughput", "http-rate", "dns-latency", "dns-rate", "dns-cpu"):
        assert (whole / "tables" / f"{name}.csv").read_text().startswith("system,datapath"), name
    assert "HTTP, by name, 1 KiB" in page and "DNS, new names, as many as are answered" in page
    assert "(s)" in (whole / "tables" / "dns-cpu.csv").read_text().splitlines()[0]


def test_a_resolver_is_described_by_its_answers_and_carries_no_packets(whole: Path) -> None:
    results = read(whole)
    assert not words.carries(results, Cell("diolkos", "dns64", "ipv6", 1))
    first, _ = page.answer_of(results)
    assert first.startswith("Through diolkos nat64-tc, a fetch takes 1.5"), "no TCP stream was measured, so fetches are said"
    assert "times native IPv6)" in first


def test_the_rules_of_the_study_are_decided() -> None:
    lines = _lines(0.95)
    other = [line | {"family": "ipv4"} for line in lines if (line["system"], line["load"]) == ("native", "http")]
    found = decided(studies.load("clat"), Samples([*lines, *other]), {})
    verdicts = {entry["rule"]: entry["outcome"] for entry in found}
    both = "native IPv6 over 1 hop and native IPv4 over 1 hop"
    assert verdicts[f"latency of diolkos nat64-tc / {both}, HTTP: at most 2"] == "met"
    assert verdicts["rate of diolkos dns64 / unbound dns64, DNS: at least 1"] == "met"
    assert verdicts["CPU time per answer of diolkos dns64 / unbound dns64, DNS: at most 1"] == "met"


def test_a_rate_that_the_generator_limits_is_called_a_lower_bound(whole: Path, tmp_path: Path) -> None:
    assert "lower bounds" not in (whole / "report.html").read_text()
    report.write(path := _folder(tmp_path / "spare", busy=0.7))
    assert "the generator was the limit, not the resolver (busy: native IPv6 70\u202f%" in (path / "report.html").read_text()


def test_rows_have_the_unit_of_their_metric(whole: Path) -> None:
    rows = json.loads((whole / "summary.json").read_text())["rows"]
    units = {(row["load"], row["metric"]): row["unit"] for row in rows}
    assert units["http", "latency"] == units["dns", "latency"] == units["http", "lookup"] == "s"
    assert units["dns", "rate"] == units["http", "rate"] == "1/s" and units["http", "throughput"] == "bit/s"
    tail = next(row for row in rows if (row["load"], row["metric"], row["system"]) == ("dns", "latency", "native"))
    assert tail["p99"] > tail["median"], "of single answers"
