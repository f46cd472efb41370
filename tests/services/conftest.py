# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Tests of the units in packaging/systemd under a real systemd: the built program, real networks, real traffic."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))

from cluster import ClusterNetwork  # noqa: E402
from dns64 import Dns64Network  # noqa: E402
from machine import Machine  # noqa: E402
from nat64 import Nat64Network  # noqa: E402
from network import Network  # noqa: E402
from pages import Wires  # noqa: E402
from pref64 import Pref64Network  # noqa: E402


def program() -> Path:
    """The program under test: of `make build`, or of the folder that DIOLKOS_PROGRAMS names."""
    built = Path(os.environ.get("DIOLKOS_PROGRAMS", ROOT / "bin")) / "diolkos"
    return Path(os.environ.get("DIOLKOS", built)).absolute()


def pytest_configure(config: pytest.Config) -> None:
    """Say at once what is missing: a test that is skipped would pass unseen."""
    config.addinivalue_line("markers", "alone: nothing may run beside it")
    if os.geteuid() != 0:
        pytest.exit("the tests of services boot systemd in namespaces: run them as root", returncode=3)
    for needed in (str(program()), "/lib/systemd/systemd"):
        if not Path(needed).exists():
            pytest.exit(f"{needed} is not there: run `make build`", returncode=3)
    for tool in ("systemctl", "journalctl", "systemd-analyze", "unshare", "nsenter"):
        if shutil.which(tool) is None:
            pytest.exit(f"{tool} is not there: run `packaging/setup.sh run`", returncode=3)


@pytest.fixture
def nat64() -> Iterator[Nat64Network]:
    """An IPv4 host, a stateful translator's router and an IPv6 host behind it."""
    network = Nat64Network(program(), datapath="tc")
    try:
        network.build()
        yield network
    finally:
        network.remove()


@pytest.fixture
def net() -> Iterator[Network]:
    """Client, router and server."""
    network = Network(program())
    try:
        network.build()
        yield network
    finally:
        network.remove()


@pytest.fixture
def pref64() -> Iterator[Pref64Network]:
    """Client, router and server, of which the router says a translation prefix."""
    network = Pref64Network(program())
    try:
        network.build()
        yield network
    finally:
        network.remove()


@pytest.fixture
def dns64_network() -> Iterator[Dns64Network]:
    """A client, a DNS64's host and a resolver."""
    network = Dns64Network(program())
    try:
        network.build()
        network.unbound()
        yield network
    finally:
        network.remove()


@pytest.fixture
def cluster() -> Iterator[ClusterNetwork]:
    """Routers, subscribers and a server of a cluster, without gateways and engine."""
    network = ClusterNetwork(program())
    try:
        network.build()
        yield network
    finally:
        network.remove()


@pytest.fixture
def wires() -> Iterator[Wires]:
    """Boxes of a page, which has to lay the wires between them."""
    network = Wires(program())
    try:
        yield network
    finally:
        network.remove()


@pytest.fixture
def machine() -> Iterator[Callable[[Network, str], Machine]]:
    """Makes machines, and removes them before their networks."""
    with ExitStack() as stack:

        def make(network: Network, name: str) -> Machine:
            made = Machine(network, name)
            stack.callback(made.remove)
            return made

        yield make
