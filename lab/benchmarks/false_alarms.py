# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A/A, measured: how often does the lab see a difference between a system and itself?

    sudo .venv/bin/python lab/benchmarks/false_alarms.py [--comparisons 40] [--blocks 8] [--seed 1]

Stages: one run with a twin of the native path → its blocks in groups → the ratio of each group → how many leave out 1.

A group is what a short study has. Nothing is left out: what guards object to counts too, since a machine that they object to
is where false alarms would come from. The lab makes such a trial again in its block, as in every run; here the first counts.

The exit code is 1 when there are more false alarms than chance explains: a lab whose 95 % intervals are right fails once in a
hundred times (`calibration/limits.py`).
"""

import argparse
import itertools
import sys
from pathlib import Path
from typing import Any

from calibration import limits

from diolkos_lab import run_study
from diolkos_lab.faults import stop_on_signals
from diolkos_lab.metric import MetricName
from diolkos_lab.run.session import Session
from diolkos_lab.stats.pairing import CellKey, Samples
from diolkos_lab.studies import load
from diolkos_lab.topology import leftovers

STUDY = Path(__file__).parent / "false-alarms.toml"
METRIC: MetricName = "rtt"


def main() -> int:
    """Exit code 0 when chance explains the number of false alarms, 1 when there are more."""
    parser = argparse.ArgumentParser(description="How often does the lab see a difference between a system and itself?")
    parser.add_argument("--comparisons", type=int, default=40)
    parser.add_argument("--blocks", type=int, default=8, help="of each comparison; 6 at least")
    parser.add_argument("--seed", type=int, default=1, help="of the order of trials")
    options = parser.parse_args()
    if options.comparisons < limits.FEWEST:
        parser.error(f"--comparisons {options.comparisons}: give at least {limits.FEWEST}; fewer are never beyond chance")
    stop_on_signals()
    run_study.require_root()
    leftovers.clean()
    alarms: list[bool] = []
    records = _measure(options.comparisons * options.blocks, options.seed)
    for number in range(options.comparisons):
        blocks = range(number * options.blocks + 1, (number + 1) * options.blocks + 1)
        alarm, line = _compare([record for record in records if record["block"] in blocks])
        alarms.append(alarm)
        print(f"{number + 1:3}  {line}")
    distrusted = sum(not record["valid"] for record in records)
    print(f"{options.comparisons} comparisons ({distrusted} of {len(records)} trials are untrusted)")
    [judged] = limits.lines({"1 in the interval of a ratio to itself": [not alarm for alarm in alarms]})
    print(f"{judged.words}. A right lab fails this with at most {limits.RISK:.0%}.")
    return 0 if judged.passed else 1


def _measure(blocks: int, seed: int) -> list[dict[str, Any]]:
    order = run_study.RunRequest(str(STUDY), True, (), None, seed, {})
    study = load(order.study)
    form = run_study.chosen_form(study, order).model_copy(update={"blocks": blocks + 1})
    found, _ = run_study.choose(study, order)
    with Session(study, form, found, seed) as session:
        for _ in session.set_up():
            pass
        planned = itertools.takewhile(lambda trial: trial.block <= blocks, session.trials())
        return [{**trial.as_json(), "series": {}} for trial in planned]


def _compare(records: list[dict[str, Any]]) -> tuple[bool, str]:
    original, twin = (CellKey.from_record(next(each for each in records if each["replica"] == replica)) for replica in (1, 2))
    ratio = Samples([{**record, "valid": True} for record in records]).ratio(twin, original, METRIC)
    if ratio is None or ratio.ci95 is None:
        return True, "no interval"
    low, high = ratio.ci95
    alarm = not low <= 1 <= high
    return alarm, f"{ratio.median.low:.3f} ({low:.3f}–{high:.3f})" + ("  false alarm" if alarm else "")


if __name__ == "__main__":
    sys.exit(main())
