# SPDX-License-Identifier: Apache-2.0 OR MIT
"""One line of samples.jsonl, as every test makes it. SYNTHETIC: nothing in it was measured."""

import json
from typing import Any

LINE: dict[str, Any] = {
    "block": 1,
    "order": 0,
    "system": "native",
    "datapath": "kernel",
    "family": "ipv6",
    "hops": 1,
    "replica": 1,
    "load": "tcp-upload",
    "factors": {"offloads": "on", "streams": 1, "seconds": 1},
    "started": "2026-01-01T00:00:00.000+00:00",
    "duration": 1.0,
    "valid": True,
    "distrust": [],
    "error": None,
    "metrics": {"throughput": 1e10, "cpu_s_per_gb": 1.0, "retransmits": 0.0},
    "series": {"throughput": {"t": [0.1], "y": [1e10]}},
}


def line(**given: Any) -> dict[str, Any]:
    """Every key can be given."""
    found: dict[str, Any] = json.loads(json.dumps({**LINE, **given}))
    return found
