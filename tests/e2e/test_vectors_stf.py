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
    assert sorted(written(tmp_path, "--exact", "--raw", "--no-control")) == sorted(expected)


@pytest.mark.parametrize("options", [(), ("--any-length",)])
def test_what_rfcs_leave_open_is_open(tmp_path: Path, options: tuple[str, ...]) -> None:
    """Every digit that is demanded is that of the vector, and few are left open."""
    vectors, read = stateless(), written(tmp_path, "--no-control", "--longest", "70000", *options)
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


def passes(file: Path, forwarded: bool) -> bool:
    """Does a pipeline pass this file that drops everything, or forwards everything unchanged to the other port?"""
    expected: list[tuple[int, str]] = []
    came: list[tuple[int, str]] = []
    for line in file.read_text().splitlines():
        read = STATEMENT.fullmatch(line.split("#", 1)[0].strip())
        if read and read["in"] and forwarded:
            came.append((IPV4_PORT + IPV6_PORT - int(read["in"]), read["sent"]))
        elif read and read["out"]:
            expected.append((int(read["out"]), read["wanted"]))
    return len(came) == len(expected) and all(
        port == there and len(sent) >= len(wanted) and all(a in ("*", b) for a, b in zip(wanted, sent, strict=False))
        for (port, sent), (there, wanted) in zip(came, expected, strict=True)
    )


@pytest.mark.parametrize("each", ["config", "file", "vector"])
def test_a_pipeline_that_translates_nothing_passes_no_file(tmp_path: Path, each: str) -> None:
    """Neither one that drops nor one that forwards: each file has a packet each way that must come out translated."""
    written(tmp_path, "--each", each)
    files = sorted(tmp_path.glob("*.stf"))
    assert len(files) > (600 if each == "vector" else 30)
    for file in files:
        assert not passes(file, forwarded=False), file
        assert not passes(file, forwarded=True), file
        ports = {int(port) for port in re.findall(r"^(?:packet|expect) (\d+)", file.read_text(), re.M)}
        assert ports == {IPV4_PORT, IPV6_PORT}, file


def test_frames_that_tools_cannot_read_stand_apart(tmp_path: Path) -> None:
    """One of them made 549 other vectors of its file unreadable."""
    written(tmp_path)
    for file in tmp_path.glob("*.stf"):
        longest = max(
            len(digits.rstrip("$")) // 2 for digits in re.findall(r"^(?:packet|expect) \d+ (\S+)", file.read_text(), re.M)
        )
        assert (longest > 9216) == file.stem.endswith("-long"), file
    assert list(tmp_path.glob("*-long.stf"))
