# SPDX-License-Identifier: Apache-2.0 OR MIT
"""How often is the lab right? Whole runs, from a new network to the verdict, against a router whose answers are known.

    sudo .venv/bin/python lab/benchmarks/known_answers.py [--runs 40] [--seed 1]

Stages: run (lane → search → blocks) → judge → known? → how many of all; and, in pairs, how many false alarms (A/A).

Each run takes half a minute. No run is left out or made again: one that a busy machine disturbs counts. Within a run, as in
every study, a trial that guards object to is made again.
"""

import argparse
import sys
import time
from pathlib import Path

from diolkos_lab import conduct, curves
from diolkos_lab.curve import known
from diolkos_lab.curve.judge import rate_text
from diolkos_lab.faults import stop_on_signals
from diolkos_lab.run.session import Session
from diolkos_lab.studies import load
from diolkos_lab.topology import leftovers

STUDY = Path(__file__).parent / "known-answers.toml"
ENOUGH = 0.95


def main() -> int:
    """Exit code 0 when each answer is right in 95 % of the runs, 1 when not."""
    options = _options()
    stop_on_signals()
    conduct.require_root()
    leftovers.clean()
    right = dict.fromkeys(("saturation", "pdr", "verdict"), 0)
    begun = time.monotonic()
    pdrs: list[tuple[float, float] | None] = []
    for run in range(options.runs):
        curve = _run(options.seed + run)
        answer = known.ANSWERS[curve.setting.datapath]
        found = known.found(curve.found, answer)
        pdrs.append(curve.found.pdr_ci95)
        for name, is_right in found.items():
            right[name] += is_right
        print(f"{run + 1:3}  {_line(curve, found)}", flush=True)
    minutes = (time.monotonic() - begun) / 60
    print(f"{options.runs} runs in {minutes:.1f} min; right: " + ", ".join(f"{name} {n}" for name, n in right.items()))
    pairs = [(a, b) for a, b in zip(pdrs[::2], pdrs[1::2], strict=False) if a and b]
    alarms = sum(a[1] < b[0] or b[1] < a[0] for a, b in pairs)
    print(f"The router against itself: in {alarms} of {len(pairs)} pairs of runs the intervals of the PDR are apart")
    return 0 if all(n >= ENOUGH * options.runs for n in right.values()) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="How often does the lab find the answers of a router that is known?")
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1, help="of the first run's order of trials")
    return parser.parse_args()


def _run(seed: int) -> curves.Measured:
    order = conduct.Order(str(STUDY), True, (), None, seed, {})
    study = load(order.study)
    form = conduct.chosen_form(study, order)
    found, missing = conduct.choose(study, order)
    if missing:
        raise SystemExit(f"{missing[0].system.title} cannot run here: {missing[0].reason}; {missing[0].how}")
    with Session(study, form, found, seed) as session:
        for _ in session.set_up():
            pass
        trials = [trial.as_json() for trial in session.trials()]
    [curve] = curves.gather(trials, [])
    return curve


def _line(curve: curves.Measured, found: dict[str, bool]) -> str:
    judged = curve.found
    marks = "".join(f"  {name} {'ok' if is_right else '--'}" for name, is_right in found.items())
    return (
        f"T_sat {_rate(judged.saturated, judged.saturated_ci95)}  PDR {_rate(judged.pdr.rate, judged.pdr_ci95)}{marks}"
        f"  ({curve.trials} trials, {curve.distrusted} distrusted)"
    )


def _rate(rate: float | None, ends: tuple[float, float] | None) -> str:
    return "none" if rate is None else rate_text(rate) + (f" ({ends[0] / 1e3:.2f}–{ends[1] / 1e3:.2f})" if ends else "")


if __name__ == "__main__":
    sys.exit(main())
