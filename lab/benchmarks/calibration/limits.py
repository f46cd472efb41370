# SPDX-License-Identifier: Apache-2.0 OR MIT
"""How many misses does a right lab have?

A 95 % interval misses the truth once in twenty times, so a right lab has misses, and sometimes many. A criterion allows as many
as leave a right lab's whole command one chance in a hundred to fail. The misses of one criterion have the binomial
distribution. The criteria share that one chance in equal parts (Bonferroni): this holds however they depend on each other, as
the saturation and the PDR of one curve do.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scipy.stats import binom

from diolkos_lab.stats.median import CONFIDENCE

RISK = 0.01  # that the command fails though every interval is a right one
FEWEST = 3  # runs; with fewer and 13 criteria, chance explains even a run of misses
WEAK = 0.8  # coverage of a lab that should be found out; results say how probable that is


def most_misses(runs: int, criteria: int, risk: float = RISK, coverage: float = CONFIDENCE) -> int:
    """The fewest misses in so many runs, so that a right lab has more with a probability of at most `risk / criteria`."""
    return int(binom.isf(risk / criteria, runs, 1 - coverage))


def more_misses(runs: int, most: int, coverage: float) -> float:
    """The probability that a lab whose intervals cover the truth so often has more misses than `most`."""
    return float(binom.sf(most, runs, 1 - coverage))


@dataclass(frozen=True)
class Line:
    """What became of one criterion."""

    name: str
    runs: int
    inside: int
    most: int  # misses allowed

    @property
    def passed(self) -> bool:
        return self.runs - self.inside <= self.most

    @property
    def words(self) -> str:
        found_out = more_misses(self.runs, self.most, WEAK)
        text = (
            f"{self.name}: {self.inside} of {self.runs} inside, {self.runs - self.inside} misses, at most {self.most} allowed"
        )
        return f"{text} ({WEAK:.0%} coverage fails with {found_out:.0%})" + ("" if self.passed else "  FAILED")


def lines(found: Mapping[str, Sequence[bool]]) -> list[Line]:
    """Every criterion with its limit. `found` says of each whether the truth was inside its interval, run by run."""
    return [Line(name, len(runs), sum(runs), most_misses(len(runs), len(found))) for name, runs in found.items()]


def weak_lab_fails(judged: Sequence[Line]) -> tuple[float, float]:
    """The probability that the command fails where every criterion covers WEAK: at least, and if none depends on another."""
    each = [more_misses(line.runs, line.most, WEAK) for line in judged]
    none = 1.0
    for chance in each:
        none *= 1 - chance
    return max(each, default=0.0), 1 - none
