# SPDX-License-Identifier: Apache-2.0 OR MIT
"""BPF programs of systems are compiled once, and again when their sources or the compiler change."""

from __future__ import annotations

from pathlib import Path

import pytest

from diolkos_lab.sut import compiling


@pytest.fixture
def compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One that makes a copy, and says so. Its last two arguments are `-o` and a file."""
    monkeypatch.setattr(compiling, "cache", lambda: tmp_path / "cache")
    program = tmp_path / "compiler"
    program.write_text(
        f'#!/bin/sh\necho >>{tmp_path}/runs\n[ "$1" != broken ] || {{ echo "no such type" >&2; exit 1; }}\ncp "$1" "$3"\n'
    )
    program.chmod(0o755)
    (tmp_path / "sources").mkdir()
    (tmp_path / "sources/a.c").write_text("one")
    return program


def _runs(tmp_path: Path) -> int:
    return len((tmp_path / "runs").read_text().splitlines())


def test_what_was_compiled_is_kept_until_a_source_changes(tmp_path: Path, compiler: Path) -> None:
    source = tmp_path / "sources/a.c"
    command = [str(compiler), str(source)]
    first = compiling.compiled(command, source.parent)
    assert first == compiling.compiled(command, source.parent)
    assert (first.read_text(), _runs(tmp_path)) == ("one", 1)
    (tmp_path / "sources/a.h").write_text("two")
    second = compiling.compiled(command, source.parent)
    assert (second != first, _runs(tmp_path)) == (True, 2)
    compiler.write_text(compiler.read_text() + "\n")
    assert compiling.compiled(command, source.parent) not in (first, second)


def test_a_program_that_cannot_be_compiled_says_why(tmp_path: Path, compiler: Path) -> None:
    with pytest.raises(compiling.CompilingFault, match=r"compiler broken` ended with exit code 1: no such type"):
        compiling.compiled([str(compiler), "broken"], tmp_path / "sources")
    assert list((tmp_path / "cache").iterdir()) == []
