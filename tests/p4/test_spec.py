# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A program with a mistake: the line, the reason, and nothing has been changed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from control import ROOT, SPEC, program

P4 = ROOT / "p4"
USAGE = 2


def said_of(folder: Path, text: str) -> str:
    """What the switch says about a program that it refuses."""
    spec = folder / "bad.spec"
    spec.write_text(text)
    done = subprocess.run(
        [program(), "--spec", spec, "--control", folder / "s", "--frames", "1"], check=False, capture_output=True, text=True
    )
    assert done.returncode == USAGE, done
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr.strip().removeprefix(f"diolkos-switch: {spec}:")


def line_of(text: str, part: str) -> int:
    """Where it stands first."""
    return text[: text.index(part)].count("\n") + 1


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("struct ethernet_t {", "struct ethernet_t", "expected: struct NAME {"),
        ("bit<48> dst\n", "bit<47> dst\n", "whole bytes"),
        ("bit<48> dst\n", "bit<128> dst\n", "whole bytes"),
        ("metadata instanceof", "metadata instance", "not understood"),
        ("regarray used_0 size 0x20000", "regarray used_0 size 0x20000000", "not understood"),
        ("header ipv4 instanceof ipv4_t", "header ipv4 instanceof ipv9_t", "Invalid argument"),
        ("\tdefault_action off args none", "\tdefault_action offf args none", "table settings"),
        ("\tdefault_action off args none", "", "needs actions and a default_action"),
        ("\t\th.work.src4 wildcard", "\t\th.work.src4 wild", "no match kind"),
        ("\t\th.work.src4 wildcard", "\t\th.work.src4 lpm", "not supported"),
        ("\tsize 0x40\n", "\tsize 0\n", "not understood"),
        ("\textract h.ethernet", "\textract h.etherbet", "instruction"),
        ("apply {", "apply", "expected: apply {"),
        ("apply {", "apply {\n\tmov m.nothing 1", 'instruction "mov m.nothing 1" is refused'),
        ("apply {", "apply {\n\tfly h.ipv4", 'instruction "fly h.ipv4" is refused'),
    ],
)
def test_a_mistake_has_its_line_and_reason(tmp_path: Path, old: str, new: str, reason: str) -> None:
    """One line of standard error."""
    text = SPEC.read_text()
    old = next((part for part in (old, old.replace("h.work.", "m.")) if part in text), old)
    assert old in text, "the program has changed"
    said = said_of(tmp_path, text.replace(old, new, 1))
    assert reason in said
    assert re.match(r"\d+: ", said), said


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.7, 0.9, 0.999])
def test_a_file_that_ends_early(tmp_path: Path, share: float) -> None:
    """Wherever it is cut."""
    text = SPEC.read_text()
    assert said_of(tmp_path, text[: int(len(text) * share)])


def test_a_struct_that_this_release_cannot_address(tmp_path: Path) -> None:
    """SWX of DPDK 22.11 keeps offsets in 8 bits: fields behind 256 bytes would be others, and packets wrong."""
    fields = "".join(f"\tbit<64> f{number}\n" for number in range(33))
    said = said_of(tmp_path, f"struct big {{\n{fields}}}\n" + SPEC.read_text())
    assert said.startswith("34: ") and "256 bytes" in said


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """Its name and why."""
    done = subprocess.run(
        [program(), "--spec", tmp_path / "no", "--control", tmp_path / "s", "--frames", "1"],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == USAGE
    assert done.stderr == f"diolkos-switch: {tmp_path / 'no'}: No such file or directory\n"


def compiler(name: str) -> str:
    """Of the path, or of a folder that P4C_PROGRAMS names; its test is skipped by name where it is not found."""
    found = shutil.which(name, path=os.environ.get("P4C_PROGRAMS", "") + os.pathsep + os.environ["PATH"])
    if not found:
        pytest.skip(f"{name} is not installed: put it on the path, or name its folder in P4C_PROGRAMS")
    return found


def test_the_program_is_made_of_its_source() -> None:
    """What is kept beside the source is what the compiler here makes of it."""
    subprocess.run([P4 / "compiler/make_spec.py", "--check"], check=True)


def test_p4c_takes_the_program_and_swx_does_not_take_what_it_makes(tmp_path: Path) -> None:
    """The source is P4-16 and PNA. p4c-dpdk 1.2.4.8 makes a temporary for each step, and SWX has 256 bytes for them."""
    made = tmp_path / "nat64.spec"
    subprocess.run([compiler("p4c-dpdk"), "--arch", "pna", "-o", made, P4 / "swx/nat64.p4"], check=True)
    assert "struct meta_t has more than 256 bytes" in said_of(tmp_path, made.read_text())


def test_the_compiler_of_bmv2_takes_the_program(tmp_path: Path) -> None:
    """The core is the same for both."""
    subprocess.run([compiler("p4c-bm2-ss"), "-o", tmp_path / "nat64.json", P4 / "bmv2/nat64.p4"], check=True)
    assert (tmp_path / "nat64.json").exists()
