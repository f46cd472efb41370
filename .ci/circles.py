# SPDX-License-Identifier: Apache-2.0 OR MIT
"""No circle among the modules of one folder of a crate: a file can be read with only those in mind that it uses.

files ─► paths that each names ─► which module of a folder uses which ─► circles

It reads `use` and paths that begin with `crate`, `self` or `super`; rustc has checked that they exist. Tests may use
what they test.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
Module = tuple[str, ...]
NO_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|r(#+)".*?"\1|"(?:\\.|[^"\\])*"', re.DOTALL)
TESTS = re.compile(r"#\[cfg\(test\)\]\s*(?:#\[[^\]]*\]\s*)*(?:pub )?mod \w+ \{.*?^\}", re.DOTALL | re.MULTILINE)
USE = re.compile(r"\buse\s+([^;]+);")
PATH = re.compile(r"(?<![\w:])(?:crate|self|super)(?:::\w+)+")


def spread(tree: str) -> Iterator[Module]:
    """The paths of a `use`: `a::{b, c::d}` is `a::b` and `a::c::d`."""
    head, brace, rest = tree.partition("{")
    first = tuple(re.sub(r"\s+as\s+\w+", "", head).strip().strip(":").split("::"))
    if not brace:
        yield first
        return
    part, depth = "", 0
    for char in rest.rstrip()[:-1] + ",":
        depth += (char == "{") - (char == "}")
        if char == "," and not depth:
            yield from (first + path for path in spread(part.strip()) if part.strip())
        part = "" if char == "," and not depth else part + char


def absolute(path: Module, module: Module) -> Module:
    """From the root of the crate. A path without a beginning is below the module, or another crate's."""
    if path[0] == "crate":
        return path[1:]
    while path and path[0] in ("self", "super"):
        path, module = path[1:], module[:-1] if path[0] == "super" else module
    return module + path


def sources() -> list[Path]:
    """The sources of all crates: of the translator, and of the lab."""
    return sorted([*(PROJECT / "crates").glob("*/src"), *(PROJECT / "lab").glob("*/src")])


def files(src: Path) -> Iterator[tuple[Module, tuple[list[Module], list[Module]]]]:
    """Each module that is a file: the paths of its `use`, and all that it names."""
    for path in src.rglob("*.rs"):
        parts = path.relative_to(src).with_suffix("").parts
        if parts[-1] == "main" or any(part == "tests" or part.endswith("_tests") for part in parts):
            continue
        module = parts[:-1] if parts[-1] in ("mod", "lib") else parts
        text = TESTS.sub("", NO_CODE.sub("", path.read_text()))
        uses = [absolute(one, module) for use in USE.findall(text) for one in spread(" ".join(use.split()))]
        yield module, (uses, uses + [absolute(tuple(one.split("::")), module) for one in PATH.findall(USE.sub("", text))])


def circles(src: Path) -> Iterator[tuple[Module, list[str]]]:
    """A folder, and its modules each of which uses the one before it. What the folder imports is used through it."""
    found = dict(files(src))
    for folder in {module[:depth] for module in found for depth in range(len(module))}:
        below = [module for module in found if module != folder and module[: len(folder)] == folder]
        children = {module[len(folder)] for module in below}
        imports = [path[len(folder) :] for path in found.get(folder, ([], []))[0] if path[: len(folder)] == folder]
        through = {path[-1]: path[0] for path in imports if len(path) > 1 and path[0] in children}
        uses: dict[str, set[str]] = {child: set() for child in children}
        for own, module in ((module[len(folder)], module) for module in below):
            names = [path[len(folder)] for path in found[module][1] if path != folder and path[: len(folder)] == folder]
            uses[own] |= {name if name in children else through.get(name, own) for name in names} - {own}
        while True:
            try:
                TopologicalSorter({own: sorted(uses[own]) for own in sorted(uses)}).prepare()
                break
            except CycleError as error:
                yield folder, (circle := error.args[1])
                uses[circle[1]].discard(circle[0])


if __name__ == "__main__":
    found = [("/".join((str(src), *folder)), circle) for src in sources() for folder, circle in sorted(circles(src))]
    sys.exit("\n".join(f"{folder}: a circle: {' <- '.join(circle)}" for folder, circle in found) or None)
