# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Systems with known answers come up, do what they say, come up again, and leave nothing behind."""

import contextlib
import math
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from diolkos_lab.experiment.definition import Subject, Topology
from diolkos_lab.sut import definition, lookup
from diolkos_lab.sut.running import RunningSystem
from diolkos_lab.topology import addresses as plan
from diolkos_lab.topology import namespace
from diolkos_lab.topology.lane import Lane, Shape
from diolkos_lab.topology.process import run_to_end

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
from calibration import truths

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("clean_machine")]

SERVER = (str(plan.SERVER6), 9)
COUNTED = """
table inet t {
    chain c {
        type filter hook input priority 0;
        udp dport 9 counter
        icmpv6 type echo-request counter
    }
}
"""


@pytest.fixture
def lane(tmp_path: Path) -> Iterator[Lane]:
    with Lane("test", Shape(1, ipv6_only=False, offloads=True, pref64=Topology().pref64, mtu=1500)) as made:
        rules = tmp_path / "rules"
        rules.write_text(COUNTED)
        assert _run(made, tmp_path, "server", "nft", "-f", str(rules))[0] == 0
        yield made


def _run(lane: Lane, folder: Path, role: str, *command: str) -> tuple[int, str]:
    (folder / "out").write_text("")
    return run_to_end(lane.namespace(role), list(command), folder / "out")


def _started(folder: Path, lane: Lane, name: str) -> RunningSystem:
    """Twice: what is started again after a failure has each rule once."""
    system, datapath = name.split("/")
    found = lookup.find(definition.load_all()[system], {})
    assert isinstance(found, lookup.Found), found
    subject = Subject(system=system, datapath=datapath, family="ipv6")
    running = RunningSystem(found, subject, lane, folder / "system")
    for _ in range(2):
        running.stop()
        running.start()
    return running


def _received(lane: Lane, folder: Path, what: str) -> int:
    text = _run(lane, folder, "server", "nft", "list", "ruleset")[1]
    line = next(line for line in text.splitlines() if what in line)
    return int(line.partition("packets ")[2].split()[0])


@contextlib.contextmanager
def _flows(lane: Lane, count: int) -> Iterator[list[socket.socket]]:
    """Sockets at the client, each with a port of its own."""
    with contextlib.ExitStack() as stack:
        with namespace.entered(lane.namespace("client")):
            made = [stack.enter_context(socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)) for _ in range(count)]
        yield made


@pytest.mark.parametrize("name", ["shaper/rate", "shaper/delay-short", "shaper/delay-long"])
def test_a_shaper_holds_packets_up_and_loses_none(name: str, tmp_path: Path, lane: Lane) -> None:
    running = _started(tmp_path, lane, name)
    before = _received(lane, tmp_path, "echo-request")
    status, text = _run(lane, tmp_path, "client", "ping", "-n", "-c", "5", "-i", "0.03", "-W", "2", str(plan.SERVER6))
    assert status == 0 and "5 received" in text and "DUP" not in text and "duplicates" not in text, text
    assert _received(lane, tmp_path, "echo-request") - before == 5, "the decoys are for nobody"
    text = _run(lane, tmp_path, "router", "tc", "-s", "qdisc", "show", "dev", plan.SERVER_LINK)[1]
    assert text.count("qdisc tbf") == 1 and "dropped 0, overlimits" in text
    if running.subject.datapath in truths.DELAYS:
        overlimits = int(text.partition("overlimits ")[2].split()[0])
        assert overlimits >= 5, "each request had to wait"


def test_a_limiter_loses_its_share_by_chance(tmp_path: Path, lane: Lane) -> None:
    _started(tmp_path, lane, "limiter/loss")
    packets, share = 40_000, 1 / truths.LOST_ONE_IN
    with _flows(lane, 1) as [flow]:
        for _ in range(packets):
            flow.sendto(b"", SERVER)
    lost = packets - _received(lane, tmp_path, "udp dport 9")
    assert lost == pytest.approx(packets * share, abs=6 * math.sqrt(packets * share))


def test_a_table_holds_what_it_has_room_for(tmp_path: Path, lane: Lane) -> None:
    running = _started(tmp_path, lane, "limiter/table")
    table = running.sessions
    assert table and table.count() == 0 and not running.keeps_state
    with _flows(lane, 1) as [flow]:
        where = [(str(plan.SERVER6), 10_000 + number) for number in range(truths.TABLE + 100)]
        for address in where:
            flow.sendto(b"", address)
    assert table.count() == truths.TABLE
    table.clear()
    assert table.count() == 0


def test_a_responder_lets_known_flows_pass_and_few_new_ones_at_once(tmp_path: Path, lane: Lane) -> None:
    running = _started(tmp_path, lane, "limiter/responder")
    with _flows(lane, 50) as flows:
        for flow in flows:
            flow.sendto(b"", SERVER)
        assert _received(lane, tmp_path, "udp dport 9") == 50, "fewer than may come at once"
        for flow in flows * 40:
            flow.sendto(b"", SERVER)
        assert _received(lane, tmp_path, "udp dport 9") == 50 + 2000, "and their packets pass at any rate"
    assert running.sessions and running.sessions.count() == 50
