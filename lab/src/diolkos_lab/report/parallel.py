# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The chapter of the study `nat64-parallel`: tables in the form of the published ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from diolkos_lab.report.chapters import Chapter
from diolkos_lab.report.load_chapters import saturated
from diolkos_lab.report.quantities import NONE, percent, scale
from diolkos_lab.report.read import Cell, Results, Trial
from diolkos_lab.report.systems import INBOUND, label, order, variant
from diolkos_lab.report.tables import Table, moments

Direction = tuple[str, str, Callable[[Cell], bool]]
WORDS = (
    "The form of the published tables: a line for each implementation, a column for each number of parallel connections. "
    "Minimum, average and maximum are over the runs, as in the published tables: each trial is a run, and its figure is what "
    "the receiver got once the start was over; a run that failed counts as 0. Averages depend on the mood of the machine, so "
    "systems are best compared by the ratios to native further down. “≥”: the generator had no CPU to spare in most trials, so "
    "the path may carry more.",
    "IPv4 to IPv6: the client has IPv4 and opens connections to an address of the translator, which a static binding leads to "
    "a server that has IPv6. Native paths and NAT44 stand beside both, as what the same host does without translation between "
    "families.",
)


def _directions() -> Sequence[Direction]:
    return (
        ("v6-v4", "IPv6 to IPv4", lambda cell: not cell.datapath.startswith(INBOUND)),
        ("v4-v6", "IPv4 to IPv6", lambda cell: cell.native or cell.system == "nat44" or cell.datapath.startswith(INBOUND)),
    )


def chapters(results: Results) -> list[Chapter]:
    """Of this study alone."""
    tables = _tables(results) if results.name == "nat64-parallel" else []
    return [Chapter("connections", "By the number of connections", list(WORDS), tables=tables)] if tables else []


def _tables(results: Results) -> list[Table]:
    found = []
    for name, title, is_of in _directions():
        cells = [cell for cell in sorted(results.cells, key=order) if is_of(cell)]
        found += [_tcp(results, cells, name, title), _udp(results, cells, name, title)]
    return [table for table in found if table]


def _tcp(results: Results, cells: Sequence[Cell], name: str, title: str) -> Table | None:
    loads = {load: variant(load).get("streams", "1") for load in results.loads("tcp-upload")}
    values = {(cell, load): _runs(results, cell, load) for cell in cells for load in loads}
    found = {key: (*moments(np.array(each))[:3], len(each)) for key, each in values.items() if each}
    if not found:
        return None
    unit = scale("throughput", [high for _, _, high, _ in found.values()])

    def said(cell: Cell, load: str) -> str:
        if (cell, load) not in found:
            return NONE
        low, middle, high = (unit.text(value) for value in found[cell, load][:3])
        return f"{low} / {_bound(results, cell, load)}{middle} / {high}"

    raw = [[label(cell), loads[load], *each] for (cell, load), each in found.items()]
    caption = f"TCP, {title}: min / avg / max over the runs in {unit.unit}"
    heads = ["min (bit/s)", "avg (bit/s)", "max (bit/s)", "runs"]
    return _by_connections(f"tcp-{name}", caption, cells, loads, said, [*heads], raw)


def _udp(results: Results, cells: Sequence[Cell], name: str, title: str) -> Table | None:
    unlimited = [load for load in results.loads("udp") if variant(load).get("rate", "most") == "most"]
    loads = {load: variant(load).get("streams", "1") for load in unlimited}
    used = {(cell, load): results.used(cell, load) for cell in cells for load in loads}
    used = {key: trials for key, trials in used.items() if trials}
    if not used:
        return None
    unit = scale("throughput", [max(_mean(trials, "sent_rate") for trials in used.values())])

    def said(cell: Cell, load: str) -> str:
        trials = used.get((cell, load))
        if not trials:
            return NONE
        sent, lost, got = (_mean(trials, metric) for metric in ("sent_rate", "loss", "throughput"))
        return f"{unit.text(sent)} / {percent(lost)} / {unit.text(got)}"

    raw = [
        [label(cell), loads[load], *(_mean(trials, metric) for metric in ("sent_rate", "loss", "throughput"))]
        for (cell, load), trials in used.items()
    ]
    caption = f"UDP without a limit, {title}: average sent in {unit.unit} / average loss / average received"
    heads = ["sent (bit/s)", "loss", "received (bit/s)"]
    return _by_connections(f"udp-{name}", caption, cells, loads, said, heads, raw)


def _by_connections(
    name: str,
    caption: str,
    cells: Sequence[Cell],
    loads: dict[str, str],
    said: Callable[[Cell, str], str],
    raw_heads: list[str],
    raw: Sequence[Sequence[object]],
) -> Table:
    """A line for each cell, a column for each load."""
    lines = [[label(cell), *(said(cell, load) for load in loads)] for cell in cells]
    heads = ["Implementation", *(f"{n} connection{'' if n == '1' else 's'}" for n in loads.values())]
    shown = [line for line in lines if any(each != NONE for each in line[1:])]
    return Table(name, caption, heads, shown, ["implementation", "connections", *raw_heads], [list(line) for line in raw])


def _runs(results: Results, cell: Cell, load: str) -> list[float]:
    """Throughput of each; nothing where it failed, which is the worst that there is."""
    got = [trial.metrics["throughput"] for trial in results.used(cell, load) if "throughput" in trial.metrics]
    return got + [0.0] * results.failed(cell, load)


def _mean(trials: Sequence[Trial], metric: str) -> float:
    values = [trial.metrics[metric] for trial in trials if metric in trial.metrics]
    return float(np.mean(values)) if values else 0.0


def _bound(results: Results, cell: Cell, load: str) -> str:
    marked, told = saturated(results, cell, load)
    return "≥ " if told and marked > told / 2 else ""
