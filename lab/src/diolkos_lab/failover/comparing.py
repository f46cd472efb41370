# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`compare` for this study: two runs' gaps and kept flows, fault by fault.

Stages: same study, traffic and faults? → the trials that decide, by fault, gateways and host → differences → table, JSON.

Which figures are compared does not depend on what they are. Trials of two runs have nothing in common, not even with the same
seed, so they are not paired: the test is that of other studies (Mann-Whitney, p corrected for the number of figures).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from diolkos_lab import comparing
from diolkos_lab.every_trial import QUANTITIES, Trial, figure, figures, groups, undecided_trials
from diolkos_lab.experiment.failover import Quantity
from diolkos_lab.faults import UsageFault
from diolkos_lab.outcome import outcome
from diolkos_lab.report import failover_page
from diolkos_lab.report.tables import Table
from diolkos_lab.samples.folder import AnyResult, FailoverResult, differing_facts
from diolkos_lab.stats import differences
from diolkos_lab.stats.comparison import FEWEST
from diolkos_lab.stats.differences import Difference

COMPARED: tuple[Quantity, ...] = ("kept_share", "gap_s", "call_gap_s", "new_flows_s", "downloads_share")


@dataclass(frozen=True)
class Side:
    """One run: what the trials that decide measured, and how many decide nothing."""

    values: tuple[float, ...]
    disturbed: int

    @property
    def in_words(self) -> str:
        return str(len(self.values)) + (f" + {self.disturbed}" if self.disturbed else "")


@dataclass(frozen=True)
class Compared:
    """A figure of both runs. Without a difference, too few trials decide."""

    fault: str
    gateways: str
    quantity: str
    first: Side
    second: Side
    difference: Difference | None

    @property
    def as_json(self) -> dict[str, Any]:
        found, share = self.difference, self.quantity.endswith("_share")
        sides = {"first": self.first, "second": self.second}
        return {
            "fault": self.fault,
            "gateways": self.gateways,
            "quantity": self.quantity,
            "unit": "ratio" if share else "s",
            "better": "higher" if share else "lower",
            **{name: _finite(median(side.values)) if side.values else None for name, side in sides.items()},
            **{f"{name}_trials": len(side.values) for name, side in sides.items()},
            **{f"{name}_decide_nothing": side.disturbed for name, side in sides.items()},
            "difference": _finite(found.value) if found else None,
            "ci95": [_finite(end) for end in found.ci95] if found else None,
            "p": found.p if found else None,
            "significant": found.significant if found else None,
        }


@dataclass(frozen=True)
class Comparison:
    """All figures that both runs have, and in what their hosts differ."""

    study: str
    figures: Sequence[Compared]
    facts: Mapping[str, tuple[Any, Any]]

    @property
    def sentence(self) -> str:
        """How many of them are more than chance."""
        tested = [each.difference for each in self.figures if each.difference]
        few = len(self.figures) - len(tested)
        said = []
        if tested:
            changed = sum(each.significant for each in tested)
            said.append(f"{changed} of {len(tested)} figures changed by more than chance explains (5 % level).")
        if few:
            said.append(
                f"Of {few} figures, nothing can be said: fewer than {FEWEST} trials decide in one of the runs; "
                "more repetitions, or runs that `diolkos-lab merge` puts together, have more."
            )
        return " ".join(said)


def compare(first: AnyResult, second: AnyResult) -> Comparison:
    """Raises UsageFault for runs that measured something else."""
    if not (isinstance(first, FailoverResult) and isinstance(second, FailoverResult)):
        raise UsageFault(f"{first.folder} and {second.folder} are not of one study: they cannot be compared")
    _require_comparable(first, second)
    hosts = comparing.pairs(first, _hosts(first), second, _hosts(second))
    before, after = groups(first.trials), groups(second.trials)
    common = [key for key in before if key in after]
    if not common:
        raise UsageFault(
            f"{first.folder} and {second.folder} have no fault and kind of gateway in common: they cannot be compared"
        )
    named = [(key, quantity) for key in common for quantity in COMPARED if _both(before[key], after[key], quantity)]
    strata = [
        [(_of_host(before[key], quantity, one), _of_host(after[key], quantity, two)) for one, two in hosts]
        for key, quantity in named
    ]
    found = differences.corrected([differences.difference(each) for each in strata])
    compared = [
        Compared(*key, quantity, _side(of_hosts, 0, before[key]), _side(of_hosts, 1, after[key]), each)
        for (key, quantity), of_hosts, each in zip(named, strata, found, strict=True)
    ]
    return Comparison(first.study.name, compared, differing_facts(first, second))


def table(found: Comparison) -> Table:
    """As printed and as CSV."""
    sides = [f"{side}{what}" for side in ("first", "second") for what in ("", "_trials", "_decide_nothing")]
    raw_heads = ["fault", "gateways", "quantity", *sides]
    lines, raw = [], []
    for each in found.figures:
        heading, write, _ = QUANTITIES[each.quantity]
        shown = [f"{failover_page.figures(side.values, write)} · {side.in_words}" for side in (each.first, each.second)]
        p = f"{each.difference.p:.3f}" if each.difference else "–"
        lines.append([each.fault, each.gateways, heading, *shown, _change(each.difference, each.quantity), p])
        entry = each.as_json
        raw.append([*(entry[name] for name in raw_heads), entry["difference"], *(entry["ci95"] or (None, None)), entry["p"]])
    return Table(
        name="changes",
        caption="Second run minus first; median (least–most) · trials that decide + those that do not; p is corrected for the "
        "number of figures; –: too few trials",
        heads=["Fault", "Gateways", "Figure", "First", "Second", "Change [95 % interval]", "p"],
        lines=lines,
        raw_heads=[*raw_heads, "change", "ci95_low", "ci95_high", "p"],
        raw_lines=raw,
        text_columns=frozenset({0, 1, 2}),
        strong=frozenset(n for n, each in enumerate(found.figures) if each.difference and each.difference.significant),
    )


def _require_comparable(first: FailoverResult, second: FailoverResult) -> None:
    """Rules may differ, and what the forms measure: figures do not depend on either."""
    one, two = first.study, second.study
    if one.name != two.name:
        raise UsageFault(
            f"{first.folder} holds the study {one.name}, {second.folder} the study {two.name}: they cannot be compared"
        )
    plans = [{each.name: each for each in study.fault} for study in (one, two)]
    differs = {
        "bfd": one.bfd != two.bfd,
        "traffic": first.traffic != second.traffic,
        **{f"fault {name}": plan != plans[1].get(name, plan) for name, plan in plans[0].items()},
    }
    if name := next((name for name, yes in differs.items() if yes), None):
        raise UsageFault(
            f"`{name}` differs between {first.folder} and {second.folder}, so a change would not be one of the gateways: "
            "compare runs of one study and form"
        )


def _hosts(of: FailoverResult) -> list[str]:
    return list(dict.fromkeys(trial.get("host", "") for trial in of.trials))


def _both(before: Sequence[Trial], after: Sequence[Trial], quantity: str) -> bool:
    """Does neither run lack the figure by its nature, as that of downloads where there are none?"""
    return all(any(not outcome(each).counts or figure(each, quantity) is not None for each in one) for one in (before, after))


def _of_host(trials: Sequence[Trial], quantity: str, host: str) -> list[float]:
    return figures([trial for trial in trials if trial.get("host", "") == host], quantity)


def _side(strata: Sequence[tuple[list[float], list[float]]], which: int, trials: Sequence[Trial]) -> Side:
    return Side(tuple(value for pair in strata for value in pair[which]), undecided_trials(trials))


def _change(found: Difference | None, quantity: str) -> str:
    if not found:
        return "–"
    value, low, high = (_signed(each, quantity) for each in (found.value, *found.ci95))
    return f"{value} [{low}, {high}]"


def _signed(value: float, quantity: str) -> str:
    if not math.isfinite(value):
        return "never" if value > 0 else "no longer never"
    share = quantity.endswith("_share")
    return f"{100 * value:+.3f} points" if share else f"{value:+.3f} s"


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
