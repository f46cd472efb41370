#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Writes the vectors, one file for each topic, from the field values in source/.

source/<topic>.py ─► Topic ─► vectors/<topic>.json, or, with --check, a difference to it
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
FORMAT = 1
MACHINERY = {"wire", "answers", "network", "errors"}


def files() -> dict[Path, str]:
    """What each file has to hold."""
    sys.path.insert(0, str(HERE))
    sys.dont_write_bytecode = True
    wanted, names = {}, set()
    for source in sorted((HERE / "source").glob("*.py")):
        if source.stem not in MACHINERY:
            topic = importlib.import_module(f"source.{source.stem}").TOPIC
            wanted[HERE / f"{topic.name}.json"] = written(topic)
            names |= {vector["name"] for vector in topic.vectors}
    answers = importlib.import_module("source.answers").ANSWERS
    if missing := {name for vectors in answers.values() for name in vectors} - names:
        sys.exit(f"source/answers.py names vectors that do not exist: {sorted(missing)}")
    return wanted


def written(topic) -> str:
    """One vector after another, each of its keys on one line, packets on three."""
    vectors = []
    for vector in topic.vectors:
        lines = []
        for key, value in vector.items():
            if key == "input":
                text = packet(value, "    ")
            elif key == "output":
                text = "[" + ",".join(packet(one, "    ") for one in value) + "]"
            else:
                text = json.dumps(value, ensure_ascii=False)
            lines.append(f'   "{key}": {text}')
        vectors.append("  {\n" + ",\n".join(lines) + "\n  }")
    head = f' "format": {FORMAT},\n "topic": {json.dumps(topic.name)},\n "title": {json.dumps(topic.title)},\n'
    return "{\n" + head + ' "vectors": [\n' + ",\n".join(vectors) + "\n ]\n}\n"


def packet(value: dict, indent: str) -> str:
    fields = json.dumps(value["fields"], ensure_ascii=False)
    return f'{{\n{indent}"fields": {fields},\n{indent}"hex": "{value["hex"]}"}}'


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a file is not what source/ says")
    check = parser.parse_args().check
    wanted = files()
    stale = [path for path, text in wanted.items() if not path.exists() or path.read_text() != text]
    stale += [path for path in HERE.glob("*.json") if path not in wanted]
    if check:
        print(
            "\n".join(f"{path.name} is not what source/ says; run make.py" for path in stale)
            or "All files are as source/ says."
        )
        return 1 if stale else 0
    for path, text in wanted.items():
        path.write_text(text)
    count = sum(len(json.loads(text)["vectors"]) for text in wanted.values())
    print(f"{count} vectors in {len(wanted)} files.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
