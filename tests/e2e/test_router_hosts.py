# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Routes of many hosts: the programs keep one for each, and ask the kernel again only after a change or a while."""

from __future__ import annotations

import socket

import bpf_maps
import pytest
from siit import CONFIG, PREF64, V6_MAPPED, SiitNetwork

HOSTS = 1024
# A network whose addresses differ in 16 bits, and how a SIIT translates them.
NETWORK = "198.18.0.0/16"
TRANSLATED = socket.inet_pton(socket.AF_INET6, PREF64.split("/")[0])[:12] + socket.inet_aton("198.18.0.0")[:2]
# struct route_set of bpf/route_cache.h: a line of what is compared first, then one for each route, which begins with its key.
PLACES, LINE, SOURCE = 4, 64, slice(16, 32)


def hosts_in(cache: str) -> set[bytes]:
    """The hosts of the network whose routes are in a cache."""
    routes = (value[at : at + LINE] for _, value in bpf_maps.values(cache) for at in range(LINE, LINE * (1 + PLACES), LINE))
    return {route[SOURCE] for route in routes if route[SOURCE].startswith(TRANSLATED)}


@pytest.mark.parametrize("siit", ["direct", "xdp"], indirect=True)
def test_hosts_of_one_network_have_places_of_their_own(siit: SiitNetwork) -> None:
    """Each differs from the others in the last bits of its address alone."""
    siit.configure(CONFIG)
    running = siit.siit()
    assert siit.run(siit.v4, "ping", "-c1", "-W2", V6_MAPPED).returncode == 0
    looks = ("--interface", "a0", "--src", NETWORK, "--dst", V6_MAPPED, "--flows", str(HOSTS), "--count", str(HOSTS))
    siit.run(siit.v4, str(siit.program.with_name("diolkos-pktgen")), "send", *looks, "--rate", "20k")
    kept = hosts_in("xdp_routes" if siit.datapath == "xdp" else "tc_routes")
    # A few flows share a host, and a few hosts a set with more than three others.
    assert len(kept) > HOSTS * 0.9, len(kept)
    assert running.stop() == 0
