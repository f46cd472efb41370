# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The switch is not built with a DPDK that is too old for it, which is said in a sentence."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from control import ROOT


def test_an_old_dpdk_is_refused(tmp_path: Path) -> None:
    """Before anything is compiled: Ubuntu 22.04 has 21.11."""
    (tmp_path / "libdpdk.pc").write_text("Name: DPDK\nDescription: DPDK\nVersion: 21.11.9\nCflags:\nLibs:\n")
    done = subprocess.run(
        ["make", "-C", str(ROOT / "switch"), f"OUT={tmp_path}"],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "PKG_CONFIG_PATH": str(tmp_path)},
    )
    assert done.returncode != 0
    assert "diolkos-switch needs libdpdk 22.11 or newer, and pkg-config finds 21.11.9" in done.stderr
    assert not (tmp_path / "diolkos-switch").exists()
