# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What is known of one trial when it has ended, put together for the guards."""

from collections.abc import Mapping

from diolkos_lab.experiment.loads import AnyLoad
from diolkos_lab.load.interface import CpuUsage
from diolkos_lab.load.reading import Reading
from diolkos_lab.run import guards
from diolkos_lab.run.counters import Device, NetCounters, drops
from diolkos_lab.run.cpu_account import Watch
from diolkos_lab.sut.definition import Datapath
from diolkos_lab.sut.running import RunningSystem
from diolkos_lab.topology import addresses as plan
from diolkos_lab.topology.lane import Lane


def gather(
    lane: Lane,
    system: RunningSystem,
    load: AnyLoad,
    reading: Reading,
    watch: Watch,
    changes: Mapping[str, NetCounters],
    used: CpuUsage,
    *,
    pinned: bool,
    still_s: float,
    authority_rate: float | None,
) -> guards.Evidence:
    """`changes` is what each namespace of the lane counted during the trial. `pinned`: the client has one CPU."""
    before, after = watch.before, watch.after
    links: dict[str, set[str]] = {}
    for role, device in lane.devices():
        links.setdefault(role, set()).add(device)
    lost = sum(drops([changes[role]], dict.fromkeys(devices)) for role, devices in links.items())
    nothing = Device(0, 0, 0, 0, 0, 0)
    server_link = changes["server"].devices.get(plan.SERVER_LINK, nothing)
    return guards.Evidence(
        tuns=tuple(_tun(program.datapath, changes) for program in system.programs if program.datapath.bulk),
        server_family=system.server_family,
        cores=before.cpus,
        elapsed_s=watch.elapsed_s,
        foreign_s=watch.account.foreign_s,
        accounts=_accounts(watch, used, 1 if pinned else before.cpus),
        steal_s=after.steal_s - before.steal_s,
        clock_jump_s=after.realtime_s - before.realtime_s - watch.elapsed_s,
        outside_drops=lost + after.softnet_drops - before.softnet_drops,
        server=changes["server"],
        server_link=server_link,
        sink_drops=_sink_drops(lane, changes),
        reading=reading,
        load=load,
        system_s=used.system,
        authority_rate=authority_rate,
        still_s=still_s,
    )


def _sink_drops(lane: Lane, changes: Mapping[str, NetCounters]) -> int:
    """In front of the sinks, of which the client has one for what comes back."""
    first = "translator" if lane.shape.hops > 1 else "router"
    ends = (("server", "router", plan.SERVER_LINK, plan.SERVER_LINK), ("client", first, plan.UPLINK, plan.DOWNLINK))
    found = 0
    for sink, sender, at_sink, at_sender in ends:
        devices, others = changes[sink].devices, changes[sender].devices
        found += devices[at_sink].rx_drops if at_sink in devices else 0
        found += others[at_sender].tx_drops if at_sender in others else 0
    return found


def _accounts(watch: Watch, used: CpuUsage, ends: int) -> tuple[guards.RoleAccount, ...]:
    """`ends` is how many CPUs the client has."""
    together = [guards.RoleAccount("both ends of the load", used.client + used.server, ends)] if used.ends_share_cpu else []
    return (
        guards.RoleAccount("the client", used.client, ends),
        *together,
        guards.RoleAccount("all programs of the path", watch.account.groups_s, watch.before.cpus),
    )


def _tun(datapath: Datapath, changes: Mapping[str, NetCounters]) -> guards.Tun:
    assert datapath.bulk and datapath.tun
    return guards.Tun(datapath.bulk, changes[datapath.place].devices.get(datapath.tun))
