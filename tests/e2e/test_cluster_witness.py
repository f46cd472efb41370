# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The witness of a cluster sees what it is there for."""

from __future__ import annotations

import pytest
from cluster import ClusterNetwork
from plan import GATEWAYS, POOLS4, PREF64

# So few ports that two gateways that both have them cannot give them to different subscribers' flows alone.
CONFUSED = f"""[translator]
mode = "nat64"
pref64 = ["{PREF64}"]
[nat64]
routes4 = ["{POOLS4}"]
[[nat64.pool4]]
address = "192.0.2.1"
ports = "1024-1279"
"""


def test_two_gateways_with_the_same_ports_are_seen(cluster: ClusterNetwork, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a cluster, each gives the same external ports away, and each sends the answers to its own subscribers."""
    monkeypatch.setattr(cluster, "configuration", lambda node, changes=None: CONFUSED)
    cluster.gateways(*list(GATEWAYS)[:2])
    with pytest.raises(AssertionError, match=r"s later|got Payload"):
        cluster.witness(udp=40, tcp=0, long=0, ping=0, openers=0)
