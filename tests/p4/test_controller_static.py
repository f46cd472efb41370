# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Begun from IPv4: bindings of the operator lead to a node that has IPv6, and the switch translates their sessions."""

from __future__ import annotations

from router import Router, talking, until
from test_controller import by_the_switch
from test_traffic import PORT, client, serving
from wires import POOL, V6, Wires

STATIC = """
[nat64]
outside_share = 100
""" + "".join(
    f'[[nat64.static]]\nprotocol = "{protocol}"\nv4 = "{POOL}:{PORT}"\nv6 = "[{V6}]:{PORT}"\n'
    for protocol in ("tcp", "udp", "icmp")
)


def test_sessions_begun_from_ipv4_go_over_to_the_switch(wires: Wires, router: Router) -> None:
    """UDP and TCP in the switch, both ways; pings by the slow path, which knows whose they are; and no other port leads in."""
    wires.start()
    router.start("nat64", more=STATIC)
    with serving(wires, wires.six, V6), talking(wires, wires.four, POOL, PORT) as talk:
        until("the binding leads in", talk.ask)
        by_the_switch(router, talk)
        before = router.counters()
        client(wires, wires.four, "tcp", POOL, 2_000_000)

        def are_counted() -> bool:
            after = router.counters()
            return all(after[name] - before[name] > 500 for name in ("p4.translated_6to4", "p4.translated_4to6"))

        until("the switch counts TCP", are_counted)
        wires.run(wires.four, "ping", "-e", str(PORT), "-c", "3", "-i", "0.2", "-w", "30", POOL)
        wires.run(wires.four, "ping", "-e", str(PORT + 1), "-c", "2", "-i", "0.2", "-w", "2", POOL, code=1)
    with talking(wires, wires.four, POOL, PORT + 1) as other:
        assert not other.ask()
    assert {(session["protocol"], session["v6"]) for session in router.sessions()} >= {
        (protocol, f"[{V6}]:{PORT}") for protocol in ("tcp", "udp")
    }
    assert router.count("session4") == router.count("session6") > 0
