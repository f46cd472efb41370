# SPDX-License-Identifier: Apache-2.0 OR MIT
"""How often is the lab right? Whole runs, from a new network to the answer, on paths whose answers are known.

    sudo .venv/bin/python lab/benchmarks/known_answers.py [--only NAME …] [--runs 9] [--seed 1]

Stages: for each kind of load, each run: new lanes → trials → answer → is the truth inside? → how many of all → too few?

Truths and their derivations stand in `calibration/truths.py`, the paths in `known/NAME.toml`. No run is left out:
one that a busy machine disturbs counts. Within a run, as in every study, an untrusted trial is retried. A run takes 5 (ping) to
16 seconds (tcp, curve), so nine of each take about 13 minutes.

The exit code is 1 when a criterion has more misses than chance explains: a lab whose intervals cover the truth 95 % of the time
fails the whole command once in a hundred times (`calibration/limits.py`). `--truth-times 1.1` makes every truth
wrong by a tenth, to see that the command fails.
"""

import argparse
import contextlib
import itertools
import sys
import time
from collections import defaultdict
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calibration import limits
from calibration.judging import JUDGES, Check

from diolkos_lab import run_study
from diolkos_lab.experiment.definition import Form
from diolkos_lab.faults import Fault, Interrupted, MissingFault, stop_on_signals
from diolkos_lab.run.session import Session
from diolkos_lab.stats.pairing import WARM_UP
from diolkos_lab.studies import load
from diolkos_lab.topology import leftovers

STUDIES = Path(__file__).parent / "known"
RUNS = 9  # with 13 criteria the most runs of which four misses are beyond chance


def main() -> int:
    """Exit code 0 when no criterion has too many misses, 1 when one has."""
    options = _options()
    stop_on_signals()
    run_study.require_root()
    leftovers.clean()
    found: dict[str, list[bool]] = defaultdict(list)
    begun = time.monotonic()
    seeds = range(options.seed, options.seed + options.runs)
    for name in options.only or JUDGES:
        for number, run in enumerate(runs(name, seeds, options.truth_times), start=1):
            for check in run.checks:
                found[check.criterion].append(check.inside)
            print(f"{name} {number:3}  {run.words}", flush=True)
    judged = limits.lines(found)
    print(f"\n{options.runs} runs of each in {(time.monotonic() - begun) / 60:.1f} min")
    for line in judged:
        print(line.words)
    least, most = limits.weak_lab_fails(judged)
    print(
        f"A right lab fails this with at most {limits.RISK:.0%}, one of {limits.WEAK:.0%} coverage in every criterion with "
        f"at least {least:.0%} ({most:.0%} if no criterion depends on another)."
    )
    return 0 if all(line.passed for line in judged) else 1


@dataclass(frozen=True)
class Run:
    """What one run found."""

    checks: list[Check]
    trials: int
    untrusted: int  # of these

    @property
    def words(self) -> str:
        found = "; ".join(f"{check.criterion} {check.words}" for check in self.checks)
        return f"{found}  ({self.trials} trials, {self.untrusted} untrusted)"


def runs(name: str, seeds: Sequence[int], factor: float) -> Iterator[Run]:
    """Every run of `known/NAME.toml`, judged by truths that are wrong by a factor unless that is 1.

    Where one block gives the answer, a run is a block with lanes of its own, since a warm-up for each would double the time.
    """
    file = str(STUDIES / f"{name}.toml")
    form = run_study.chosen_form(load(file), run_study.RunRequest(file, quick=True))
    if form.blocks > 2:
        for seed in seeds:
            yield _judged(name, form, list(_measured(file, form, seed)), factor)
        return
    form = form.model_copy(update={"blocks": 1 + len(seeds), "build_blocks": 1})
    with contextlib.closing(_measured(file, form, seeds[0])) as measured:
        for block, trials in itertools.groupby(measured, lambda trial: trial["block"]):
            if block == form.blocks:
                return  # from here on, blocks would make up for what guards objected to
            if block != WARM_UP:
                yield _judged(name, form, list(trials), factor)


def _judged(name: str, form: Form, trials: list[dict[str, Any]], factor: float) -> Run:
    return Run(JUDGES[name](form, trials, factor), len(trials), sum(bool(trial["distrust"]) for trial in trials))


def _measured(file: str, form: Form, seed: int) -> Generator[dict[str, Any], None, None]:
    order, study = run_study.RunRequest(file, quick=True, seed=seed), load(file)
    run_study.require_fit(study, form)
    found, missing = run_study.choose(study, order)
    if missing:
        raise MissingFault(f"{missing[0].system.system} cannot run here: {missing[0].reason}; {missing[0].how}")
    with Session(study, form, found, seed) as session:
        for _ in session.set_up():
            pass
        for trial in session.trials():
            yield trial.as_json()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="How often does the lab find the answers of paths that are known?")
    parser.add_argument("--only", nargs="+", choices=list(JUDGES), metavar="NAME", help=f"of {', '.join(JUDGES)}")
    parser.add_argument("--runs", type=int, default=RUNS, help="of each kind of load")
    parser.add_argument("--seed", type=int, default=1, help="of the first run's order of trials")
    parser.add_argument("--truth-times", type=float, default=1.0, help="multiply every truth, to see that this fails")
    options = parser.parse_args()
    if options.runs < limits.FEWEST:
        parser.error(f"--runs {options.runs}: give at least {limits.FEWEST}; fewer misses are never beyond chance")
    return options


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (Fault, Interrupted) as ended:
        why = f"stopped by signal {ended}; nothing is judged" if isinstance(ended, Interrupted) else ended
        print(f"{Path(__file__).name}: {why}", file=sys.stderr)
        sys.exit(ended.exit_code)
