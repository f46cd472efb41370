# SPDX-License-Identifier: Apache-2.0 OR MIT
"""One trial: a cluster of its own, traffic over it, one fault, and the line of samples.jsonl that is left of it.

Stages: build → watch for drops → traffic → fault → wait → evaluate → line. Everything is built anew, so that trials do not
inherit from each other.
"""

import random
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from diolkos_lab.experiment.failover import KEPT_AFTER_S, KEPT_ROUNDS, KIND, FailoverStudy, FaultPlan, Kind, Traffic
from diolkos_lab.failover import cluster as clusters
from diolkos_lab.failover import disruptions, drops, evaluate, plan, processors, traffic
from diolkos_lab.failover.cluster import Cluster
from diolkos_lab.failover.gateways import GatewayFault
from diolkos_lab.failover.network import Network
from diolkos_lab.failover.traffic import Running
from diolkos_lab.faults import Fault
from diolkos_lab.outcome import INSTRUMENT
from diolkos_lab.run.guards import Objection
from diolkos_lab.topology import control_group

AHEAD_S = 4.0  # before the fault, the last questions are asked
FAULT_LATE_S = 1.0  # a fault that came later than this is not watched for as long as it should be
# Of gateways that do not come back: no limit is kept. How many went wrong before is measured all the same. None: without end.
LOST: Mapping[str, Any] = {"kept": 0, "kept_share": 0.0, "gap_s": None, "call_gap_s": None, "new_flows_s": None, "step_s": None}
NEVER_BEGUN: Mapping[str, Any] = {**LOST, "established": 0, "downloads_share": 0.0}  # of gateways that do not even start
TRIES = 3  # of a trial, until it decides


@dataclass(frozen=True)
class Planned:
    """What a trial is of."""

    kind: Kind
    fault: FaultPlan
    repetition: int
    seed: int
    attempt: int = 1
    number: int = 0  # in the order of the run

    @property
    def victim(self) -> str:
        """The gateway that the fault is done to."""
        return random.Random(f"{self.seed}/{self.kind}/{self.fault.name}/{self.repetition}").choice(plan.GATEWAYS)


def run(study: FailoverStudy, flows: Traffic, planned: Planned, binary: Path, folder: Path) -> dict[str, Any]:
    """The trial as JSON. Gateways that fail give the worst result, any other fault is an instrument's and nobody's."""
    begun, started = time.monotonic(), datetime.now(UTC).isoformat(timespec="milliseconds")
    found: Mapping[str, Any]
    try:
        with Network("failover") as network:
            found = _measure(study, flows, planned, binary, network, folder)
    except GatewayFault as lost:
        found = {"flows": flows.many.flows, "downloads": flows.downloads, **NEVER_BEGUN, "lost": str(lost)}
    except Fault as fault:
        found = _broken(str(fault))
    except KeyError as error:
        found = _broken(f"the report of {error.args[0]} is missing")
    except ValueError as error:
        found = _broken(f"a report cannot be read: {error}")
    except OSError as error:
        found = _broken(f"{error.filename or 'the system'}: {error.strerror or error}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return {**line(planned, found), "started": started, "duration": round(time.monotonic() - begun, 1)}


def _broken(why: str) -> Mapping[str, Any]:
    return {"guards": [Objection(INSTRUMENT, why)]}


def line(planned: Planned, found: Mapping[str, Any]) -> dict[str, Any]:
    """What was found, as a line of samples.jsonl. A number is a figure, and None one without end; all else stands beside."""
    figures = {name: value for name, value in found.items() if value is None or isinstance(value, int | float)}
    objections = found.get("guards", [])
    beside = {name: value for name, value in found.items() if name not in (*figures, "guards", "lost")}
    return {
        "block": planned.repetition + 1,
        "order": planned.number,
        "system": "diolkos",
        "datapath": planned.kind,
        "family": "ipv6",
        "hops": 1,
        "load": KIND,
        "factors": {"fault": planned.fault.name},
        "valid": not objections and "lost" not in found,
        "distrust": [vars(each) for each in objections],
        "error": found.get("lost"),
        "metrics": {name: value for name, value in figures.items() if value is not None},
        "bounds": {name: [0.0, None] for name, value in figures.items() if value is None},
        "series": {},
        "victim": planned.victim,
        **beside,
    }


def _measure(
    study: FailoverStudy, flows: Traffic, planned: Planned, binary: Path, network: Network, folder: Path
) -> Mapping[str, Any]:
    group = control_group.make("failover", "system")
    try:
        cluster = clusters.build(network, folder, study, planned.kind, binary, group)
        with drops.watch(cluster) as watch, processors.Watch(group) as cpus:
            return {**_observe(flows, planned, cluster, folder, cpus), "drops": watch.drops()}
    finally:
        group.remove()


def _observe(flows: Traffic, planned: Planned, cluster: Cluster, folder: Path, cpus: processors.Watch) -> dict[str, Any]:
    before = _downs(cluster, planned)
    running = traffic.start(cluster.network, folder / "traffic", flows, planned.fault, planned.seed + planned.repetition)
    running.wait_for_fault(AHEAD_S)
    at_fault = _downs(cluster, planned)
    planned_ns = running.times.fault_ns
    try:
        steps = disruptions.carry_out(cluster, planned.fault, planned.victim, planned_ns)
    except GatewayFault as lost:
        cluster.require_instruments()
        return _lost_gateway(running, flows, str(lost))
    finished = running.finish()
    fault_ns = steps[0].begun_ns
    # Whether flows go on is asked when all that was to be done has been done, such as the last gateway's upgrade.
    limit_s = (steps[-1].ended_ns - fault_ns) / 1e9 + KEPT_AFTER_S
    figures = evaluate.row(running.folder, fault_ns, flows.connection_interval_s, limit_s)
    guards = list(figures.pop("guards"))
    if (late_s := (fault_ns - planned_ns) / 1e9) > FAULT_LATE_S:
        guards.append(Objection("fault", f"the fault came {late_s:.2f} s late"))
    if before is not None and at_fault is not None and at_fault > before:
        guards.append(Objection("bfd", f"BFD lost {at_fault - before} neighbours before the fault"))
    late: dict[str, list[str]] = {}
    if guards and cpus.blames_gateways:  # who takes the CPUs from what measures him has no excuse
        late, guards = {"late_by_gateways": [each.detail for each in guards]}, []
    if before is None or at_fault is None:
        guards.append(Objection("bfd", "bfdd did not say whether it lost a neighbour before the fault"))
    if (watched_s := (running.times.end_ns - fault_ns) / 1e9 - limit_s) < KEPT_ROUNDS * flows.many.interval_s:
        short = f"it was watched for {watched_s:.1f} s after its last step, and flows send every {flows.many.interval_s:g} s"
        # Gateways that take longer than the study has time for are no excuse: nobody saw that flows go on.
        figures |= {**LOST, "lost": short} if planned.fault.name in disruptions.OF_GATEWAYS and not guards else {}
        guards += [] if figures.get("lost") else [Objection("watched", short)]
    return {
        **figures,
        **_downloads(finished),
        **late,
        "gateways_cpu_share": round(cpus.share, 3),
        "step_s": round(max(step.ended_ns - step.begun_ns for step in steps) / 1e9, 3),
        "steps_s": [round((step.ended_ns - fault_ns) / 1e9, 3) for step in steps],
        **_lost_among_others(at_fault, cluster, planned),
        "guards": guards,
    }


def _lost_gateway(running: Running, flows: Traffic, why: str) -> dict[str, Any]:
    """The row where a gateway did not come back: the worst result that there is, whatever else disturbed the trial."""
    finished = running.finish()
    figures = evaluate.row(running.folder, running.times.fault_ns, flows.connection_interval_s, KEPT_AFTER_S)
    return {**figures, **_downloads(finished), **LOST, "lost": why, "guards": []}


def _downloads(finished: Mapping[str, Any]) -> dict[str, Any]:
    made = finished["downloads"]  # without any there is no share of them
    return {**finished, **({"downloads_share": finished["downloads_whole"] / made} if made else {})}


def _downs(cluster: Cluster, planned: Planned) -> int | None:
    """Sessions of BFD that were lost, as the routers see them that the fault is not done to; None where one does not say."""
    routers = [cluster.routing[name] for name in plan.ROUTERS if name != planned.victim]
    found = [each.bfd_downs_but(_links(planned.victim)) for each in routers]
    counts = [count for count in found if count is not None]
    return sum(counts) if len(counts) == len(found) else None


def _lost_among_others(at_fault: int | None, cluster: Cluster, planned: Planned) -> dict[str, int]:
    """Nothing where a daemon does not say it."""
    if planned.fault.name == "upgrade-gateways":  # which restarts what others are neighbours of
        return {"bfd_lost_among_others": 0}
    after = _downs(cluster, planned)
    return {} if at_fault is None or after is None else {"bfd_lost_among_others": after - at_fault}


def _links(victim: str) -> set[str]:
    node = next(node for node in plan.NODES if node.name == victim)
    return {str(node.lan4), str(node.lan6)}
