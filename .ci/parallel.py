# SPDX-License-Identifier: Apache-2.0 OR MIT
"""All tests of a folder: most of them several at once, then those that nothing may run beside.

    sudo .venv/bin/python .ci/parallel.py [--jobs 4] [--mark root] tests/e2e

Several at once wait for the same CPUs, and now and then a test sees a moment that it did not reckon with. At most three such
tests are run once more, with nothing beside them, and are named: one that passes then has a fault of its own, which is to be
mended, and does not say that the translator is broken. One that fails again is a failure.

Many tests mount things, for which `/` has to be a mount. In a chroot it is none, so there they run where it is one, and where
there are control groups.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from diolkos_lab.topology import mounts

CLONE = Path(__file__).resolve().parents[1]
MOST_AGAIN = 3
CGROUPS = 'mountpoint -q /sys/fs/cgroup || mount -t cgroup2 cgroup2 /sys/fs/cgroup && exec "$@"'
FAILED, NONE = 1, 5  # pytest's exit codes: tests ran, and some failed; no test was chosen


def main() -> int:
    """Exit code 0 when every test passed, also if some did so at the second try."""
    parser = argparse.ArgumentParser(description="Run all tests of a folder, as root.")
    parser.add_argument("--jobs", type=int, default=2 * (os.cpu_count() or 1), help="tests at once (default: %(default)s)")
    parser.add_argument("--mark", help="only tests with this mark")
    parser.add_argument("folder", help="where the tests are")
    wanted = parser.parse_args()
    chosen = f"{wanted.mark} and " if wanted.mark else ""
    beside = _together(wanted.jobs, f"{chosen}not alone", wanted.folder)
    print(f"== pytest {wanted.folder}, one at a time", flush=True)
    alone = _pytest("-m", f"{chosen}alone", wanted.folder)
    # A folder all of whose tests bear neighbours is well made.
    return beside or (0 if alone == NONE else alone)


def _together(jobs: int, chosen: str, folder: str) -> int:
    print(f"== pytest {folder}, {jobs} at once", flush=True)
    with tempfile.TemporaryDirectory() as memory:
        remembered = ("-o", f"cache_dir={memory}", "-m", chosen, folder)
        code = _pytest("-n", str(jobs), "--dist", "worksteal", *remembered)
        if code != FAILED:
            return code
        failed = failures(Path(memory))
        if not 0 < len(failed) <= MOST_AGAIN:
            return code
        names = ", ".join(failed)
        print(f"== pytest {folder}, once more and alone: {names}", flush=True)
        code = _pytest("--last-failed", *remembered)
    if code == 0:
        print(f"== Failed beside others, passed alone, to be mended: {names}", flush=True)
    return code


def failures(memory: Path) -> list[str]:
    """The tests that failed, or whose fixtures did, by pytest's own memory of its last run."""
    return sorted(json.loads((memory / "v/cache/lastfailed").read_text()))


def _pytest(*arguments: str) -> int:
    command: Sequence[str] = (sys.executable, "-m", "pytest", "-q", "--strict-markers", *arguments)
    if not root_is_a_mount(Path("/proc/self/mountinfo").read_text()):
        command = mounts.own(("sh", "-c", CGROUPS, "sh", *command))
    return subprocess.run(command, cwd=CLONE, check=False).returncode


def root_is_a_mount(mountinfo: str) -> bool:
    """By proc_pid_mountinfo(5), whose fifth field is where something is mounted, seen from the process's root."""
    return any(line.split()[4] == "/" for line in mountinfo.splitlines())


if __name__ == "__main__":
    sys.exit(main())
