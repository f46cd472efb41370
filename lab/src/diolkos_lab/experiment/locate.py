# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Where in a TOML file a key stands, so that a fault in a definition can be shown as `file:line:column`.

The standard parser gives values without positions. This reads only headers and keys, of a text that already parsed.
"""

import re

Path = tuple[str | int, ...]
Position = tuple[int, int]  # line and column, both from 1

_HEADER = re.compile(r"^\s*(\[\[?)\s*([^\]]+?)\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(r"^\s*([A-Za-z0-9_.\-\"' ]+?)\s*=")


def positions(text: str) -> dict[Path, Position]:
    """Every table and key of the document with its position; tables in arrays are numbered from 0."""
    found: dict[Path, Position] = {(): (1, 1)}
    counters: dict[Path, int] = {}
    table: Path = ()
    fence = None
    for number, line in enumerate(text.splitlines(), start=1):
        if fence:
            if fence in line:
                fence = None
            continue
        if header := _HEADER.match(line):
            table = _resolve(_split(header[2]), header[1] == "[[", counters)
            found[table] = (number, line.index("[") + 1)
            if isinstance(table[-1], int):
                found.setdefault(table[:-1], found[table])
        elif key := _KEY.match(line):
            found[table + _split(key[1])] = (number, line.index(key[1].strip()) + 1)
            value = line[key.end() :]
            fence = next((mark for mark in ('"""', "'''") if value.count(mark) == 1), None)
    return found


def nearest(found: dict[Path, Position], path: Path) -> Position:
    """Position of the key, or of the closest table or key around it that the document spells out."""
    while path not in found:
        path = path[:-1]
    return found[path]


def _split(dotted: str) -> Path:
    return tuple(part.strip().strip("\"'") for part in dotted.split("."))


def _resolve(names: Path, is_array: bool, counters: dict[Path, int]) -> Path:
    """Put the numbers of the array elements into a header's path: [[load]] twice gives (load, 0) and (load, 1)."""
    resolved: Path = ()
    for depth, name in enumerate(names):
        resolved += (name,)
        last = depth == len(names) - 1
        if last and is_array:
            counters[resolved] = counters.get(resolved, -1) + 1
            # A new element starts its own inner arrays from 0.
            for inner in [path for path in counters if len(path) > len(resolved) and path[: len(resolved)] == resolved]:
                del counters[inner]
        if resolved in counters:
            resolved += (counters[resolved],)
    return resolved
