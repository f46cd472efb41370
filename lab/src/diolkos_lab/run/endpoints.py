# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The endpoints of a load on a lane: devices, source addresses, and who answers."""

from ipaddress import IPv4Address, IPv6Address, ip_network

from diolkos_lab.experiment.definition import Family
from diolkos_lab.load.reading import Answers, Native, Network, PacketEndpoints
from diolkos_lab.sut.running import RunningSystem
from diolkos_lab.topology import addresses as plan
from diolkos_lab.topology.lane import Lane


def through_system(lane: Lane, system: RunningSystem, family: Family, cpus: tuple[int, ...]) -> PacketEndpoints:
    """From the client's device through the system under test to the server's; packets can be held up on `cpus`."""
    near, far = _end(lane, "client", plan.UPLINK), _end(lane, "server", plan.SERVER_LINK)
    answers, targets = _responder(lane, system, family), _behind_next_hops(lane, system, family)
    return PacketEndpoints(near, far, _source(lane, family), system.keeps_state, answers, cpus, targets, _native(lane))


def generator_to_sink(lane: Lane, family: Family) -> PacketEndpoints:
    """From the client's device to the one right behind it: nothing is between them."""
    first = _end(lane, lane.roles[1], plan.DOWNLINK)
    return PacketEndpoints(_end(lane, "client", plan.UPLINK), first, _source(lane, family), keeps_state=False)


def _native(lane: Lane) -> Native:
    """Every lane has native IPv6 from end to end."""
    at, source = lane.shape.addresses, lane.client_address(6)
    target = at.server(6)
    assert isinstance(source, IPv6Address) and isinstance(target, IPv6Address)
    return Native(source, target, at.many6, at.neighbours(6) if lane.shape.neighbours else None)


def version(family: Family) -> int:
    return 6 if family == "ipv6" else 4


def _end(lane: Lane, role: str, device: str) -> str:
    return f"{lane.namespace(role)}:{device}"


def _source(lane: Lane, family: Family) -> IPv4Address | IPv6Address:
    return lane.client_address(version(family))


def _responder(lane: Lane, system: RunningSystem, family: Family) -> Answers:
    """From the server as packets reach it, back to where they come from in its eyes."""
    at, pref64 = lane.shape.addresses, lane.shape.pref64
    own = lane.client_address(version(family))
    clients: Network = at.many6 if family == "ipv6" else at.many4
    crowd: Network | None = at.crowd6 if family == "ipv6" else at.crowd4
    sources = at.neighbours(version(system.server_family))
    if system.datapath.access == "dual-stack" or system.datapath.is_inbound:
        source = at.server(version(system.server_family))
    else:
        literal = plan.LITERAL4
        source = literal if system.server_family == "ipv4" else plan.synthesized(pref64, literal)
        if family == "ipv4":  # a CLAT knows one client
            clients, sources, crowd = ip_network(own), plan.behind(pref64, at.neighbours(4)), None
    if system.keeps_state:
        before = at.s6[0].ip if source.version == 6 else at.s4[0].ip
        return Answers(source, before, clients, ip_network(before), sources, crowd)
    if system.server_family == family:
        return Answers(source, own, clients, clients, sources, crowd)
    if not system.datapath.is_inbound:
        return Answers(source, plan.CLAT6, clients, ip_network(plan.CLAT6), sources)
    assert isinstance(own, IPv4Address)
    return Answers(source, plan.synthesized(pref64, own), clients, plan.behind(pref64, at.many4), sources, crowd)


def _behind_next_hops(lane: Lane, system: RunningSystem, family: Family) -> Network | None:
    """Destinations behind the neighbours of the router, as the client knows them; None where it knows a single one."""
    if not lane.shape.neighbours:
        return None
    if system.datapath.is_inbound:
        return plan.POOL4_NEIGHBOURS
    if system.datapath.access == "dual-stack" or family == "ipv4":
        return lane.shape.addresses.neighbours(version(family))
    return plan.behind(lane.shape.pref64, lane.shape.addresses.neighbours(4))
