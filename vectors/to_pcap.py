#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Writes vectors as captures for translators that read files: what goes in, and what has to come out.

vectors/*.json ─► vectors with one configuration ─► OUT/<number>/{config.json, names.txt, in.pcap, expected.pcap}

Captures have link type 101 (raw IP) and microseconds. A vector's packets carry its own time: the first vector's second 1,
the second's 2, and so on, so that what comes out can be matched with what went in. Vectors that depend on earlier packets
or on the time are left out.
"""

from __future__ import annotations

import argparse
import json
import struct
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
LINKTYPE_RAW = 101


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, metavar="OUT", help="a folder; one folder below it for each configuration")
    parser.add_argument("files", type=Path, nargs="*", help="default: every file of vectors/")
    arguments = parser.parse_args()
    count = 0
    for number, group in enumerate(groups(arguments.files or sorted(HERE.glob("*.json"))), 1):
        folder = arguments.out / f"{number:03}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps(group[0]["config"], indent=1) + "\n")
        (folder / "names.txt").write_text("".join(f"{second} {vector['name']}\n" for second, vector in enumerate(group, 1)))
        sent = [(second, vector["input"]) for second, vector in enumerate(group, 1)]
        expected = [(second, packet) for second, vector in enumerate(group, 1) for packet in vector["output"]]
        (folder / "in.pcap").write_bytes(capture(sent))
        (folder / "expected.pcap").write_bytes(capture(expected))
        count += len(group)
    print(f"{count} vectors in {arguments.out}.")
    return 0


def groups(files: list[Path]) -> list[list[dict]]:
    """Vectors with the same configuration together, in their order."""
    found: dict[str, list[dict]] = {}
    for file in files:
        for vector in json.loads(file.read_text())["vectors"]:
            if not vector["environment"].get("earlier"):
                found.setdefault(json.dumps(vector["config"], sort_keys=True), []).append(vector)
    return list(found.values())


def capture(packets: list[tuple[int, dict]]) -> bytes:
    """A capture file (draft-ietf-opsawg-pcap section 4) of packets with their seconds."""
    parts = [struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535 + 40, LINKTYPE_RAW)]
    for second, packet in packets:
        data = bytes.fromhex(packet["hex"])
        parts += [struct.pack("<IIII", second, 0, len(data), len(data)), data]
    return b"".join(parts)


if __name__ == "__main__":
    sys.exit(main())
