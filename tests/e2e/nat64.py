# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The network of the stateless translator with a stateful one in the middle: the IPv6 host is behind it.

    v4 a0 ── b4 translator b6 ── a0 v6

The pool is 192.0.2.0/29, which the IPv4 host reaches through the translator.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from siit import PREF64, SiitNetwork

POOL = "192.0.2.0/29"

CONFIG = f"""
[translator]
mode = "nat64"
pref64 = ["{PREF64}"]

[[nat64.pool4]]
address = "{POOL}"
"""


@dataclass
class Nat64Network(SiitNetwork):
    """An IPv4 host, a translator's router, and an IPv6 host."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.configure(CONFIG)

    def shown(self, what: str) -> list[dict]:
        """Sessions or bindings."""
        text = self.run(self.translator, str(self.program), "show", what, "--json").stdout
        return json.loads(text)["entries"]
