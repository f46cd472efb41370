# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Vectors as tests of p4c (`vectors/to_stf.py`): read back by the grammar of its bmv2 runner, they say what the vectors say."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
from conftest import ROOT

VECTORS = ROOT / "vectors"
# A port in decimal; digits, where only an expectation may leave some open, and may end with the mark of its length.
STATEMENT = re.compile(r"packet (?P<in>\d+) (?P<sent>[0-9a-fA-F]+)|expect (?P<out>\d+) (?P<wanted>[0-9a-fA-F*]+)(?P<end>\$?)")
ETHERNET = 28
IPV4_PORT, IPV6_PORT = 0, 1


def written(folder: Path, *options: str) -> list[tuple[tuple[int, str], list[tuple[int, str, bool]]]]:
    """Each packet that is sent, and what is expected for it, of all files in their order."""
    subprocess.run([VECTORS / "to_stf.py", folder, *options], check=True, capture_output=True)
    found: list = []
    for file in sorted(folder.glob("*.stf")):
        assert file.read_text().startswith("# config {"), "the set-up stands in a comment"
        for line in file.read_text().splitlines():
            code = line.split("#", 1)[0].strip()
            if not code:
                continue
            read = STATEMENT.fullmatch(code)
            assert read, line
            if read["in"]:
                found.append(((int(read["in"]), read["sent"]), []))
            else:
                found[-1][1].append((int(read["out"]), read["wanted"], read["end"] == "$"))
    return found


def stateless() -> list[tuple[str, list[str]]]:
    """Input and outputs of every vector without a past, those of one configuration together."""
    groups: dict[str, list[dict]] = {}
    for file in sorted(VECTORS.glob("*.json")):
        for vector in json.loads(file.read_text())["vectors"]:
            if "earlier" not in vector["environment"] and vector["input"]["hex"]:
                groups.setdefault(json.dumps(vector["config"], sort_keys=True), []).append(vector)
    vectors = [vector for group in groups.values() for vector in group]
    return [(vector["input"]["hex"], [packet["hex"] for packet in vector["output"]]) for vector in vectors]


def port(packet: str) -> int:
    return IPV6_PORT if packet[0] == "6" else IPV4_PORT


def test_exactly_as_the_vectors_have_it(tmp_path: Path) -> None:
    """Without Ethernet headers and open digits, every byte is that of the vector."""
    expected = [((port(sent), sent), [(port(packet), packet, True) for packet in outputs]) for sent, outputs in stateless()]
    assert written(tmp_path, "--exact", "--raw") == expected


@pytest.mark.parametrize("options", [(), ("--any-length",)])
def test_what_rfcs_leave_open_is_open(tmp_path: Path, options: tuple[str, ...]) -> None:
    """Every digit that is demanded is that of the vector, and few are left open."""
    vectors, read = stateless(), written(tmp_path, *options)
    assert len(vectors) == len(read) > 600
    exact = 0
    for (sent, outputs), ((_, packet), expectations) in zip(vectors, read, strict=True):
        kind = "86dd" if sent[0] == "6" else "0800"
        assert packet == f"020000000001020000000002{kind}{sent}"
        assert len(outputs) == len(expectations)
        for output, (_, wanted, has_end) in zip(outputs, expectations, strict=True):
            assert wanted[:ETHERNET] == "*" * 24 + ("86dd" if output[0] == "6" else "0800")
            digits = wanted[ETHERNET:]
            assert all(digit in ("*", of) for digit, of in zip(digits, output, strict=False))
            # Of errors of the translator's own as much is quoted as it likes; of all else nothing may follow.
            assert len(digits) == len(output) or (len(digits) < len(output) and not has_end)
            assert not (options and has_end)
            exact += "*" not in digits
    assert exact > len(vectors) / 3
