# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The raw format of PASTRAMI: one file per experiment, one line of JSON per offered load.

    [[rate, discards_before], [tx, rx, discards], [tx, rx, discards], …]
    [[rate, …], [tx, rx, delivery_percent, cpu_mean, cpu_sd, id], …]

The first is the published variant, the second a newer one; they differ behind rx, and only rate, tx and rx are used. A file
is read line by line. A line that cannot be used is reported with its number, and the others are.
"""

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from diolkos_lab.faults import UsageFault

LONGEST = 16 * 2**20  # bytes of a line; 50 trials take 2 kB. What is longer is not of this format, and not worth the memory
SUFFIX = ".txt"


@dataclass(frozen=True)
class Malformed:
    line: int  # from 1
    column: int  # from 1, too; 1 where the whole line is meant
    reason: str


@dataclass
class Experiment:
    """What one file holds: entry i of `tx` and `rx` has the counts of the trials at `rates[i]` packets/s."""

    file: Path
    rates: list[float] = field(default_factory=list)
    tx: list[list[float]] = field(default_factory=list)
    rx: list[list[float]] = field(default_factory=list)
    malformed: list[Malformed] = field(default_factory=list)


class LineFault(ValueError):
    """A line is not of the format; the message says what is wrong with it."""

    def __init__(self, reason: str, column: int = 1) -> None:
        super().__init__(reason)
        self.column = column


def find(given: Iterable[Path]) -> list[Path]:
    """The files to read, in order: files as given, folders with all *.txt below them. Raises UsageFault."""
    found: dict[Path, None] = {}
    for path in given:
        if path.is_dir():
            below = sorted(file for file in path.rglob(f"*{SUFFIX}") if file.is_file())
            if not below:
                raise UsageFault(f"{path}: no file in this folder ends in {SUFFIX}")
            found.update(dict.fromkeys(below))
        elif path.exists():
            found[path] = None
        else:
            raise UsageFault(f"{path}: there is no such file")
    return list(found)


def read(file: Path) -> Experiment:
    """Read one file. Raises OSError when it cannot be opened; lines that are wrong end up in `malformed`."""
    experiment = Experiment(file)
    for number, line in _lines(file):
        try:
            rate, trials = _load(line)
        except LineFault as fault:
            experiment.malformed.append(Malformed(number, fault.column, str(fault)))
            continue
        experiment.rates.append(rate)
        experiment.tx.append([tx for tx, _ in trials])
        experiment.rx.append([rx for _, rx in trials])
    return experiment


def _lines(file: Path) -> Iterator[tuple[int, bytes]]:
    """Lines that are not blank, with their numbers; of a line that is too long, only a part that shows it."""
    with file.open("rb") as stream:
        number = 0
        while line := stream.readline(LONGEST + 1):
            number += 1
            if not line.isspace():
                yield number, line
            while len(line) > LONGEST and not line.endswith(b"\n"):
                line = stream.readline(LONGEST + 1)


def _load(line: bytes) -> tuple[float, list[tuple[float, float]]]:
    """One line: the rate and (tx, rx) of each trial. Raises LineFault."""
    if len(line) > LONGEST:
        raise LineFault(f"longer than {LONGEST >> 20} MiB")
    try:
        value = json.loads(line.decode())
    except UnicodeDecodeError as error:
        raise LineFault("not UTF-8 text", error.start + 1) from error
    except json.JSONDecodeError as error:
        raise LineFault(f"not JSON: {error.msg}", error.colno) from error
    except (RecursionError, ValueError) as error:  # nested too deeply, a number of too many digits
        raise LineFault("not JSON that a measurement would write") from error
    if not isinstance(value, list) or not value or not isinstance(value[0], list) or not value[0]:
        raise LineFault("expected a list that starts with [rate, …]")
    rate = _number(value[0][0], "the rate")
    if rate <= 0:
        raise LineFault(f"the rate is {rate:g}, not above zero")
    if len(value) == 1:
        raise LineFault(f"no trial at {rate:g} packets/s")
    return rate, [_trial(trial, number) for number, trial in enumerate(value[1:], start=1)]


def _trial(trial: Any, number: int) -> tuple[float, float]:
    if not isinstance(trial, list) or len(trial) < 2:
        raise LineFault(f"trial {number} is not a list of tx, rx, …")
    tx, rx = _number(trial[0], f"tx of trial {number}"), _number(trial[1], f"rx of trial {number}")
    if tx <= 0 or rx < 0:
        raise LineFault(f"trial {number} sent {tx:g} and received {rx:g} packets")
    return tx, rx


def _number(value: Any, name: str) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            if math.isfinite(number := float(value)):
                return number
        except OverflowError:
            pass
    raise LineFault(f"{name} is not a number of packets")
