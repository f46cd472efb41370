# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Where a trial's packets were dropped, by the counters of the kernel in each namespace and of diolkos in each gateway.

A lost datagram says that something dropped it, and not what: a route that was missing, a program's socket, a translator.

Stages: watch each place → traffic and fault → what its counters of drops have grown by.
"""

import contextlib
import json
from collections.abc import Iterator, Mapping
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
# Of `diolkos show counters`, beside those whose name says it.
OF_PROGRAM = ("fast.failed", "slow.write_failed")
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
                counts |= of_program(_ask(self.cluster, place), self.programs[place])
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
        yield Watch(cluster, windows, before, {name: _ask(cluster, name) for name in plan.GATEWAYS})


def of_kernel(change: NetCounters) -> dict[str, int]:
    """Counters of drops that have grown; of a device as `lan0 rx` and `lan0 tx`."""
    found = {name: count for name, count in change.protocols.items() if name in PROTOCOLS}
    for name, device in change.devices.items():
        found |= {f"{name} rx": device.rx_drops, f"{name} tx": device.tx_drops}
    return {name: count for name, count in found.items() if count > 0}


def of_program(after: Mapping[str, int], before: Mapping[str, int]) -> dict[str, int]:
    """The same of a gateway's program, from all its counters. A new program counts from zero; a dead one says nothing."""
    after, before = ({name: count for name, count in each.items() if _is_of_drops(name)} for each in (after, before))
    is_same = all(after.get(name, 0) >= count for name, count in before.items())
    grown = {name: count - (before.get(name, 0) if is_same else 0) for name, count in after.items()}
    return {name: count for name, count in grown.items() if count > 0}


def _is_of_drops(name: str) -> bool:
    return name in OF_PROGRAM or ".drop." in name or name.endswith("_dropped")


def _ask(cluster: Cluster, gateway: str) -> dict[str, int]:
    status, text = cluster.gateways.order(gateway, "show", "counters", "--json")
    with contextlib.suppress(json.JSONDecodeError, TypeError, KeyError):
        if status == 0:
            return {str(each["name"]): int(each["packets"]) for each in json.loads(text)}
    return {}
