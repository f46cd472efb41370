# SPDX-License-Identifier: Apache-2.0 OR MIT
"""End-to-end tests of `diolkos`: the built program, real tools, network namespaces that each test makes and removes."""

from __future__ import annotations

import os
import subprocess
import warnings
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import pytest
from cluster import ClusterNetwork
from direct import Probe
from dns64 import Dns64Network
from home import HomeNetwork
from nat64 import Nat64Network
from network import Network, Unsettled
from pktgen import PktgenNetwork
from pref64 import Pref64Network
from siit import SiitNetwork

ROOT = Path(__file__).resolve().parents[2]

N = TypeVar("N", bound=Network)


BPF_FILE_SYSTEM = Path("/sys/fs/bpf")
MOUNTED = pytest.StashKey[bool]()


def pytest_configure(config: pytest.Config) -> None:
    """Say at once what is missing: a test that is skipped for want of root would pass unseen."""
    if os.geteuid() != 0:
        pytest.exit(
            "the end-to-end tests make network namespaces: run them as root",
            returncode=3,
        )
    if not program().exists():
        pytest.exit(f"{program()} is not built: run `make build`", returncode=3)
    config.addinivalue_line(
        "markers",
        "alone: sends at a rate or watches the CPUs, so nothing may run beside it",
    )
    # The workers of `pytest -n` share what stands below. Only their controller makes and removes it.
    if not hasattr(config, "workerinput"):
        make_folder_of_namespaces()
        config.stash[MOUNTED] = mount_bpf_file_system()


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove what `pytest_configure` made."""
    if config.stash.get(MOUNTED, False):
        subprocess.run(["umount", BPF_FILE_SYSTEM], check=True)


def make_folder_of_namespaces() -> None:
    """The first namespace ever made mounts their folder. Two processes that do so at once disturb each other."""
    name = f"dio-e2e-{os.getpid()}-first"
    subprocess.run(["ip", "netns", "add", name], check=True)
    subprocess.run(["ip", "netns", "del", name], check=True)


def mount_bpf_file_system() -> bool:
    """A NAT64 with a state file pins its links there. True if it was not mounted, as in a chroot, and is now."""
    look = ["findmnt", "--types", "bpf", BPF_FILE_SYSTEM]
    if subprocess.run(look, check=False, capture_output=True).returncode == 0:
        return False
    subprocess.run(["mount", "-t", "bpf", "bpf", BPF_FILE_SYSTEM], check=True)
    return True


def program() -> Path:
    """The program under test: of `make build`, or of the folder that DIOLKOS_PROGRAMS names."""
    built = Path(os.environ.get("DIOLKOS_PROGRAMS", ROOT / "bin")) / "diolkos"
    return Path(os.environ.get("DIOLKOS", built)).absolute()


@contextmanager
def standing(make: Callable[[], N]) -> Iterator[N]:
    """A network for as long as a test takes.

    The kernel once left a link of a new network without a link-local address, before anything under test ran. Such a network
    is told as a warning, and another one is made; a second in a row is a failure.
    """
    network = make()
    try:
        try:
            network.build()
        except Unsettled as found:
            warnings.warn(f"a new network had to be made again:\n{found}", stacklevel=2)
            network.remove()
            network = make()
            network.build()
        yield network
    finally:
        network.remove()


@pytest.fixture
def net() -> Iterator[Network]:
    """Client, router and server in namespaces of their own; see `network`."""
    with standing(lambda: Network(program())) as network:
        yield network


@pytest.fixture
def siit(request: pytest.FixtureRequest) -> Iterator[SiitNetwork]:
    """An IPv4 host, a translator's router and an IPv6 host; see `siit`. Its parameter is the datapath."""
    with standing(
        lambda: SiitNetwork(program(), datapath=getattr(request, "param", "auto"))
    ) as network:
        yield network


@pytest.fixture
def dns64_network() -> Iterator[Dns64Network]:
    """A client, a DNS64 and a resolver; see `dns64`."""
    with standing(lambda: Dns64Network(program())) as network:
        yield network


@pytest.fixture
def pref64() -> Iterator[Pref64Network]:
    """A network that says its translation prefix; see `pref64`."""
    with standing(lambda: Pref64Network(program())) as network:
        yield network


@pytest.fixture
def nat64(request: pytest.FixtureRequest) -> Iterator[Nat64Network]:
    """An IPv4 host, a stateful translator's router and an IPv6 host behind it; see `nat64`. Its parameter is the datapath."""
    with standing(
        lambda: Nat64Network(program(), datapath=getattr(request, "param", "auto"))
    ) as network:
        yield network


@pytest.fixture
def home(request: pytest.FixtureRequest) -> Iterator[HomeNetwork]:
    """A household, whose router has one IPv4 address; see `home`. Its parameter is the datapath."""
    with standing(
        lambda: HomeNetwork(program(), datapath=getattr(request, "param", "auto"))
    ) as network:
        yield network


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> Iterator[ClusterNetwork]:
    """Routers, subscribers and a server, without gateways and engine; see `cluster`.

    Its parameter is the placement, or the number of gateways.
    """
    given = getattr(request, "param", "device")
    options = {"size": given} if isinstance(given, int) else {"placement": given}
    with standing(lambda: ClusterNetwork(program(), **options)) as network:
        yield network


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failed test of a cluster shows what its gateways say, while they are there."""
    report = yield
    network = getattr(item, "funcargs", {}).get("cluster")
    if report.when == "call" and report.failed and network is not None:
        report.sections.append(("cluster", network.story()))
    return report


@pytest.fixture
def wire() -> Iterator[PktgenNetwork]:
    """Two hosts and a relay; see `pktgen`."""
    with standing(lambda: PktgenNetwork(program())) as network:
        yield network


DATAPATHS = ["tc", "tun", "clsact"]
# A router's packets can also be translated at its interfaces, and sent on from there.
ROUTER_DATAPATHS = [*DATAPATHS, "inline", "direct", "xdp"]


@pytest.fixture(params=DATAPATHS)
def datapath(request: pytest.FixtureRequest) -> str:
    """Every way a packet can take: tc on tcx links, tc on clsact filters, the TUN device alone."""
    return request.param


@pytest.fixture
def probe(siit: SiitNetwork) -> Iterator[Callable[..., Probe]]:
    """Makes probes, which end with the test."""
    probes: list[Probe] = []

    def make(way: tuple[str, str, str, str, str], patience: float = 0.3) -> Probe:
        probes.append(Probe(siit, way, patience))
        return probes[-1]

    yield make
    for made in probes:
        made.close()
