# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Tests of the Debian packages in bare installations of distributions, under a real systemd, with real traffic.

`make test-deb` builds the packages first. DIOLKOS_RELEASES="bookworm trixie" names the distributions.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))

from host import Host  # noqa: E402
from nat64 import Nat64Network  # noqa: E402

BUILT = Path(os.environ.get("DIOLKOS_PACKAGES", ROOT / "target" / "deb"))
RELEASES = os.environ.get("DIOLKOS_RELEASES", "bookworm").split()
# A program that finds no fault with a configuration, and then does not run.
BROKEN = """#!/bin/sh
[ "$1" != check ] || exit 0
echo "this program is broken" >&2
exit 1
"""


def pytest_configure() -> None:
    """Say at once what is missing: a test that is skipped would pass unseen."""
    if os.geteuid() != 0:
        pytest.exit("the tests of packages boot systemd in namespaces: run them as root", returncode=3)
    if not list(BUILT.glob("diolkos_*.deb")):
        pytest.exit(f"{BUILT} has no packages: run `make deb`", returncode=3)
    for tool in ("mmdebstrap", "dpkg-deb", "unshare", "nsenter"):
        if shutil.which(tool) is None:
            pytest.exit(f"{tool} is not there: run `packaging/setup.sh deb`", returncode=3)
    for tool in ("curl", "dig", "nginx", "unbound"):
        if shutil.which(tool) is None:
            pytest.exit(f"{tool} is not there: run `packaging/setup.sh run`", returncode=3)


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the packages, and with two that are newer: `newer.deb` has the same program, that of `broken.deb` fails."""
    folder = tmp_path_factory.mktemp("packages")
    for package in BUILT.glob("*.deb"):
        shutil.copy(package, folder / f"{package.name.split('_')[0]}.deb")
    repack(folder, "newer", "999")
    repack(folder, "broken", "998", program=BROKEN)
    return folder


def repack(folder: Path, name: str, version: str, program: str | None = None) -> None:
    """Make a package out of `diolkos.deb` with another version, and with a script for a program if one is given."""
    unpacked = folder / "unpacked"
    subprocess.run(("dpkg-deb", "--raw-extract", folder / "diolkos.deb", unpacked), check=True)
    control = unpacked / "DEBIAN" / "control"
    lines = control.read_text().splitlines()
    control.write_text("\n".join(f"Version: {version}" if line.startswith("Version:") else line for line in lines) + "\n")
    if program is not None:
        (unpacked / "usr" / "bin" / "diolkos").write_text(program)
    build = ("dpkg-deb", "--root-owner-group", "-Znone", "--build", unpacked, folder / f"{name}.deb")
    subprocess.run(build, check=True, capture_output=True)
    shutil.rmtree(unpacked)


@pytest.fixture
def network(packages: Path, tmp_path: Path) -> Iterator[Nat64Network]:
    """An IPv4 host, a router and an IPv6 host. The program is the package's, which only looks here."""
    subprocess.run(("dpkg-deb", "--extract", packages / "diolkos.deb", tmp_path), check=True)
    made = Nat64Network(tmp_path / "usr" / "bin" / "diolkos")
    try:
        made.build()
        yield made
    finally:
        made.remove()


@pytest.fixture(params=RELEASES)
def release(request: pytest.FixtureRequest) -> str:
    """The name of a distribution's release."""
    return str(request.param)


@pytest.fixture
def host(release: str, network: Nat64Network, packages: Path) -> Iterator[Host]:
    """The router, booted from a bare installation."""
    made = Host(network, network.translator, release, packages)
    try:
        made.boot()
        yield made
    finally:
        made.remove()
