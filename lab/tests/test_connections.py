# SPDX-License-Identifier: Apache-2.0 OR MIT
"""TCP connections: what the generator is told, and what it says."""

import json
from pathlib import Path
from typing import Any

import pytest

from contexts import context, option
from diolkos_lab.experiment.loads import ConnectionsLoad
from diolkos_lab.faults import InstrumentFault
from diolkos_lab.load import connections, registry
from diolkos_lab.run import searches, session_rate

LOAD = ConnectionsLoad(name="connections", sessions=1000)


def test_the_generator_is_told_who_connects_to_whom(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIOLKOS_PKTGEN", "/bin/true")
    few = registry.load_of(LOAD).command(LOAD, context(6))
    assert "converse" in few and option(few, "--connections") == "1000"
    assert option(few, "--src") == "2001:2:0:1::2" and option(few, "--size") == "96"
    assert option(few, "--rate") == "max" and option(few, "--seed") == "7000", "each trial has other 4-tuples"
    many = connections.client_command(LOAD.model_copy(update={"bindings": "many"}).at(5000.2), context(4))
    assert option(many, "--src") == "198.18.2.0/24" and "--sport" not in many
    assert option(many, "--rate") == "5000" and option(many, "--size") == "76"


def test_a_trial_searches_for_the_rate() -> None:
    assert searches.search_for(LOAD) is session_rate.measure


def _report(data: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((data / "pktgen-0.1.0-conversed.jsonl").read_text())
    return found


def test_a_report_is_read(data: Path) -> None:
    reading = connections.parse(json.dumps(_report(data)), LOAD)
    assert reading.metrics["loss"] == reading.metrics["unanswered"] == 0
    assert reading.metrics["rate"] == pytest.approx(1785.98, abs=0.01), "as the last segments arrived"
    assert reading.packets == 6 * 1000


def test_a_connection_that_is_not_closed_is_not_answered(data: Path) -> None:
    found = _report(data)
    for at, received in enumerate((900, 800, 700, 600, 500, 450)):
        found["segments"][at]["received"] = received
    reading = connections.parse(json.dumps(found), LOAD)
    assert reading.metrics["loss"] == pytest.approx(0.1) and reading.metrics["unanswered"] == pytest.approx(0.5)


def test_where_no_syn_arrives_nothing_is_answered(data: Path) -> None:
    found = _report(data)
    for segment in found["segments"]:
        segment |= {"received": 0, "rate_pps": None}
    reading = connections.parse(json.dumps(found), LOAD)
    assert (reading.metrics["loss"], reading.metrics["unanswered"], reading.metrics["rate"]) == (1, 1, 0)


@pytest.mark.parametrize("text", ["", '{"format":1,"event":"conversed"}', '{"format":1,"event":"conversed","segments":[]}'])
def test_a_report_of_another_kind_is_a_fault(text: str) -> None:
    with pytest.raises(InstrumentFault, match="diolkos-pktgen"):
        connections.parse(text, LOAD)
