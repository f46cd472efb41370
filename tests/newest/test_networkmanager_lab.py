# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The lab measures NetworkManager's CLAT as it measures others: found in an installation, started, told apart, removed."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import ROOT
from network import Network

sys.path.insert(0, str(ROOT / "lab/src"))

from diolkos_lab.experiment.definition import Subject, Topology
from diolkos_lab.sut import definition, lookup
from diolkos_lab.sut.program import SutFault
from diolkos_lab.sut.running import RunningSystem
from diolkos_lab.topology import addresses as plan
from diolkos_lab.topology import namespace
from diolkos_lab.topology.lane import Lane, Shape
from diolkos_lab.topology.process import run_to_end

CLAT = Subject(system="networkmanager", datapath="clat", family="ipv4")
ITS_OWN = "192.0.0.5"
PAYLOAD = bytes(range(256)) * 4


@pytest.fixture
def lane() -> Iterator[Lane]:
    """An IPv6-only access network."""
    ground = Topology()
    with Lane("newest", Shape(1, ipv6_only=True, offloads=True, pref64=ground.pref64, mtu=ground.mtu)) as made:
        yield made


def system(sid: Path) -> lookup.Found:
    """The installation's NetworkManager."""
    found = lookup.find(definition.load_all()["networkmanager"], {"networkmanager": str(sid)})
    assert isinstance(found, lookup.Found), found
    return found


def left_of(lane: Lane) -> list[int]:
    """Processes in the lane's namespaces."""
    return sorted(namespace.processes_inside({lane.namespace(role) for role in lane.roles}))


def ask(lane: Lane, folder: Path, *command: str) -> str:
    """What a command prints on the client."""
    return run_to_end(lane.namespace("client"), command, folder / "out")[1]


def exchange(lane: Lane, kind: socket.SocketKind) -> tuple[bytes, str]:
    """What comes back of a payload that the server echoes, and whom the client was to its own mind."""
    with namespace.entered(lane.namespace("server")):
        server = socket.socket(socket.AF_INET6, kind)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(("", plan.BOUND))
    with namespace.entered(lane.namespace("client")):
        client = socket.socket(socket.AF_INET, kind)
    with server, client:
        server.settimeout(10)
        client.settimeout(10)
        if kind == socket.SOCK_STREAM:
            server.listen()
        client.connect((str(plan.LITERAL4), plan.BOUND))
        client.send(PAYLOAD)
        if kind == socket.SOCK_STREAM:
            peer, _ = server.accept()
            with peer:
                peer.settimeout(10)
                peer.sendall(peer.recv(len(PAYLOAD), socket.MSG_WAITALL))
                return client.recv(len(PAYLOAD), socket.MSG_WAITALL), client.getsockname()[0]
        said, who = server.recvfrom(len(PAYLOAD))
        server.sendto(said, who)
        return client.recv(len(PAYLOAD)), client.getsockname()[0]


def test_it_translates_and_ends_and_starts_again(sid: Path, lane: Lane, tmp_path: Path) -> None:
    """Echoes, TCP and UDP of the application's IPv4 reach a server behind the prefix."""
    running = RunningSystem(system(sid), CLAT, lane, tmp_path / "system")
    try:
        for _ in range(2):
            running.start()
            running.check_alive()
            assert f"inet {ITS_OWN}/32" in ask(lane, tmp_path, "ip", "-4", "address", "show", "dev", plan.UPLINK)
            assert "2 received" in ask(lane, tmp_path, "ping", "-c2", "-n", str(plan.LITERAL4))
            for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
                assert exchange(lane, kind) == (PAYLOAD, ITS_OWN), kind
            running.stop()
            assert left_of(lane) == []
    finally:
        running.stop()


def test_all_of_it_ends_with_its_first_process(sid: Path, lane: Lane, tmp_path: Path) -> None:
    """Also when that is killed, as when the lab is; the lab says which system died."""
    running = RunningSystem(system(sid), CLAT, lane, tmp_path / "system")
    try:
        running.start()
        running.processes[-1].kill()
        with pytest.raises(SutFault, match="networkmanager was killed by SIGKILL"):
            running.check_alive()
        running.stop()
        Network.until(lambda: left_of(lane) == [])
    finally:
        running.stop()


def test_the_installation_and_the_host_stay_as_they_are(sid: Path, lane: Lane, tmp_path: Path) -> None:
    """It writes to a layer in memory, which nobody else sees."""
    before = {path: path.stat().st_mtime_ns for path in (sid / "etc", sid / "run", sid / "var/lib/NetworkManager")}
    mounts = Path("/proc/self/mountinfo").read_text()
    running = RunningSystem(system(sid), CLAT, lane, tmp_path / "system")
    try:
        running.start()
        assert Path("/proc/self/mountinfo").read_text() == mounts
    finally:
        running.stop()
    assert {path: path.stat().st_mtime_ns for path in before} == before
