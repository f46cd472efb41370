# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Published files by the name of their study, and their figures as ratios to native within one environment.

A file of the user's hides the shipped one of the same study.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from diolkos_lab import own_files
from diolkos_lab.experiment import document
from diolkos_lab.published.definition import NATIVE, Figure, Group, Level, Published

FOLDER = Path(__file__).parent

Ends = tuple[float, float]  # equal ones are a number


def studies() -> list[str]:
    """Names of the studies that have published figures."""
    return sorted({each.file.stem for each in own_files.definitions("published", FOLDER)})


def published_figures(study: str) -> Published | None:
    """The figures that the study repeats; None where nothing is published. Raises UsageFault for a damaged file."""
    for each in own_files.definitions("published", FOLDER):
        if each.file.stem == study:
            if each.own:
                own_files.require_safe(each.file)
            return _read(each.file, each.file.stat().st_mtime_ns)
    return None


@cache
def _read(file: Path, _: int) -> Published:
    return document.read(file, Published)


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
