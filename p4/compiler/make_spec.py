#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Compiles the P4 program for SWX: `make_spec.py`, or `make_spec.py --check`, which fails if nat64.spec is another.

nat64.p4 ─► cpp ─► syntax.py ─► generate.py ─► nat64.spec

A small compiler for the subset of P4-16 that the program uses, so that it can be changed where p4c is not installed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from generate import Generator
from syntax import Reader

SOURCE = Path(__file__).resolve().parents[1] / "swx" / "nat64.p4"
SPEC = SOURCE.with_suffix(".spec")
MATCH_KINDS = {"ternary": "wildcard"}
# Seconds of the profiles 0 to 7 of p4c-dpdk's PNA.
TIMEOUTS = (10, 30, 60, 120, 300, 43200, 120, 120)


def main() -> int:
    """Exit code 0: it is written, or the same."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the file is another")
    check = parser.parse_args().check
    text = compiled(SOURCE)
    if not check:
        SPEC.write_text(text)
        return 0
    if SPEC.read_text() == text:
        return 0
    print(f"{SPEC} is not what {SOURCE} compiles to: run p4/compiler/make_spec.py", file=sys.stderr)
    return 1


def compiled(source: Path) -> str:
    """The text of the .spec."""
    with tempfile.TemporaryDirectory() as empty:
        # The architecture's declarations are known here: its files may be missing.
        for name in ("core.p4", "pna.p4"):
            (Path(empty) / name).touch()
        command = ["cpp", "-P", "-undef", "-nostdinc", "-DMAKE_SPEC", f"-I{empty}", source]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    program = Reader(text).read()
    generator = Generator(program)
    apply = generator.whole()
    out = ["// SPDX-License-Identifier: Apache-2.0 OR MIT", f"// Made of {source.name} by p4/compiler/make_spec.py.", ""]
    for name in generator.headers.values():
        out += block(f"struct {name}", [f"bit<{width}> {field}" for field, width in program.structs[name]])
    for name, parameters in generator.parameters.items():
        if parameters:
            out += block(f"struct {name}_arg_t", [f"bit<{width}> {field}" for field, width in parameters])
    out += block("struct main_metadata_t", [f"bit<{width}> {field}" for field, width in generator.metadata.items()])
    out += ["metadata instanceof main_metadata_t", ""]
    out += [f"header {name} instanceof {kind}" for name, kind in generator.headers.items()] + [""]
    for name, size in program.controls["main_control"].arrays.items():
        out.append(f"regarray {name}_0 size {hex(size)} initval 0")
    out.append("")
    for name, lines in generator.actions.items():
        arguments = f"instanceof {name}_arg_t" if generator.parameters[name] else "none"
        out += block(f"action {name} args {arguments}", lines)
    for table, key in generator.tables.values():
        kinds = [field if table.learns else f"{field} {MATCH_KINDS.get(kind, kind)}" for field, kind in key]
        lines = inner("key", kinds) if key else []
        lines += inner("actions", [f"{name} {role}".rstrip() for name, role in table.actions])
        lines += [f"default_action {table.default} args none", f"size {hex(table.size)}"]
        if table.learns:
            lines += inner("timeout", [str(seconds) for seconds in TIMEOUTS])
        out += block(f"{'learner' if table.learns else 'table'} {table.name}", lines)
    return "\n".join(out + block("apply", apply)[:-1]) + "\n"


def block(head: str, lines: list[str]) -> list[str]:
    """With braces, and an empty line behind it."""
    return [f"{head} {{", *(f"\t{line}" for line in lines), "}", ""]


def inner(head: str, lines: list[str]) -> list[str]:
    """A block inside of one."""
    return [f"{head} {{", *(f"\t{line}" for line in lines), "}"]


if __name__ == "__main__":
    sys.exit(main())
