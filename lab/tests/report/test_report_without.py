# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A report says where a system's lanes lacked what native paths had. SYNTHETIC."""

import json
from pathlib import Path

import pytest
import synthetic

from diolkos_lab.report import blind_spots
from diolkos_lab.report.read import Results, read

RESOLVED = '[resolved.systems.p4swx.definition.datapath.nat64]\nwithout = ["super-packets"]\n'


def _results(tmp_path: Path, offloads: str) -> Results:
    text = 'format = 1\nname = "p4"\ntitle = "SYNTHETIC"\nquestion = "none"\n' + RESOLVED
    (tmp_path / "study.toml").write_text(text)
    (tmp_path / "host.json").write_text(json.dumps(synthetic.host(synthetic.Plan())))
    every = (("native", "kernel", 1.0), ("p4swx", "nat64", 0.1), ("diolkos", "nat64-tc", 0.9))
    rows = [
        {
            "system": system,
            "datapath": datapath,
            "family": "ipv6",
            "hops": 1,
            "load": "tcp-upload",
            "metric": "throughput",
            "median": 1e9 * share,
            "ratio": share,
            "offloads": offloads,
        }
        for system, datapath, share in every
    ]
    found = {"format": 1, "study": "p4", "quick": True, "rows": rows, "missing": []}
    (tmp_path / "summary.json").write_text(json.dumps(found))
    return read(tmp_path)


@pytest.mark.parametrize(("offloads", "is_said"), [("on", True), ("off", False)])
def test_lanes_without_offloads_are_named_where_native_ones_had_them(tmp_path: Path, offloads: str, is_said: bool) -> None:
    said = [text for text in blind_spots.run_limits(_results(tmp_path, offloads), None) if "cannot take" in text]
    assert bool(said) == is_said
    assert all(text.startswith("P4 on SWX nat64 cannot take") for text in said), "and no other system"
