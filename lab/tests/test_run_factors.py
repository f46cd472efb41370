# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A whole run of a system with factors, in lanes of the nursery's shape: cells, rows, and connections that are forgotten."""

from pathlib import Path

import pytest

from diolkos_lab import run_study
from diolkos_lab.run import testbed
from diolkos_lab.sut import offer
from diolkos_lab.topology.lane import Lane
from observer import Silent

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("clean_machine")]
STUDY = """
format = 1
name = "rules"
title = "Rules"
question = "Does the machinery work?"
[topology]
shape = "nursery"
empty_conntrack = true
[[system]]
system = "native"
datapath = "kernel"
family = "ipv6"
loads = ["ping"]
[[system]]
system = "natrules"
datapath = "dnat"
family = "ipv6"
loads = ["ping"]
factors = { rules = [0, 3], backend = ["iptables-legacy", "nft-list"] }
[[system]]
system = "natrules"
datapath = "hooks"
family = "ipv6"
loads = ["ping"]
forms = ["full"]
[form.quick]
blocks = 2
[[form.quick.load]]
name = "ping"
count = 6
interval_s = 0.002
[form.full]
blocks = 2
[[form.full.load]]
name = "ping"
count = 6
[guards]
foreign_cpu_share = 1.0
steal_share = 1.0
drop_ratio = 1.0
"""


def test_levels_are_in_every_file_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forgotten: list[Lane] = []
    original = testbed.empty_conntrack

    def empty(lane: Lane) -> None:
        forgotten.append(lane)
        original(lane)

    monkeypatch.setattr(testbed, "empty_conntrack", empty)
    monkeypatch.setattr(offer, "obstacle", lambda command, at: "it is not here" if "legacy" in command[0] else None)
    (tmp_path / "study.toml").write_text(STUDY)
    order = run_study.RunRequest(str(tmp_path / "study.toml"), True, (), tmp_path / "r", 1)
    observer = Silent()
    result, summary = run_study.run(order, observer)
    assert [trial["error"] for trial in result.trials if trial["error"]] == []
    seen = {(trial["datapath"], trial["factors"].get("rules"), trial["factors"].get("backend")) for trial in result.trials}
    assert seen == {("kernel", None, None), ("dnat", 0, "nft-list"), ("dnat", 3, "nft-list")}
    assert len(forgotten) == len(result.trials) == 2 * 3, "before each trial"
    rows = [row for row in summary["rows"] if row["metric"] == "rtt" and row["system"] == "natrules"]
    assert [row["levels"]["rules"] for row in rows] == [0, 3] and all(row["ratio"] for row in rows)
    assert all(row["levels"]["position"] == "append" for row in rows), "the default"
    [missing] = summary["missing"]
    assert (missing["factor"], missing["level"], missing["reason"]) == ("backend", "iptables-legacy", "it is not here")
    assert {subject.datapath for subject in result.study.system} == {"kernel", "dnat"}, "the other form's are not in it"
