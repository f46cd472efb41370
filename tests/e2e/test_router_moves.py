# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The network of a running router moves: what others take away comes back, and what cannot pass is said."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest
from conftest import DATAPATHS
from nat64 import Nat64Network
from siit import CONFIG, V4_IN_IPV6, V6_MAPPED, SiitNetwork


def both_reach(net: SiitNetwork) -> bool:
    """Packets pass in both directions."""
    four = net.run(net.v4, "ping", "-c1", "-W0.3", V6_MAPPED, check=False).returncode
    six = net.run(net.v6, "ping", "-c1", "-W0.3", V4_IN_IPV6, check=False).returncode
    return (four, six) == (0, 0)


def ip(net: SiitNetwork, *arguments: str) -> None:
    """ip(8) in the translator."""
    net.run(net.translator, "ip", *arguments)


@pytest.mark.parametrize("siit", ["tc", "tun", "inline"], indirect=True)
@pytest.mark.parametrize("how", ["down-up", "flush"])
def test_own_routes_come_back(siit: SiitNetwork, how: str) -> None:
    """The device had lost them, which is said."""
    running = siit.siit()
    assert both_reach(siit)
    if how == "down-up":
        ip(siit, "link", "set", "diolkos0", "down")
        ip(siit, "link", "set", "diolkos0", "up")
    else:
        ip(siit, "route", "flush", "dev", "diolkos0")
        ip(siit, "-6", "route", "flush", "dev", "diolkos0", "proto", "static")
    siit.until(lambda: "diolkos0 had lost the route to" in running.log())
    siit.until(lambda: both_reach(siit))
    assert running.stop() == 0
    assert siit.leftovers() == []


@pytest.mark.parametrize("nat64", ["tc", "tun"], indirect=True)
def test_own_routes_of_a_nat64_come_back(nat64: Nat64Network) -> None:
    """Sessions go on with them."""
    running = nat64.nat64()
    nat64.until(lambda: nat64.run(nat64.v6, "ping", "-c1", "-W0.3", V4_IN_IPV6, check=False).returncode == 0)
    ip(nat64, "link", "set", "diolkos0", "down")
    nat64.until(lambda: "diolkos0 is down" in running.log())
    ip(nat64, "link", "set", "diolkos0", "up")
    nat64.until(lambda: "diolkos0 had lost the route to" in running.log())
    nat64.until(lambda: nat64.run(nat64.v6, "ping", "-c1", "-W0.3", V4_IN_IPV6, check=False).returncode == 0)


@pytest.mark.parametrize("siit", DATAPATHS, indirect=True)
def test_reload_puts_back_what_is_ours(siit: SiitNetwork) -> None:
    """A device that is down is not set up against somebody's will, but by a reload, which says what it puts back."""
    running = siit.siit()
    ip(siit, "link", "set", "diolkos0", "down")
    siit.until(lambda: "diolkos0 is down: nothing can pass until it is up" in running.log())
    assert siit.diolkos("reload") == (0, "")
    assert "diolkos0 had lost the route to" in running.log()
    assert both_reach(siit)


@pytest.mark.parametrize("siit", ["tc", "tun"], indirect=True)
def test_reload_adds_routes_to_a_device_that_is_down(siit: SiitNetwork) -> None:
    """The new configuration has a route more. A device that is down takes none, and the reload sets it up."""
    running = siit.siit()
    ip(siit, "link", "set", "diolkos0", "down")
    siit.until(lambda: "diolkos0 is down: nothing can pass until it is up" in running.log())
    siit.configure(CONFIG.replace("192.0.2.0/24", '192.0.2.0/24", "198.18.9.0/24'))
    assert siit.diolkos("reload") == (0, "")
    assert siit.ip_json(siit.translator, "-4", "route", "show", "198.18.9.0/24")[0]["dev"] == "diolkos0"
    assert both_reach(siit)


@pytest.mark.parametrize("siit", ["tun"], indirect=True)
def test_lost_news(siit: SiitNetwork) -> None:
    """While the program stands still, the kernel throws news away; afterwards it looks at everything."""
    running = siit.siit()
    running.process.send_signal(signal.SIGSTOP)
    noise = [f"route {verb} 198.18.{n // 250}.{n % 250}/32 dev lo" for verb in ("add", "del") for n in range(4000)]
    batch = [*noise, "route flush dev diolkos0", *noise, ""]
    siit.run(siit.translator, "ip", "-batch", "-", input="\n".join(batch))
    running.process.send_signal(signal.SIGCONT)
    siit.until(lambda: "diolkos0 had lost the route to" in running.log())
    siit.until(lambda: both_reach(siit))


def test_a_route_of_somebody_elses_is_not_fought(siit: SiitNetwork) -> None:
    """Another route took the place of ours: that is said, and when it goes ours comes back."""
    running = siit.siit("--datapath", "tun")
    metric = siit.ip_json(siit.translator, "-4", "route", "show", "192.0.2.0/24")[0]["metric"]
    ip(siit, "route", "replace", "192.0.2.0/24", "dev", "b4", "metric", str(metric))
    siit.until(lambda: "diolkos0 has lost parts that cannot be restored" in running.log())
    assert f"there is a route to 192.0.2.0/24 with metric {metric} already" in running.log()
    ip(siit, "route", "del", "192.0.2.0/24", "dev", "b4", "metric", str(metric))
    siit.until(lambda: both_reach(siit))


def test_an_address_of_the_host_in_the_pool(nat64: Nat64Network) -> None:
    """At the start it is refused; later it is named, and so is its end."""
    running = nat64.nat64()
    ip(nat64, "address", "add", "192.0.2.3/32", "dev", "b4")
    nat64.until(lambda: "192.0.2.3 is an address of this host" in running.log())
    assert "WARN nat64.pool4[0].address: 192.0.2.3" in running.log()
    ip(nat64, "address", "del", "192.0.2.3/32", "dev", "b4")
    nat64.until(lambda: "the pool no longer contains an address of this host" in running.log())


def test_what_cannot_pass_is_said(siit: SiitNetwork) -> None:
    """An interface that is down, one without IPv6, and a family without a route."""
    siit.configure(CONFIG.replace("pref64", 'interfaces = ["b4", "b6"]\npref64'))
    ip(siit, "link", "set", "b4", "down")
    running = siit.siit("--datapath", "tun")
    assert "b4 is down: packets that need it cannot pass" in running.log()
    assert "no IPv4 route except those to the translator" in running.log()
    ip(siit, "link", "set", "b4", "up")
    siit.until(lambda: "no longer: b4 is down" in running.log())
    siit.until(lambda: both_reach(siit))
    siit.sysctl(siit.translator, "net.ipv6.conf.b6.disable_ipv6", "1")
    siit.until(lambda: "IPv6 is disabled on b6: packets that need it cannot pass" in running.log())
    assert "no IPv6 route except those to the translator" in running.log()


def test_a_signal_while_a_reload_waits(nat64: Nat64Network) -> None:
    """It is heard meanwhile: the reload is given up, and the program ends cleanly."""
    running = nat64.nat64("", "--log", "debug")
    text = nat64.config.read_text()
    nat64.config.unlink()
    os.mkfifo(nat64.config)
    reload = nat64.start(nat64.translator, str(nat64.program), "reload", stderr=subprocess.PIPE, text=True)
    with nat64.config.open("w") as pipe:
        running.process.send_signal(signal.SIGTERM)
        nat64.until(lambda: "a signal arrived" in running.log())
        pipe.write(text)
    assert running.wait() == 0
    assert reload.wait(15) == 1
    assert "is about to end" in reload.stderr.read()
    assert "reloaded: " not in running.log()
    assert nat64.leftovers() == []
