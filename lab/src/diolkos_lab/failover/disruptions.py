# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The faults: what is done to one gateway or to the engine, and what is undone later.

A fault is a list of steps with the seconds after which each is due. The last step may take as long as it takes. What a step
needs to know is looked up before it is due. After the first one, it is checked that the fault is there: a trial of a fault that
did nothing would keep every rule.
"""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from diolkos_lab.experiment.failover import FaultName, FaultPlan
from diolkos_lab.failover import plan
from diolkos_lab.failover.cluster import Cluster
from diolkos_lab.failover.gateways import GatewayFault
from diolkos_lab.failover.waiting import wait_until
from diolkos_lab.faults import InstrumentFault
from diolkos_lab.topology import namespace

SETTLED_S = 60.0  # that a gateway may take until everything passes it again
BETWEEN_S = 2.0  # from one gateway that is upgraded to the next
# From a fault to the look at its effect, which takes CPU time that the traffic should have meanwhile, and for how long to look.
QUIET_S, EFFECT_S = 2.0, 6.0
OF_GATEWAYS: tuple[FaultName, ...] = ("drain-gateway", "upgrade-gateways")  # whose steps last as long as gateways need


@dataclass(frozen=True)
class Step:
    """What is done, and how long after the fault."""

    after_s: float
    do: Callable[[], None]


class Done(NamedTuple):
    """When a step was, CLOCK_MONOTONIC in ns."""

    begun_ns: int
    ended_ns: int


def carry_out(cluster: Cluster, fault: FaultPlan, victim: str, fault_ns: int) -> list[Done]:
    """Do the steps when they are due, after the planned moment of the fault.

    Raises GatewayFault where a gateway does not drain or come back, and InstrumentFault where the fault has no effect.
    """
    done: list[Done] = []
    for step in FAULTS[fault.name](cluster, fault, victim):
        if len(done) == 1 and fault.name in EFFECTS:
            _require_effect(cluster, fault.name, victim)
        wait_s = step.after_s - (time.monotonic_ns() - fault_ns) / 1e9
        time.sleep(max(0.0, wait_s))
        begun_ns = time.monotonic_ns()
        step.do()
        done.append(Done(begun_ns, time.monotonic_ns()))
    if len(done) == 1 and fault.name in EFFECTS:
        _require_effect(cluster, fault.name, victim)
    return done


def _require_effect(cluster: Cluster, name: FaultName, victim: str) -> None:
    time.sleep(QUIET_S)
    if not wait_until(lambda: EFFECTS[name](cluster, victim), EFFECT_S):
        # What the lab does to a gateway is the lab's; that packets leave one which was told to go is the gateway's.
        fault = GatewayFault if name in OF_GATEWAYS else InstrumentFault
        raise fault(f"{name} of {victim} had no effect that the other nodes could see")


def _kill_gateway(cluster: Cluster, _fault: FaultPlan, victim: str) -> Iterator[Step]:
    inside = _inside(cluster, victim)
    yield Step(0, lambda: _signal_all(inside, signal.SIGKILL))


def _kill_program(cluster: Cluster, _fault: FaultPlan, victim: str) -> Iterator[Step]:
    yield Step(0, lambda: os.kill(cluster.gateways.processes[victim].pid, signal.SIGKILL))


def _cut_lan(cluster: Cluster, _fault: FaultPlan, victim: str) -> Iterator[Step]:
    yield Step(0, lambda: cluster.network.cut(plan.LAN, victim))


def _cut_gateway_link(cluster: Cluster, _fault: FaultPlan, victim: str) -> Iterator[Step]:
    yield Step(0, lambda: cluster.network.cut(plan.LINK, victim))


def _cut_gateway(cluster: Cluster, _fault: FaultPlan, victim: str) -> Iterator[Step]:
    def cut() -> None:
        for switch in (plan.LAN, plan.LINK, plan.MANAGEMENT):
            cluster.network.cut(switch, victim)

    yield Step(0, cut)


def _kill_engine_member(cluster: Cluster, _fault: FaultPlan, _victim: str) -> Iterator[Step]:
    """The one that leads: the others have to notice and agree on another."""
    engine = cluster.engine
    leader = engine.leader() or plan.ENGINES[0]
    yield Step(0, engine.processes[leader].kill)


def _lose_engine(cluster: Cluster, _fault: FaultPlan, _victim: str) -> Iterator[Step]:
    def cut() -> None:
        for engine in plan.ENGINES:
            cluster.network.cut(plan.MANAGEMENT, engine)

    yield Step(0, cut)


def _freeze_engine(cluster: Cluster, fault: FaultPlan, _victim: str) -> Iterator[Step]:
    return _freeze(_inside(cluster, *plan.ENGINES), fault)


def _freeze_gateway(cluster: Cluster, fault: FaultPlan, victim: str) -> Iterator[Step]:
    return _freeze(_inside(cluster, victim), fault)


def _freeze(pids: list[int], fault: FaultPlan) -> Iterator[Step]:
    yield Step(0, lambda: _signal_all(pids, signal.SIGSTOP))
    yield Step(fault.lasts_s, lambda: _signal_all(pids, signal.SIGCONT))


def _drain_gateway(cluster: Cluster, _fault: FaultPlan, victim: str) -> Iterator[Step]:
    """It is drained and ends. The others have its flows from then on."""
    yield Step(0, lambda: cluster.gateways.drain(victim))


def _upgrade_gateways(cluster: Cluster, _fault: FaultPlan, _victim: str) -> Iterator[Step]:
    for name in plan.GATEWAYS:
        yield Step(0, lambda name=name: _upgrade(cluster, name))  # type: ignore[misc]


def _upgrade(cluster: Cluster, name: str) -> None:
    cluster.gateways.drain(name)
    cluster.gateways.start(name)
    if not wait_until(cluster.everything_is_announced, SETTLED_S):
        raise GatewayFault(f"after its restart, {name} is not announced again")
    time.sleep(BETWEEN_S)


def _inside(cluster: Cluster, *roles: str) -> list[int]:
    """Everything that runs in the namespaces of some roles, routing too."""
    return namespace.processes_inside({cluster.network.namespace(role) for role in roles})


def _signal_all(pids: list[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


FAULTS: dict[FaultName, Callable[[Cluster, FaultPlan, str], Iterator[Step]]] = {
    "kill-gateway": _kill_gateway,
    "kill-program": _kill_program,
    "freeze-gateway": _freeze_gateway,
    "cut-lan": _cut_lan,
    "cut-gateway-link": _cut_gateway_link,
    "cut-gateway": _cut_gateway,
    "drain-gateway": _drain_gateway,
    "upgrade-gateways": _upgrade_gateways,
    "kill-engine-member": _kill_engine_member,
    "freeze-engine": _freeze_engine,
    "lose-engine": _lose_engine,
}


# ---- is the fault there?


def _is_bypassed(cluster: Cluster, victim: str) -> bool:
    """Does the inside router send nothing to the gateway any more?"""
    return victim not in cluster.gateways_of_prefix()


def _is_out_of_reach(cluster: Cluster, victim: str) -> bool:
    """Does the victim reach no other gateway by the link that they share?"""
    others = [node for node in plan.NODES if node.name != victim]
    return not any(cluster.reaches_gateway(victim, other) for other in others)


def _engine_is_out_of_reach(cluster: Cluster, _victim: str) -> bool:
    return not any(cluster.reaches_engine(name) for name in plan.GATEWAYS)


def _engine_does_not_answer(cluster: Cluster, _victim: str) -> bool:
    return not cluster.engine.answering()


EFFECTS: dict[FaultName, Callable[[Cluster, str], bool]] = {
    "kill-gateway": _is_bypassed,
    "kill-program": _is_bypassed,
    "freeze-gateway": _is_bypassed,
    "cut-lan": _is_bypassed,
    "cut-gateway-link": _is_out_of_reach,
    "cut-gateway": _is_bypassed,
    "drain-gateway": _is_bypassed,
    "freeze-engine": _engine_does_not_answer,
    "lose-engine": _engine_is_out_of_reach,
}
