# SPDX-License-Identifier: Apache-2.0 OR MIT
"""When a cluster counts as ready, by what `diolkos cluster status --json` says."""

from typing import Any

import pytest

from diolkos_lab.failover.gateways import is_divided


def status(slices: tuple[int, ...] = (7, 4, 5), alive: bool = True, moving: int = 0, unowned: int = 0) -> dict[str, Any]:
    nodes = [{"name": f"gw{number}", "is_alive": alive, "slices": own} for number, own in enumerate(slices, 1)]
    return {"nodes": nodes, "moving": moving, "unowned": unowned}


@pytest.mark.parametrize(
    ("said", "ready"),
    [
        (status(), True),
        (status((16, 0, 0)), False),  # the first node has all until the others have been there for 5 s
        (status((12, 4, 0)), False),
        (status((7, 4, 5), moving=3), False),
        (status((6, 4, 5), unowned=1), False),
        (status(alive=False), False),
        (status((11, 5)), False),
        ({}, False),  # the node does not answer
    ],
)
def test_a_cluster_is_ready_when_every_node_has_its_share(said: dict[str, Any], ready: bool) -> None:
    assert is_divided(said) is ready
