# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Several NAT64 gateways with one pool: slices, takeover, hand-over, forwarding, and an engine that goes away."""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
from collections.abc import Iterator

import pytest
from cluster import (
    CLIENT,
    ENGINE,
    NODES,
    PORT,
    PREF64,
    SERVER,
    Call,
    ClusterNetwork,
    freeze,
    in_ipv6,
    thaw,
)
from network import PATIENCE

LEASE = 3.0


@pytest.fixture
def started(cluster: ClusterNetwork) -> ClusterNetwork:
    """An engine, and two nodes that share the slices."""
    cluster.start_engine()
    cluster.nodes = {node: cluster.gateway(node) for node in NODES[:2]}
    cluster.settled(*NODES[:2])
    return cluster


def other(node: str) -> str:
    """The other one of the two that run."""
    return NODES[1] if node == NODES[0] else NODES[0]


def call_through(cluster: ClusterNetwork) -> tuple[Call, str, str]:
    """A call, the node that owns its slice, and its address of the pool; routers send all packets there."""
    call = Call(cluster)
    cluster.until(lambda: call.heard["far"] > 0)
    address = next(iter(call.seen_as))[0]
    owner = cluster.owner(address)
    cluster.lead_client(owner)
    cluster.lead_server(owner)
    call.goes_on()
    return call, owner, address


def test_nodes_share_the_pool_and_forward_what_is_not_theirs(
    started: ClusterNetwork,
) -> None:
    """Each address has one owner, and packets that come by the wrong node arrive all the same, on both ways."""
    call, owner, address = call_through(started)
    wrong = other(owner)
    assert [s["open"] > 0 for s in map(started.status, NODES[:2])] == [True, True]
    started.lead_client(wrong)
    started.lead_server(wrong)
    call.goes_on()
    forwarded = {node["name"]: node["forwarded"] for node in started.status(wrong)["nodes"]}
    assert forwarded[owner] >= 40
    assert call.seen_as == {(address, next(iter(call.seen_as))[1])}, "one binding all the while"
    # ICMP, in a slice that is another's or not.
    assert started.run(started.client, "ping", "-c3", "-i0.2", "-W2", in_ipv6(SERVER)).returncode == 0
    call.hang_up()


def test_a_call_goes_on_when_its_gateway_is_killed(started: ClusterNetwork) -> None:
    """What is established goes on as soon as routers have turned; new flows once the lease has ended."""
    call, owner, _address = call_through(started)
    near, far = started.connection(6000)
    near.sendall(b"before")
    assert far.recv(100) == b"before"
    heir = other(owner)
    started.until(lambda: started.status(heir)["standby_bindings"] >= 2)

    started.nodes[owner].process.send_signal(signal.SIGKILL)
    started.ip(started.gateways[owner], "link", "set", "a0", "down")
    # Routers, and the nodes' own routing daemons, have seen it.
    started.ip(
        started.gateways[heir],
        "route",
        "add",
        "unreachable",
        f"2001:db8:6::{owner[2:]}/128",
    )
    started.lead_client(heir)
    started.lead_server(heir)
    call.goes_on()
    far.sendall(b"after")
    assert near.recv(100) == b"after"
    near.sendall(b"again")
    assert far.recv(100) == b"again"
    assert len(call.seen_as) == 1, "as the server sees it, nothing has happened"

    # All slices are the heir's in the end: a new flow of a source whose slice was the other's.
    started.until(lambda: started.status(heir)["open"] == started.status(heir)["slices"])
    new = started.socket(CLIENT)
    new.connect((in_ipv6(SERVER), 5000))
    new.send(b"new")
    assert new.recv(100) == b"new"
    call.goes_on()
    assert len(call.seen_as) == 2, "the call's binding, and the new one"
    assert started.counter(heir, "inherited") >= 2
    call.hang_up()


def test_a_drain_loses_no_packet(started: ClusterNetwork) -> None:
    """All slices are handed over, and the node that comes back takes its share again."""
    call, owner, _address = call_through(started)
    heir = other(owner)
    call.fresh()
    said, heard = call.said, call.heard["near"]
    started.tell(owner, "drain")
    drained = started.status(owner)
    assert (drained["part"], drained["open"]) == ("drained", 0)
    # The heir opens the last ones when it has read what the drained node has told, and its view is up to 100 ms old.
    started.until(lambda: started.status(heir)["open"] == drained["slices"])
    # Routers turn only now, and meanwhile all was forwarded.
    metric = started.run(started.gateways[owner], "ip", "-6", "route", "show", PREF64).stdout
    assert "metric 1026" in metric
    started.lead_client(heir)
    started.lead_server(heir)
    call.goes_on()
    lost = (call.said - said) - (call.heard["near"] - heard)
    assert lost <= 1, f"{lost} packets have no answer; one may be on its way"
    assert max(call.silence.values()) < 1.0
    assert len(call.seen_as) == 1
    assert started.nodes[owner].stop() == 0
    call.goes_on()
    started.nodes[owner] = started.gateway(owner)
    started.settled(*NODES[:2])
    call.goes_on()
    assert len(call.seen_as) == 1
    call.hang_up()


def test_without_the_engine_nodes_go_on_with_what_they_have(
    started: ClusterNetwork,
) -> None:
    """New flows open until the lease ends; then they are refused, and come back with the engine. Known flows do not notice."""
    call, owner, _address = call_through(started)
    freeze(started.engine)
    started.until(lambda: started.status(owner)["part"] == "waiting")
    status = started.status(owner)
    assert status["open"] == 0
    assert status["trouble"], status
    new = started.socket(CLIENT)
    new.connect((in_ipv6(SERVER), 5000))
    new.settimeout(1)
    new.send(b"refused")
    with pytest.raises(TimeoutError):
        new.recv(100)
    call.goes_on()
    thaw(started.engine)
    started.settled(*NODES[:2])
    new.settimeout(10)
    new.send(b"again")
    assert new.recv(100) == b"again"
    call.goes_on()
    call.hang_up()


def test_a_node_that_alone_has_lost_the_engine_is_the_worse_way(
    started: ClusterNetwork,
) -> None:
    """Others may have its slices: routers should prefer them, until it has a lease again."""
    lonely, well = NODES[:2]

    def metrics(node: str) -> set[str]:
        shown = started.run(started.gateways[node], "ip", "-6", "route", "show", PREF64).stdout
        return set(re.findall(r"metric (\d+)", shown))

    started.ip(started.gateways[lonely], "route", "add", "unreachable", ENGINE)
    started.until(lambda: metrics(lonely) == {"1025"})
    assert started.status(lonely)["part"] == "waiting"
    started.until(lambda: started.status(well)["open"] == started.status(well)["slices"])
    assert metrics(well) == {"1024"}
    started.ip(started.gateways[lonely], "route", "del", "unreachable", ENGINE)
    started.until(lambda: metrics(lonely) == {"1024"})
    started.settled(*NODES[:2])


def test_an_engine_that_has_lost_everything_is_filled_again(
    started: ClusterNetwork,
) -> None:
    """Another store is another beginning: nobody opens in a slice that may still be another's."""
    call, _owner, _address = call_through(started)
    started.stop_engine()
    started.start_engine(wiped=True)
    started.settled(*NODES[:2])
    call.goes_on()
    assert len(call.seen_as) == 1
    call.hang_up()


def test_a_node_with_another_secret_takes_nothing(started: ClusterNetwork) -> None:
    """It is another cluster: refused, counted and told, and the others go on."""
    (started.scratch / "other").write_text("0" * 63 + "1")
    stranger = started.gateway(NODES[2], secret_file=f'"{started.scratch}/other"')
    started.until(lambda: started.counter(NODES[2], "strangers") > 0)
    status = started.status(NODES[2])
    assert (status["part"], status["open"]) == ("waiting", 0)
    assert "another cluster" in status["trouble"]
    assert "another cluster" in stranger.log()
    assert started.status(NODES[0])["part"] == "member"


def test_what_cannot_be_a_node_says_why(cluster: ClusterNetwork) -> None:
    """Wrong files, no engine, and a gateway that is alone."""
    refused = cluster.gateway(NODES[0], ready=False, secret_file='"/nowhere"')
    assert refused.wait() == 2
    assert "cluster.secret_file: /nowhere cannot be read" in refused.log()
    (cluster.scratch / "short").write_text("abc")
    refused = cluster.gateway(NODES[0], ready=False, secret_file=f'"{cluster.scratch}/short"')
    assert refused.wait() == 2
    assert "has not 64 hexadecimal digits" in refused.log()

    waits = cluster.gateway(NODES[0])
    cluster.until(lambda: cluster.status(NODES[0])["trouble"] is not None)
    status = cluster.status(NODES[0])
    assert (status["part"], status["server"]) == ("waiting", None)
    assert f"{ENGINE}:{PORT}" in status["trouble"]
    assert "engine    not connected" in cluster.tell(NODES[0], "status")
    assert waits.stop() == 0


def test_full_packets_are_forwarded(started: ClusterNetwork) -> None:
    """What belongs to another node is forwarded up to the MTU of the link: the way there costs no byte of it."""
    call, owner, _address = call_through(started)
    wrong = other(owner)
    call.hang_up()
    started.lead_client(wrong)
    before = started.counter(wrong, "forwarded")
    whole = 1500 - 40 - 8
    sent = started.run(
        started.client,
        "ping",
        "-c3",
        "-i0.2",
        "-W2",
        "-Mdo",
        f"-s{whole}",
        in_ipv6(SERVER),
    )
    assert sent.returncode == 0, sent.stdout
    started.until(lambda: started.counter(wrong, "forwarded") >= before + 3)
    assert started.counter(wrong, "forward_dropped") == 0


@contextlib.contextmanager
def disagreement(cluster: ClusterNetwork, owner: str) -> Iterator[None]:
    """A frozen node gets a slice without knowing it, and its program still sends packets back to the owner before."""
    frozen = cluster.nodes[other(owner)].process
    freeze(frozen)
    drain = cluster.start(cluster.gateways[owner], str(cluster.program), "cluster", "drain")
    cluster.until(lambda: cluster.status(owner)["open"] == 0)
    yield
    thaw(frozen)
    assert drain.wait(PATIENCE) == 0


def test_nodes_that_disagree_do_not_send_a_packet_round(started: ClusterNetwork) -> None:
    """The call hardly notices, and goes on when they agree again."""
    call, owner, _address = call_through(started)
    with disagreement(started, owner):
        call.fresh()
        call.goes_on()
        assert max(call.silence.values()) < 0.5
        assert started.counter(owner, "forward_returned") > 0
    started.tell(owner, "join")
    started.settled(*NODES[:2])
    call.goes_on()
    assert len(call.seen_as) == 1
    call.hang_up()


def test_no_kind_of_packet_goes_round(started: ClusterNetwork) -> None:
    """TCP, pings and fragments, both ways."""
    call, owner, _address = call_through(started)
    call.hang_up()
    stream, far = started.connection(6000)
    ping = started.start(started.client, "ping", "-n", "-i0.1", in_ipv6(SERVER), stdout=subprocess.PIPE, text=True)
    assert ping.stdout is not None
    server = started.socket(SERVER, 7000)
    large = started.socket(CLIENT)
    large.connect((in_ipv6(SERVER), 7000))

    def exchange(word: bytes) -> None:
        """By each kind, with an answer."""
        stream.sendall(word)
        assert far.recv(9000) == word
        far.sendall(word)
        assert stream.recv(9000) == word
        large.send(4000 * word)
        datagram, back = server.recvfrom(9000)
        assert datagram == 4000 * word
        server.sendto(datagram, back)
        assert large.recv(9000) == datagram
        assert "bytes from" in ping.stdout.readline()

    def returned() -> int:
        return started.counter(owner, "forward_returned")

    def is_going_round() -> bool:
        exchange(b"b")
        return returned() > 0

    ping.stdout.readline()
    exchange(b"a")
    with disagreement(started, owner):
        # A closed slice is the owner's until its entry names the other.
        started.until(is_going_round)
        before = returned()
        exchange(b"c")
        # TCP and a datagram of three fragments, each way; what nodes say of themselves is up to 100 ms old.
        started.until(lambda: returned() >= before + 2 * (1 + 3))
    exchange(b"d")
    ping.send_signal(signal.SIGINT)


def test_removed_entries_are_written_again(started: ClusterNetwork) -> None:
    """Somebody deletes what the nodes have written, in every way that NATS has. Known flows do not notice."""
    call, owner, _address = call_through(started)
    slices = started.status(owner)["slices"]
    started.remove_entries(*(f"slice.{number}" for number in range(slices)))
    started.until(lambda: started.counter(owner, "strangers") >= slices)
    started.settled(*NODES[:2])
    assert started.status(owner)["trouble"] is None
    new = started.socket(CLIENT)
    new.connect((in_ipv6(SERVER), 5000))
    new.send(b"new")
    assert new.recv(100) == b"new"
    seen = set(call.seen_as)

    key = f"node.{owner[2:]}"
    for removal in (started.remove_entries, started.purge_entries):
        removal(key)
        # Its life ends, and another one begins when a lease has ended.
        started.until(lambda: started.status(owner)["part"] == "waiting")
        started.settled(*NODES[:2])
    call.goes_on()
    assert call.seen_as == seen
    call.hang_up()
