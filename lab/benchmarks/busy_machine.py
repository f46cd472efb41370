# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Does a newcomer get an answer on a machine in use? A study beside one process that computes in bursts, and beside nothing.

    sudo .venv/bin/python lab/benchmarks/busy_machine.py [--share 0.2] [--seed 1] [--study clat]

Stages: start the neighbour → `diolkos-lab run STUDY --quick` → its rules: how many are decided, how long did it measure?

A burst lasts 20 to 400 ms. The pause after it is as long as the share asks for: of one CPU, on the average. A run takes eight
minutes at most. `--share 0` is a run beside nothing.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

ENOUGH = 9 / 11
MINUTES = 8.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0 when enough rules are decided in time, 1 when not."""
    options = _options(arguments)
    if options.burst:
        burst(options.share, random.Random(options.seed))
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        neighbour = [sys.executable, __file__, "--burst", "--share", str(options.share), "--seed", str(options.seed)]
        lab = Path(sys.executable).parents[2] / "bin/diolkos-lab"
        measure = [lab, "run", options.study, "--quick", "--seed", str(options.seed), "--out", out]
        beside = subprocess.Popen(neighbour) if options.share else None
        try:
            subprocess.run(measure, check=True)
        finally:
            if beside:
                beside.kill()
                beside.wait()
        verdicts = json.loads((out / "summary.json").read_text())["verdicts"]
        minutes = measured_minutes((out / "samples.jsonl").read_text().splitlines())
    decided = sum(verdict["outcome"] in ("met", "not met") for verdict in verdicts)
    print(
        f"Beside {options.share:.0%} of one CPU, seed {options.seed}: {decided} of {len(verdicts)} rules are decided,"
        f" after {minutes:.1f} min of measuring"
    )
    return 0 if decided >= ENOUGH * len(verdicts) and minutes <= MINUTES else 1


def burst(share: float, draw: random.Random) -> None:
    """Compute for a while, rest for a while, until killed."""
    while True:
        length = draw.uniform(0.02, 0.4)
        begun = time.process_time()
        while time.process_time() - begun < length:
            pass
        time.sleep(length * (1 / share - 1))


def measured_minutes(samples: Sequence[str]) -> float:
    """From the begin of the first trial to the end of the last."""
    records = [json.loads(line) for line in samples]
    trials = [record for record in records if "block" in record]
    first, last = (datetime.fromisoformat(trial["started"]) for trial in (trials[0], trials[-1]))
    return float((last - first).total_seconds() + trials[-1]["duration"]) / 60


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Does a study get an answer beside a program that computes in bursts?")
    parser.add_argument("--share", type=float, default=0.2, help="of one CPU; 0: beside nothing")
    parser.add_argument("--seed", type=int, default=1, help="of the order of trials, and of the bursts")
    parser.add_argument("--study", default="clat")
    parser.add_argument("--burst", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
