# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Another program's CLAT on the same host, such as NetworkManager's: one of the two has the host's IPv4, and it is known which.

What the other one puts on its interface stands here by hand: an address of 192.0.0.0/29 and a default route, as
test_networkmanager_clat.py sees them of NetworkManager 1.58.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from network import Network

OTHER = "another CLAT serves this host: other0 has 192.0.0.5"
METRIC = "100"


def condition(net: Network) -> dict:
    """What the program says of itself."""
    return json.loads(net.run(net.client, str(net.program), "show", "status", "--json", check=False).stdout)


def routes(net: Network) -> list[str]:
    """The devices of IPv4 default routes."""
    return [route["dev"] for route in net.ip_json(net.client, "-4", "route", "show", "default")]


@pytest.fixture
def other(net: Network) -> Network:
    """A host with another CLAT's interface, which has no address yet."""
    net.ip(net.client, "link", "add", "other0", "type", "veth", "peer", "other1")
    net.ip(net.client, "link", "set", "other0", "up")
    net.ip(net.client, "link", "set", "other1", "up")
    return net


def comes(net: Network) -> None:
    """The other one begins."""
    net.ip(net.client, "address", "add", "192.0.0.5/32", "dev", "other0")
    net.ip(net.client, "-4", "route", "add", "default", "dev", "other0", "metric", METRIC)


def goes(net: Network) -> None:
    """It ends, and its route with it."""
    net.ip(net.client, "address", "del", "192.0.0.5/32", "dev", "other0")
    net.ip(net.client, "-4", "route", "flush", "default", "dev", "other0")


def test_it_steps_aside_while_there_is_another_one(other: Network) -> None:
    """At the start, later, and back again; the status says who has the CLAT."""
    net = other
    comes(net)
    clat = net.clat(ready=False)
    net.until(lambda: f"{OTHER}, so this one steps aside (clat.other_clat)" in clat.log())
    # Until its address is ready, that is what the status names.
    net.until(lambda: [each for each in condition(net)["obstacles"][:1] if OTHER in each])
    assert condition(net)["state"] == "waiting"
    assert routes(net) == ["other0"]

    goes(net)
    net.until(lambda: condition(net)["state"] == "ready")
    assert routes(net) == ["diolkos0"] and "2 received" in net.ping("-c2").stdout

    comes(net)
    net.until(lambda: condition(net)["state"] == "waiting")
    net.until(lambda: routes(net) == ["other0"])
    # An address of 192.0.0.0/24 that is no CLAT's (192.0.0.8 is that of ICMP errors) is in nobody's way.
    net.ip(net.client, "address", "add", "192.0.0.8/32", "dev", "other1")
    goes(net)
    net.until(lambda: condition(net)["state"] == "ready")
    assert clat.stop() == 0


def test_it_takes_over_if_it_is_told_to(other: Network) -> None:
    """Both have a default route then, and the log says which one wins. A second one of ours is no other one."""
    net = other
    comes(net)
    clat = net.clat("auto", "--other-clat", "take-over", "--metric", "50")
    assert f'{OTHER}, and clat.other_clat = "take-over"' in clat.log() and "ours is 50" in clat.log()
    assert routes(net) == ["diolkos0", "other0"]
    assert "2 received" in net.ping("-c2").stdout
    second = net.clat(
        "auto", "--device", "diolkos1", "--v4", "192.0.0.2", "--route", "198.51.100.0/24", "--other-clat", "take-over"
    )
    assert "diolkos0" not in second.log()
    assert second.stop() == 0 and clat.stop() == 0


def test_another_of_ours_that_ends_is_no_other_program(net: Network) -> None:
    """Its interface may go between two questions to the kernel: the routes of those that stay stay too."""
    clat = net.clat("tun")
    seen = net.scratch / "routes"
    with seen.open("a") as sink:
        monitor = net.start(net.client, "ip", "-4", "monitor", "route", stdout=sink)
    marker = ("198.18.7.0/24", "dev", "diolkos0")
    # The monitor listens when it has told a first route.
    net.until(lambda: seen_of(net, seen, marker))
    seen.write_text("")
    once = [
        "link add diolkos7 type veth peer name other7",
        "address add 192.0.0.5/32 dev diolkos7",
        "link set diolkos7 up",
        "link del diolkos7",
    ]
    net.batch(net.client, *once * 150)
    net.until(lambda: condition(net)["state"] == "ready")
    net.until(lambda: seen_of(net, seen, marker))
    monitor.terminate()
    assert "steps aside" not in clat.log()
    assert "Deleted default dev diolkos0" not in seen.read_text(), seen.read_text()
    assert clat.stop() == 0


def seen_of(net: Network, seen: Path, marker: tuple[str, ...]) -> bool:
    """Whether a route that is changed now is told."""
    net.ip(net.client, "-4", "route", "replace", *marker)
    net.ip(net.client, "-4", "route", "del", *marker)
    return marker[0] in seen.read_text()
