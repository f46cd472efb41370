# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Who has most of a NAT64, and how much of what it may have: at 100 % the next one is refused."""

from __future__ import annotations

import json

import pytest
from nat64 import UNSHARED, V6_ELSEWHERE, Nat64Network, ask, in_ipv6, refusal, with_keys
from siit import V4, V6


def top(nat64: Nat64Network, *options: str) -> dict[str, dict]:
    """Rows by prefix."""
    shown = nat64.run(nat64.translator, str(nat64.program), "show", "top", "--json", *options).stdout
    return {row["prefix"]: row for row in json.loads(shown)["entries"]}


@pytest.mark.parametrize("nat64", ["tun", "tc"], indirect=True)
def test_what_is_shown_is_what_may_be_had(nat64: Nat64Network) -> None:
    """A source with a limit of four: three quarters with three, and with four nothing more."""
    nat64.nat64(with_keys("max_sessions_per_source = 4", *UNSHARED))
    answerer = nat64.socket(V4, 4711)
    for _ in range(3):
        ask(nat64.socket(V6), (in_ipv6(V4), 4711), answerer)
    ask(nat64.socket(V6_ELSEWHERE), (in_ipv6(V4), 4711), answerer)
    rows = top(nat64)
    source = rows["2001:db8:6::/64"]
    assert (source["kind"], source["sessions"], source["sessions_may"], source["percent"]) == ("source", 3, 4, 75)
    assert (source["bindings"], source["udp_ports"], source["tcp_ports"]) == (3, 3, 0)
    assert {prefix: row["sessions"] for prefix, row in rows.items() if row["kind"] == "host"} == {
        f"{V6}/128": 3,
        f"{V6_ELSEWHERE}/128": 1,
    }
    # One of each size: the one that has most.
    sizes = ("/48", "/56", "/64", "/128")
    assert list(top(nat64, "--lines", "1")) == [f"2001:db8:6::{'2' if size == '/128' else ''}{size}" for size in sizes]

    ask(nat64.socket(V6), (in_ipv6(V4), 4711), answerer)
    assert top(nat64, "--by", "share")["2001:db8:6::/64"]["percent"] == 100
    assert refusal(nat64.socket(V6), (in_ipv6(V4), 4711)) == "EHOSTUNREACH"
    assert top(nat64)["2001:db8:7::/64"]["percent"] == 25


def test_who_has_no_tables_says_so(nat64: Nat64Network) -> None:
    """And a number of lines that is none is refused."""
    nat64.nat64(with_keys(*UNSHARED))
    assert top(nat64) == {}
    code, said = nat64.diolkos("show", "top", "--lines", "0")
    assert code == 2
    assert "--lines" in said
