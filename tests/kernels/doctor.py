# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What `doctor` says of a kernel: that it can measure, and what it cannot do there."""

from __future__ import annotations

import platform
import re
import subprocess
import sys
from pathlib import Path

CLONE = Path(__file__).resolve().parents[2]
# What it has to find, and the first Linux that has it.
SINCE = {"XDP live frames": (5, 18), "threaded NAPI": (5, 12), "short slices": (6, 12)}
TRIED = ("packet generator", "fast path of diolkos siit", "fast path of diolkos nat64")


def main() -> int:
    """Each finding that depends on the kernel, against the kernel's version."""
    done = subprocess.run([CLONE / "packaging/diolkos-lab", "doctor"], check=False, capture_output=True, text=True)
    print(done.stdout, done.stderr, sep="\n")
    version = tuple(int(number) for number in re.findall(r"\d+", platform.release())[:2])
    # That others use this machine's CPUs just now says nothing of its kernel.
    wrong = int(done.returncode not in ((0, 1) if "not fit to measure now" in done.stderr else (0,)))
    print("FAIL" if wrong else "ok", "this host can measure")
    for subject, since in SINCE.items():
        found = [line for line in done.stdout.splitlines() if subject in line]
        says_so = len(found) == 1 and ("not in Linux" in found[0]) == (version < since)
        wrong += not says_so
        print("ok" if says_so else "FAIL", f"{subject}: {found[0].strip() if found else 'nothing is said'}")
    for subject in TRIED:
        works = f" {subject}: works here, tried" in done.stdout
        wrong += not works
        print("ok" if works else "FAIL", f"{subject} works")
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
