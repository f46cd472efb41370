# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The clients that open sessions: how many there are, by a load and by what a result says of it."""

from typing import Annotated, Any, Literal

from pydantic import Field

# many: hardly two sessions have a binding in common.
Bindings = Annotated[
    Literal["few", "many"],
    Field(description="few: one client with 2000 ports. many: 256 clients with all of their ports."),
]
Nodes = Annotated[
    Literal[1, 256, 16_384] | None,
    Field(description="Clients, each an address of its own. Without it 1 with few bindings, and 256 with many."),
]
MANY_NODES = 256  # clients with many bindings, unless a load says how many
BY_BINDINGS = {"few": 1, "many": MANY_NODES}


def number_of_nodes(bindings: Literal["few", "many"], nodes: int | None) -> int:
    """Clients that open sessions."""
    return nodes or BY_BINDINGS[bindings]


def require_agreement(bindings: Literal["few", "many"], nodes: int | None) -> None:
    """Raises ValueError for nodes that such bindings do not have."""
    if nodes is not None and (nodes == 1) != (bindings == "few"):
        raise ValueError("one node has few bindings, and more nodes have many")


def fill_in(factors: dict[str, Any]) -> None:
    """Adds `nodes` to factors of a folder from the time when bindings alone said how many there are."""
    if "nodes" not in factors and factors.get("bindings") in ("few", "many"):
        factors["nodes"] = BY_BINDINGS[factors["bindings"]]
