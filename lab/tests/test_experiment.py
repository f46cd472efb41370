# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Definitions: what is accepted, and that every fault names its place as file:line:column."""

from collections import Counter
from pathlib import Path

import pytest

from diolkos_lab import studies
from diolkos_lab.experiment import cells, document, locate
from diolkos_lab.experiment.definition import Study
from diolkos_lab.faults import UsageFault

SMALL = Path(__file__).parent / "study_small.toml"


def _fault(tmp_path: Path, text: str) -> str:
    file = tmp_path / "study.toml"
    file.write_text(text)
    with pytest.raises(UsageFault) as caught:
        document.read(file, Study)
    return str(caught.value).removeprefix(f"{file}:")


@pytest.mark.parametrize("name", list(studies.shipped()))
def test_shipped_studies_are_valid(name: str) -> None:
    study = studies.load(name)
    assert study.name == name
    assert {"quick", "full"} <= set(study.form)
    for usual in ("quick", "full"):
        assert not study.form[usual].vary.levels, "nobody's host is changed who did not ask for it by name"


def test_not_toml(tmp_path: Path) -> None:
    assert _fault(tmp_path, 'format = 1\nname = "a\n').startswith("2:10: Illegal character")
    assert _fault(tmp_path, "format = ").startswith("1:10: Invalid value")


def test_unknown_key_is_found_where_it_stands(tmp_path: Path) -> None:
    text = SMALL.read_text().replace("mtu", "mtu").replace("blocks = 2", "blocks = 2\nblokcs = 3")
    line = text.splitlines().index("blokcs = 3") + 1
    assert _fault(tmp_path, text) == f"{line}:1: form.quick.blokcs: Extra inputs are not permitted"


def test_wrong_value_in_the_second_table_of_an_array(tmp_path: Path) -> None:
    text = SMALL.read_text().replace('name = "tcp-download"\nseconds = 1', 'name = "tcp-download"\n  seconds = 0')
    line = text.splitlines().index("  seconds = 0") + 1
    assert _fault(tmp_path, text).startswith(f"{line}:3: form.quick.load.1.")


def test_missing_key_points_at_its_table(tmp_path: Path) -> None:
    text = SMALL.read_text().replace("at_least = 0.5\n", "")
    line = text.splitlines().index("[[claim]]") + 1
    assert _fault(tmp_path, text) == f"{line}:1: claim.0: give exactly one of at_least and at_most"


def test_claim_about_a_system_that_is_not_there(tmp_path: Path) -> None:
    text = SMALL.read_text().replace('datapath = "tun"\nloads', 'datapath = "xdp"\nloads')
    assert "a claim speaks of diolkos/xdp" in _fault(tmp_path, text)


def test_names_are_asked_for_over_ipv6_alone(tmp_path: Path) -> None:
    text = SMALL.read_text().replace('datapath = "tun"\nfamily = "ipv4"', 'datapath = "tun"\nfamily = "ipv4"\nloads = ["dns"]')
    assert "diolkos/tun/ipv4/1 cannot have the load dns" in _fault(tmp_path, text)


def test_not_text_and_not_there(tmp_path: Path) -> None:
    file = tmp_path / "study.toml"
    file.write_bytes(b"format = 1\nname = \xff\n")
    with pytest.raises(UsageFault, match=r"study\.toml:2:8: not UTF-8 text"):
        document.read(file, Study)
    with pytest.raises(UsageFault, match="cannot be read: No such file"):
        document.read(tmp_path / "none.toml", Study)


def test_positions_see_through_strings_and_nested_arrays() -> None:
    text = '[[a]]\nx = """\n[[b]]\ny = 1\n"""\n[[a.b]]\nz = 1\n[[a]]\n[[a.b]]\n"q r" = 2\n'
    found = locate.positions(text)
    assert found["a", 0, "b", 0, "z"] == (7, 1)
    assert found["a", 1, "b", 0, "q r"] == (10, 1)
    assert ("b", 0) not in found
    assert locate.nearest(found, ("a", 1, "b", 0, "unknown", 3)) == (9, 1)


def test_cells_of_clat() -> None:
    study = studies.load("clat")
    quick = study.form["quick"]
    lanes = cells.lane_cells(study, quick, {"native", "diolkos"})
    assert len(lanes) == len({lane.name for lane in lanes}) == 10, "four native paths, one of them twice, and five of diolkos"
    block = cells.trial_cells(quick, lanes)
    made = Counter(cell.load.name for cell in block)
    assert len(block) == len(set(block)) and made["ping"] == 9 and made["tcp-upload"] == 7, "a resolver carries no packets"
    assert made["http"] == 6 * 3 and made["dns"] == 3 * 4, "the twin gets what its original gets"
    full = cells.lane_cells(study, study.form["full"], {"native"})
    assert {lane.offloads for lane in full} == {"on", "off"}
    off = [cell for cell in cells.trial_cells(study.form["full"], full) if cell.lane.offloads == "off"]
    assert {cell.load.name for cell in off} == {"tcp-upload", "tcp-download", "ping"}
    assert {cell.load.factors["seconds"] for cell in off if cell.load.name != "ping"} == {30}


def test_every_subject_of_clat_has_baselines_of_its_own_hops() -> None:
    study = studies.load("clat")
    for subject in study.system:
        found = study.baselines(subject)
        assert all(key.startswith("native/kernel/") and key.endswith(f"/{subject.hops}") for key in found)
        if subject.system != "native" and not subject.baseline_family:
            assert [key.split("/")[2] for key in found] == [subject.family, "ipv4" if subject.family == "ipv6" else "ipv6"]
    assert {study.baselines(each) for each in study.system if each.system == "nat44"} == {("native/kernel/ipv4/1",)}


def test_a_rule_needs_the_native_path_of_its_own_family(tmp_path: Path) -> None:
    text = SMALL.read_text().replace('baseline_family = "ipv6"\n', "")
    line = text.splitlines().index("[[claim]]") + 1
    fault = _fault(tmp_path, text)
    assert fault.startswith(f"{line}:1: claim.0: the rule compares tcp-upload of diolkos/tun/ipv4/1 with native/kernel/ipv4/1")
