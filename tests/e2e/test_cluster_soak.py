# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Random faults of a cluster, one after the other and several at once, while the witness looks at every byte.

    DIOLKOS_CLUSTER_SOAK=600 DIOLKOS_CLUSTER_SEED=7 .venv/bin/python -m pytest tests/e2e/test_cluster_soak.py

Without the variables, some seconds with a random seed, which is shown if it fails. Ports are few. In a run that is longer than
their lifetimes they change their subscribers again and again, whose sockets still hear.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable

from cluster import ENGINE, LINK, SETTLED, ClusterNetwork
from plan import NODES
from witness import Report, Witness

SECONDS = float(os.environ.get("DIOLKOS_CLUSTER_SOAK", "15"))
# The least that RFC 4787 allows, and so few ports that many are used again.
LIFETIMES = "[nat64.timeouts]\nudp = 120\n"
PORTS = 'ports = "1024-1535"\n'
KEPT = 200.0
# Seconds after which ports have changed their subscribers, if they do.
LONG = 240.0
SEED = int(os.environ.get("DIOLKOS_CLUSTER_SEED", str(random.randrange(1 << 32))))


class Soak:
    """Faults that stand, and what mends each."""

    def __init__(self, network: ClusterNetwork) -> None:
        self.network, self.random = network, random.Random(SEED)
        self.standing: dict[str, Callable[[], None]] = {}
        self.told: list[str] = []

    def step(self) -> None:
        """One more fault, or one less."""
        if self.standing and self.random.random() < 0.55:
            self.mend(self.random.choice(sorted(self.standing)))
            return
        node, n = self.random.choice(NODES), self.network
        faults: dict[str, tuple[Callable[[], None], Callable[[], None]]] = {
            f"kill {node}": (lambda: n.kill(node), lambda: self.start(node)),
            f"stop {node}": (lambda: self.stop(node), lambda: self.start(node)),
            f"freeze {node}": (lambda: n.freeze(node), lambda: n.thaw(node)),
            f"cut {LINK} {node}": (lambda: n.cut(LINK, node), lambda: n.mend(LINK, node)),
            f"cut {ENGINE} {node}": (lambda: n.cut(ENGINE, node), lambda: n.mend(ENGINE, node)),
            "freeze engine": (n.engine.freeze, n.engine.thaw),
            "wipe engine": (n.engine.wipe, n.engine.start),
            f"drain {node}": (lambda: self.say(node, "drain"), lambda: self.say(node, "join")),
        }
        what = self.random.choice(sorted(faults))
        if self.is_possible(what, node):
            self.told.append(what)
            begin, self.standing[what] = faults[what]
            begin()

    def is_possible(self, what: str, node: str) -> bool:
        """A program that does not run or stands still cannot be told anything; the engine has one fault at a time."""
        if what.endswith("engine"):
            return not any(each.endswith("engine") for each in self.standing)
        if what.startswith("cut "):
            return what not in self.standing
        return not any(f"{verb} {node}" in self.standing for verb in ("kill", "stop", "freeze", "drain"))

    def mend(self, what: str) -> None:
        """End a fault."""
        self.told.append(f"no more: {what}")
        self.standing.pop(what)()

    def start(self, node: str) -> None:
        """The program again, with nothing that it knew."""
        self.network.launch(node)

    def stop(self, node: str) -> None:
        """As an operator does."""
        self.network.nodes.pop(node).stop()

    def say(self, node: str, word: str) -> None:
        """A drain may wait for others that are away, longer than this test."""
        self.network.start(self.network.names[node], str(self.network.program), "cluster", word)


def test_no_byte_is_at_the_wrong_subscriber(cluster: ClusterNetwork) -> None:
    """Whatever fails. Flows may break; all begins anew when all is mended."""
    print(f"DIOLKOS_CLUSTER_SEED={SEED}")
    cluster.sections, cluster.pool_keys = LIFETIMES, PORTS
    cluster.engine.start()
    cluster.gateways()
    cluster.settled()
    witness = cluster.witness(openers=2, opening=0.2, kept=KEPT)
    soak = Soak(cluster)
    end = time.monotonic() + SECONDS
    try:
        while time.monotonic() < end:
            soak.step()
            pause = time.monotonic() + soak.random.choice((0.2, 1.0, 3.0, 8.0))
            while time.monotonic() < min(pause, end):
                witness.report()
                time.sleep(0.5)
        changed = witness.report().changed
        print(f"{changed} times a port had another subscriber; {', '.join(soak.told)}")
        assert changed > 100 or SECONDS < LONG
        while soak.standing:
            soak.mend(sorted(soak.standing)[0])
        cluster.until(cluster.engine.answers, SETTLED)
        cluster.settled(patience=2 * SETTLED)
        recovered(cluster, witness)
    except AssertionError as fault:
        raise AssertionError(f"seed {SEED}: {', '.join(soak.told)}: {fault}") from fault


def recovered(cluster: ClusterNetwork, witness: Witness) -> None:
    """New flows of all subscribers succeed, and datagrams of all flows have answers."""
    witness.fresh()

    def is_well(report: Report) -> bool:
        return not [flow for flow in report.silent(1.5) if flow.kind != "tcp"] and all(new.silent < 1.5 for new in report.new)

    cluster.until(lambda: is_well(witness.report()), SETTLED)
