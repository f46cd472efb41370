# SPDX-License-Identifier: Apache-2.0 OR MIT
"""All end-to-end tests: most of them several at once, then those that nothing may run beside.

    sudo .venv/bin/python .ci/e2e.py [--jobs 4]

Several at once wait for the same CPUs, and now and then a test sees a moment that it did not reckon with. At most three such
tests are run once more, with nothing beside them, and are named: one that passes then has a fault of its own, which is to be
mended, and does not say that the translator is broken. One that fails again is a failure.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

CLONE = Path(__file__).resolve().parents[1]
TESTS = CLONE / "tests/e2e"
MOST_AGAIN = 3
FAILED = 1  # pytest's exit code: tests ran, and some failed


def main() -> int:
    """Exit code 0 when every test passed, also if some did so at the second try."""
    parser = argparse.ArgumentParser(description="Run all end-to-end tests, as root.")
    parser.add_argument("--jobs", type=int, default=2 * (os.cpu_count() or 1), help="tests at once (default: %(default)s)")
    options = parser.parse_args()
    beside = _together(options.jobs)
    print("== pytest tests/e2e, one at a time", flush=True)
    alone = _pytest("-m", "alone", str(TESTS))
    return beside or alone


def _together(jobs: int) -> int:
    print(f"== pytest tests/e2e, {jobs} at once", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        code = _pytest("-n", str(jobs), "--dist", "worksteal", "-m", "not alone", f"--junit-xml={report}", str(TESTS))
        if code != FAILED:
            return code
        failed = failures(ElementTree.parse(report).getroot())
    if not 0 < len(failed) <= MOST_AGAIN:
        return code
    print(f"== pytest tests/e2e, once more and alone: {', '.join(failed)}", flush=True)
    code = _pytest(*(str(TESTS / name) for name in failed))
    if code == 0:
        print(f"== Failed beside others, passed alone, to be mended: {', '.join(failed)}", flush=True)
    return code


def failures(suites: ElementTree.Element) -> list[str]:
    """What a report of pytest in JUnit's form calls failed, each as a file and a name in it."""
    return [
        f"{case.get('classname', '').rpartition('.')[2]}.py::{case.get('name')}"
        for case in suites.iter("testcase")
        if case.find("failure") is not None or case.find("error") is not None
    ]


def _pytest(*arguments: str) -> int:
    command: Sequence[str] = (sys.executable, "-m", "pytest", "-q", "--strict-markers", *arguments)
    return subprocess.run(command, cwd=CLONE, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
