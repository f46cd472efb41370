# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A new file for all gateways of a cluster, by one command at each of them."""

from __future__ import annotations

import pytest
from cluster import SETTLED, ClusterNetwork
from network import Running
from plan import NODES

# The last gateway has half of its addresses at first, so all nodes need a new file.
FEWER = {'"192.0.2.16/28"': '"192.0.2.16/29"'}


@pytest.fixture
def started(cluster: ClusterNetwork) -> ClusterNetwork:
    """Three gateways with the old file."""
    cluster.engine.start()
    for node in NODES:
        cluster.launch(node, FEWER)
    for node in NODES:
        cluster.hears(node)
    cluster.settled()
    return cluster


def new_file(cluster: ClusterNetwork, node: str, changes: dict[str, str] | None = None) -> None:
    """Put another file in the place of a gateway's own."""
    (cluster.scratch / f"{node}.toml").write_text(cluster.configuration(node, changes))


def roll(cluster: ClusterNetwork, node: str) -> Running:
    """Run the command, and do not wait for its end."""
    log = cluster.scratch / f"log-roll-{node}"
    with log.open("w") as sink:
        process = cluster.start(
            cluster.names[node],
            str(cluster.program),
            "cluster",
            "roll",
            stdout=sink,
            stderr=sink,
        )
    return Running(process, log)


def test_all_gateways_go_over_to_a_new_file_together(started: ClusterNetwork) -> None:
    """A wrong file is refused, what is missing is named, and in the end all serve by the new file, in the same processes."""
    cluster = started
    before = {cluster.cluster_status(node)["file"] for node in NODES}
    processes = [cluster.nodes[node].process.pid for node in NODES]
    assert len(before) == 1

    # Nothing that all nodes need is new; and a file that contradicts itself.
    same = cluster.tell(NODES[0], "roll", check=False)
    assert same.returncode == 2 and "nothing new" in same.stderr, same.stderr
    new_file(cluster, NODES[0], {'"192.0.2.8/29"': '"192.0.2.0/29"'})
    wrong = cluster.tell(NODES[0], "roll", check=False)
    assert wrong.returncode == 2 and "192.0.2.0" in wrong.stderr, wrong.stderr
    assert cluster.cluster_status(NODES[0])["roll"] is None

    for node in NODES:
        new_file(cluster, node)
    # One that is armed alone goes on with the old file when its time is over.
    alone = cluster.tell(NODES[0], "roll", "--timeout", "2", check=False)
    assert alone.returncode == 1 and f"{NODES[1]} is not armed" in alone.stderr, alone.stderr
    assert cluster.cluster_status(NODES[0])["file"] in before

    rolls = [roll(cluster, node) for node in NODES[:2]]
    waits = f"armed: {NODES[2]} is not armed"
    cluster.until(lambda: all(waits in each.log() for each in rolls), SETTLED)

    def both_are_shown() -> bool:
        shown = cluster.tell(NODES[2], "status", check=False).stdout
        return all(f"{node} for the file" in shown for node in NODES[:2])

    # The third one hears it with their next beats.
    cluster.until(both_are_shown)
    assert cluster.cluster_status(NODES[0])["roll"]["lacks"] == {NODES[2]: "unarmed"}
    rolls.append(roll(cluster, NODES[2]))
    for each in rolls:
        assert each.process.wait(SETTLED * 2) == 0, each.log()
        assert "serves by the new file" in each.log()

    cluster.settled()
    after = {cluster.cluster_status(node)["file"] for node in NODES}
    assert len(after) == 1 and after != before
    assert [cluster.nodes[node].process.pid for node in NODES] == processes
    shown = cluster.run(cluster.names[NODES[2]], str(cluster.program), "show", "config").stdout
    assert "192.0.2.16/28" in shown
    for node in NODES:
        cluster.attracts(node)
    cluster.witness(udp=10, tcp=2, openers=0).report().nothing_moved()


def test_a_roll_is_cancelled(started: ClusterNetwork) -> None:
    """A node that was armed and is no longer keeps its file, and so do the others."""
    cluster = started
    before = {cluster.cluster_status(node)["file"] for node in NODES}
    for node in NODES:
        new_file(cluster, node)
    first = roll(cluster, NODES[0])
    cluster.until(lambda: "armed" in first.log(), SETTLED)
    cluster.tell(NODES[0], "roll", "--cancel")
    assert first.process.wait(SETTLED) == 1
    assert "armed no longer" in first.log()
    # Others hear of it with the next beat.
    cluster.until(lambda: not any(each["armed"] for node in NODES[1:] for each in cluster.cluster_status(node)["nodes"]))
    others = [cluster.tell(node, "roll", "--timeout", "2", check=False) for node in NODES[1:]]
    assert all(f"{NODES[0]} is not armed" in each.stderr for each in others), others
    assert {cluster.cluster_status(node)["file"] for node in NODES} == before
