# SPDX-License-Identifier: Apache-2.0 OR MIT
"""vectors/to_stf.py, read by p4c's own runner of such files (run-bmv2-test.py) and sent through the program on BMv2.

P4C_SOURCE names a clone of p4c; P4C_PROGRAMS and BMV2_PROGRAMS are those of bmv2.py.
"""

from __future__ import annotations

import json
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from bmv2 import command, compiled
from control import DEFAULT, ROOT, Change, Piped
from tables import PORT4, PORT6, stateless
from test_law_vectors import fates

VECTORS = ROOT / "vectors"
AT_ONCE, AGAIN = 4, 2
# The runner turns the priorities of its files round.
HIGHEST = 10000
# The runner waits a second between a command and the next packet, in which its CLI has to start and to write all entries: too
# little on a busy machine. A frame that nobody translates leaves by a port that it does not watch.
WAIT = ["counter_read counts 0", f"packet {PORT4} 0200000000010200000000021234{'00' * 46}"] * 6
SYSTEM_PYTHON = "/usr/bin/python3"


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    """Of p4c, with the program; the test is skipped where something is missing."""
    source = os.environ.get("P4C_SOURCE", "")
    script = Path(source) / "backends/bmv2/run-bmv2-test.py"
    if not source or not script.exists():
        pytest.skip("p4c's STF runner is not here: name a clone of p4c in P4C_SOURCE")
    if subprocess.run([SYSTEM_PYTHON, "-c", "import ply, scapy"], check=False, capture_output=True).returncode:
        pytest.skip("p4c's STF runner needs python3-ply and python3-scapy")
    program = compiled(tmp_path)
    command(program)
    return Runner(script, program, tmp_path)


class Runner:
    """It wants a folder of a build; ours has a program that was compiled already."""

    def __init__(self, script: Path, program: Path, folder: Path) -> None:
        self.script, self.folder = script, folder
        self.made = json.loads(program.read_text())
        self.build = folder / "build"
        self.build.mkdir()
        (self.build / "config.h").write_text("#define HAVE_SIMPLE_SWITCH 1\n")
        compiler = self.build / "p4c-bm2-ss"
        compiler.write_text(f'#!/bin/sh\nexec cp {program} "$2"\n')
        compiler.chmod(0o755)

    def passes(self, file: Path) -> tuple[bool, str]:
        """Whether a file passes, and what the runner says."""
        at = file.with_suffix("")
        at.mkdir(exist_ok=True)
        arguments = [self.script.parents[2], ROOT / "p4/bmv2/nat64.p4", "-bd", self.build, "-tf", file]
        done = subprocess.run(
            [SYSTEM_PYTHON, self.script, *arguments, "--observation-log", at / "observed"],
            check=False,
            capture_output=True,
            text=True,
            cwd=at,
            env={**os.environ, "PATH": os.environ.get("BMV2_PROGRAMS", "") + os.pathsep + os.environ["PATH"]},
        )
        return done.returncode == 0, done.stdout + done.stderr

    def all(self, files: list[Path]) -> list[tuple[bool, str]]:
        """Of each file; the runner mostly waits."""
        with ThreadPoolExecutor(AT_ONCE) as pool:
            return list(pool.map(self.passes, files))

    def statements(self, changes: list[Change]) -> list[str]:
        """Changes of tables in the language of the files."""
        tables = {table["name"]: table for pipeline in self.made["pipelines"] for table in pipeline["tables"]}
        types = {kind["name"]: {name: width for name, width, *_ in kind["fields"]} for kind in self.made["header_types"]}
        headers = {header["name"]: types[header["header_type"]] for header in self.made["headers"]}
        actions = {action["name"]: action["runtime_data"] for action in self.made["actions"]}
        found = []
        for change in changes:
            table = tables[change.table]
            # In full: the runner takes every name that ends so for the same.
            (called,) = (name for name in table["actions"] if name.rpartition(".")[2] == change.action)
            arguments = [(argument["name"], argument["bitwidth"]) for argument in actions[called]]
            action = f"{called}({', '.join(f'{name}:0x{part.hex()}' for name, part in parts(change.data, arguments))})"
            if change.op == DEFAULT:
                found.append(f"setdefault {change.table} {action}")
                continue
            keys = [(key["name"], headers[key["target"][0]][key["target"][1]]) for key in table["key"]]
            if table["match_type"] == "exact":
                matches = [f"{name}:0x{part.hex()}" for name, part in parts(change.key, keys)]
                found.append(f"add {change.table} {' '.join(matches)} {action}")
                continue
            pairs = zip(parts(change.key, keys), parts(change.mask, keys), strict=True)
            matches = [f"{name}:0b{bits(part, mask)}" for (name, part), (_, mask) in pairs]
            found.append(f"add {change.table} {HIGHEST - change.priority} {' '.join(matches)} {action}")
        return found


def parts(packed: bytes, fields: list[tuple[str, int]]) -> list[tuple[str, bytes]]:
    """Each field's bytes."""
    found, at = [], 0
    for name, width in fields:
        found.append((name, packed[at : at + width // 8]))
        at += width // 8
    return found


def bits(key: bytes, mask: bytes) -> str:
    """Binary digits, `*` where nothing is compared."""
    both = zip((f"{byte:08b}" for byte in key), (f"{byte:08b}" for byte in mask), strict=True)
    return "".join("*" if not int(m) else k for digits, masks in both for k, m in zip(digits, masks, strict=True))


def chosen(folder: Path, names: set[str]) -> list[Path]:
    """Files of vectors with what the program translates, and what nobody lets pass."""
    folder.mkdir()
    for file in sorted(VECTORS.glob("*.json")):
        content = json.loads(file.read_text())
        content["vectors"] = [v for v in content["vectors"] if v["name"] in names or not v["output"]]
        (folder / file.name).write_text(json.dumps(content))
    return sorted(folder.glob("*.json"))


def test_p4c_s_runner_passes_them(tmp_path: Path, switch: Piped, runner: Runner) -> None:
    """Every configuration: what the program translates on SWX it translates on BMv2, to what the files demand."""
    translated, _, wrong = fates(switch)
    assert not wrong
    folder = tmp_path / "stf"
    ports = ["--port4", str(PORT4), "--port6", str(PORT6)]
    subprocess.run([VECTORS / "to_stf.py", folder, *chosen(tmp_path / "chosen", translated), *ports], check=True)
    files = [file for file in sorted(folder.glob("*.stf")) if not file.stem.endswith("-long")]
    assert len(files) > 20
    for file in files:
        text = file.read_text()
        config = json.loads(text.partition("\n")[0].removeprefix("# config "))
        file.write_text("\n".join([*runner.statements(stateless(config)), *WAIT]) + "\n" + text)
    failed = [file for file, (passed, _) in zip(files, runner.all(files), strict=True) if not passed]
    # Two seconds after the last packet the runner ends the switch, done or not. What failed is tried again alone.
    for _ in range(AGAIN):
        failed = [file for file in failed if not runner.passes(file)[0]]
    said = [runner.passes(file) for file in failed]
    assert all(passed for passed, _ in said), "\n".join(text for passed, text in said if not passed)


def test_a_program_that_translates_nothing_fails(tmp_path: Path, runner: Runner) -> None:
    """Without entries everything is declined, and p4c's runner says so of each file."""
    folder = tmp_path / "stf"
    ports = ["--port4", str(PORT4), "--port6", str(PORT6)]
    subprocess.run([VECTORS / "to_stf.py", folder, VECTORS / "addresses.json", *ports], check=True)
    files = sorted(folder.glob("*.stf"))
    assert files
    for passed, said in runner.all(files):
        assert not passed, said
        assert "Expected" in said, said
