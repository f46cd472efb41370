# SPDX-License-Identifier: Apache-2.0 OR MIT
"""p4/bmv2/runtime.py with a CLI that is none: many commands are one exchange, and fit into the pipes."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from control import ROOT

# It answers each line by a long one, but for the greeting, whose number it tells in the next answer.
CLI = """
import sys
greetings = 0
for line in sys.stdin:
    if line == "greet\\n":
        greetings += 1
        print("RuntimeCmd: hello")
    elif line == "wrong\\n":
        print("RuntimeCmd: Invalid table operation (TABLE_FULL)")
    elif line.startswith("write"):
        print("RuntimeCmd: ", end="")
    else:
        print("RuntimeCmd:", greetings, line.strip(), "." * 4000)
"""


def module() -> ModuleType:
    """Its neighbours have names that modules of the tests have, too."""
    spec = importlib.util.spec_from_file_location("bmv2_runtime", ROOT / "p4/bmv2/runtime.py")
    assert spec and spec.loader
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


RUNTIME = module()


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator:
    """With that CLI."""
    script = tmp_path / "cli.py"
    script.write_text(CLI)
    made = RUNTIME.Runtime([sys.executable, str(script)])
    yield made
    made.end()


def test_each_command_is_answered_in_turn(runtime) -> None:
    """Where neither pipe holds all that is written."""
    said = runtime.ask(*(f"{number:0100}" for number in range(1000)))
    assert [int(line.split()[1]) for line in said] == list(range(1000))


def test_many_commands_are_few_exchanges(runtime) -> None:
    """One greeting asks for the answers of hundreds; the first is that of the start."""
    assert runtime.ask(*(f"write used {number} 0" for number in range(3000))) == []
    (line,) = runtime.ask("how many")
    assert int(line.split()[0]) <= 1 + 3000 // 200


def test_one_of_many_is_refused(runtime) -> None:
    """What follows is answered as always."""
    with pytest.raises(RUNTIME.Refused, match="TABLE_FULL"):
        runtime.ask("write", "wrong", "write")
    assert runtime.ask() == []
    assert len(runtime.ask("right")) == 1
