# SPDX-License-Identifier: Apache-2.0 OR MIT
"""diolkos as the controller of the switch: sessions that it opens are translated by the switch, whoever of the two ends."""

from __future__ import annotations

import signal

from router import Router, Talk, diolkos, talking, until
from test_traffic import PORT, client, serving
from wires import V4, V4_IN_IPV6, V6, V6_MAPPED, Wires

SOME = 50


def translated(router: Router) -> tuple[int, int, int]:
    """Packets that the switch has translated in each direction, and all that the slow path has."""
    counters = router.counters()
    slow = counters["slow.translated_6to4"] + counters["slow.translated_4to6"]
    return counters["p4.translated_6to4"], counters["p4.translated_4to6"], slow


def by_the_switch(router: Router, talk: Talk) -> None:
    """Wait until the switch translates a socket's packets; from then on, the slow path gets none of them."""

    def is_so() -> bool:
        before = translated(router)[2]
        return talk.ask_often(5) == 5 and translated(router)[2] == before

    until("the switch translates", is_so)
    before = translated(router)
    assert talk.ask_often(SOME) == SOME
    assert translated(router)[2] == before[2], "the slow path has translated, too"

    def are_counted() -> bool:
        after = translated(router)
        return min(after[0] - before[0], after[1] - before[1]) >= SOME

    until("the switch counts them", are_counted)


def test_sessions_go_over_to_the_switch(wires: Wires, router: Router) -> None:
    """Ping, TCP and UDP from IPv6: the controller opens the sessions, the switch translates the rest."""
    wires.start()
    router.start("nat64")
    wires.run(wires.six, "ping", "-c", "3", "-i", "0.2", "-w", "30", V4_IN_IPV6)
    with serving(wires, wires.four, V4), talking(wires, wires.six, V4_IN_IPV6, PORT) as talk:
        by_the_switch(router, talk)
        before = translated(router)
        client(wires, wires.six, "tcp", V4_IN_IPV6, 2_000_000)
        client(wires, wires.six, "udp", V4_IN_IPV6, 100)
        wires.run(wires.six, "ping", "-c", "10", "-i", "0.2", "-w", "60", V4_IN_IPV6)

        def are_counted() -> bool:
            after = translated(router)
            return min(after[0] - before[0], after[1] - before[1]) > 1000

        until("the switch counts TCP", are_counted)
        assert translated(router)[2] - before[2] < 200, "the slow path has what begins and ends"
    states = {session["protocol"] for session in router.sessions()}
    assert states == {"icmp", "tcp", "udp"}
    assert router.count("session4") == router.count("session6") > 0
    assert router.end() == 0
    assert router.count("session4") == router.count("session6") == router.count("hop4") == 0, "a clean end leaves nothing"


def test_an_ended_session_leaves_the_switch(wires: Wires, router: Router) -> None:
    """What the operator ends, the switch translates no more; the next packet opens another session."""
    wires.start()
    router.start("nat64")
    with serving(wires, wires.four, V4), talking(wires, wires.six, V4_IN_IPV6, PORT) as talk:
        by_the_switch(router, talk)
        (session,) = (session for session in router.sessions() if session["protocol"] == "udp")
        wires.run(wires.router, diolkos(), "session", "del", "udp", session["v6"], session["v4"], session["peer"])
        until("its entries are gone", lambda: router.count("session4") == 0)
        assert talk.ask_often(5) == 5
        by_the_switch(router, talk)


def test_a_killed_switch(wires: Wires, router: Router) -> None:
    """One line each way; the next switch gets all sessions, and translates them."""
    wires.start()
    router.start("nat64")
    with serving(wires, wires.four, V4), talking(wires, wires.six, V4_IN_IPV6, PORT) as talk:
        by_the_switch(router, talk)
        wires.end(signal.SIGKILL)
        until("diolkos knows", lambda: router.counters()["p4.up"] == 0)
        assert not talk.ask()
        wires.start()
        until("it is written again", lambda: router.counters()["p4.up"] == 1)
        until("its session is back", lambda: router.count("session6") == 1)
        by_the_switch(router, talk)
    assert router.log().count("is not there") == 1, router.log()
    assert router.log().count(" translates: ") == 2, router.log()


def test_a_killed_controller(wires: Wires, router: Router) -> None:
    """The switch goes on with the sessions that it knows; the next controller removes them, and begins anew."""
    wires.start()
    router.start("nat64")
    with serving(wires, wires.four, V4), talking(wires, wires.six, V4_IN_IPV6, PORT) as talk:
        by_the_switch(router, talk)
        router.end(signal.SIGKILL)
        assert talk.ask_often(SOME) == SOME
        assert router.count("session6") == 1
        router.start("nat64")
        assert router.count("session6") == 0
        assert router.sessions() == []
        until("it has a new session", talk.ask)
        by_the_switch(router, talk)


def test_a_switch_that_comes_later(wires: Wires, router: Router) -> None:
    """diolkos waits for it, and says so."""
    router.start("nat64")
    assert "is not there" in router.log()
    wires.start()
    with serving(wires, wires.four, V4), talking(wires, wires.six, V4_IN_IPV6, PORT) as talk:
        by_the_switch(router, talk)


def test_without_state(wires: Wires, router: Router) -> None:
    """A SIIT: prefix and mapping are in the switch, both ways."""
    wires.start()
    router.start("siit")
    with serving(wires, wires.four, V4), talking(wires, wires.six, V4_IN_IPV6, PORT) as talk:
        by_the_switch(router, talk)
    with serving(wires, wires.six, V6), talking(wires, wires.four, V6_MAPPED, PORT) as talk:
        by_the_switch(router, talk)
        client(wires, wires.four, "tcp", V6_MAPPED, 1_000_000)
    wires.run(wires.four, "ping", "-c", "3", "-i", "0.2", "-w", "30", V6_MAPPED)
