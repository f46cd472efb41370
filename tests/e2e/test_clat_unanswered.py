# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Packets leave a CLAT and nothing comes back: a firewall of this host or of the network, or a VPN as uplink. The CLAT must not
say `ready` then, and must not doubt it for an idle host and for traffic in one direction."""

from __future__ import annotations

import pytest
from network import NOT_READY, ROUTER6, SERVER4, WELL_KNOWN_PREFIX, Network, Running
from test_clat_defaults import start, until_said
from test_clat_doubts import kinds
from test_clat_moves import reaches
from test_clat_shared import shared

SILENT = [("obstacle", "unanswered")]
# What Docker, ufw and firewalld do to forwarded packets, and what docs/firewall.md says against it.
FORWARD = """
table ip6 firewall {{
    chain forward {{
        type filter hook forward priority 0; policy drop;
        {rules}
    }}
}}"""
ADMITTED = 'iifname "diolkos0" accept; oifname "diolkos0" accept'
# A router that takes nothing for the prefix, and says nothing.
DROPPING = """
table ip6 firewall {
    chain pre {
        type filter hook prerouting priority -300;
        ip6 daddr 64:ff9b::/96 drop
    }
}"""
# A server that hears and does not answer.
MUTE = """
table inet firewall {
    chain in {
        type filter hook input priority 0;
        udp dport 5000 drop
    }
}"""


def rules(net: Network, name: str, text: str) -> None:
    """A firewall in a namespace."""
    net.run(name, "nft", "-f", "-", input=text)


def send(net: Network) -> None:
    """UDP in one direction, until the test ends."""
    words = (
        "import socket, time\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        f"while True:\n    s.sendto(b'x', ('{SERVER4}', 5000))\n    time.sleep(0.2)"
    )
    net.start(net.client, "python3", "-c", words)


@pytest.mark.parametrize("sharing", [False, True])
def test_a_firewall_that_drops_what_is_forwarded(net: Network, sharing: bool) -> None:
    """Nobody needs to send anything: the rules are a reason to ask the router. With the rule that it takes, it is ready."""
    clat = shared(net) if sharing else net.clat("tun")
    assert kinds(net) == []
    rules(net, net.client, FORWARD.format(rules=""))
    net.until(lambda: kinds(net) == SILENT, patience=60)
    assert net.run(net.client, str(net.program), "show", "status", check=False).returncode == NOT_READY
    [obstacle] = net.status()["obstacles"]
    assert obstacle.startswith("nothing comes back through wan0") and "nftables of this host" in obstacle
    assert obstacle in clat.log()
    assert not reaches(net)
    rules(net, net.client, "delete table ip6 firewall\n" + FORWARD.format(rules=ADMITTED))
    net.until(lambda: kinds(net) == [], patience=60)
    assert "no longer: nothing comes back" in clat.log()
    assert reaches(net)
    assert clat.stop() == 0
    # The rules are there at the start, and nobody sends: the router answers.
    again = net.clat("auto" if sharing else "tun")
    net.until(lambda: net.counters()["slow.translated_6to4"] > 0)
    assert kinds(net) == [] and "nothing comes back" not in again.log()


@pytest.mark.parametrize("datapath", ["tc", "tun"])
def test_a_network_that_drops_everything(net: Network, datapath: str) -> None:
    """The router answers neighbours, and drops all packets for the prefix: what is sent in vain shows it, an answer ends it."""
    clat = net.clat(datapath)
    rules(net, net.router, DROPPING)
    send(net)
    net.until(lambda: kinds(net) == SILENT, patience=60)
    assert "not even a word from the next router" in clat.log()
    net.run(net.router, "nft", "delete", "table", "ip6", "firewall")
    net.until(lambda: kinds(net) == [], patience=60)
    assert reaches(net)


@pytest.mark.parametrize("datapath", ["tc", "tun"])
def test_traffic_in_one_direction(net: Network, datapath: str) -> None:
    """No answer comes, but the next router says a word: nothing is wrong."""
    clat = net.clat(datapath)
    rules(net, net.server, MUTE)
    send(net)
    net.until(lambda: net.counters()["slow.translated_6to4"] > 0)
    assert kinds(net) == [] and "nothing comes back" not in clat.log()


def vpn(net: Network, metric: int) -> None:
    """A VPN's device with an IPv6 default route, which takes everything and answers nothing."""
    hold = (
        "import fcntl, os, struct, time\nf = os.open('/dev/net/tun', os.O_RDWR)\n"
        "fcntl.ioctl(f, 0x400454CA, struct.pack('16sH22x', b'vpn0', 0x1001))\nprint(flush=True)\ntime.sleep(600)"
    )
    holder = net.start(net.client, "python3", "-c", hold, stdout=-1)
    holder.stdout.readline()
    net.ip(net.client, "address", "add", "2001:db8:99::2/64", "dev", "vpn0", "nodad")
    net.ip(net.client, "link", "set", "vpn0", "up")
    net.ip(net.client, "route", "add", "default", "dev", "vpn0", "metric", str(metric))


def test_a_vpn_is_not_the_uplink(net: Network) -> None:
    """Its default route has the lower metric, as OpenVPN's has: the uplink is the network's all the same."""
    vpn(net, 50)
    clat = start(net, "--pref64", WELL_KNOWN_PREFIX)
    until_said(net, clat, " ready: ")
    assert "the uplink is wan0: an IPv6 default route (metric 1024) leads through it, and a tunnel" in clat.log()
    assert reaches(net)


def test_a_vpn_that_leads_nowhere(net: Network) -> None:
    """It is all that there is at the start: what is sent into it in vain is said, and the CLAT leaves it for the network."""
    net.ip(net.client, "route", "del", "default", "via", ROUTER6)
    vpn(net, 50)
    clat: Running = start(net, "--pref64", WELL_KNOWN_PREFIX)
    until_said(net, clat, " ready: ")
    send(net)
    net.until(lambda: kinds(net) == SILENT, patience=60)
    assert "vpn0 may be a VPN that does not lead to the prefix" in clat.log()
    net.ip(net.client, "route", "add", "default", "via", ROUTER6)
    until_said(net, clat, "nothing comes back through vpn0: looking for another uplink")
    until_said(net, clat, " ready: ", 2)
    net.until(lambda: reaches(net))
    net.until(lambda: kinds(net) == [], patience=60)
