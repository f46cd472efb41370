# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Published files by the name of their study, and their figures as ratios to native within one environment."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from diolkos_lab.experiment import document
from diolkos_lab.published.definition import NATIVE, Figure, Group, Level, Published

FOLDER = Path(__file__).parent

Ends = tuple[float, float]  # equal ones are a number


def studies() -> list[str]:
    """Names of the studies that have published figures."""
    return sorted(file.stem for file in FOLDER.glob("*.toml"))


@cache
def published_figures(study: str) -> Published | None:
    """The figures that the study repeats; None where nothing is published. Raises UsageFault for a damaged file."""
    return document.read(FOLDER / f"{study}.toml", Published) if study in studies() else None


def natives(group: Group, figure: Figure) -> list[Figure]:
    """The native figures that belong to it: of its environment, hops and factors, and from its place where that is told."""
    return [
        each
        for each in group.figures
        if each.system == NATIVE
        and (each.environment, each.hops) == (figure.environment, figure.hops)
        and each.beside in (None, figure.system)
        and all(covers(figure.factors[name], level) for name, level in each.factors.items() if name in figure.factors)
    ]


def ratio(group: Group, figure: Figure) -> Ends | None:
    """Translated over native as (lowest, highest). None where either has no value.

    The ends differ where the value is a range, or where nothing says which of two native values belongs to it. Where the
    original has no native path, the ceiling of the link stands for it.
    """
    ends = figure.ends
    below = [each for native in natives(group, figure) for each in (native.ends or ())]
    if not below and group.ceiling:
        below = [group.ceiling.value]
    return (ends[0] / max(below), ends[1] / min(below)) if ends and below else None


def impossible(data: Published, group: Group, figure: Figure, factor: float) -> bool:
    """Whether the link cannot have carried it, so that nobody received it. `factor` turns the unit into bit/s."""
    rate = next(each.link_rate for each in data.environment if each.name == figure.environment)
    ends = figure.ends
    return group.metric == "throughput" and rate is not None and ends is not None and ends[1] * factor > rate


def covers(levels: Level | tuple[Level, ...], level: object) -> bool:
    """Whether a factor of a figure has a level; numbers and their texts are the same."""
    every = levels if isinstance(levels, tuple) else (levels,)
    return str(level) in {str(each) for each in every}
