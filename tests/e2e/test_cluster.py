# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Several NAT64 gateways as one, with real routers and a real engine, in normal operation and when something fails.

In all tests many flows of several subscribers run, and each byte is looked at: `Witness.report` fails if one is at the wrong
subscriber, or if an external port carries two.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network

import pytest
from cluster import ENGINE, LINK, ClusterNetwork
from plan import GATEWAYS, NODES, ROUTER4, ROUTER6, halves, owner, prefix
from witness import Report, Witness

# Seconds within which flows go on after a fault, on a machine that does much else.
SOON = 20.0
# A flow that has had no answer for so many seconds may have stopped.
LATELY = 3.0
# For how long a link that comes and goes is away, and for how long it is there between; seconds.
PAUSES, BETWEEN = (0.3, 2.0, 0.7), 0.5


ROUTERS = (ROUTER6, ROUTER4)


@pytest.fixture
def started(cluster: ClusterNetwork) -> Iterator[ClusterNetwork]:
    """An engine, and three gateways that know each other's bindings."""
    cluster.engine.start()
    cluster.gateways()
    cluster.settled()
    return cluster


def run_for(witness: Witness, seconds: float) -> Report:
    """Let all go on for a while. Nothing may be at the wrong place at any time of it."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        witness.report()
        time.sleep(min(1.0, max(0.0, end - time.monotonic())))
    return witness.report()


def homes(report: Report) -> dict[int, str]:
    """The gateway at which most flows of each subscriber were opened.

    All of them, unless a gateway did not reach another one for a moment, on a machine that does much else.
    """
    opened = Counter((flow.subscriber, owner(flow.seen[-1][0])) for flow in report.flows if flow.seen)
    return dict(key for key, _ in reversed(opened.most_common()))


def all_go_on(network: ClusterNetwork, witness: Witness, patience: float = SOON) -> Report:
    """Wait until each flow has had an answer lately, and say how they are."""
    report = witness.report()

    def is_so() -> bool:
        nonlocal report
        report = witness.report()
        return not report.silent(LATELY)

    with contextlib.suppress(AssertionError):
        network.until(is_so, patience)
    silent = report.silent(LATELY)
    kinds = Counter((flow.subscriber, flow.kind, flow.broken) for flow in silent)
    assert not silent, f"{len(silent)} flows: {kinds}, such as {silent[:2]}"
    report.nothing_moved()
    return report


def new_flows_begin(network: ClusterNetwork, witness: Witness, at: set[str], patience: float = SOON) -> None:
    """Wait until new flows of all subscribers succeed, all at these gateways."""

    def is_so() -> bool:
        witness.fresh()
        new = run_for(witness, 1.5).new
        return all(each.opened >= 3 and {owner(address) for address in each.seen} <= at for each in new)

    network.until(is_so, patience)


@pytest.mark.parametrize("cluster", ["device", "inline", "direct"], indirect=True)
def test_a_flow_passes_by_any_gateway(started: ClusterNetwork) -> None:
    """Routers hash flows over all gateways, each direction by itself: a subscriber has one external home all the same."""
    witness = started.witness()
    homes(witness.fresh())
    before = {node: started.forwarded(node) for node in NODES}
    report = run_for(witness, 4)
    report.nothing_moved()
    assert sum(flow.lost for flow in report.flows) == 0
    assert report.gap() < SOON
    homes(report)
    # Two of three packets meet a gateway that is not their own.
    assert all(started.forwarded(node) - before[node] > 500 for node in NODES)
    assert all(each.opened > 5 and not each.failed for each in report.new), report.new
    # Answers of the server alone find the owner, too: a late answer has no request before it.
    shown = [started.cluster_status(node) for node in NODES]
    assert sum(status["bindings"] for status in shown) >= len(report.flows)


def test_flows_survive_gateways_that_die(started: ClusterNetwork) -> None:
    """One is killed and comes back, which routing daemons see at once; another one falls silent, which BFD tells."""
    witness = started.witness()
    first = homes(witness.fresh())
    dead = first[0]
    run_for(witness, 2)
    started.kill(dead)
    all_go_on(started, witness)
    new_flows_begin(started, witness, set(NODES) - {dead})

    started.gateways(dead)
    started.settled()
    # Its bindings are its own again, and so are its subscribers.
    new_flows_begin(started, witness, set(NODES))
    report = all_go_on(started, witness)
    assert homes(report) == first
    assert any(dead == owner(address) for each in report.new for address in each.seen)

    silent = next((node for node in first.values() if node != dead), next(node for node in NODES if node != dead))
    started.silence(silent)
    started.kill(silent)
    started.repels(silent)
    all_go_on(started, witness)
    new_flows_begin(started, witness, set(NODES) - {silent})


def test_customers_keep_addresses_of_their_own(cluster: ClusterNetwork) -> None:
    """Whichever gateway gives them, in programs and by copies, also when the home of one has died and comes back."""
    cluster.customers = (0, 2)
    cluster.engine.start()
    cluster.gateways()
    cluster.settled()

    def is_own(subscriber: int, address: str) -> bool:
        of_customers = IPv4Network(halves(GATEWAYS[owner(address)].pool4)[1])
        return (IPv4Address(address) in of_customers) == (subscriber in cluster.customers)

    def each_has_its_own(report: Report) -> None:
        seen = {(flow.subscriber, address) for flow in report.flows for address, _ in flow.seen}
        seen |= {(each.subscriber, address) for each in report.new for address in each.seen}
        assert {number for number, _ in seen} == {0, 1, 2, 3}
        assert all(is_own(number, address) for number, address in seen), sorted(seen)

    witness = cluster.witness()
    first = homes(witness.fresh())
    dead = first[0]
    each_has_its_own(run_for(witness, 2))
    cluster.kill(dead)
    all_go_on(cluster, witness)
    new_flows_begin(cluster, witness, set(NODES) - {dead})
    each_has_its_own(witness.report())
    cluster.gateways(dead)
    cluster.settled()
    new_flows_begin(cluster, witness, set(NODES))
    each_has_its_own(all_go_on(cluster, witness))


@pytest.mark.parametrize("cluster", [5], indirect=True)
def test_flows_survive_two_of_five_gateways_that_die(started: ClusterNetwork) -> None:
    """One after the other: what the second one had copied of the first one goes on as well."""
    witness = started.witness(udp=80, tcp=20)
    first = homes(witness.fresh())
    dead = first[0]
    started.kill(dead)
    all_go_on(started, witness)
    new_flows_begin(started, witness, set(started.all) - {dead})
    # The gateway that now opens bindings of the dead one's subscriber.
    heir = next(owner(address) for each in witness.report().new if each.subscriber == 0 for address in each.seen)
    left = set(started.all) - {dead, heir}
    started.kill(heir)
    all_go_on(started, witness)
    new_flows_begin(started, witness, left)
    assert {address for each in witness.report().new for address in map(owner, each.seen)} <= left


def test_flows_survive_links_that_come_and_go(started: ClusterNetwork) -> None:
    """A gateway's to the others, then to both routers; another one's to one router, while the other router uses it."""
    witness = started.witness()
    first = homes(witness.fresh())
    node, other = first[0], next(each for each in NODES if each != first[0])
    faults = {
        "gateways": (lambda: started.cut(LINK, node), lambda: started.mend(LINK, node)),
        "routers": (
            lambda: [started.lose(router, node) for router in ROUTERS],
            lambda: [started.regain(router, node) for router in ROUTERS],
        ),
        "one router": (lambda: started.lose(ROUTER4, other), lambda: started.regain(ROUTER4, other)),
    }
    for begin, end in faults.values():
        for pause in PAUSES:
            begin()
            run_for(witness, pause)
            end()
            run_for(witness, BETWEEN)
    started.attracts(node)
    started.attracts(other)
    started.settled()
    new_flows_begin(started, witness, set(NODES))
    assert homes(all_go_on(started, witness)) == first


def test_a_program_that_stands_still_confuses_nobody(started: ClusterNetwork) -> None:
    """Its programs in the kernel go on and its routes stay, for ten seconds; then it wakes up with what has waited."""
    witness = started.witness()
    frozen = homes(witness.fresh())[0]
    started.freeze(frozen)
    report = run_for(witness, 10)
    # New flows that meet another gateway begin there.
    others = {owner(address) for each in report.new for address in each.seen} - {frozen}
    assert others
    started.thaw(frozen)
    all_go_on(started, witness)
    started.settled()
    new_flows_begin(started, witness, set(NODES))
    all_go_on(started, witness)


def test_gateways_that_do_not_reach_each_other(started: ClusterNetwork) -> None:
    """One is cut from the others for longer than any term, and routers go on to use it."""
    witness = started.witness()
    cut = homes(witness.fresh())[0]
    started.cut(LINK, cut)
    run_for(witness, 15)
    all_go_on(started, witness)
    started.mend(LINK, cut)
    started.settled()
    new_flows_begin(started, witness, set(NODES))
    all_go_on(started, witness)


def test_the_engine_may_be_away(started: ClusterNetwork) -> None:
    """Cut from one gateway, standing still for all, wiped: none of it stops a flow or a new one. Then a gateway dies."""
    witness = started.witness()
    first = homes(witness.fresh())
    started.cut(ENGINE, first[0])
    run_for(witness, 7)
    started.mend(ENGINE, first[0])
    started.engine.freeze()
    report = run_for(witness, 10)
    report.nothing_moved()
    assert all(each.opened > 10 and each.silent < SOON for each in report.new), report.new
    assert report.gap() < SOON
    started.engine.thaw()
    started.until(started.engine.answers, 40)

    started.engine.wipe()
    run_for(witness, 2)
    started.engine.start()
    started.until(lambda: sum("/record" in key for key in started.engine.written()) == len(NODES), 40)
    report = run_for(witness, 5)
    report.nothing_moved()
    assert report.gap() < SOON

    started.kill(first[0])
    all_go_on(started, witness)
    new_flows_begin(started, witness, set(NODES) - {first[0]})


def test_a_drain_loses_no_packet(started: ClusterNetwork) -> None:
    """Its flows meet the other gateways from now on, and these send them to it."""
    witness = started.witness()
    leaving = homes(witness.fresh())[0]
    started.tell(leaving, "drain")
    started.repels(leaving)
    report = run_for(witness, 3)
    report.nothing_moved()
    report.nothing_lost()


def test_flows_survive_a_drain_a_stop_and_a_start(started: ClusterNetwork) -> None:
    """As for an upgrade."""
    witness = started.witness()
    first = homes(witness.fresh())
    leaving = first[0]
    started.tell(leaving, "drain")
    started.repels(leaving)
    new_flows_begin(started, witness, set(NODES) - {leaving})
    assert started.nodes.pop(leaving).stop() == 0
    all_go_on(started, witness)
    started.gateways(leaving)
    started.settled()
    all_go_on(started, witness)

    # The operator changes their mind.
    started.tell(leaving, "drain")
    started.repels(leaving)
    started.tell(leaving, "join")
    started.attracts(leaving)
    started.settled()
    new_flows_begin(started, witness, set(NODES))
    assert homes(all_go_on(started, witness)) == first


def test_an_engine_is_not_needed_to_begin_but_to_begin_alone(cluster: ClusterNetwork) -> None:
    """Gateways that start without the engine wait for a gateway that is away, and serve as soon as the engine is there."""
    for node in NODES[:2]:
        cluster.launch(node)
    for node in NODES[:2]:
        cluster.hears(node)
    cluster.until(lambda: all(cluster.cluster_status(node)["engine"]["reason"] for node in NODES[:2]), SOON)
    for node in NODES[:2]:
        status = cluster.cluster_status(node)
        assert (status["part"], status["attracts"]) == ("starting", False)
        assert NODES[2] in status["waits_for"]
    cluster.engine.start()
    for node in NODES[:2]:
        cluster.attracts(node)
    cluster.settled(*NODES[:2])
    witness = cluster.witness()
    cluster.gateways(NODES[2])
    cluster.settled()
    run_for(witness, 3)
    all_go_on(cluster, witness)


@pytest.mark.parametrize(
    ("customers", "change", "part"),
    [
        ((), {'"192.0.2.8/29"': '"192.0.2.8/30"'}, "[[cluster.node]]: names, pool4"),
        ((0,), {f'"{prefix(0)}/64"': f'"{prefix(1)}/64"'}, "cluster.node.pool4.sources"),
    ],
    ids=["owners", "customers"],
)
def test_files_that_differ_are_no_cluster(
    cluster: ClusterNetwork, customers: tuple[int, ...], change: dict[str, str], part: str
) -> None:
    """A gateway with another division of the pool has no part in it. Each side says in what the files differ."""
    cluster.customers = customers
    cluster.engine.start()
    cluster.launch(NODES[2], change)
    cluster.gateways(*NODES[:2])
    cluster.settled(*NODES[:2])

    def said(node: str, of: str) -> bool:
        found = [each["text"] for each in cluster.cluster_status(node)["findings"]]
        return any(of in text and "differs" in text and part in text for text in found)

    for node, other in ((NODES[0], NODES[2]), (NODES[2], NODES[0])):
        cluster.until(lambda node=node, other=other: said(node, other))
    shown = cluster.tell(NODES[0], "status", check=False)
    assert shown.returncode != 0
    assert part in shown.stdout
    assert not said(NODES[0], NODES[1])
    stranger = next(each for each in cluster.cluster_status(NODES[0])["nodes"] if each["name"] == NODES[2])
    assert not stranger["serves"] and not stranger["is_reachable"] and stranger["copies"] == 0


def test_a_node_waits_for_the_record_of_one_that_it_does_not_reach(cluster: ClusterNetwork) -> None:
    """Pools change their owners in the file. The node with the new file opens nothing, though it reaches no other one."""
    pools = [f'"{GATEWAYS[node].pool4}"' for node in NODES[:2]]
    exchanged = {pools[0]: '"moves"', pools[1]: pools[0], '"moves"': pools[1]}
    cluster.engine.start()
    cluster.gateways(NODES[0])
    cluster.cut(LINK, *NODES[:2])
    cluster.launch(NODES[1], exchanged)
    cluster.hears(NODES[1])

    def waits() -> bool:
        status = cluster.cluster_status(NODES[1])
        assert status["part"] in ("", "starting")
        text = f"the record of {NODES[0]} in etcd says that it serves by another file"
        return any(text in each["text"] for each in status["findings"])

    cluster.until(waits)
    # One that merely does not answer is waited for no longer than this; a record is, even if its node is dead.
    time.sleep(15)
    assert waits()
    cluster.kill(NODES[0])
    time.sleep(5)
    assert waits()
    cluster.mend(LINK, *NODES[:2])
    cluster.gateways(NODES[0], changes=exchanged)
    cluster.attracts(NODES[1])
    cluster.settled(*NODES[:2])
