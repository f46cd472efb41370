# SPDX-License-Identifier: Apache-2.0 OR MIT
"""All tests of some folders: two folders side by side, most of their tests several at once, then those that nothing may run
beside.

    sudo .venv/bin/python .ci/parallel.py tests/e2e=4 "lab/tests:root=2" "lab/tests:not root=1"

Most tests wait for networks and programs, so one folder alone leaves CPUs idle. The first named, which takes longest, has the
others beside it one after the other: all at once would keep each other waiting, and at the end only the longest would run. What
a folder says is shown when all of it has ended; until then it is in target/log.

Several at once wait for the same CPUs, and now and then a test sees a moment that it did not reckon with. One such test of a
folder is run once more, with nothing beside it, and is named: if it passes then, it has a fault of its own, which is to be
mended, and does not say that the translator is broken. One that fails again is a failure, and so are two.

Many tests mount things, for which `/` has to be a mount. In a chroot it is none, so there they run where it is one, and where
there are control groups.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from diolkos_lab.topology import mounts

CLONE = Path(__file__).resolve().parents[1]
FOLDERS_AT_ONCE = 2
MOST_AGAIN = 1
CGROUPS = 'mountpoint -q /sys/fs/cgroup || mount -t cgroup2 cgroup2 /sys/fs/cgroup && exec "$@"'
PASSED, FAILED, NONE = 0, 1, 5  # pytest's exit codes: all passed; tests ran, and some failed; no test was chosen


@dataclass
class Tests:
    """Tests of one folder, and what became of those of them that bear neighbours."""

    folder: str
    mark: str
    jobs: int
    code: int = NONE
    failed: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, text: str) -> "Tests":
        """Of `FOLDER[:MARK][=JOBS]`."""
        found = re.fullmatch(r"([^:=]+)(?::([^=]+))?(?:=([1-9]\d*))?", text)
        if not found:
            raise argparse.ArgumentTypeError(f"{text!r} is not FOLDER[:MARK][=JOBS], such as tests/e2e=4")
        return cls(found[1], found[2] or "", int(found[3] or 2 * (os.cpu_count() or 1)))

    def __str__(self) -> str:
        return f"{self.folder} ({self.mark})" if self.mark else self.folder

    def chosen(self, which: str) -> tuple[str, ...]:
        """The options by which pytest runs those of them that are `which`."""
        return ("-m", f"({self.mark}) and {which}" if self.mark else which, self.folder)


def main() -> int:
    """Exit code 0 when every test passed, also if some did so at the second try."""
    parser = argparse.ArgumentParser(description="Run all tests of some folders, as root.")
    parser.add_argument(
        "tests", nargs="+", type=Tests.read, metavar="FOLDER[:MARK][=JOBS]", help="only tests with a mark, so many at once"
    )
    everything: list[Tests] = parser.parse_args().tests
    with tempfile.TemporaryDirectory() as memory:
        side_by_side(everything, Path(memory))
        for tests in everything:
            if tests.code == FAILED and 0 < len(tests.failed) <= MOST_AGAIN:
                once_more(tests, memory_of(tests, everything, Path(memory)))
    return judge(everything, [alone(tests) for tests in everything])


def side_by_side(everything: Sequence[Tests], memory: Path) -> None:
    """Run what bears neighbours; note how each folder ended."""
    with ThreadPoolExecutor(FOLDERS_AT_ONCE) as pool:
        running = {pool.submit(together, tests, memory_of(tests, everything, memory)): tests for tests in everything}
        for done in as_completed(running):
            done.result()


def memory_of(tests: Tests, everything: Sequence[Tests], memory: Path) -> Path:
    """Where pytest remembers which of them failed: a folder may be there twice, with other marks."""
    return memory / str(next(place for place, other in enumerate(everything) if other is tests))


def together(tests: Tests, memory: Path) -> None:
    """Run what bears neighbours; show what it said when it has ended."""
    start = time.monotonic()
    log = CLONE / "target/log" / f"pytest-{re.sub('[^a-z0-9]+', '-', str(tests).strip('/)'))}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w") as said:
        options = ("-n", str(tests.jobs), "--dist", "worksteal", "-o", f"cache_dir={memory}")
        tests.code = _pytest(*options, *tests.chosen("not alone"), output=said)
    print(f"== pytest {tests}, {tests.jobs} at once: {time.monotonic() - start:.0f} s\n{log.read_text().rstrip()}", flush=True)
    if tests.code == FAILED:
        tests.failed = failures(memory)


def once_more(tests: Tests, memory: Path) -> None:
    """Run those again that failed, one at a time, with nothing beside them."""
    names = ", ".join(tests.failed)
    print(f"== pytest {tests}, once more and alone: {names}", flush=True)
    tests.code = _pytest("--last-failed", "-o", f"cache_dir={memory}", *tests.chosen("not alone"))
    if tests.code == PASSED:
        print(f"== Failed beside others, passed alone, to be mended: {names}", flush=True)


def alone(tests: Tests) -> int:
    """Run what bears no neighbours; how it ended."""
    print(f"== pytest {tests}, one at a time", flush=True)
    return _pytest(*tests.chosen("alone"))


def judge(everything: Iterable[Tests], codes: Iterable[int]) -> int:
    """The first that is no success. A folder whose tests all bear neighbours, or none, is fine; one without tests is not."""
    for tests, code in zip(everything, codes, strict=True):
        ended = {tests.code, code}
        if ended == {NONE}:
            return NONE
        if ended - {PASSED, NONE}:
            return max(ended - {PASSED, NONE})
    return PASSED


def failures(memory: Path) -> list[str]:
    """The tests that failed, or whose fixtures did, by pytest's own memory of its last run."""
    return sorted(json.loads((memory / "v/cache/lastfailed").read_text()))


def _pytest(*arguments: str, output: TextIO | None = None) -> int:
    command: Sequence[str] = (sys.executable, "-m", "pytest", "-q", "--strict-markers", *arguments)
    if not root_is_a_mount(Path("/proc/self/mountinfo").read_text()):
        command = mounts.own(("sh", "-c", CGROUPS, "sh", *command))
    return subprocess.run(command, cwd=CLONE, check=False, stdout=output, stderr=output and subprocess.STDOUT).returncode


def root_is_a_mount(mountinfo: str) -> bool:
    """By proc_pid_mountinfo(5), whose fifth field is where something is mounted, seen from the process's root."""
    return any(line.split()[4] == "/" for line in mountinfo.splitlines())


if __name__ == "__main__":
    sys.exit(main())
