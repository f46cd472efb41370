# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What runs in a guest: every check of a kernel, one line each, two parts at a time.

Lines begin with ok, FAIL or skip; what a part said in full is in /run/results/PART.log.
"""

from __future__ import annotations

import json
import queue
import re
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
CLONE = HERE.parents[1]
RESULTS = Path("/run/results")
PYTHON = str(CLONE / ".venv/bin/python")
# udev, which would load it for its device node, does not run in a guest.
MODULES = ("tun",)
FLOWTABLE = ("nft_flow_offload", "nf_flow_table_inet", "nft_ct")
CARDS = ("virtio_net", "8021q", "vrf", "dummy", "ipvlan")
# What pytest, the tests of Rust, places.py and cards.py say of one check.
LINES = (
    (re.compile(r"(?P<name>\S+::\S+) (?P<word>PASSED|FAILED|ERROR|SKIPPED)"), {"PASSED": "ok", "SKIPPED": "skip"}),
    (re.compile(r"test (?P<name>\S+) \.\.\. (?P<word>ok|FAILED|ignored)"), {"ok": "ok", "ignored": "skip"}),
    (re.compile(r"(?P<word>ok|FAIL|skip) (?P<name>.+)"), {"ok": "ok", "skip": "skip"}),
)
# What a part says of itself at its end.
ENDED = re.compile(r" {5}(\S+): \d+ passed in \d+ s")
# Of the end-to-end tests, seconds: an emulated processor is slow, and the host may have other work.
PATIENCE = {"DIOLKOS_PATIENCE": "90"}
ROUTERS = "tests/test_sut_router.py::test_a_forwarder_forwards_past_the_kernel_and_leaves_it_the_rest"
# Parts: a guest has two CPUs.
AT_ONCE = 2
FAILED = threading.Event()
# The end-to-end tests have none of its tests, and an emulated processor takes long to import it for its last words.
NO_HYPOTHESIS = ("-p", "no:hypothesispytest")
# Variables of the host's that all parts are given; `main` reads them.
SETTINGS: dict[str, str] = {}


@dataclass
class Part:
    """Some checks by one command."""

    name: str
    command: list[str]
    folder: Path = CLONE
    environment: dict[str, str] = field(default_factory=dict)
    least: int = 1
    """So many checks have to pass: a part that runs nothing is a failure."""
    needs: tuple[str, ...] = ()
    """Modules of the kernel, which one that was built for a purpose may not have."""

    def run(self) -> None:
        """Run it; say each check as it ends."""
        start = last = time.monotonic()
        passed = failed = 0
        with (RESULTS / f"{self.name}.log").open("w") as log:
            process = subprocess.Popen(
                ["env", *(f"{key}={value}" for key, value in (PATIENCE | SETTINGS | self.environment).items()), *self.command],
                cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                errors="replace",
            )  # fmt: skip
            for line in process.stdout:
                log.write(line)
                log.flush()
                if found := check(line):
                    word, name = found
                    now = time.monotonic()
                    print(f"{word:<4} {self.name}: {name} ({now - last:.0f} s)", flush=True)
                    last = now
                    passed += word == "ok"
                    failed += word == "FAIL"
            status = process.wait()
        if status or passed < self.least:
            FAILED.set()
            if not failed:
                print(f"FAIL {self.name}: it ended with {status} after {passed} of at least {self.least} checks", flush=True)
        print(f"     {self.name}: {passed} passed in {time.monotonic() - start:.0f} s", flush=True)


def check(line: str) -> tuple[str, str] | None:
    """Whether a check passed, and its name, if the line says so."""
    for pattern, words in LINES:
        if found := pattern.match(line):
            return words.get(found["word"], "FAIL"), found["name"].removeprefix("tests/")
    return None


def ended(line: str) -> str | None:
    """The part that has ended, if the line says so."""
    found = ENDED.fullmatch(line)
    return found[1] if found else None


def pytest(name: str, tests: list[str], *options: str, folder: Path = CLONE) -> Part:
    """Tests in Python; a name that is no test any more is an error."""
    # Twice: the lab's own settings are quiet.
    command = [PYTHON, "-m", "pytest", "-vv", "--no-header", "-p", "no:cacheprovider", *options, *tests]
    return Part(name, command, folder, least=len(tests))


def chosen(name: str) -> list[str]:
    """The names in a file."""
    lines = (HERE / f"{name}.txt").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def parts(told: dict) -> list[Part]:
    """All, those first that take longest, so that none is left to run alone."""
    cases = {"DIOLKOS_LAW_CASES": str(told["law_cases"])}
    shapes = {"PROPTEST_CASES": "16"}
    return [
        pytest("traffic", chosen("traffic"), *NO_HYPOTHESIS),
        Part("law", [told["law"], "--test-threads=1"], CLONE / "crates/gateway", cases, 4),
        Part("places", [PYTHON, str(HERE / "places.py")], least=7),
        Part("cards", [PYTHON, str(HERE / "cards.py")], least=8, needs=CARDS),
        Part("queues", [PYTHON, str(HERE / "queues_of_cards.py")], least=4, needs=CARDS),
        Part("flowtable", [PYTHON, str(HERE / "flowtable.py")], least=7, needs=FLOWTABLE),
        pytest("generator", chosen("generator"), *NO_HYPOTHESIS),
        pytest("routers", [ROUTERS], folder=CLONE / "lab"),
        Part("doctor", [PYTHON, str(HERE / "doctor.py")]),
        Part("generator-programs", [told["kernel"], "--test-threads=1"], CLONE / "lab/pktgen", shapes),
        Part("sessions", [told["sessions"], "--test-threads=1"], CLONE / "crates/fastpath", least=9),
        Part("forwarding", [told["forwarding"], "--test-threads=1"], CLONE / "crates/fastpath", least=12),
        Part("gateway-links", [told["gateway_links"], "--test-threads=1"], CLONE / "crates/fastpath", least=2),
        Part("vlans", [told["vlans"], "--test-threads=1"], CLONE / "crates/fastpath", least=3),
    ]


# Of Rust, by the names of their files.
TESTS = ("law", "sessions", "forwarding", "gateway_links", "vlans", "kernel")
NAMES = [part.name for part in parts({**dict.fromkeys(TESTS, ""), "law_cases": 0})]


def main() -> int:
    """The parts that are wanted."""
    told = json.loads((RESULTS / "told.json").read_text())
    SETTINGS.update(told["settings"])
    subprocess.run(["modprobe", "-a", *MODULES], check=False)
    wanted = set(told["parts"])
    waiting = queue.SimpleQueue()
    for part in parts(told):
        if part.name in wanted:
            waiting.put(part)
        else:
            print(f"skip {part.name}: not wanted", flush=True)

    def run() -> None:
        while True:
            try:
                part = waiting.get_nowait()
            except queue.Empty:
                return
            if part.needs and subprocess.run(["modprobe", "-qa", *part.needs], check=False).returncode != 0:
                print(f"skip {part.name}: this kernel has not all of the modules {', '.join(part.needs)}", flush=True)
            else:
                part.run()

    threads = [threading.Thread(target=run) for _ in range(AT_ONCE)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return 1 if FAILED.is_set() else 0


if __name__ == "__main__":
    sys.exit(main())
