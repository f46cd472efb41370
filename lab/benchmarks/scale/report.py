# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Tables of raw values: medians, and 95 % intervals of the ratio to what was measured beside it.

.venv/bin/python lab/benchmarks/scale/report.py RAW…
"""

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from network import Report
from scaling import FEWEST, Estimate, Round, scaling

from diolkos_lab.stats.median import interval, median

CORES = (1, 2, 8, 32)
BLOCKS_A_SECOND = 100_000 / 60


def main(names: Sequence[str]) -> int:
    """Print what the files have."""
    found: list[Report] = [json.loads(line) for name in names for line in Path(name).read_text().splitlines()]
    for part, table in TABLES.items():
        rows = [each for each in found if each["part"] == part]
        if rows:
            print(f"## {part}\n")
            print("\n".join(table(rows)), end="\n\n")
    full = [row for row in found if row["part"] == "sessions" and len(row["ns"]) >= FEWEST and row["sessions"] >= 1_000_000]
    for row in full:
        alike = [each for each in found if each["part"] == "cores" and each["mode"] == "nat64"]
        alike = [each for each in alike if each["placement"] == row["placement"]]
        if alike:
            more = [many - one for many, one in zip(row["ns"], row["ns_of_one"], strict=True)]
            print(f"## nat64, {row['sessions']:,} sessions\n")
            print("\n".join(_model(alike, rounds_of_streams, ["together"], more)), end="\n\n")
    return 0


def _lines(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return ["| " + " | ".join(cells) + " |" for cells in (heads, ["---"] * len(heads), *rows)]


def _spread(values: Sequence[float], digits: int = 2, factor: float = 1.0) -> str:
    scaled = [value * factor for value in values]
    found = interval(scaled)
    return f"{median(scaled):.{digits}f}" + (f" ({found[0]:.{digits}f}–{found[1]:.{digits}f})" if found else "")


def _ratio(row: Report) -> str:
    return _spread([many / one for many, one in zip(row["ns"], row["ns_of_one"], strict=True)])


def _added(row: Report) -> str:
    return _spread([many - one for many, one in zip(row["ns"], row["ns_of_one"], strict=True)], 0)


def _sessions(rows: list[Report]) -> list[str]:
    heads = ["sessions", "placement", "time of a packet ÷ with one", "ns more", "opened /s", "maps, bytes each",
             "process, bytes each", "`show sessions`, s", "end, s", "start after it, s", "start after a kill, s"]  # fmt: skip
    lines = []
    for row in sorted(rows, key=lambda row: (row["placement"], row["sessions"])):
        each = [(row["memory"][of] - row["memory_empty"][of]) / row["sessions"] for of in ("maps", "process")]
        rate = f"{row['opened_per_s']:.0f}" if row["rounds"] == 1 else "–"
        cells = [f"{row['sessions']:,}", row["placement"], _ratio(row), _added(row), rate, *(f"{size:.0f}" for size in each)]
        times = ("show_sessions_s", "end_s", "start_after_end_s", "start_after_kill_s")
        lines.append([*cells, *(f"{row[key]:.2f}" if key in row else "–" for key in times)])
    return _lines(heads, lines)


def _mappings(rows: list[Report]) -> list[str]:
    heads = ["mappings", "neighbours", "time of a packet ÷ with one", "ns more", "`check`, s", "start, s", "reload, s",
             "end, s", "maps, MB", "process, MB"]  # fmt: skip
    lines = []
    for row in sorted(rows, key=lambda row: (row["scattered"], row["mappings"])):
        size = [f"{row['memory'][of] / 1e6:.0f}" for of in ("maps", "process")]
        times = [f"{row[key]:.2f}" for key in ("check_s", "start_s", "reload_s", "end_s")]
        lines.append([f"{row['mappings']:,}", "no" if row["scattered"] else "yes", _ratio(row), _added(row), *times, *size])
    return _lines(heads, lines)


def _pool(rows: list[Report]) -> list[str]:
    heads = ["addresses", "opened /s", "start, s", "reload, s", "`show bindings`, s", "end, s", "process, MB", "with all, MB"]
    lines = []
    for row in sorted(rows, key=lambda row: int(row["addresses"])):
        rates = _spread([each["rate_pps"] for each in row["opened"]], 0)
        times = [f"{row[key]:.2f}" for key in ("start_s", "reload_s", "show_bindings_s", "end_s")]
        size = [f"{row[of]['process'] / 1e6:.0f}" for of in ("memory_empty", "memory")]
        lines.append([f"{row['addresses']:,}", rates, *times, *size])
    return _lines(heads, lines)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def rounds_of_streams(row: Report, together: str) -> list[Round]:
    """Of a part `cores`: both CPUs alone, against both at once."""
    return [Round(_mean(each["alone0"] + each["alone1"]), _mean(each[together])) for each in row["rounds"]]


def rounds_of_lines(row: Report, together: str) -> list[Round]:
    """Of a part `lines`: the same, of means without the slowest hundredth. The clock of a single run goes in steps of 10 ns."""

    def means(found: list[Report]) -> list[float]:
        return [float(each["mean_ns"]) for each in found]

    return [Round(_mean(means(each["alone0"] + each["alone1"])), _mean(means(each[together]))) for each in row["rounds"]]


def _model(
    rows: list[Report],
    rounds: Callable[[Report, str], list[Round]],
    togethers: Sequence[str],
    more_ns: Sequence[float] = (),
) -> list[str]:
    heads = ["", "placement", "in common", "ns alone", "ns more for another CPU", *(f"{n} CPUs, Mpps" for n in CORES)]
    lines = []
    for row in rows:
        for together in togethers:
            fit = scaling(rounds(row, together), CORES, more_ns)
            rates = [_said(rate, 2, 1e-6) for rate in fit.rates.values()]
            lines.append([row["mode"], row["placement"], together, _said(fit.alone), _said(fit.added), *rates])
    return _lines(heads, lines)


def _said(found: Estimate, digits: int = 0, factor: float = 1.0) -> str:
    value, low, high = (f"{each * factor:.{digits}f}" for each in (found.value, found.low, found.high))
    return f"{value} ({low}–{high})"


def _cores(rows: list[Report]) -> list[str]:
    return _model(rows, rounds_of_streams, ("together", "apart"))


def _shared(rows: list[Report]) -> list[str]:
    lines = _model(rows, rounds_of_lines, ("different", "same"))
    for row in rows:
        for name in ("opening", "opening_two_nodes", "opening_one_node"):
            found = [run["quantiles_ns"][2] for each in row["rounds"] if name in each for run in each[name] if run["runs"]]
            if found:
                lines += [
                    f"\n{row['mode']}, {name.replace('_', ' ')}: {_spread(found, 0)} ns a session, by {len(found)} medians"
                ]
    return lines


def _starts(rows: list[Report]) -> list[str]:
    lines = [[row["datapath"], str(len(row["ms"])), _spread(row["ms"], 0)] for row in rows]
    return _lines(["CLAT by", "starts", "start to ready, ms"], lines)


def _scrapes(rows: list[Report]) -> list[str]:
    heads = ["placement", "sessions", "CPU time of a scrape, ms", "percent of one CPU at one a second"]
    lines = [[row["placement"], f"{row['sessions']:,}", _spread(row["ms"]), _spread(row["ms"], 2, 0.1)] for row in rows]
    return _lines(heads, lines)


def _logs(rows: list[Report]) -> list[str]:
    heads = ["log", "placement", "CPU time of a block, µs", "more than without a log", "of that by the log's thread",
             "percent of one CPU by it at 100 000 blocks a minute"]  # fmt: skip
    lines = []
    for row in rows:
        more = [us - silent for us, silent in zip(row["us"], row["us_silent"], strict=True)]
        thread = row["us_thread"]
        share = _spread(thread, 2, 1e-6 * BLOCKS_A_SECOND * 100)
        lines.append([row["to"], row["placement"], _spread(row["us"], 1), _spread(more, 1), _spread(thread, 1), share])
    return _lines(heads, lines)


TABLES = {
    **{"cores": _cores, "lines": _shared, "sessions": _sessions, "mappings": _mappings, "pool": _pool},
    **{"starts": _starts, "scrapes": _scrapes, "logs": _logs},
}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
