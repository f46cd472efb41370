# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What p4c-bm2-ss has made of the program: names of its tables, actions and arrays, and the widths of their fields."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Action:
    """An action of one table."""

    name: str  # in full, as simple_switch has it
    widths: tuple[int, ...]  # bytes of each argument


@dataclass(frozen=True)
class Table:
    """A table."""

    name: str
    widths: tuple[int, ...]  # bytes of each field of its key
    is_ternary: bool
    size: int
    actions: dict[str, Action]


@dataclass(frozen=True)
class Program:
    """All of it."""

    tables: dict[str, Table]
    counters: dict[str, int]  # and how many entries each has
    registers: dict[str, int]


def read(path: Path) -> Program:
    """Of a JSON file. Raises OSError, or ValueError where it is none of p4c-bm2-ss."""
    try:
        return parsed(json.loads(path.read_text()))
    except (KeyError, TypeError) as error:
        raise ValueError(f"not made by p4c-bm2-ss: {error!r} is missing") from error


def parsed(made: dict[str, Any]) -> Program:
    """Of what such a file has."""
    types = {kind["name"]: {name: width for name, width, *_ in kind["fields"]} for kind in made["header_types"]}
    fields = {header["name"]: types[header["header_type"]] for header in made["headers"]}
    actions = {
        action["name"]: Action(action["name"], tuple(in_bytes(argument["bitwidth"]) for argument in action["runtime_data"]))
        for action in made["actions"]
    }
    tables = [
        Table(
            name=table["name"],
            widths=tuple(in_bytes(fields[key["target"][0]][key["target"][1]]) for key in table["key"]),
            is_ternary=table["match_type"] == "ternary",
            size=table["max_size"],
            actions={name.rpartition(".")[2]: actions[name] for name in table["actions"]},
        )
        for pipeline in made["pipelines"]
        for table in pipeline["tables"]
    ]
    return Program(
        tables={table.name: table for table in tables},
        counters={counter["name"]: counter["size"] for counter in made["counter_arrays"] if not counter["is_direct"]},
        registers={register["name"]: register["size"] for register in made["register_arrays"]},
    )


def in_bytes(bits: int) -> int:
    """The control socket has every field in whole bytes."""
    return (bits + 7) // 8
