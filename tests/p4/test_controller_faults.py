# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What an operator sees of a switch that is away, is not the one that the file names, stands still or is full: one finding."""

from __future__ import annotations

import re
import signal
from contextlib import ExitStack
from pathlib import Path

from control import SPEC
from router import Router, diolkos, talking, until
from test_controller import by_the_switch
from test_traffic import PORT, serving
from wires import V4, V4_IN_IPV6, Wires


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


def test_a_switch_that_stands_still_is_written_again(wires: Wires, router: Router) -> None:
    """It does not answer: the connection ends. When it goes on, it is emptied and gets its rules and sessions again."""
    wires.start()
    router.start("nat64")
    with serving(wires, wires.four, V4), talking(wires, wires.six, V4_IN_IPV6, PORT) as talk:
        by_the_switch(router, talk)
        before = router.counters()
        assert wires.process
        wires.process.send_signal(signal.SIGSTOP)
        until("it is a finding", lambda: router.troubles() != [])
        wires.process.send_signal(signal.SIGCONT)
        until("it is over", lambda: router.troubles() == [])
        after = router.counters()
        assert after["p4.garbage"] > before["p4.garbage"]
        assert after["p4.connections"] > before["p4.connections"]
        until("its session is back", lambda: router.count("session6") == 1)
        by_the_switch(router, talk)


def test_a_switch_that_is_full_is_one_finding(wires: Wires, router: Router, tmp_path: Path) -> None:
    """Every session works, through the switch or the slow path; when there is room again, the finding is over."""
    wires.spec = tmp_path / "small.spec"
    text = SPEC.read_text()
    for table in ("session6", "session4"):
        text, count = re.subn(rf"^(table {table} \{{.*?size )0x20000$", r"\g<1>0x8", text, flags=re.MULTILINE | re.DOTALL)
        assert count == 1
    wires.spec.write_text(text)
    wires.start()
    router.start("nat64")
    with serving(wires, wires.four, V4), ExitStack() as stack:
        for _ in range(12):
            talk = stack.enter_context(talking(wires, wires.six, V4_IN_IPV6, PORT))
            until("it is answered", talk.ask)
        until("it is a finding", lambda: router.troubles() != [])
        (text,) = router.troubles()
        assert "refuses sessions" in text
        assert router.counters()["p4.refused"] > 0
        assert router.count("session4") == router.count("session6") == 8
        for session in router.sessions():
            ends = (session["v6"], session["v4"], session["peer"])
            wires.run(wires.router, diolkos(), "session", "del", session["protocol"], *ends)
        until("they are gone", lambda: router.count("session4") == 0)
        until("a new one is in the switch", lambda: talk.ask() and router.count("session4") == 1)
        until("it is over", lambda: router.troubles() == [])
    assert router.log().count("refuses sessions") == 1
    assert router.log().count("takes sessions again") == 1
