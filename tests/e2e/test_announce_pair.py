# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Two routers that announce the same addresses: which one has them, and what both say of themselves."""

from __future__ import annotations

import signal

import pytest
from network import NOT_READY, Running
from siit import PREF64, V4, V4_IN_IPV6, V6, SiitNetwork
from test_announce import MAPPED, OWN, SIIT, answering, mac, ping, unroute


def add_second_router(siit: SiitNetwork) -> str:
    """Another router on both links, with addresses of its own."""
    second = f"{siit.tag}-second"
    siit.add_namespace(second)
    siit.further.append(second)
    unroute(siit)
    # Both routers are on both links.
    for name, link, address in ((siit.v4, "b4", f"{V4}/24"), (siit.v6, "b6", f"{V6}/64")):
        siit.host("ip", "link", "add", "a1", "netns", name, "mtu", "9000", "type", "veth",
                  "peer", link, "netns", second, "mtu", "9000")  # fmt: skip
        siit.run(name, "ip", "address", "flush", "dev", "a0")
        siit.run(name, "ip", "link", "add", "br0", "type", "bridge", "mcast_snooping", "0")
        for port in ("a0", "a1"):
            siit.run(name, "ip", "link", "set", port, "master", "br0", "up")
        siit.run(name, "ip", "link", "set", "br0", "up")
        siit.ip(name, "address", "add", address, "dev", "br0", *(["nodad"] if ":" in address else []))
        siit.run(second, "ip", "link", "set", link, "up")
    siit.ip(siit.v6, "route", "replace", PREF64, "dev", "br0")
    siit.run(second, "ip", "address", "add", "198.51.100.3/24", "dev", "b4")
    siit.ip(second, "address", "add", "2001:db8:6::3/64", "dev", "b6", "nodad")
    return second


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_a_pair_of_routers(siit: SiitNetwork, end: signal.Signals) -> None:
    """What keepalived sees of both by their exit codes: never are both ready, and never one whose addresses the other has."""
    first, second = siit.translator, add_second_router(siit)
    siit.configure(SIIT.replace("duplicate_detection = false\n", ""))

    def begin(at: str) -> Running:
        siit.translator = at
        return siit.siit()

    def codes() -> tuple[int, int]:
        """Of the first and the second router."""
        shown = [siit.run(at, str(siit.program), "status", check=False).returncode for at in (first, second)]
        return shown[0], shown[1]

    def counted(at: str, name: str) -> int:
        siit.translator = at
        return siit.counters()[name]

    running = begin(first)
    assert codes() == (NOT_READY, 1), "it does not answer yet"
    assert "no answer yet for 198.51.100.16 and 1 other: asking whether another node has them" in running.log()
    siit.until(lambda: codes() == (0, 1))
    waiting = begin(second)
    siit.until(lambda: "too: diolkos does not answer for it" in waiting.log())
    assert codes() == (0, NOT_READY)
    siit.until(lambda: counted(second, "announce.polls") >= 4)
    assert codes() == (0, NOT_READY)
    assert ping(siit, siit.v4, MAPPED)
    running.stop(end)
    siit.until(lambda: codes()[1] == 0)
    assert ping(siit, siit.v4, MAPPED)
    running = begin(first)
    assert codes() == (NOT_READY, 0)
    siit.until(lambda: "too: diolkos does not answer for it" in running.log())
    siit.until(lambda: counted(first, "announce.polls") >= 4)
    assert codes() == (NOT_READY, 0)
    waiting.stop(end)
    siit.until(lambda: codes() == (0, 1))
    assert ping(siit, siit.v4, MAPPED)


def test_a_second_router_takes_over(siit: SiitNetwork) -> None:
    """Its announcements move what the neighbours know of the first one, which was killed (RFC 4861 section 7.2.6)."""
    second = add_second_router(siit)
    siit.configure(SIIT)
    first = siit.siit()
    answering(siit, first, MAPPED, OWN, V4_IN_IPV6)
    assert ping(siit, siit.v4, MAPPED)

    def knows(name: str, address: str, link: str, of: str) -> bool:
        neighbours = siit.ip_json(name, "neighbour", "show", address)
        return [n.get("lladdr") for n in neighbours] == [mac(siit, of, link)]

    assert knows(siit.v4, MAPPED, "b4", siit.translator)
    first.stop(signal.SIGKILL)
    siit.translator = second
    siit.configure(SIIT.replace("duplicate_detection = false\n", ""))
    running = siit.siit()
    answering(siit, running, MAPPED, OWN, V4_IN_IPV6)
    siit.until(lambda: knows(siit.v4, MAPPED, "b4", second))
    siit.until(lambda: knows(siit.v6, V4_IN_IPV6, "b6", second))
    assert ping(siit, siit.v4, MAPPED) and ping(siit, siit.v6, V4_IN_IPV6)
    assert siit.counters()["announce.conflicts"] == 0
