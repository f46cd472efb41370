# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What `show status` says of a router while something keeps packets from passing, and when it is mended."""

from __future__ import annotations

import pytest
from nat64 import Nat64Network
from siit import V4_IN_IPV6


def status(net: Nat64Network) -> dict:
    """What `diolkos show status --json` prints."""
    return net.status(net.translator)


def reaches(net: Nat64Network) -> bool:
    return net.run(net.v6, "ping", "-c1", "-W0.3", V4_IN_IPV6, check=False).returncode == 0


@pytest.mark.parametrize("nat64", ["tc", "tun"], indirect=True)
def test_a_device_that_is_down(nat64: Nat64Network) -> None:
    """It waits, says what to do, and is ready again afterwards."""
    nat64.nat64()
    nat64.until(lambda: reaches(nat64))
    assert (status(nat64)["state"], status(nat64)["obstacles"]) == ("ready", [])
    nat64.ip(nat64.translator, "link", "set", "diolkos0", "down")
    expected = ["diolkos0 is down: nothing can pass until it is up (`ip link set diolkos0 up`)"]
    nat64.until(lambda: (status(nat64)["state"], status(nat64)["obstacles"]) == ("waiting", expected))
    nat64.ip(nat64.translator, "link", "set", "diolkos0", "up")
    nat64.until(lambda: (status(nat64)["state"], status(nat64)["obstacles"]) == ("ready", []))
    nat64.until(lambda: reaches(nat64))


FORWARDING = pytest.mark.parametrize(
    ("setting", "family"), [("net.ipv4.ip_forward", "IPv4"), ("net.ipv6.conf.all.forwarding", "IPv6")]
)


@pytest.mark.parametrize("nat64", ["tc", "tun"], indirect=True)
@FORWARDING
def test_forwarding_switched_off(nat64: Nat64Network, setting: str, family: str) -> None:
    """Log and status say so until it is on again."""
    nat64.sysctl(nat64.translator, setting, "1")
    running = nat64.nat64()
    nat64.until(lambda: reaches(nat64))
    nat64.sysctl(nat64.translator, setting, "0")
    said = f"{family} forwarding is off on b4, b6, diolkos0"
    nat64.until(lambda: said in running.log())
    nat64.until(lambda: status(nat64)["obstacles"] == [said])
    assert not reaches(nat64)
    nat64.sysctl(nat64.translator, setting, "1")
    nat64.until(lambda: status(nat64)["obstacles"] == [])
    nat64.until(lambda: reaches(nat64))


@pytest.mark.parametrize("nat64", ["tc", "tun"], indirect=True)
@FORWARDING
def test_a_setting_that_was_off_already(nat64: Nat64Network, setting: str, family: str) -> None:
    """The program has switched forwarding on by interface. To write the old value again changes nothing in IPv4. In IPv6 it
    switches all interfaces off, and the kernel tells nobody."""
    nat64.sysctl(nat64.translator, setting, "0")
    running = nat64.nat64()
    nat64.until(lambda: reaches(nat64))
    nat64.sysctl(nat64.translator, setting, "0")
    if family == "IPv4":
        assert reaches(nat64)
        assert status(nat64)["obstacles"] == []
        return
    said = f"{family} forwarding is off on b4, b6, diolkos0"
    nat64.until(lambda: status(nat64)["obstacles"] == [said])
    assert f"{said}: packets from there do not pass" in running.log()
    assert not reaches(nat64)
    assert nat64.diolkos("reload") == (0, "")
    nat64.until(lambda: reaches(nat64))
    nat64.until(lambda: status(nat64)["obstacles"] == [])
