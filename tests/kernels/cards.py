# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What translates in the drivers of network cards (virtio-net), and at VLANs and VRFs, for which kernels need modules.

One network for all: the cards are cabled outside (cabling.py), and lie in the namespaces of the suite's routers.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

CLONE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(CLONE / "tests/e2e"))

from cabling import CARDS, MTU, address  # noqa: E402
from conftest import program, standing  # noqa: E402
from kernel import VERSION  # noqa: E402
from nat64 import CONFIG, Nat64Network  # noqa: E402
from siit import CONFIG as SIIT  # noqa: E402
from siit import V4, V4_IN_IPV6, V6, V6_MAPPED  # noqa: E402
from test_siit_traffic import UDP_ASK, UDP_ECHO, listen, transfer  # noqa: E402

PINGS = 20


@dataclass
class CardNetwork(Nat64Network):
    """The network of a NAT64 whose links are cards."""

    def lay_links(self) -> None:
        """Bring each card to its place."""
        shown = subprocess.run(["ip", "-j", "link"], check=True, capture_output=True, text=True).stdout
        links = {link["address"]: link["ifname"] for link in json.loads(shown)}
        for card, place in (("v4", self.v4), ("b4", self.translator), ("b6", self.translator), ("v6", self.v6)):
            name = "a0" if place != self.translator else card
            self.host("ip", "link", "set", links[address(card)], "mtu", str(MTU), "netns", place, "name", name)


def main() -> int:
    return 0


if __name__ == "__main__":
    sys.exit(main())
