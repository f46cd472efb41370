# SPDX-License-Identifier: Apache-2.0 OR MIT
"""docs/p4.md: each row of its table of features names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

from control import ROOT


def test_each_feature_has_its_tests() -> None:
    """By name, and in this folder."""
    tests = {
        name
        for file in Path(__file__).parent.glob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", file.read_text(), re.M)
    }
    on_bmv2 = set(re.findall(r"^(?:def )?(test_\w+)", Path(__file__).with_name("test_bmv2.py").read_text(), re.M))
    page = (ROOT / "docs/p4.md").read_text()
    rows = [line for line in page.splitlines() if re.search(r"\| (✓|✗)", line)]
    assert len(rows) == 13
    for row in rows:
        named = re.findall(r"`(test_\w+)`", row)
        assert named, row
        assert set(named) <= tests, row
        assert set(named) & on_bmv2, row
