# SPDX-License-Identifier: Apache-2.0 OR MIT
"""One file for a translator and a DNS64: each is a process of its own, and none is in the way of the other."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from dns64 import DNS64, PREF64, RESOLVER, Dns64Network
from network import Running

FILE = f"""
[translator]
mode = "siit"
pref64 = ["{PREF64}", "2001:db8:65::/96"]
[dns64]
listen = ["[{DNS64}]:53"]
upstream = ["{RESOLVER}"]
[metrics]
listen = ["[::1]:9464"]
"""
# The first prefix of the translator, and no other one.
BOTH = ["2001:db8:64::c000:201", "2001:db8:64::c000:202"]
# linux/capability.h
NET_BIND_SERVICE = 1 << 10


@pytest.fixture
def net(dns64_network: Dns64Network) -> Dns64Network:
    """With unbound upstream."""
    dns64_network.unbound()
    return dns64_network


def translator(net: Dns64Network) -> Running:
    """What `diolkos@NAME.service` runs."""
    running = net.diolkos("run", "--config", str(net.config(FILE)), ready=False)
    net.until(lambda: "ready: siit" in running.log() or running.process.poll() is not None)
    assert running.process.poll() is None, running.log()
    return running


def names(net: Dns64Network) -> Running:
    """What `diolkos-dns64@NAME.service` runs."""
    return net.dns64("--config", str(net.config(FILE)))


def status(running: Running) -> dict[str, str]:
    """What the kernel says of a process."""
    lines = Path(f"/proc/{running.process.pid}/status").read_text().splitlines()
    return {name: value.strip() for name, value in (line.split(":", 1) for line in lines)}


def page(net: Dns64Network) -> str:
    """The figures that are served."""
    return net.run(net.router, "curl", "--silent", "http://[::1]:9464/metrics").stdout


def test_each_serves_its_part(net: Dns64Network) -> None:
    """The translator says whose the section is, and serves the figures of both."""
    one = translator(net)
    assert "WARN [dns64] is for `diolkos dns64 --config FILE`" in one.log()
    assert "diolkos_dns64_up 0" in page(net)
    other = names(net)
    assert net.dig("v4.example").data() == BOTH
    assert "diolkos0" in net.ip(net.router, "link")
    net.until(lambda: "diolkos_dns64_up 1" in page(net) and 'diolkos_dns64_events_total{event="query_udp"} 1' in page(net))
    code, said = net.once("show", "status", "--device", "dns64")
    assert code == 0, said
    assert "metrics" not in other.log()
    assert net.once("reload") == (0, "")
    assert other.stop() == 0
    assert one.stop() == 0
    assert "diolkos0" not in net.ip(net.router, "link")


def test_what_ends_the_one_leaves_the_other(net: Dns64Network) -> None:
    """However it ends: translation goes on without names, and names without translation."""
    one, other = translator(net), names(net)
    os.kill(other.process.pid, signal.SIGKILL)
    other.process.wait()
    assert one.process.poll() is None and "diolkos0" in net.ip(net.router, "link")
    other = names(net)
    os.kill(one.process.pid, signal.SIGKILL)
    one.process.wait()
    assert net.dig("v4.example").data() == BOTH
    one = translator(net)
    assert net.run(net.router, str(net.program), "stop").returncode == 0
    assert one.wait() == 0
    assert net.dig("v4.example").data() == BOTH
    assert other.stop() == 0


def test_it_has_no_rights_but_its_port(net: Dns64Network) -> None:
    """No other capability and no way back, a filter of its own, no core, little memory."""
    other = names(net)
    found = status(other)
    assert {int(found[name], 16) for name in ("CapPrm", "CapEff")} == {NET_BIND_SERVICE}
    assert {int(found[name], 16) for name in ("CapInh", "CapAmb", "CapBnd")} == {0}
    assert (found["NoNewPrivs"], found["Seccomp"]) == ("1", "2")
    text = Path(f"/proc/{other.process.pid}/limits").read_text()
    limits = {line[:26].strip(): line[26:].split()[:2] for line in text.splitlines()}
    assert limits["Max core file size"] == ["0", "0"]
    assert limits["Max data size"][0] == limits["Max data size"][1] != "unlimited"
    assert net.dig("v4.example").data() == BOTH
    assert other.stop() == 0
