# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What the published studies could not see, each limit with what this run does about it: sentences of published/*.toml."""

from __future__ import annotations

import string

from diolkos_lab.curve.judge import DEFAULT_RULE, UNDECIDED
from diolkos_lab.published.definition import Limit, Published
from diolkos_lab.report import facts
from diolkos_lab.report.blind_spots import offloads
from diolkos_lab.report.factors import plain
from diolkos_lab.report.quantities import count, join_words
from diolkos_lab.report.read import Results
from diolkos_lab.report.systems import FAMILIES
from diolkos_lab.report.values import natural

CONTROLS = {
    "conntrack": "conntrack without NAT",
    "hooks": "hooks without rules",
    "notrack": "traffic that conntrack leaves out",
}


def pairs(results: Results, data: Published) -> list[tuple[str, str]]:
    """(what it could not see, what this run does)."""
    known = told(results)
    return [(limit.there, _here(limit, known)) for limit in data.limit]


def told(results: Results) -> dict[str, str]:
    """What sentences may name; empty where the run has nothing of it."""
    natives = sorted({(c.family, c.hops) for c in results.cells if c.native}, key=lambda each: (each[0] != "ipv6", each[1]))
    loads = {row.load.split(" ", maxsplit=1)[0] for row in results.rows}
    cells = {f"{cell.system} {cell.datapath}" for cell in results.cells}
    translated = {cell.family for cell in results.cells if not cell.native and cell.system != "nat44"}
    curves = [curve for curve in results.curves if curve.trusted]
    unbracketed = sum(curve.found.pdr.rate is None for curve in results.curves)
    return {
        "blocks": count(results.blocks, "block"),
        "untrusted": count(sum(bool(trial.objections) for trial in results.measured), "trial"),
        "native_paths": join_words([f"{FAMILIES[family]} at {count(hops, 'hop')}" for family, hops in natives]),
        "native_families": join_words(list(dict.fromkeys(FAMILIES[family] for family, _ in natives))),
        "router": facts.router(results.host) or "",
        "clocksource": facts.clocksource(results.host) or "",
        "offloads": join_words(sorted(offloads(results), reverse=True)),
        "udp": "yes" * ("udp" in loads),
        "new_flows": "yes" * ("new-flows" in loads),
        "cpu": "yes" * any(row.metric.startswith("cpu") for row in results.rows),
        "both_directions": "yes" * ({"ipv4", "ipv6"} <= translated),
        "controls": join_words([words for name, words in CONTROLS.items() if any(name in each for each in cells)]),
        "rules": join_words(_levels(results, "rules")),
        "backend": join_words(_levels(results, "backend")),
        "undecided_curves": count(sum(c.found.firm[DEFAULT_RULE] == UNDECIDED for c in curves), "trusted curve"),
        "curves_by_rule": count(sum(c.found.depends_on_rule for c in curves), "trusted curve"),
        "unbracketed_curves": f"{unbracketed} of {count(len(results.curves), 'curve')}",
        "bound_curves": count(sum(c.limited_by_generator for c in results.curves), "curve"),
    }


def _here(limit: Limit, known: dict[str, str]) -> str:
    named = [name for _, name, _, _ in string.Formatter().parse(limit.here) if name]
    return limit.here.format_map(known) if all(known[name] for name in (*named, *limit.needs)) else limit.otherwise


def _levels(results: Results, factor: str) -> list[str]:
    """Levels of a factor among the rows, in their order."""
    found = {plain(value) for row in results.rows if (value := row.raw.get(factor)) is not None}
    found |= {value for cell in results.cells for name, value in cell.factors if name == factor}
    return sorted(found, key=natural)
