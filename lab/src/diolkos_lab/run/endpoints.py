# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The endpoints of a load on a lane: devices, source addresses, and who answers."""

from ipaddress import IPv4Address, IPv6Address

from diolkos_lab.experiment.definition import Family
from diolkos_lab.load.reading import Answers, PacketEndpoints
from diolkos_lab.sut.running import RunningSystem
from diolkos_lab.topology import addresses as plan
from diolkos_lab.topology.lane import Lane


def through_system(lane: Lane, system: RunningSystem, family: Family, cpus: tuple[int, ...]) -> PacketEndpoints:
    """From the client's device through the system under test to the server's; packets can be held up on `cpus`."""
    near, far = _end(lane, "client", plan.UPLINK), _end(lane, "server", plan.SERVER_LINK)
    return PacketEndpoints(near, far, _source(lane, family), system.keeps_state, _responder(lane, system, family), cpus)


def generator_to_sink(lane: Lane, family: Family) -> PacketEndpoints:
    """From the client's device to the one right behind it: nothing is between them."""
    first = _end(lane, lane.roles[1], plan.DOWNLINK)
    return PacketEndpoints(_end(lane, "client", plan.UPLINK), first, _source(lane, family), keeps_state=False)


def version(family: Family) -> int:
    return 6 if family == "ipv6" else 4


def _end(lane: Lane, role: str, device: str) -> str:
    return f"{lane.namespace(role)}:{device}"


def _source(lane: Lane, family: Family) -> IPv4Address | IPv6Address:
    return lane.client_address(version(family))


def _responder(lane: Lane, system: RunningSystem, family: Family) -> Answers:
    """From the server as packets reach it, back to what lends addresses there."""
    at = lane.shape.addresses
    clients = at.many6 if family == "ipv6" else at.many4
    if system.datapath.access == "dual-stack":
        source = at.server(version(family))
    else:
        literal = plan.LITERAL4
        source = literal if system.server_family == "ipv4" else plan.synthesized(lane.shape.pref64, literal)
    before = at.s6[0].ip if source.version == 6 else at.s4[0].ip
    return Answers(source, before if system.keeps_state else None, clients)
