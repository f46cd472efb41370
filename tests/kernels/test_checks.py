# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Checks in a guest, without a guest: lines, names of tests, cables. The lab has the tests of guests themselves."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import cabling
import inside
import pytest
import run


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("tests/e2e/test_x.py::test_y[tc-4to6] PASSED       [ 50%]", ("ok", "e2e/test_x.py::test_y[tc-4to6]")),
        ("tests/e2e/test_x.py::test_y ERROR", ("FAIL", "e2e/test_x.py::test_y")),
        ("test the_law ... FAILED", ("FAIL", "the_law")),
        ("test other ... ignored", ("skip", "other")),
        ("FAIL nat64 device tcx", ("FAIL", "nat64 device tcx")),
        ("running 4 tests", None),
        ("test result: ok. 4 passed", None),
    ],
)
def test_lines_of_checks(line: str, found: tuple[str, str] | None) -> None:
    """A line that is not understood as a failure would pass."""
    assert inside.check(line) == found


def test_a_part_that_has_ended_is_not_run_again() -> None:
    """The line that a part ends with is the one that is known again."""
    assert inside.ended("     places: 15 passed in 628 s") == "places"
    assert inside.ended("ok   places: clat tcx (111 s)") is None


@pytest.mark.parametrize("stumbles", [True, False])
def test_after_the_emulators_own_fault_only_the_rest_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stumbles: bool
) -> None:
    """What a guest is told when it boots the second time."""
    told = {"parts": ["places", "traffic"]}
    found = []

    class Stumbling:
        kernel, results = SimpleNamespace(release="6.1.0-1"), tmp_path

        def prepare(self, _: str) -> None:
            """Nothing is booted."""

        def run(self, _: float) -> Iterator[str]:
            """The lines of a guest."""
            yield "     places: 15 passed in 628 s"
            if stumbles:
                yield run.ONCE_MORE
            found.append(json.loads((tmp_path / "told.json").read_text())["parts"])

    assert run.passes(Stumbling(), told, 1)
    assert found == [["traffic"] if stumbles else ["places", "traffic"]]


def test_every_name_of_a_test_is_one() -> None:
    """pytest is asked once, without running them."""
    for part in inside.parts(run.UNBUILT | {"law_cases": 0}):
        if "pytest" in part.command:
            done = subprocess.run(
                [*part.command, "--collect-only"], cwd=part.folder, check=False, capture_output=True, text=True
            )
            assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("made", [cabling.with_taps(), cabling.with_hubs()], ids=["taps", "hubs"])
def test_each_cable_has_two_cards(made: cabling.Cabling) -> None:
    """Every card of a cable is in the guest, by the address that it is looked for."""
    devices = " ".join(made.devices)
    for ends in cabling.CABLES.values():
        for card in ends:
            assert devices.count(f"id={card},") == 1
            assert f"netdev={card},mac={cabling.address(card)}" in devices
