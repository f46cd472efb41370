# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Every check on other kernels, each in a guest: `make kernels`.

    package ─► guest (both of the lab) ─► checks (inside.py)          of each kernel, one after the other

A kernel that this machine's distribution does not have is skipped, and that is said; give it as a folder. Exit code 1:
a check failed. 3: no kernel could be run.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import time
from pathlib import Path

import inside
from cabling import cabling
from diolkos_lab.faults import UsageFault
from diolkos_lab.guest.archive import Archive, Unavailable
from diolkos_lab.guest.image import busybox
from diolkos_lab.guest.machine import ONCE_MORE, Failed, Guest
from diolkos_lab.guest.package import find, in_folder
from diolkos_lab.sut import compiling

CLONE = Path(__file__).resolve().parents[2]
CACHE = CLONE / "target/kernels"
PACKAGES = Archive(CACHE / "packages")
# Lines of a failed part that are shown.
SHOWN = 60
# Packets of the law, a third of them between nodes that have met before: with fewer, too many are new.
FEWEST_CASES = 12000
# Tests in Rust that no wanted part runs.
UNBUILT = dict.fromkeys(inside.TESTS, "")
# What of the environment a guest is told: the folder of the programs under test, if it is not bin/.
SETTINGS = ("DIOLKOS_PROGRAMS",)
RUN_TIME, USAGE, MISSING = 1, 2, 3


def arguments() -> argparse.Namespace:
    """What the caller wants."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "kernels", nargs="*", help='versions of the distribution\'s kernels, such as "6.1", or "sid": the newest of Debian'
    )
    parser.add_argument("--folder", type=Path, action="append", default=[], help="an unpacked kernel package, or a built tree")
    parser.add_argument("--law-cases", type=int, default=12000, help="packets that are made for the law (default: 12000)")
    parser.add_argument("--part", action="append", choices=inside.NAMES, help="only this part (may be repeated)")
    parser.add_argument("--except", action="append", choices=inside.NAMES, dest="without", help="all but this part (likewise)")
    parser.add_argument("--limit", type=float, default=1200, help="seconds until a guest is ended (default: 1200)")
    return parser.parse_args()


def main() -> int:
    """Run them all; the exit code."""
    wanted = arguments()
    if wanted.law_cases < FEWEST_CASES:
        print(f"--law-cases {wanted.law_cases}: the law's floors need {FEWEST_CASES} at least", file=sys.stderr)
        return USAGE
    if platform.machine() != "x86_64":
        print(f"skip all kernels: guests are made for x86_64, and this is {platform.machine()}")
        return MISSING
    parts = [name for name in wanted.part or inside.NAMES if name not in (wanted.without or ())]
    if not parts:
        print("nothing is left to run: --except names all that --part does", file=sys.stderr)
        return USAGE
    needs_programs = {"law", "sessions", "forwarding", "gateway-links", "vlans", "generator-programs"} & set(parts)
    if "routers" in parts:
        # An emulated processor takes long to compile them.
        compiling.everything()
    settings = {name: str(Path(os.environ[name]).absolute()) for name in SETTINGS if name in os.environ}
    told = {
        "law_cases": wanted.law_cases,
        "parts": parts,
        "settings": settings,
        **(test_programs() if needs_programs else UNBUILT),
    }
    cards = cabling()
    ran, failed = 0, []
    for name, look in [
        *((name, lambda name=name: find(name, PACKAGES)) for name in wanted.kernels),
        *((str(folder), lambda folder=folder: in_folder(folder.absolute())) for folder in wanted.folder),
    ]:
        try:
            kernel = look()
            folder = CACHE / kernel.release
            guest = Guest(kernel, CLONE, busybox(PACKAGES), folder, devices=cards.devices, within=cards.within)
        except Unavailable as why:
            print(f"skip Linux {name}: {why}", flush=True)
            continue
        except UsageFault as why:
            print(why, file=sys.stderr)
            return USAGE
        ran += 1
        if not passes(guest, told, wanted.limit):
            failed.append(kernel.release)
    if failed:
        print(f"== Failed on Linux {', '.join(failed)}; see {CACHE}/RELEASE/results", flush=True)
        return RUN_TIME
    return 0 if ran else MISSING


def passes(guest: Guest, told: dict, limit: float) -> bool:
    """Whether every check passes on a kernel."""
    start = time.monotonic()
    print(f"== Linux {guest.kernel.release}", flush=True)
    guest.results.mkdir(parents=True, exist_ok=True)
    for old in guest.results.iterdir():
        old.unlink()
    (guest.results / "told.json").write_text(json.dumps(told))
    guest.prepare(f"cd {CLONE} && exec .venv/bin/python tests/kernels/inside.py")
    failed, left = False, list(told["parts"])
    try:
        for line in guest.run(limit):
            print(line, flush=True)
            failed |= line.startswith("FAIL")
            if ended := inside.ended(line):
                left.remove(ended)
            if line == ONCE_MORE:
                (guest.results / "told.json").write_text(json.dumps(told | {"parts": left}))
    except Failed as why:
        failed = True
        print(f"FAIL Linux {guest.kernel.release}: {why}", flush=True)
    if failed:
        for log in sorted(guest.results.glob("*.log")):
            text = log.read_text(errors="replace")
            if "FAIL" in text:
                print(f"-- the last lines of {log}", *text.splitlines()[-SHOWN:], sep="\n", flush=True)
    print(
        f"== Linux {guest.kernel.release}: {'failed' if failed else 'passed'} in {time.monotonic() - start:.0f} s", flush=True
    )
    return not failed


def test_programs() -> dict[str, str]:
    """The tests in Rust that a guest runs, built: by name, their files."""
    tests = [word for name in inside.TESTS for word in ("--test", name)]
    command = ["cargo", "test", "--workspace", "--locked", *tests, "--no-run", "--message-format=json"]
    done = subprocess.run(command, check=True, cwd=CLONE, stdout=subprocess.PIPE, text=True)
    found = {}
    for line in done.stdout.splitlines():
        message = json.loads(line)
        if message.get("executable") and message["target"]["name"] in UNBUILT:
            found[message["target"]["name"]] = message["executable"]
    return found


if __name__ == "__main__":
    # Asked to end in either way, it takes its guest along.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
