# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A report says where a system's lanes lacked what native paths had. SYNTHETIC."""

import json
from pathlib import Path

import pytest
import synthetic

from diolkos_lab.report import blind_spots
from diolkos_lab.report.read import Results, read

WITHOUT = "[resolved.systems.{}.definition.datapath.nat64]\nwithout = {}\n"
SWX = WITHOUT.format("p4swx", ["super-packets"])
BMV2 = WITHOUT.format("p4bmv2", ["super-packets", "unfinished-checksums"])


def _results(tmp_path: Path, offloads: str, resolved: str = SWX) -> Results:
    text = 'format = 1\nname = "p4"\ntitle = "SYNTHETIC"\nquestion = "none"\n' + resolved
    (tmp_path / "study.toml").write_text(text)
    (tmp_path / "host.json").write_text(json.dumps(synthetic.host(synthetic.Plan())))
    every = (("native", "kernel", 1.0), ("p4swx", "nat64", 0.1), ("p4bmv2", "nat64", 0.01), ("diolkos", "nat64-tc", 0.9))
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


@pytest.mark.parametrize(
    ("resolved", "own"), [(SWX, "ratios with"), (BMV2, None), (SWX + BMV2, "ratios of P4 on SWX nat64 with")]
)
def test_ratios_with_offloads_off_are_only_the_own_ones_of_who_takes_unfinished_checksums(
    tmp_path: Path, resolved: str, own: str | None
) -> None:
    said = " ".join(blind_spots.run_limits(_results(tmp_path, "on", resolved), None))
    assert ("the translator's own" in said) == (own is not None)
    assert own is None or f"Only {own} offloads off are the translator's own." in said


@pytest.mark.parametrize("offloads", ["on", "off"])
def test_lanes_whose_senders_finish_checksums_are_named_in_any_case(tmp_path: Path, offloads: str) -> None:
    known = _results(tmp_path, offloads, SWX + BMV2)
    (said,) = (text for text in blind_spots.run_limits(known, None) if "checksum" in text)
    assert "Senders in the lanes of P4 on BMv2 nat64 compute each checksum." in said
    assert ("P4 on SWX" in said) == (offloads == "on")
