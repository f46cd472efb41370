# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Tests beside the newest programs of Debian: sid's NetworkManager and systemd, each in an installation of its own.

`make test-newest` runs them. The installation is made once, of packages, below target/machines.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / name) for name in ("e2e", "packages", "services")]

from host import system  # noqa: E402
from pref64 import Pref64Network  # noqa: E402

# With what the tests look, and what they are about.
FURTHER = ("dbus", "iputils-ping", "network-manager")


def program() -> Path:
    """The program under test: of `make build`, or of the folder that DIOLKOS_PROGRAMS names."""
    built = Path(os.environ.get("DIOLKOS_PROGRAMS", ROOT / "bin")) / "diolkos"
    return Path(os.environ.get("DIOLKOS", built)).absolute()


def pytest_configure() -> None:
    """Say at once what is missing: a test that is skipped would pass unseen."""
    if os.geteuid() != 0:
        pytest.exit("these tests work in namespaces of their own: run them as root", returncode=3)
    if not program().exists():
        pytest.exit(f"{program()} is not there: run `make build`", returncode=3)
    for tool, how in (("mmdebstrap", "deb"), ("dnsmasq", "run")):
        if shutil.which(tool, path="/usr/sbin:/usr/bin") is None:
            pytest.exit(f"{tool} is not there: run `packaging/setup.sh {how}`", returncode=3)


@pytest.fixture(scope="session")
def sid() -> Path:
    """An installation, which stays as it is."""
    return system("sid", FURTHER)


@pytest.fixture
def pref64() -> Iterator[Pref64Network]:
    """Client, router and server, of which the router says a translation prefix."""
    network = Pref64Network(program())
    try:
        network.build()
        yield network
    finally:
        network.remove()
