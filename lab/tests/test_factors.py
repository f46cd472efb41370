# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Factors of systems: what a study may say of them, the cells they span, and with what each cell is compared."""

from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Any

import pytest

from diolkos_lab import studies
from diolkos_lab.experiment import cells, document
from diolkos_lab.experiment.definition import Study
from diolkos_lab.experiment.levels import TAKEN
from diolkos_lab.faults import UsageFault
from diolkos_lab.report.factors import ROW_KEYS
from diolkos_lab.run.pairs import Pairs
from diolkos_lab.stats import rows
from diolkos_lab.stats.pairing import CellKey, Samples
from diolkos_lab.sut import definition, lookup, offer, rules
from diolkos_lab.verdict import verdicts

STUDY = """
format = 1
name = "small"
title = "t"
question = "q"
[[system]]
system = "native"
datapath = "kernel"
family = "ipv6"
[[system]]
system = "natrules"
datapath = "dnat"
family = "ipv6"
factors = {factors}
[form.quick]
blocks = 2
[[form.quick.load]]
name = "ping"
count = 10
"""
ADDRESSES = rules.Addresses(IPv6Address("fe00::1"), IPv6Address("fd00::1"), IPv6Address("fc00::10"))


def _study(tmp_path: Path, factors: str, more: str = "") -> Study:
    file = tmp_path / "study.toml"
    file.write_text(STUDY.replace("{factors}", factors) + more)
    return document.read(file, Study)


def test_lists_of_levels_span_cells_with_names_of_their_own(tmp_path: Path) -> None:
    study = _study(tmp_path, '{ rules = [0, 10], position = ["top", "append"], place = "client" }')
    lanes = cells.lane_cells(study, study.form["quick"], {"natrules"})
    assert [dict(lane.levels) for lane in lanes] == [
        {"place": "client", "position": position, "rules": number} for position in ("top", "append") for number in (0, 10)
    ]
    assert len({lane.name for lane in lanes}) == 4
    [first, *_] = cells.trial_cells(study.form["quick"], lanes)
    assert {"offloads": "on", "place": "client", "position": "top", "rules": 0}.items() <= dict(
        cells.TrialCell(first.lane, first.load).factors  # type: ignore[arg-type]
    ).items()


@pytest.mark.parametrize(
    ("factors", "message"),
    [
        ("{ rules = [] }", "at least 1 item"),
        ("{ rules = [1, 1] }", "factors.rules: 1 is named twice"),
        ("{ streams = 1 }", "a factor cannot be called streams"),
        ('{ rules = "a b" }', "should match pattern"),
        ("{ rules = true }", "valid"),
    ],
)
def test_levels_that_cannot_be_are_refused_where_they_stand(tmp_path: Path, factors: str, message: str) -> None:
    with pytest.raises(UsageFault, match=rf"study\.toml:\d+:\d+: .*{message}"):
        _study(tmp_path, factors)


@pytest.mark.parametrize(
    ("factors", "message"),
    [
        ("{ ruls = 1 }", "natrules/dnat has no factor ruls; there are rules, position, place, backend"),
        ("{ rules = 100_001 }", "rules cannot be 100001; it can be one of: whole numbers from 0 to 100000"),
        ('{ place = "server" }', "place cannot be 'server'; it can be one of: client, router"),
    ],
)
def test_levels_that_the_system_does_not_have_are_refused(tmp_path: Path, factors: str, message: str) -> None:
    with pytest.raises(UsageFault, match=message):
        offer.with_factor_levels(_study(tmp_path, factors), definition.load_all())


def test_what_a_study_does_not_name_has_its_default(tmp_path: Path) -> None:
    study = offer.with_factor_levels(_study(tmp_path, "{ rules = [7, 8] }"), definition.load_all())
    assert study.system[0].factors == {}
    chosen = {"backend": ("nft-list",), "place": ("router",), "position": ("append",), "rules": (7, 8)}
    assert dict(study.system[1].factors) == chosen


def test_a_system_is_listed_again_for_other_levels_and_not_for_the_same(tmp_path: Path) -> None:
    again = '[[system]]\nsystem = "natrules"\ndatapath = "dnat"\nfamily = "ipv6"\nfactors = {{ rules = {} }}\n'
    assert len(_study(tmp_path, "{ rules = [1, 2] }", again.format("[3]")).system) == 3
    with pytest.raises(UsageFault, match="natrules/dnat/ipv6/1 is listed twice with rules 2"):
        _study(tmp_path, "{ rules = [1, 2] }", again.format("[2, 3]"))
    other_form = again.format("[2]") + 'forms = ["quick"]\n'
    with pytest.raises(UsageFault, match="listed twice with rules 2"):
        _study(tmp_path, "{ rules = [1, 2] }", other_form)
    narrow = STUDY.replace('family = "ipv6"\nfactors', 'family = "ipv6"\nforms = ["quick"]\nfactors')
    full = again.format("[2]") + 'forms = ["full"]\n' + STUDY[STUDY.index("[form") :].replace("form.quick", "form.full")
    (tmp_path / "b.toml").write_text(narrow.replace("{factors}", "{ rules = [1, 2] }") + full)
    both = document.read(tmp_path / "b.toml", Study)
    assert [subject.factors for subject in both.of_form("full").system] == [{}, {"rules": (2,)}]


def test_a_level_that_the_host_cannot_offer_is_left_out_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = _study(tmp_path, '{ backend = ["iptables-legacy", "nft-list"] }')
    found = {name: lookup.Found(system, None, None) for name, system in definition.load_all().items()}
    monkeypatch.setattr(offer, "obstacle", lambda command, at: f"no {command[0]}" if "legacy" in command[0] else None)
    left, [missing] = offer.available_levels(study, found)
    assert left.system[1].factors == {"backend": ("nft-list",)}
    assert (missing.factor, missing.level, missing.reason) == ("backend", "iptables-legacy", "no ip6tables-legacy")
    only = _study(tmp_path, '{ backend = "iptables-legacy" }')
    assert [subject.system for subject in offer.available_levels(only, found)[0].system] == ["native"]


def test_a_program_that_is_not_there_is_said_in_words() -> None:
    assert offer.obstacle(("no-such-program", "-x")) == "the program no-such-program is not on this host"


def test_names_of_factors_cannot_take_keys_of_rows_or_of_loads() -> None:
    assert ROW_KEYS <= TAKEN
    loads = [load for study in map(studies.load, studies.shipped()) for form in study.form.values() for load in form.load]
    named = {name for load in loads for name in getattr(load, "factors", {})}
    assert named and named <= TAKEN


# ---- rules


@pytest.mark.parametrize(("position", "at"), [("top", 0), ("middle", 5), ("append", 10)])
def test_the_rule_that_counts_stands_where_it_should(position: str, at: int) -> None:
    found = rules.listed(10, position, ADDRESSES)
    assert len(found) == 11 and found[at] == (ADDRESSES.alias, ADDRESSES.server)
    decoys = [rule for number, rule in enumerate(found) if number != at]
    assert decoys[0] == (IPv6Address("fe00::2"), ADDRESSES.decoy) and decoys[-1][0] == IPv6Address("fe00::b")


def test_each_program_gets_the_list_in_its_own_words() -> None:
    levels: dict[str, Any] = {"rules": 1, "position": "append", "place": "router"}
    legacy = rules.dnat({**levels, "backend": "iptables-legacy"}, ADDRESSES)
    assert legacy.splitlines() == [
        "*nat",
        "-A PREROUTING -d fe00::2 -j DNAT --to-destination fc00::10",
        "-A PREROUTING -d fe00::1 -j DNAT --to-destination fd00::1",
        "COMMIT",
    ]
    assert "-A OUTPUT" in rules.dnat({**levels, "backend": "iptables-nft", "place": "client"}, ADDRESSES)
    as_map = rules.dnat({**levels, "backend": "nft-map"}, ADDRESSES)
    assert "fe00::1 : fd00::1" in as_map and "dnat to ip6 daddr map @targets" in as_map
    four = rules.Addresses(*map(IPv4Address, ("10.254.0.1", "10.253.0.1", "10.252.0.10")))
    text = rules.dnat({**levels, "backend": "nft-list", "place": "client"}, four)
    assert "type nat hook output" in text and "ip daddr 10.254.0.1 dnat to 10.253.0.1" in text
    with pytest.raises(ValueError, match="no rule stands at bottom"):
        rules.listed(1, "bottom", ADDRESSES)


# ---- what a cell is compared with

RULES = {"rules": 10, "position": "top"}
CLAIM = """
[[claim]]
claim = "c"
system = "natrules"
datapath = "dnat"
loads = ["ping"]
metric = "rtt"
where = { rules = 10 }
at_most = 2.0
[[claim]]
claim = "d"
system = "natrules"
datapath = "dnat"
loads = ["ping"]
metric = "rtt"
where = { rules = 10 }
against_where = { rules = 0 }
at_most = 1.5
"""


def test_ratios_and_claims_find_the_native_path_which_has_no_such_factors(
    tmp_path: Path, record: Callable[..., dict[str, Any]]
) -> None:
    study = _study(tmp_path, "{ rules = [0, 10] }", CLAIM)
    of_load = {"offloads": "on", "count": 10, "interval": 0.01}
    trials = []
    for block in range(1, 9):
        common = {"block": block, "load": "ping", "series": {}}
        trials.append(record(**common, factors=of_load, metrics={"rtt": 1e-5}))
        for number, rtt in ((0, 1.5e-5), (10, 3e-5)):
            path = {"system": "natrules", "datapath": "dnat"}
            trials.append(record(**common, **path, factors={**of_load, "rules": number}, metrics={"rtt": rtt}))
    samples = Samples(trials)
    found = {(row["system"], row.get("rules")): row for row in rows.rows(study, samples)}
    assert found["natrules", 0]["ratio"] == pytest.approx(1.5) and found["natrules", 10]["ratio"] == pytest.approx(3)
    to_native, to_itself = verdicts(study, samples, {})
    assert to_native["value"] == pytest.approx(3) and to_native["outcome"] == "not met"
    assert to_itself["value"] == pytest.approx(2) and "itself with rules 0" in to_itself["sentence"]


def test_another_subject_has_the_levels_that_it_shares(record: Callable[..., dict[str, Any]]) -> None:
    def cell(system: str, **factors: Any) -> dict[str, Any]:
        return record(system=system, load="ping", factors={"offloads": "on", **factors}, metrics={"rtt": 1e-5}, series={})

    samples = Samples([cell("a", place="router", rules=3), cell("b", place="router"), cell("b", place="client"), cell("c")])
    key = next(key for key in samples.cells() if key.subject.startswith("a/"))
    assert dict(samples.counterpart(key, "b/kernel/ipv6/1").factors)["place"] == "router"
    assert dict(samples.counterpart(key, "c/kernel/ipv6/1").factors) == {"offloads": "on"}
    assert samples.counterpart(key, "d/kernel/ipv6/1") == CellKey("d/kernel/ipv6/1", "ping", key.factors)


def test_a_block_with_both_native_and_the_level_counts_as_a_pair(tmp_path: Path) -> None:
    study = _study(tmp_path, "{ rules = [0, 10] }", CLAIM)
    form = study.form["quick"]
    lanes = cells.lane_cells(study, form, {"native", "natrules"})
    every = [cells.TrialCell(cell.lane, cell.load) for cell in cells.trial_cells(form, lanes)]  # type: ignore[arg-type]
    pairs = Pairs(study, every)
    native, none, ten = every
    pairs.record(ten, 1, trusted=True)
    pairs.record(native, 1, trusted=True)
    assert pairs.count(ten) == 0, "the claim compares it with itself without rules, too"
    pairs.record(none, 1, trusted=True)
    assert pairs.count(ten) == pairs.count(none) == 1
