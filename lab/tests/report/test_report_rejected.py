# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The share of trials that guards object to is said for each path, so that a reader sees whether it follows the system."""

import synthetic

from diolkos_lab.report import rejected
from diolkos_lab.report.read import read


def test_every_path_has_its_share(tmp_path):
    plan = synthetic.Plan(untrusted=frozenset(("tayga", block) for block in (1, 2, 3)))
    results = read(synthetic.folder(tmp_path / "result", plan))
    table = rejected.table(results)
    assert table is not None
    lines = {line[0]: line for line in table.raw_lines}
    tayga = next(line for name, line in lines.items() if "Tayga" in name)
    blocks = len({trial.block for trial in results.measured})
    assert tayga[2] == tayga[1] * 3 // blocks > 0
    assert all(line[2] == 0 for name, line in lines.items() if "Tayga" not in name)
    assert len(lines) == len({trial.cell for trial in results.measured})
