# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Two result folders against each other."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "report"))

import synthetic_curves

from diolkos_lab import comparing
from diolkos_lab.faults import UsageFault
from diolkos_lab.samples import folder as samples_folder


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
