# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Every load, in the order in which tables have them."""

from collections.abc import Iterable
from typing import Any

from diolkos_lab.experiment.loads import AnyLoad, LoadName
from diolkos_lab.experiment.procedures import Procedure
from diolkos_lab.load import tools
from diolkos_lab.load.connections import CONNECTIONS
from diolkos_lab.load.curl import Http
from diolkos_lab.load.dnsperf import Dns
from diolkos_lab.load.forwarding_rate import ForwardingRate
from diolkos_lab.load.interface import Load
from diolkos_lab.load.iperf3 import Tcp
from diolkos_lab.load.iperf3_udp import Udp
from diolkos_lab.load.latency import Latency
from diolkos_lab.load.new_flows import CAPACITY, NEW_FLOWS
from diolkos_lab.load.ping import Ping
from diolkos_lab.load.ping_under_load import PingBesideTcp
from diolkos_lab.load.pktgen import Packets
from diolkos_lab.load.udp_gso import UdpGso

_ALL: tuple[Load[Any], ...] = (
    Tcp("tcp-upload", "TCP upload"),
    Tcp("tcp-download", "TCP download"),
    Udp(),
    UdpGso(),
    Ping(),
    PingBesideTcp(),
    Packets("pps", "packets"),
    ForwardingRate(),
    Latency(),
    NEW_FLOWS,
    CONNECTIONS,
    CAPACITY,
    Dns(),
    Http(),
    Packets("mlrsearch", "MLRsearch"),
    Packets("rfc8219", "RFC 8219"),
)
LOADS: dict[LoadName, Load[Any]] = {load.name: load for load in _ALL}


def load_of(section: AnyLoad) -> Load[Any]:
    """The load of a study's section, or of one trial of it."""
    return LOADS[section.name]


def asks_names(section: AnyLoad | Procedure) -> bool:
    """Does the load need a resolver, and somebody who knows the names?"""
    return "authority" in LOADS[section.name].servers(section)


def required(sections: Iterable[AnyLoad | Procedure]) -> dict[str, str]:
    """Every program that these need, with how to get it."""
    wanted = dict(tools.REQUIRED)
    for section in sections:
        wanted |= LOADS[section.name].required(section)
    return wanted
