# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The structure itself: imports go forward along the path, files stay small."""

import ast
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "diolkos_lab"
# A module may import from those before it and from its own package.
PATH = [
    "faults",
    "endings",
    "outcome",
    "open_folder",
    "metric",
    "experiment",
    "own_files",
    "topology",
    "sut",
    "load",
    "run",
    "samples",
    "stats",
    "curve",
    "verdict",
    "every_trial",
    "wide_rules",
    "curves",
    "procedures",
    "instructions",
    "summary",
    "merging",
    "comparing",
    "published",
    "report",
    "failover",
    "analyze",
    "serve",
    "export",
    "studies",
    "asked",
    "run_study",
    "resuming",
    "planning",
    "doctor",
    "screen",
    "listing",
    "guest",
    "json_output",
    "two_runs",
    "new_files",
    "completion",
    "options",
    "cli",
    "__main__",
]


def _modules() -> list[Path]:
    return [file for file in SOURCE.rglob("*.py") if file.parent.name != "diolkos_lab" or file.stem != "__init__"]


def _stage(file: Path) -> str:
    return file.relative_to(SOURCE).parts[0].removesuffix(".py")


def test_every_module_has_its_place_on_the_path() -> None:
    assert {_stage(file) for file in _modules()} == set(PATH)


def test_imports_go_forward_along_the_path() -> None:
    wrong = []
    for file in _modules():
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and node.level == 0 and (node.module or "").startswith("diolkos_lab"):
                parts = (node.module or "").split(".")
                stages = [parts[1]] if len(parts) > 1 else [name.name for name in node.names if name.name in PATH]
                wrong += [
                    f"{file.relative_to(SOURCE)} imports {stage}"
                    for stage in stages
                    if PATH.index(stage) > PATH.index(_stage(file))
                ]
    assert not wrong


def test_files_are_small_and_licensed() -> None:
    for file in _modules():
        text = file.read_text()
        assert text.startswith("# SPDX-License-Identifier: Apache-2.0 OR MIT\n"), file
        assert text.count("\n") <= 400, f"{file} wants to be two"
