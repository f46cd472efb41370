# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What a STUN client finds out about the translator (RFC 5780), with coturn's client and server.

STUN messages carry IPv4 addresses, which nobody translates, so the client has to know IPv4: it runs behind a CLAT on the
IPv6 host, like any old application of a phone. What it finds is the behaviour of the whole chain (464XLAT, RFC 6877), in
which only the NAT64 has state.
"""

from __future__ import annotations

import pytest
import servers
from conftest import ROUTER_DATAPATHS
from nat64 import CLAT4, Nat64Network, with_keys
from siit import V4


def find(nat64: Nat64Network, test: str) -> str:
    """What the client says after a test."""
    client = ("turnutils_natdiscovery", test, "-p", str(servers.STUN_PORT), "-L", CLAT4, V4)
    return nat64.run(nat64.v6, *client).stdout


@pytest.mark.parametrize("nat64", ROUTER_DATAPATHS, indirect=True)
def test_a_nat_that_hinders_nobody(nat64: Nat64Network) -> None:
    """One mapping for every peer (RFC 4787 REQ-1), whoever knows it may use it (REQ-8), the neighbour, too (REQ-9)."""
    nat64.nat64()
    nat64.clat_behind()
    servers.stun(nat64)
    assert "NAT with Endpoint Independent Mapping!" in find(nat64, "-m")
    assert "NAT with Endpoint Independent Filtering!" in find(nat64, "-f")
    assert "successful hairpinning" in find(nat64, "-H")
    assert {binding["protocol"] for binding in nat64.shown("bindings")} >= {"udp"}
    assert nat64.drops() == {}


def test_filtering_by_address(nat64: Nat64Network) -> None:
    """Configured so, a stranger may not answer, another port of the server's may; the mapping is the same for both."""
    nat64.nat64(with_keys('filtering = "address-dependent"'))
    nat64.clat_behind()
    servers.stun(nat64)
    assert "NAT with Endpoint Independent Mapping!" in find(nat64, "-m")
    assert nat64.drops() == {}
    assert "NAT with Address Dependent Filtering!" in find(nat64, "-f")
    assert nat64.drops() == {"slow.drop.filtered": 1}
