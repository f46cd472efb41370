# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What an operator sees of a switch that is away, or is not the one that the file names: one finding, while it lasts."""

from __future__ import annotations

import signal

from router import Router, until
from wires import Wires


def test_a_switch_that_is_away_is_one_finding(wires: Wires, router: Router) -> None:
    """It names the socket, and goes when the switch is back."""
    wires.start()
    router.start("nat64")
    until("the switch translates", lambda: router.counters()["p4.up"] == 1)
    assert router.troubles() == []
    wires.end(signal.SIGKILL)
    until("it is a finding", lambda: router.troubles() != [])
    (text,) = router.troubles()
    assert str(wires.folder / "switch.sock") in text
    assert "is not there" in text
    assert router.log().count("is not there") == 1, "the log says it once, the status as long as it lasts"
    wires.start()
    until("it is over", lambda: router.troubles() == [])
    assert router.counters()["p4.up"] == 1


def test_another_number_of_ports_is_one_finding(wires: Wires, router: Router) -> None:
    """A switch that has other ports than the file names translates nothing, and the sentence says why."""
    wires.start(addresses=False, ports=("w4=s4",))
    wires.run(wires.router, "ip", "link", "add", "s6", "type", "veth", "peer", "name", "no6")
    wires.run(wires.router, "ip", "link", "set", "s6", "up")
    wires.run(wires.router, "ip", "address", "add", "198.51.100.1/24", "dev", "s4")
    router.start("nat64")
    until("it is a finding", lambda: router.troubles() != [])
    (text,) = router.troubles()
    assert "1 pairs of ports" in text
    assert "names 2" in text
