# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What a run cannot see, by its set-up, its host and its loads."""

from __future__ import annotations

import numpy as np

from diolkos_lab.report import facts
from diolkos_lab.report.quantities import count, digits, join_words
from diolkos_lab.report.read import Results
from diolkos_lab.report.systems import short_label

FEW_CPUS = 4  # generator, translator, server and the rest of the system want one each
SHORT_TRIAL = 10.0  # s
COARSE_BELOW = 50.0  # µs


def run_limits(results: Results, more: str | None) -> list[str]:
    """Limits of the set-up, from the host's facts and from what was measured; `more` is one of the study."""
    found = [
        _links(results),
        _cpus(results),
        _virtual(results),
        _clock(results),
        _governor(results),
        _offloads(results),
        _without(results),
        _loads(results),
        _duration(results),
        _resolution(results),
        more,
        _absent(results),
    ]
    return [text for text in found if text]


def offloads(results: Results) -> set[str]:
    """Levels of the factor `offloads` among the trials."""
    found = {str(r.raw["offloads"]) for r in results.rows if r.raw.get("offloads") is not None}
    return found | {v for c in results.cells for k, v in c.factors if k == "offloads"}


def _links(results: Results) -> str:
    if router := facts.router(results.host):
        return (
            f"What is between client and server was on another machine, {router}. Network cards, their drivers and the links "
            "between the machines are part of every figure, of the native path's too: a ratio near 1 may be their limit."
        )
    return (
        f"No network card takes part: all systems ran in network namespaces on {facts.places(results.host)}, joined by veth "
        "pairs. What a card, its driver or a slow link would change is not in these figures."
    )


def _cpus(results: Results) -> str:
    n = facts.cpus(results.host)
    if n is None:
        return "How many CPUs the host has is not recorded."
    if facts.router(results.host):
        return f"{count(n, 'CPU')} carried generator and server. What was measured had the CPUs of the router's machine."
    if n <= FEW_CPUS:
        return (
            f"{count(n, 'CPU')} carried load generator, translator and server at once. A translator that needs CPU takes "
            "it from the generator too, so a ratio here is a share of one CPU budget. With CPUs to spare it may differ."
        )
    return f"The host has {n} CPUs; which of them carried what was up to the kernel."


def _virtual(results: Results) -> str | None:
    hypervisor = facts.virtual(results.host)
    if hypervisor is None:
        return None
    if hypervisor == "container":
        return "The run was in a container: which machine is under it, and who shares it, is only partly visible."
    return f"The host is a virtual machine ({hypervisor}): what other guests do at the same time shows only as steal time."


def _clock(results: Results) -> str | None:
    clock = facts.clocksource(results.host)
    if facts.varied(results.host).get("clocksource"):
        return None
    return f"Only the clocksource {clock} was measured; another one moves all absolute figures." if clock else None


def _governor(results: Results) -> str | None:
    governor = facts.find(results.host, "governor")
    if governor is None or str(governor) in ("unknown", "none"):
        return "The CPU's frequency governor cannot be seen from here, so changes of frequency would go unnoticed."
    if str(governor) == "performance":
        return None
    return f"The CPU's frequency may have changed during the run (governor {governor})."


def _offloads(results: Results) -> str | None:
    if offloads(results) == {"on"}:
        return (
            "Segmentation offloads were on, so a TCP packet of up to 64 KiB is translated at once. Traffic of small "
            "packets costs more per byte."
        )
    return None


def _without(results: Results) -> str | None:
    """Systems in whose lanes something was off that native paths had."""
    every = _lacking(results, "super-packets", "unfinished-checksums")
    summing = _lacking(results, "unfinished-checksums")
    said = []
    if every and offloads(results) != {"off"}:
        said.append(
            f"{join_words(every)} cannot take what offloads make of packets, so these were off in their own lanes, at senders "
            "too. Native paths kept theirs: with offloads on, a ratio is what a host loses that changes over."
        )
        if others := [label for label in every if label not in summing]:
            whose = f" of {join_words(others)}" if summing else ""
            said.append(f"Only ratios{whose} with offloads off are the translator's own.")
    if summing:
        said.append(
            f"Senders in the lanes of {join_words(summing)} compute each checksum. On native paths they leave it to their "
            "devices, with offloads off too: a ratio of streams contains that work."
        )
    return " ".join(said) or None


def _lacking(results: Results, *what: str) -> list[str]:
    """Labels of the systems in whose lanes one of these was off."""
    known = results.study.get("resolved", {}).get("systems", {})
    cells = {(cell.system, cell.datapath): cell for cell in results.cells}
    return [
        short_label(cell)
        for (system, datapath), cell in sorted(cells.items())
        if set(what) & set(known.get(system, {}).get("definition", {}).get("datapath", {}).get(datapath, {}).get("without", ()))
    ]


def _loads(results: Results) -> str | None:
    here = {load.split(" ", maxsplit=1)[0] for load in (t.load for t in results.trials)} | {
        r.load.split(" ", maxsplit=1)[0] for r in results.rows
    }
    streams = {str(r.raw.get("streams")) for r in results.rows if r.raw.get("streams") is not None}
    absent = []
    if streams <= {"1"}:
        absent.append("several streams at once")
    absent += [
        name
        for load, name in (
            ("udp", "UDP"),
            ("pps", "small packets"),
            ("new-flows", "new connections"),
            ("dns", "DNS64 lookups"),
            ("http", "fetches of objects"),
            ("ping-under-load", "latency while the path is loaded"),
        )
        if load not in here
    ]
    return f"Not measured: {join_words(absent)}." if absent else None


def _duration(results: Results) -> str | None:
    lengths = [t.duration for t in results.measured if t.duration and t.load.startswith("tcp")]
    if not lengths or max(lengths) >= SHORT_TRIAL:
        return None
    return f"No TCP trial lasted longer than {digits(max(lengths), 2)} s: what happens only after that was not seen."


def _resolution(results: Results) -> str | None:
    """ping prints whole microseconds, which is coarse where a round trip takes ten."""
    trials = (t for t in results.trials if t.counts and t.load.split(" ", maxsplit=1)[0] == "ping" and "rtt" in t.series)
    echoes = [t.series["rtt"][1] for t in trials]
    if not echoes:
        return None
    micros = np.concatenate(echoes) * 1e6
    middle = float(np.median(micros))
    if middle > COARSE_BELOW or np.abs(micros - np.round(micros)).max() > 1e-3:
        return None
    return (
        f"ping prints whole microseconds, the median echo takes {digits(middle, 2)} µs: single echoes are rounded by up to "
        f"{50 / middle:.0f} %."
    )


def _absent(results: Results) -> str | None:
    directions = [b for b in ("tcp-upload", "tcp-download") if not results.loads(b)]
    return f"Not in this folder: {join_words(directions)}." if directions else None
