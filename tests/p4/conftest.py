# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Tests of the P4 program and its switch: on a pipe, and between two hosts in namespaces that each test makes and removes."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from control import Piped, piped, program
from router import Router, diolkos
from wires import Wires


def pytest_configure(config: pytest.Config) -> None:
    """Say at once what is missing: a test that is skipped for want of root would pass unseen."""
    config.addinivalue_line("markers", "alone: sends at a rate or watches the CPUs, so nothing may run beside it")
    if os.geteuid() != 0:
        pytest.exit("the tests of the switch make network namespaces: run them as root", returncode=3)
    if not program().exists():
        pytest.exit(f"{program()} is not built: run `make switch`", returncode=3)
    if not hasattr(config, "workerinput"):
        # The first namespace ever made mounts their folder, which two processes must not do at once.
        name = f"dio-p4-{os.getpid()}-first"
        subprocess.run(["ip", "netns", "add", name], check=True)
        subprocess.run(["ip", "netns", "del", name], check=True)


@pytest.fixture
def switch(tmp_path: Path) -> Iterator[Piped]:
    """A switch on a pipe, with two pairs of ports and empty tables."""
    with piped(tmp_path) as running:
        yield running


@pytest.fixture
def wires(tmp_path: Path) -> Iterator[Wires]:
    """Two hosts, and a switch between them that a test starts."""
    network = Wires(tmp_path)
    try:
        network.build()
        yield network
    finally:
        network.remove()


@pytest.fixture
def router(wires: Wires) -> Iterator[Router]:
    """diolkos beside the switch, once a test starts it."""
    if not Path(diolkos()).exists():
        pytest.skip(f"{diolkos()} is not built: run `make build`")
    running = Router(wires)
    try:
        yield running
    finally:
        if running.process:
            running.end(signal.SIGKILL)
