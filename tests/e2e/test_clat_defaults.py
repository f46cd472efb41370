# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`diolkos clat` without options, and several CLATs on one host: the program finds uplink, prefix, address and metric."""

from __future__ import annotations

import json
import signal
from pathlib import Path

from kernel import remains
from network import ROUTER6, SERVER4, WELL_KNOWN_PREFIX, Network, Running
from pref64 import OWN, Option, Pref64Network
from test_clat_faults import USAGE, one_sentence
from test_clat_moves import reaches

# How far the routes of a CLAT go behind others while nothing can pass.
BEHIND = 1 << 20
SECOND6 = "2001:2:0:3::2"
SECOND_ROUTER6 = "2001:2:0:3::1"


def start(net: Network, *options: str) -> Running:
    """`diolkos clat` with these options and no others."""
    log = net.scratch / f"log-{len(net.running)}"
    with log.open("w") as sink:
        process = net.start(net.client, str(net.program), "clat", *options, stderr=sink, stdout=sink)
    return Running(process, log)


def until_said(net: Network, clat: Running, words: str, times: int = 1) -> None:
    """Until its log says so; it must not end before."""
    net.until(lambda: clat.log().count(words) >= times or clat.process.poll() is not None)
    assert clat.process.poll() is None and clat.log().count(words) >= times, clat.log()


def obstacles(net: Network) -> list[str]:
    """What `show status` says is in the way."""
    shown = json.loads(net.run(net.client, str(net.program), "show", "status", "--json", check=False).stdout)
    assert shown["state"] == "waiting"
    return shown["obstacles"]


def routes4(net: Network) -> set[tuple[str, int]]:
    """Devices and metrics of the IPv4 default routes."""
    return {(route["dev"], route["metric"]) for route in net.ip_json(net.client, "-4", "route", "show", "default")}


def add_second_uplink(net: Network, metric: int = 2048) -> None:
    """wan1 leads to the same router; its default route is the worse one."""
    net.host("ip", "link", "add", "wan1", "netns", net.client, "type", "veth", "peer", "down1", "netns", net.router)
    for name, link, address in ((net.client, "wan1", SECOND6), (net.router, "down1", SECOND_ROUTER6)):
        net.ip(name, "address", "add", f"{address}/64", "dev", link, "nodad")
        net.ip(name, "link", "set", link, "up")
    net.settle()
    net.ip(net.client, "route", "add", "default", "via", SECOND_ROUTER6, "dev", "wan1", "metric", str(metric))


def test_without_options(pref64: Pref64Network) -> None:
    """It takes the uplink of the IPv6 default route and the prefix that the network says; until there is a route, it waits."""
    pref64.reach(OWN)
    pref64.answer_solicitations(Option(OWN))
    pref64.ip(pref64.client, "route", "del", "default")
    clat = start(pref64)
    until_said(pref64, clat, "waiting: no IPv6 default route")
    assert obstacles(pref64) == ["no IPv6 default route leads to an uplink; --uplink names one"]
    pref64.ip(pref64.client, "route", "add", "default", "via", ROUTER6)
    until_said(pref64, clat, " ready: ")
    assert "the uplink is wan0: the IPv6 default route (metric 1024) leads through it" in clat.log()
    assert f"on wan0, prefix {OWN}" in clat.log()
    assert "3 received" in pref64.ping("-c3").stdout, clat.log()
    assert routes4(pref64) == {("diolkos0", 2048)}
    config = pref64.run(pref64.client, str(pref64.program), "show", "config").stdout
    assert 'v4 = "192.0.0.1"' in config and "metric = 2048" in config and 'interfaces = ["wan0"]' in config
    assert clat.stop() == 0
    assert remains(pref64) == []


def test_a_file_that_says_no_prefix(net: Network) -> None:
    """A CLAT of a file learns its prefix, too; a router has the well-known one."""
    file = net.scratch / "clat.toml"
    file.write_text("")
    checked = net.run(net.client, str(net.program), "check", str(file)).stdout
    assert 'pref64 = "auto"' in checked and "interfaces = []" in checked
    assert 'v4 = "auto"' in checked and 'metric = "auto"' in checked
    file.write_text('[translator]\nmode = "nat64"\n[[nat64.pool4]]\naddress = "192.0.2.1"\n')
    assert 'pref64 = ["64:ff9b::/96"]' in net.run(net.client, str(net.program), "check", str(file)).stdout
    code, message = net.refused("siit", "--config", str(file))
    assert code == USAGE and 'nat64: this section is for the mode "nat64"' in message


def test_the_signal_while_it_waits(net: Network) -> None:
    """It ends at once and leaves nothing."""
    net.ip(net.client, "route", "del", "default")
    clat = start(net)
    until_said(net, clat, "waiting: no IPv6 default route")
    assert clat.stop(signal.SIGTERM) == 0
    assert remains(net) == []


def test_it_moves_when_the_default_route_does(net: Network) -> None:
    """The best route counts at the start. Later it stays while its uplink has one, and moves when only another has one."""
    add_second_uplink(net)
    clat = start(net, "--pref64", WELL_KNOWN_PREFIX)
    until_said(net, clat, " ready: ")
    assert "the uplink is wan0: its IPv6 default route (metric 1024) goes before those through wan1" in clat.log()
    assert "3 received" in net.ping("-c3").stdout, clat.log()
    net.ip(net.client, "route", "del", "default", "via", ROUTER6)
    until_said(net, clat, "wan0 has no IPv6 default route: looking for another uplink")
    until_said(net, clat, " ready: ", 2)
    assert "on wan1, prefix" in clat.log().split(" ready: ")[2]
    assert "3 received" in net.ping("-c3").stdout, clat.log()
    net.ip(net.client, "route", "add", "default", "via", ROUTER6)
    net.until(lambda: reaches(net))
    assert clat.log().count("looking for another uplink") == 1
    net.ip(net.client, "link", "del", "wan1")
    until_said(net, clat, "the uplink wan1 is gone: looking for another uplink")
    until_said(net, clat, " ready: ", 3)
    assert "on wan0, prefix" in clat.log().split(" ready: ")[3]
    assert "3 received" in net.ping("-c3").stdout, clat.log()
    assert clat.stop() == 0
    assert remains(net) == []


def test_two_uplinks(net: Network) -> None:
    """A second CLAT needs another device; it finds an address and a metric of its own. What the operator says is obeyed."""
    add_second_uplink(net)
    prefix = ("--pref64", WELL_KNOWN_PREFIX)
    # Both at once: one has not got its address yet when the other chooses.
    clats = [start(net, "--uplink", f"wan{n}", "--device", f"diolkos{n}", *prefix) for n in (0, 1)]
    for clat in clats:
        until_said(net, clat, " ready: ")
    said = "".join(clat.log() for clat in clats)
    assert " 192.0.0.1 <-> " in said and " 192.0.0.2 <-> " in said
    assert "the CLAT's IPv4 address is 192.0.0.2, because" in said and "the metric of its IPv4 routes is 2049" in said
    assert {metric for _, metric in routes4(net)} == {2048, 2049}
    for device in ("diolkos0", "diolkos1"):
        assert "2 received" in net.ping("-c2", "-I", device).stdout, said
    for option, value, words in (
        ("--metric", "2048", "there is a route to 0.0.0.0/0 with metric 2048 already"),
        ("--v4", "192.0.0.2", "192.0.0.2 is already the address of diolkos"),
    ):
        code, message = net.refused("clat", "--uplink", "wan0", *prefix, "--device", "diolkos2", option, value)
        assert code == USAGE and words in one_sentence(message), message
    third = start(net, "--uplink", "wan0", *prefix, "--device", "diolkos2", "--v4", "192.0.0.6", "--metric", "7")
    until_said(net, third, "ready: 192.0.0.6 <-> ")
    assert ("diolkos2", 7) in routes4(net)
    for clat in (*clats, third):
        assert clat.stop() == 0
    assert remains(net) == []


def test_two_uplinks_of_which_one_goes(net: Network) -> None:
    """While the preferred CLAT waits, its route goes behind that of the other one, and comes back."""
    add_second_uplink(net)
    clats = []
    for number in (0, 1):
        device = ("--uplink", f"wan{number}", "--device", f"diolkos{number}")
        clats.append(start(net, *device, "--pref64", WELL_KNOWN_PREFIX))
        until_said(net, clats[-1], " ready: ")
    both = {("diolkos0", 2048), ("diolkos1", 2049)}
    assert routes4(net) == both
    for times in (1, 2):
        net.ip(net.router, "link", "set", "down0", "down")
        until_said(net, clats[0], "nothing can pass: ", times)
        net.until(lambda: routes4(net) == {("diolkos0", 2048 + BEHIND), ("diolkos1", 2049)})
        assert "2 received" in net.ping("-c2").stdout, clats[1].log()
        net.ip(net.router, "link", "set", "down0", "up")
        net.ip(net.client, "route", "replace", "default", "via", ROUTER6, "dev", "wan0", "metric", "1024")
        net.until(lambda: routes4(net) == both, patience=60)
        until_said(net, clats[0], " ready: ", times + 1)
    for clat in clats:
        assert clat.stop() == 0
    assert remains(net) == []


def test_a_household(net: Network) -> None:
    """The commands of docs/clat.md, as they stand there, bring IPv4 to hosts behind this one."""
    page = (Path(__file__).resolve().parents[2] / "docs/clat.md").read_text()
    commands = page.split("## A household behind the CLAT\n", 1)[1].split("```sh\n", 1)[1].split("```\n", 1)[0]
    behind = net.add_host_behind()
    clat = net.clat()

    def received(packets: int) -> bool:
        pinged = net.run(behind, "ping", f"-c{packets}", "-i0.2", "-W2", SERVER4, check=False)
        return f"{packets} received" in pinged.stdout

    assert not received(1)
    for line in commands.splitlines():
        net.run(net.client, "sh", "-c", line.removeprefix("sudo "))
    assert received(3), clat.log()


def test_a_clat_of_another_program(net: Network) -> None:
    """Two CLATs of two programs would both claim IPv4: this one takes a free address, says who has IPv4, and waits."""
    net.run(net.client, "ip", "address", "add", "192.0.0.1/32", "dev", "lo")
    clat = start(net, "--uplink", "wan0", "--pref64", WELL_KNOWN_PREFIX)
    until_said(net, clat, "another CLAT serves this host: lo has 192.0.0.1, so this one steps aside")
    net.run(net.client, "ip", "address", "del", "192.0.0.1/32", "dev", "lo")
    until_said(net, clat, "ready: 192.0.0.2 <-> ")
    assert "2 received" in net.ping("-c2", to=SERVER4).stdout
    assert clat.stop() == 0
