# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Where packets of a generator go, there and back, by the kind of path."""

from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_network
from types import SimpleNamespace
from typing import Any

import pytest

from diolkos_lab.experiment.loads import PpsLoad
from diolkos_lab.run import endpoints
from diolkos_lab.sut import definition
from diolkos_lab.topology.lane import Lane, Shape

PREF64 = IPv6Network("2001:2:0:64::/96")
SYSTEMS = definition.load_all()


def _ends(system: str, datapath: str, family: Any, server_family: str) -> Any:
    chosen = SYSTEMS[system].datapath[datapath]
    hops = 2 if chosen.place == "translator" else 1
    only, inbound = chosen.access == "ipv6-only", chosen.is_inbound
    lane = Lane("test", Shape(hops, only, True, PREF64, 1500, inbound=inbound, plat=chosen.is_plat, neighbours=True))
    keeps_state = SYSTEMS[system].keeps_state(datapath)
    running = SimpleNamespace(datapath=chosen, server_family=server_family, keeps_state=keeps_state)
    return endpoints.through_system(lane, running, family, ())  # type: ignore[arg-type]


def test_without_translation_packets_go_back_to_the_client() -> None:
    ends = _ends("native", "kernel", "ipv4", "ipv4")
    assert (ends.answers.source, ends.answers.target) == (IPv4Address("198.19.0.2"), IPv4Address("198.18.1.2"))
    assert ends.targets == ends.answers.sources == ip_network("198.19.0.64/26")
    assert ends.answers.clients == ends.answers.targets == ip_network("198.18.2.0/24")


def test_without_state_they_go_to_what_stands_for_the_client() -> None:
    ends = _ends("diolkos", "siit-dc-xdp", "ipv4", "ipv6")
    assert not ends.keeps_state, "it keeps no sessions, so none is opened"
    assert (ends.answers.source, ends.answers.target) == (IPv6Address("2001:2:0:f::2"), PREF64[int(IPv4Address("198.18.1.2"))])
    assert ends.targets == ip_network("198.18.66.64/26") and ends.answers.sources == ip_network("2001:2:0:f::40/122")
    assert ends.answers.targets == ip_network("2001:2:0:64::c612:200/120")


def test_with_state_they_go_to_what_lends_addresses() -> None:
    ends = _ends("diolkos", "nat64-xdp", "ipv6", "ipv4")
    assert ends.keeps_state and (ends.answers.source, ends.answers.target) == (
        IPv4Address("192.0.0.171"),
        IPv4Address("198.19.0.1"),
    )
    assert ends.targets == ip_network("2001:2:0:64::c613:40/122")


def test_a_clat_knows_one_client() -> None:
    ends = _ends("diolkos", "siit-direct", "ipv4", "ipv6")
    assert ends.answers.clients == ip_network("192.0.0.2/32") and ends.answers.target == IPv6Address("2001:2:0:c::1")
    assert ends.targets == ip_network("198.19.0.64/26"), "each is translated to an address behind a neighbour of its own"
    assert ends.answers.sources == ip_network("2001:2:0:64::c613:40/122")


@pytest.mark.parametrize(
    ("path", "traffic", "reason"),
    [
        ("nat44/nftables", {"directions": "both", "flows": "unique"}, "each packet opens one"),
        ("nat44/nftables", {"directions": "both", "native_share": 0.5}, "in one direction only"),
        ("diolkos/siit-dc-tc", {"directions": "both", "native_share": 0.5}, None),
        ("diolkos/siit-dc-tc", {"directions": "both", "flows": "unique", "next_hops": 64}, None),
        ("tayga/inbound", {"next_hops": 64}, "one destination"),
        ("native/kernel", {"next_hops": 64}, None),
        ("tayga/tun", {"nodes": 16_384}, "a single client"),
        ("diolkos/siit-dc-tc", {"nodes": 16_384}, None),
    ],
)
def test_what_a_path_cannot_have_is_known_before_it_is_measured(path: str, traffic: dict[str, Any], reason: str | None) -> None:
    system, _, datapath = path.partition("/")
    said = SYSTEMS[system].obstacle(datapath, PpsLoad(name="pps", seconds=1, **traffic))
    assert said is None if reason is None else reason in (said or "")
