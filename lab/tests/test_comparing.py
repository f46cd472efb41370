# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Two result folders against each other."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent / "report"))

import synthetic_curves
import synthetic_loads

from diolkos_lab import comparing, summary
from diolkos_lab.faults import UsageFault
from diolkos_lab.report import baselines
from diolkos_lab.report.read import read
from diolkos_lab.samples import folder as samples_folder
from diolkos_lab.serve import figures


def test_the_pdr_of_a_curve_is_compared_and_not_its_single_rates(tmp_path: Path) -> None:
    runs = [samples_folder.read(synthetic_curves.folder(tmp_path / str(seed), seed=seed)) for seed in (1, 2)]
    changes = comparing.compare(*runs)
    paths = {(*change.cell.subject.split("/"), dict(change.cell.factors)["placement"]) for change in changes}
    assert len(changes) == len(paths) == len(synthetic_curves.PATHS), "one figure for each curve"
    assert {change.metric for change in changes} == {"rate"}
    assert comparing.in_words(changes).startswith("0 of 7 figures changed")


def test_runs_of_two_studies_are_not_compared(tmp_path: Path) -> None:
    folders = [synthetic_curves.folder(tmp_path / name) for name in ("one", "two")]
    text = (folders[1] / "study.toml").read_text()
    (folders[1] / "study.toml").write_text(text.replace('"router-accuracy"', '"siit"', 1))
    with pytest.raises(UsageFault, match=r"holds the study router-accuracy, .* the study siit: they cannot be compared"):
        comparing.compare(*map(samples_folder.read, folders))


@pytest.mark.parametrize("first_knows_nodes", [True, False])
def test_a_run_from_before_nodes_were_counted_is_compared_with_a_later_one(tmp_path: Path, first_knows_nodes: bool) -> None:
    first, second = (_sessions(tmp_path / name, knows) for name, knows in (("one", first_knows_nodes), ("two", True)))
    cells = {change.cell for change in comparing.compare(*map(samples_folder.read, (first, second)))}
    found = {(cell.load, levels["bindings"], levels["nodes"]) for cell in cells if (levels := dict(cell.factors))}
    loads = ("new-flows", "capacity")
    assert found == {(load, bindings, nodes) for load in loads for bindings, nodes in (("few", 1), ("many", 256))}


def test_rows_from_before_nodes_were_counted_are_found_among_the_trials(tmp_path: Path) -> None:
    path = _sessions(tmp_path, knows_nodes=False)
    summary.write(samples_folder.read(path))
    later = (path / "summary.json").read_bytes()
    text = json.loads(later)
    for row in text["rows"]:
        del row["nodes"]
    (path / "summary.json").write_text(json.dumps(text))
    assert figures.read((path / "summary.json").read_bytes()) == figures.read(later) != ()
    results = read(path)
    assert results.rows and all(baselines.key_of(results, row) for row in results.rows)


def _sessions(folder: Path, knows_nodes: bool) -> Path:
    """A result folder of session loads with few and with many bindings, which says how many nodes there were, or does not."""
    folder.mkdir(exist_ok=True)
    study = 'format = 1\nname = "new-flows"\ntitle = "SYNTHETIC"\nquestion = "none"\n'
    paths = (synthetic_loads.NATIVE, synthetic_loads.DIOLKOS)
    study += "".join(synthetic_curves.SYSTEM.format(*path).replace("pps", "new-flows") for path in paths)
    study += '\n[form.quick]\nblocks = 7\n\n[[form.quick.load]]\nname = "new-flows"\n'
    (folder / "study.toml").write_text(study)
    (folder / "host.json").write_text(json.dumps({"format": 1, "kernel": "SYNTHETIC", "seed": 1}))
    lines: list[dict[str, Any]] = [{"format": 1, "study": "new-flows", "quick": True, "synthetic": True}]
    for block in range(1, 8):
        for path in paths:
            for bindings, nodes in (("few", 1), ("many", 256)):
                for line in synthetic_loads.sessions(block, path):
                    line["factors"] |= {"bindings": bindings} | ({"nodes": nodes} if knows_nodes else {})
                    lines.append(line)
    (folder / "samples.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder
