# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A packet to an address that both families lead to the translator, and that no mapping covers, is refused and answered.
It would come back, translated to and fro until its hop limit runs out. Other loops end so, too, and are named."""

from __future__ import annotations

import re

import pytest
from conftest import ROUTER_DATAPATHS
from siit import CONFIG, PREF64, V4, V6, V6_EMBEDDED, V6_MAPPED, SiitNetwork
from test_router_moves import both_reach

# In routes4, and nobody's.
NOBODY = "192.0.2.9"
NOBODY_IN_IPV6 = "2001:db8:64::c000:209"
ROUND = "192.88.0.0/24"
ROUND_IN_IPV6 = "2001:db8:64::c058:1"
SECOND = f"""
[translator]
mode = "siit"
pref64 = ["{PREF64}"]

[siit]
routes4 = ["{ROUND}"]
routes6 = ["2001:db8:99::/96"]
"""


def translations(net: SiitNetwork) -> int:
    """By both paths, in both directions."""
    return sum(packets for name, packets in net.counters().items() if ".translated_" in name)


def ping(net: SiitNetwork, name: str, to: str, *options: str) -> str:
    """What ping(8) says of one packet."""
    return net.run(name, "ping", "-c1", "-W1", *options, to, check=False).stdout


@pytest.mark.parametrize("siit", ROUTER_DATAPATHS, indirect=True)
def test_nobody_is_unreachable(siit: SiitNetwork) -> None:
    """In both directions, and at once; others are reached. A route makes a node of somebody."""
    running = siit.siit()
    assert "packets to addresses of 192.0.2.0/24 that no mapping covers" in running.log()
    assert both_reach(siit)
    assert " 0% packet loss" in ping(siit, siit.v4, V6_EMBEDDED)
    before = translations(siit)
    assert "From 192.0.0.8 icmp_seq=1 Destination Host Unreachable" in ping(siit, siit.v4, NOBODY, "-t", "255")
    assert "Address unreachable" in ping(siit, siit.v6, NOBODY_IN_IPV6, "-t", "255")
    assert translations(siit) - before <= 2
    assert siit.counters()["slow.drop.destination_loops"] == 2
    siit.ip(siit.v6, "address", "add", f"{NOBODY_IN_IPV6}/128", "dev", "lo")
    siit.ip(siit.translator, "route", "add", f"{NOBODY_IN_IPV6}/128", "via", V6)
    siit.until(lambda: " 0% packet loss" in ping(siit, siit.v4, NOBODY))
    siit.ip(siit.translator, "route", "del", f"{NOBODY_IN_IPV6}/128")
    siit.until(lambda: "Unreachable" in ping(siit, siit.v4, NOBODY))
    assert siit.reload(CONFIG.replace('"192.0.2.0/24"', f'"{V6_MAPPED}"')) == (0, "")
    assert both_reach(siit)


@pytest.mark.parametrize("siit", ["tc", "direct"], indirect=True)
def test_another_loop_is_named(siit: SiitNetwork) -> None:
    """A second SIIT sends back to the first what that has translated. Routes of the first do not show it."""
    running = siit.siit()
    siit.run(siit.translator, "ip", "route", "add", ROUND, "via", V4)
    second = siit.scratch / "second.toml"
    second.write_text(SECOND)
    log = siit.scratch / "log-second"
    with log.open("w") as sink:
        command = (str(siit.program), "siit", "--config", str(second), "--datapath", "tun")
        siit.start(siit.v4, *command, stdout=sink, stderr=sink)
    siit.until(lambda: " ready: " in log.read_text())
    addresses = siit.ip_json(siit.translator, "-6", "address", "show", "dev", "b4", "scope", "link")
    siit.run(siit.v4, "ip", "-6", "route", "add", "default", "via", addresses[0]["addr_info"][0]["local"], "dev", "a0")
    # A circle takes four or six hops, and half of them are the second's. Of these some end at the first.
    floods = [
        siit.start(siit.v6, "ping", "-q", "-f", "-l", "1000", "-t", str(hops), ROUND_IN_IPV6, stdout=-3)
        for hops in (61, 62, 63)
    ]
    siit.until(lambda: "a routing loop: " in running.log())
    shown = siit.run(siit.translator, str(siit.program), "show", "status", check=False).stdout
    assert re.search(r"^trouble +a routing loop: \d+ packets a second run out of hops here", shown, re.MULTILINE), shown
    for flood in floods:
        flood.terminate()
    siit.until(lambda: "the routing loop is over" in running.log(), patience=60)
    assert "routing loop" not in siit.run(siit.translator, str(siit.program), "show", "status", check=False).stdout
    assert both_reach(siit)
