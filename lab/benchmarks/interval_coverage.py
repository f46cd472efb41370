# SPDX-License-Identifier: Apache-2.0 OR MIT
"""How often do the lab's intervals contain the truth, on a machine whose speed drifts? By simulation; nothing is measured.

Every interval that the lab prints is drawn many times by the lab's own code, of figures whose truth is known, while the
capacity of the machine drifts from block to block, lanes have luck of their own in each build, or neither. Output: one line
for each interval, one column for each kind of drift. The exit code is 1 if one covers less than 0.93, beyond what chance
explains.

    PYTHONPATH=src python benchmarks/interval_coverage.py [--runs 1000] [--seed 1] [--only NAME]
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diolkos_lab.curve import by_block, judge, loss
from diolkos_lab.curve.crossing import crossing
from diolkos_lab.curve.resampling import Plan
from diolkos_lab.experiment.definition import Claim
from diolkos_lab.stats import effects, family, hierarchy, hosts, median, rank_test
from diolkos_lab.stats.bounds import Bounds, exactly
from diolkos_lab.stats.pairing import Samples
from diolkos_lab.stats.quantiles import binomial_at_most
from diolkos_lab.wide_rules import is_wide

Numbers = NDArray[np.float64]
CLAIMED, LEAST = 0.95, 0.93  # an entry fails that covers less than LEAST, beyond what chance explains
RISK = 0.001  # that it does so by chance
NOISE = 0.02  # of a trial, as share
DEAR = 10  # so many times fewer runs of what takes long


@dataclass(frozen=True)
class Drift:
    """How the machine's speed varies by block, and a lane's by build; standard deviations of logarithms."""

    name: str
    sd: float = 0.0
    memory: float = 0.0  # of one block for the one before
    luck: float = 0.0  # of a lane in a build

    def speeds(self, random: np.random.Generator, blocks: int) -> Numbers:
        steps = random.standard_normal(blocks)
        for block in range(1, blocks):
            steps[block] = self.memory * steps[block - 1] + np.sqrt(1 - self.memory**2) * steps[block]
        return np.exp(self.sd * steps)

    def lane(self, random: np.random.Generator, blocks: int) -> Numbers:
        """What a lane makes of it, where each block has its own build, with the noise of single trials."""
        return np.exp(self.luck * random.standard_normal(blocks) + NOISE * random.standard_normal(blocks))


DRIFTS = (
    Drift("none"),
    Drift("3 %", 0.03),
    Drift("5 %", 0.05),
    Drift("10 %", 0.1),
    Drift("5 %, slow", 0.05, memory=0.8),
    Drift("5 %, builds 5 %", 0.05, luck=0.05),
)


@dataclass(frozen=True)
class Case:
    """One kind of interval. `covers` draws one run: whether its interval holds the truth, or a false alarm is absent."""

    name: str
    covers: Callable[[np.random.Generator, Drift], bool]
    dear: bool = False
    claims_slow: bool = True  # that it holds where drift has a memory, too


def _holds(ends: tuple[float, float] | None, truth: float) -> bool:
    assert ends is not None
    return ends[0] <= truth <= ends[1]


# ---- medians and ratios


def _median(blocks: int) -> Callable[[np.random.Generator, Drift], bool]:
    return lambda random, drift: _holds(
        median.interval((drift.speeds(random, blocks) * drift.lane(random, blocks)).tolist()), 1
    )


def _ratio(blocks: int) -> Callable[[np.random.Generator, Drift], bool]:
    def covers(random: np.random.Generator, drift: Drift) -> bool:
        speed = drift.speeds(random, blocks)
        upper, lower = 0.9 * speed * drift.lane(random, blocks), speed * drift.lane(random, blocks)
        return _holds(median.interval((upper / lower).tolist()), 0.9)

    return covers


def _looked_at(width: float, whole: int = 6, planned: int = 10, most: int = 33) -> Callable[[np.random.Generator, Drift], bool]:
    """A rule that gets further blocks where its interval is wider than that when the whole ones are done."""
    claim = Claim(claim="c", system="a", datapath="b", loads=("ping",), metric="rtt", at_most=1.0, width=width)

    def covers(random: np.random.Generator, drift: Drift) -> bool:
        ratios = (drift.lane(random, most) / drift.lane(random, most)).tolist()
        wide = is_wide(claim, median.interval(ratios[:whole]))
        return _holds(median.interval(ratios if wide else ratios[:planned]), 1)

    return covers


def _percentile(blocks: int) -> Callable[[np.random.Generator, Drift], bool]:
    """The 99th percentile of 100 round trips with long tails, as a ratio: both paths have the same distribution."""

    def covers(random: np.random.Generator, drift: Drift) -> bool:
        speed = drift.speeds(random, blocks)
        paths = [np.quantile(random.lognormal(0, 0.5, (blocks, 100)), 0.99, axis=1) * drift.lane(random, blocks) for _ in "ab"]
        return _holds(median.interval((speed * paths[0] / (speed * paths[1])).tolist()), 1)

    return covers


def _builds(builds: int, blocks: int) -> Callable[[np.random.Generator, Drift], bool]:
    """Blocks that share builds; a lane's luck is twice the noise of a block."""

    def covers(random: np.random.Generator, drift: Drift) -> bool:
        luck = max(drift.luck, drift.sd) * random.standard_normal((builds, 1))
        table = np.exp(luck + NOISE * random.standard_normal((builds, blocks)))
        return _holds(hierarchy.interval([[exactly(value) for value in row] for row in table]), 1)

    return covers


def _hosts(number: int) -> Callable[[np.random.Generator, Drift], bool]:
    """Of six hosts for all hosts, of fewer for just these."""

    def covers(random: np.random.Generator, drift: Drift) -> bool:
        levels = np.exp(0.1 * random.standard_normal(number))
        runs = [[[[exactly(level * value)] for value in drift.lane(random, 8)]] for level in levels]
        return _holds(hosts.interval(runs), 1 if number >= hosts.FEWEST else float(np.median(levels)))

    return covers


# ---- curves and searches

RATES = np.arange(20_000, 66_000, 2500.0)
CAPACITY = 50_000


def _curve(random: np.random.Generator, speed: Numbers, capacity: float = CAPACITY) -> loss.Curve:
    """Of a router by equations 4 and 5 of PASTRAMI, each packet lost by chance, in trials of a second."""
    capacities = capacity * speed[None, :]
    lost = np.where(
        RATES[:, None] < capacities, 10 ** (-8 + 6 * RATES[:, None] / capacities), 1 - 0.99 * capacities / RATES[:, None]
    )
    sent = np.repeat(np.rint(RATES)[:, None], len(speed), axis=1)
    received = sent - random.binomial(sent.astype(int), np.clip(lost, 0, 1))
    return loss.measure(RATES.tolist(), list(sent), list(received), [list(range(1, len(speed) + 1))] * len(RATES))


def _pdr(blocks: int) -> Callable[[np.random.Generator, Drift], bool]:
    truth = (8 + np.log10(0.005)) / 6 * CAPACITY

    def covers(random: np.random.Generator, drift: Drift) -> bool:
        curve = _curve(random, drift.speeds(random, blocks) * np.exp(drift.luck * random.standard_normal(blocks)))
        plan = Plan.from_curve(curve)
        assert plan
        _, ends = by_block.median(curve, by_block.rates(curve), crossing(RATES, curve.plr), plan)
        assert ends
        # The loads are 5 % apart, and a straight line between them is off by up to 0.7 %.
        return bool(ends[0] <= truth * 1.007 and ends[1] >= truth * 0.993)

    return covers


def _pdr_ratio(blocks: int) -> Callable[[np.random.Generator, Drift], bool]:
    def covers(random: np.random.Generator, drift: Drift) -> bool:
        speed = drift.speeds(random, blocks)
        both = [
            by_block.rates(_curve(random, speed * np.exp(drift.luck * random.standard_normal(blocks)), capacity))
            for capacity in (50_000, 42_000)
        ]
        ratios = [ratio for block in both[0] if (ratio := both[0][block].ratio_to(both[1][block]))]
        ends = hierarchy.interval([[each] for each in ratios])
        assert ends
        return ends[0] <= 50 / 42 * 1.007 and ends[1] >= 50 / 42 * 0.993

    return covers


def _tir(blocks: int) -> Callable[[np.random.Generator, Drift], bool]:
    """At the highest load, which is behind saturation: nothing of what is added gets through."""

    def covers(random: np.random.Generator, drift: Drift) -> bool:
        found = judge.judge(_curve(random, np.minimum(drift.speeds(random, blocks), 1.2)))
        return bool(found.tir_low[-1] <= 0 <= found.tir_high[-1])

    return covers


def _saturation(blocks: int) -> Callable[[np.random.Generator, Drift], bool]:
    """Student's interval of the mean throughput at the highest load."""

    def covers(random: np.random.Generator, drift: Drift) -> bool:
        curve = _curve(random, np.minimum(drift.speeds(random, blocks), 1.25))
        throughput, half = curve.throughput[-1], curve.rates[-1] * curve.half_width[-1]
        return bool(abs(throughput - 0.99 * CAPACITY * np.exp(drift.sd**2 / 2)) <= half + 0.001 * CAPACITY)

    return covers


def _search(blocks: int) -> Callable[[np.random.Generator, Drift], bool]:
    """A search (NDR of MLRsearch, throughput of RFC 2544, a knee) ends each block with a bracket 1 % wide; its bounds count."""

    def covers(random: np.random.Generator, drift: Drift) -> bool:
        true = drift.speeds(random, blocks) * drift.lane(random, blocks)
        lower = np.exp(np.floor(np.log(true) / 0.01 + random.random(blocks)) * 0.01 - 0.01 * random.random(blocks))
        bounds = [Bounds(float(min(low, each)), float(max(low * 1.01, each))) for low, each in zip(lower, true, strict=True)]
        return _holds(hierarchy.interval([[each] for each in bounds]), 1)

    return covers


# ---- comparisons: of two runs, of two levels of a factor, of many rules


def _compared(number: int) -> Callable[[np.random.Generator, Drift], bool]:
    def covers(random: np.random.Generator, drift: Drift) -> bool:
        def run(level: float) -> list[float]:
            speed = drift.speeds(random, number)
            return [float(each) for each in level * speed * drift.lane(random, number) / (speed * drift.lane(random, number))]

        pair = [(run(1.0), run(1.1))]
        _, ends = rank_test.ratio(pair)
        assert (rank_test.chance(pair) >= 1 - CLAIMED) == _holds(ends, 1), "interval and p contradict each other"
        return _holds(ends, 1.1)

    return covers


def _effect(cells: int, blocks: int = 7) -> Callable[[np.random.Generator, Drift], bool]:
    """No false alarm of `effects` where nothing has an effect, of two lanes with so many cells in each."""
    return lambda random, drift: not _found_effects(random, drift, cells, blocks)[0].significant


def _effect_interval(cells: int, blocks: int = 9) -> Callable[[np.random.Generator, Drift], bool]:
    return lambda random, drift: _holds(_found_effects(random, drift, cells, blocks)[0].ci95, 1)


def _found_effects(random: np.random.Generator, drift: Drift, cells: int, blocks: int) -> list[effects.Effect]:
    speed = drift.speeds(random, blocks)
    records: list[dict[str, Any]] = []
    for rules in (10, 1000):
        luck = np.exp(max(drift.luck, 0.05) * random.standard_normal(blocks))
        for streams in range(cells):
            values = speed * luck * np.exp(NOISE * random.standard_normal(blocks))
            records += [
                {"system": "a", "datapath": "b", "family": "ipv6", "hops": 1, "load": "tcp-upload", "block": block + 1,
                 "factors": {"rules": rules, "streams": streams}, "valid": True, "metrics": {"throughput": float(value)}}
                for block, value in enumerate(values)
            ]  # fmt: skip
    return effects.effects(Samples(records), {"a/b/ipv6/1": ["rules"]}, ["throughput"], {}, {})


def _rules(number: int, blocks: int = 13) -> Callable[[np.random.Generator, Drift], bool]:
    """No rule of so many, which share a native path, is decided where nothing differs."""

    def decides(values: list[float]) -> Callable[[float], bool]:
        return lambda level: bool((ends := median.interval(values, level)) and not ends[0] <= 1 <= ends[1])

    def covers(random: np.random.Generator, drift: Drift) -> bool:
        native = drift.lane(random, blocks)
        rules = [decides((drift.lane(random, blocks) / native).tolist()) for _ in range(number)]
        return not any(each(family.confidence(rules)) for each in rules)

    return covers


CASES = (
    *(Case(f"median (TCP, RTT, packets), {n} blocks", _median(n), claims_slow=False) for n in (6, 13, 30)),
    *(Case(f"ratio within blocks, {n} blocks", _ratio(n)) for n in (6, 13, 30)),
    *(Case(f"ratio, 10 blocks, or 33 if wider than {width:g}", _looked_at(width)) for width in (1.05, 1.1, 1.2)),
    Case("ratio of 99th percentiles, 10 blocks", _percentile(10)),
    *(Case(f"{n} builds of {of} blocks", _builds(n, of)) for n, of in ((6, 2), (8, 4))),
    *(Case(f"{n} merged hosts", _hosts(n), dear=True) for n in (3, 6)),
    *(Case(f"PDR, {n} blocks", _pdr(n), dear=True, claims_slow=False) for n in (6, 10, 30)),
    *(Case(f"ratio of PDRs, {n} blocks", _pdr_ratio(n), dear=True) for n in (6, 10)),
    *(Case(f"TIR, {n} blocks", _tir(n), dear=True) for n in (6, 10)),
    Case("throughput in saturation, 6 blocks", _saturation(6), dear=True, claims_slow=False),
    Case("bounds of a search, 8 blocks", _search(8), claims_slow=False),
    *(Case(f"compare, {n} against {n} values", _compared(n), dear=True) for n in (4, 8)),
    *(Case(f"effect, {n} cells a lane", _effect_interval(n), dear=True) for n in (1, 4, 12)),
    *(Case(f"no false effect, {n} cells a lane", _effect(n), dear=True) for n in (1, 4, 12)),
    *(Case(f"no false verdict among {n} rules", _rules(n), dear=True) for n in (1, 34)),
)


@dataclass(frozen=True)
class Line:
    case: Case
    drift: Drift
    covered: float
    runs: int

    @property
    def claimed(self) -> bool:
        return self.case.claims_slow or not self.drift.memory

    @property
    def fails(self) -> bool:
        return self.claimed and binomial_at_most(round(self.covered * self.runs), self.runs, LEAST) < RISK


def lines(runs: int, seed: int, only: str = "") -> Iterator[Line]:
    for case in CASES:
        if only in case.name:
            for drift in DRIFTS:
                random = np.random.default_rng([seed, *case.name.encode(), *drift.name.encode()])
                number = max(1, runs // (DEAR if case.dear else 1))
                yield Line(case, drift, sum(case.covers(random, drift) for _ in range(number)) / number, number)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=10_000, help="of each line; a tenth of these where one takes long")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="part of a name")
    given = parser.parse_args()
    failed = False
    print("| interval | " + " | ".join(drift.name for drift in DRIFTS) + " | runs |")
    print("|---|" + "---|" * (len(DRIFTS) + 1))
    row: list[Line] = []
    for line in lines(given.runs, given.seed, given.only):
        row.append(line)
        failed |= line.fails
        if len(row) == len(DRIFTS):
            cells = [f"{each.covered:.3f}" + ("" if each.claimed else " ¹") + ("!" * each.fails) for each in row]
            print(f"| {line.case.name} | {' | '.join(cells)} | {line.runs} |", flush=True)
            row = []
    print("\n¹ not claimed: of a machine whose speed wanders slowly, only ratios say something that holds another hour")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
