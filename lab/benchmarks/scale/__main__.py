# SPDX-License-Identifier: Apache-2.0 OR MIT
"""How the cost of a packet, of a start and of memory grows with CPUs, sessions, mappings and addresses; what it costs to run.

    sudo .venv/bin/python lab/benchmarks/scale cores
    sudo .venv/bin/python lab/benchmarks/scale lines
    sudo .venv/bin/python lab/benchmarks/scale sessions --levels 1,1000000,8000000
    sudo .venv/bin/python lab/benchmarks/scale mappings
    sudo .venv/bin/python lab/benchmarks/scale pool
    sudo .venv/bin/python lab/benchmarks/scale starts
    sudo .venv/bin/python lab/benchmarks/scale scrapes
    sudo .venv/bin/python lab/benchmarks/scale logs

One JSON object a line on standard output, or at the end of the file of `--out`: raw values. `report.py` makes tables of them.
"""

import argparse
import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import cores
import mappings
import pool
import running
import sessions
from network import Report

PARTS = ("cores", "lines", "sessions", "mappings", "pool", "starts", "scrapes", "logs")


def main() -> int:
    """Exit code 0 when everything was measured."""
    options = _options()
    if os.geteuid() != 0:
        print("This makes network namespaces: run it as root.", file=sys.stderr)
        return 3
    # So that what was begun is ended.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    for found in _levels(options):
        line = json.dumps(found)
        if options.out:
            with options.out.open("a") as file:
                file.write(line + "\n")
        print(line, flush=True)
    return 0


def _levels(options: argparse.Namespace) -> Iterator[Report]:
    how = (options.placement, options.repeat)
    if options.part == "sessions":
        for number in options.levels or sessions.LEVELS:
            yield sessions.level(number, *how, options.seconds, options.rate, not options.no_restarts)
    elif options.part == "mappings":
        for number in options.levels or mappings.LEVELS:
            yield mappings.level(number, *how, options.seconds, options.scattered)
    elif options.part in ("cores", "lines"):
        measure = cores.streams if options.part == "cores" else cores.lines
        for mode in options.modes or ("native", *cores.TRANSLATORS):
            if mode != "native" or options.part == "cores":
                yield measure(mode, *how, options.seconds)
    elif options.part == "pool":
        for length in options.levels or pool.LEVELS:
            yield pool.level(length, *how, options.opened, options.rate)
    else:
        yield from _running(options)


def _running(options: argparse.Namespace) -> Iterator[Report]:
    if options.part == "starts":
        for datapath in options.modes or ("tc", "tun"):
            yield running.starts(datapath, options.repeat)
    elif options.part == "scrapes":
        yield running.scrapes(options.placement, options.repeat, options.rate)
    elif options.part == "logs":
        for to in options.modes or running.LOGS:
            yield running.logs(to, options.placement, options.repeat, options.opened)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scale", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--levels", type=lambda text: [int(each) for each in text.split(",")], help="instead of all of them")
    parser.add_argument(
        "--modes",
        type=lambda text: text.split(","),
        help="of cores: native, siit, nat64; of starts: tc, tun; of logs: file, syslog, ipfix [default: all]",
    )
    parser.add_argument("--placement", default="direct", choices=("device", "inline", "direct", "xdp"))
    parser.add_argument("--repeat", type=int, default=11, help="measurements of each")
    parser.add_argument("--seconds", type=float, default=0.5, help="of each measurement of packets")
    parser.add_argument("--rate", default="150k", help="sessions to open a second")
    parser.add_argument("--opened", type=int, default=20_000, help="sessions of each measurement of a pool")
    parser.add_argument("--scattered", action="store_true", help="mappings that are no neighbours")
    parser.add_argument("--no-restarts", action="store_true", help="of sessions: packets and memory only")
    parser.add_argument("--out", type=Path, help="a file to which raw values are appended")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
