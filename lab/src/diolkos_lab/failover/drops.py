# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Where a trial's packets were dropped, by the counters of the kernel in each namespace and of diolkos in each gateway.

A lost datagram says that something dropped it, and not what: a route that was missing, a program's socket, a translator. Nor
does a lost binding say whether the gateways could not tell each other.

Stages: watch each place → traffic and fault → what its counters of drops have grown by.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from diolkos_lab.failover import plan
from diolkos_lab.failover.cluster import Cluster
from diolkos_lab.run.counters import NetCounters, Window, difference

PLACES = (*plan.CLIENTS, plan.INSIDE, plan.LAN, *plan.GATEWAYS, plan.OUTSIDE, plan.SERVER)
FAMILIES = ("Ip", "Ip6", "IpExt", "Udp", "Udp6")
# Of proc_net_snmp(5) and its kind: each packet that one of these counts goes no further.
KINDS = (
    *("InHdrErrors", "InAddrErrors", "InUnknownProtos", "InTruncatedPkts", "InNoRoutes", "InDiscards", "OutDiscards"),
    *("OutNoRoutes", "ReasmFails", "FragFails", "NoPorts", "InCsumErrors", "RcvbufErrors", "SndbufErrors", "MemErrors"),
)
PROTOCOLS = frozenset(family + kind for family in FAMILIES for kind in KINDS)
# Of `diolkos show counters`, beside those whose name says it; and what can cost bindings.
OF_PROGRAM = frozenset(
    (
        *("fast.failed", "slow.write_failed", "cluster.unforwarded.too_big", "cluster.unforwarded.no_memory"),
        *("cluster.report.strange", "cluster.report.slow", "cluster.report.void", "cluster.refused_connections"),
    )
)
Drops = dict[str, dict[str, int]]  # by place: counter and packets, only what is not zero


@dataclass(frozen=True)
class Watch:
    """The counters of all places when it began."""

    cluster: Cluster
    windows: Mapping[str, Window]
    before: Mapping[str, NetCounters]
    programs: Mapping[str, Mapping[str, int]]

    def drops(self) -> Drops:
        """What has been dropped since, by place."""
        found: Drops = {}
        for place, window in self.windows.items():
            counts = of_kernel(difference(window.read(), self.before[place]))
            if place in self.programs:
                gateways = self.cluster.gateways
                readings = [*gateways.farewells.get(place, []), gateways.counters(place)]
                counts |= of_programs(readings, self.programs[place])
            if counts:
                found[place] = counts
        return found


@contextlib.contextmanager
def watch(cluster: Cluster) -> Iterator[Watch]:
    """As long as it lasts, the namespaces cannot go."""
    with contextlib.ExitStack() as stack:
        windows = {}
        for place in PLACES:
            windows[place] = Window(cluster.network.namespace(place))
            stack.callback(windows[place].close)
        before = {place: window.read() for place, window in windows.items()}
        yield Watch(cluster, windows, before, {name: cluster.gateways.counters(name) for name in plan.GATEWAYS})


def of_kernel(change: NetCounters) -> dict[str, int]:
    """Counters of drops that have grown; of a device as `lan0 rx` and `lan0 tx`."""
    found = {name: count for name, count in change.protocols.items() if name in PROTOCOLS}
    for name, device in change.devices.items():
        found |= {f"{name} rx": device.rx_drops, f"{name} tx": device.tx_drops}
    return {name: count for name, count in found.items() if count > 0}


def of_programs(readings: Sequence[Mapping[str, int]], before: Mapping[str, int]) -> dict[str, int]:
    """The same of a gateway's programs, one after the other, from all their counters. Each but the first began at zero."""
    found: dict[str, int] = {}
    for reading in readings:
        for name in filter(_tells_of_loss, reading):
            found[name] = found.get(name, 0) + reading[name] - before.get(name, 0)
        before = {}
    return {name: count for name, count in found.items() if count > 0}


def _tells_of_loss(name: str) -> bool:
    return name in OF_PROGRAM or ".drop." in name or name.endswith("_dropped")
