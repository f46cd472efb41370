# SPDX-License-Identifier: Apache-2.0 OR MIT
"""New flows: what the generator says, the search for the rate, and that the tables hold what they should."""

import dataclasses
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest

from contexts import context, option
from diolkos_lab import report, run_study
from diolkos_lab.experiment.loads import FILL_ROUNDS, NewFlowsLoad
from diolkos_lab.faults import InstrumentFault
from diolkos_lab.load import new_flows
from diolkos_lab.load.reading import LoadFault, Reading
from diolkos_lab.run import session_rate
from observer import Silent

HERE = Path(__file__).parent
LOAD = NewFlowsLoad(name="new-flows", sessions=1000)


def test_the_generator_is_told_who_asks_and_who_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIOLKOS_PKTGEN", "/bin/true")
    few = new_flows.client_command(LOAD, context(6))
    assert option(few, "--src") == "2001:2:0:1::2" and option(few, "--sport") == new_flows.FEW_PORTS
    assert (option(few, "--size"), option(few, "--back-size")) == ("84", "64"), "of the family that arrives"
    assert option(few, "--rate") == "max" and option(few, "--seed") == "7000", "each trial has other 4-tuples"
    many = new_flows.client_command(LOAD.model_copy(update={"bindings": "many"}).at(5000.2), context(4))
    assert option(many, "--src") == "198.18.2.0/24" and "--sport" not in many
    assert option(many, "--rate") == "5000" and option(many, "--size") == "64"


@pytest.mark.parametrize(
    ("nodes", "version", "clients"),
    [
        (None, 4, "198.18.2.0/24"),
        (256, 4, "198.18.2.0/24"),
        (16_384, 4, "198.18.192.0/18"),
        (16_384, 6, "2001:2:0:2::/114"),
    ],
)
def test_as_many_nodes_ask_as_the_load_says(
    nodes: int | None, version: int, clients: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIOLKOS_PKTGEN", "/bin/true")
    load = NewFlowsLoad(name="new-flows", sessions=1000, bindings="many", nodes=nodes)  # type: ignore[arg-type]
    assert option(new_flows.client_command(load, context(version)), "--src") == clients
    assert ip_network(clients).num_addresses == (nodes or 256)
    assert load.factors["nodes"] == (nodes or 256)


def test_a_path_with_one_client_has_no_crowd(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIOLKOS_PKTGEN", "/bin/true")
    known = context(4)
    assert known.ends and known.ends.answers
    one = dataclasses.replace(known.ends, answers=dataclasses.replace(known.ends.answers, crowd=None))
    load = NewFlowsLoad(name="new-flows", sessions=1000, bindings="many", nodes=16_384)
    with pytest.raises(LoadFault, match="knows a single client, and the load asks for 16384"):
        new_flows.client_command(load, dataclasses.replace(known, ends=one))


@pytest.mark.parametrize(("bindings", "nodes"), [("few", 256), ("few", 16_384), ("many", 1)])
def test_bindings_and_nodes_agree(bindings: str, nodes: int) -> None:
    with pytest.raises(ValueError, match="one node has few bindings"):
        NewFlowsLoad(name="new-flows", sessions=1000, bindings=bindings, nodes=nodes)  # type: ignore[arg-type]


def test_without_a_translator_answers_go_to_whoever_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIOLKOS_PKTGEN", "/bin/true")
    known = context(4)
    assert known.ends and known.ends.answers
    unlent = dataclasses.replace(known.ends.answers, target=known.ends.source, targets=known.ends.answers.clients)
    plain = dataclasses.replace(known, ends=dataclasses.replace(known.ends, answers=unlent))
    assert option(new_flows.client_command(LOAD, plain), "--back-dst") == "198.18.1.2"
    many = LOAD.model_copy(update={"bindings": "many"})
    assert option(new_flows.client_command(many, plain), "--back-dst") == "198.18.2.0"


def test_a_report_is_read(data: Path) -> None:
    reading = new_flows.parse((data / "pktgen-0.1.0-connected.jsonl").read_text(), LOAD)
    assert reading.metrics["loss"] == reading.metrics["unanswered"] == reading.metrics["established_loss"] == 0
    assert reading.metrics["rate"] == pytest.approx(2002, rel=0.01)
    assert reading.metrics["established"] == pytest.approx(10003.83, abs=0.01), "both directions together"
    assert reading.packets == 1000 + 1000 + 2 * 500


def test_what_was_not_answered_says_so(data: Path) -> None:
    reading = new_flows.parse((data / "pktgen-0.1.0-unanswered.jsonl").read_text(), LOAD)
    assert reading.metrics["loss"] == pytest.approx(0.1) and reading.metrics["unanswered"] == 1
    assert "established" not in reading.metrics


@pytest.mark.parametrize("text", ["", "no interface", '{"format":1,"event":"connected"}', '{"format":1,"event":"measured"}'])
def test_a_report_of_another_kind_is_a_fault(text: str) -> None:
    with pytest.raises(InstrumentFault, match="diolkos-pktgen"):
        new_flows.parse(text, LOAD)


class Table:
    """A system's sessions, without the system."""

    def __init__(self, room: int | None = None, forgets: int = 0, stays: int = 0) -> None:
        self.held, self.room, self.forgets, self.stays = 0, room, forgets, stays

    def limit(self) -> int | None:
        return self.room

    def count(self) -> int:
        return self.held

    def clear(self) -> float:
        taken = 0.001 + self.held / 1e6
        self.held = min(self.held, self.stays)
        return taken


def _attempt(table: Table, most: float, reached: float, asked: list[int | None]) -> Any:
    def attempt(load: NewFlowsLoad) -> session_rate.Measured:
        asked.append(load.rate)
        rate = load.rate or reached
        lost = 0.0 if rate <= most else 0.01
        table.held = round(load.sessions * (1 - lost)) - table.forgets
        return Reading({"rate": rate, "loss": lost, "unanswered": 0.0 if not lost else 1.0}), [], {}

    return attempt


def test_where_nothing_is_lost_one_attempt_is_enough() -> None:
    table, asked = Table(), []
    reading, objections, _ = session_rate.measure(LOAD, table, _attempt(table, 1e9, 300_000, asked))  # type: ignore[arg-type]
    assert asked == [None] and not objections
    assert reading.metrics["rate"] == 300_000 and reading.metrics["sessions"] == 1000
    assert reading.metrics["teardown"] == pytest.approx(1e6), "without what the order itself takes"


@pytest.mark.parametrize("most", [299_000, 250_000, 200_000, 151_000])
def test_the_highest_rate_without_loss_is_found(most: float) -> None:
    table, asked = Table(), []
    reading, _, _ = session_rate.measure(LOAD, table, _attempt(table, most, 300_000, asked))  # type: ignore[arg-type]
    assert most - 300_000 / 32 <= reading.metrics["rate"] <= most
    assert asked[:2] == [None, None] and len(asked) <= 2 + LOAD.halvings + 1
    assert reading.metrics["attempts"] == len(asked), "those that came after the best one, too"


@pytest.mark.parametrize("most", [140_000, 76_000, 74_000, 19_000])
def test_a_rate_that_only_a_burst_reached_is_no_lower_bound(most: float) -> None:
    """A bucket of tokens lets some sessions through at once, so the first attempt looks faster than what can be kept."""
    table, asked = Table(), []
    reading, _, _ = session_rate.measure(LOAD, table, _attempt(table, most, 300_000, asked))  # type: ignore[arg-type]
    assert most - most / 2**LOAD.halvings <= reading.metrics["rate"] <= most
    assert len(asked) <= 2 + 2 * LOAD.halvings + 1 + session_rate.DESCENTS


def test_a_table_that_is_only_filled_needs_no_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIOLKOS_PKTGEN", "/bin/true")
    filling = LOAD.model_copy(update={"fill_rate": 100_000})
    command = new_flows.client_command(filling, context(6))
    assert option(command, "--rate") == "100000" and option(command, "--rounds") == str(FILL_ROUNDS)
    table, asked = Table(), []
    with pytest.raises(LoadFault, match="lost at every rate"):
        session_rate.measure(filling, table, _attempt(table, 99_000, 300_000, asked))  # type: ignore[arg-type]
    assert asked == [None, None]


def test_a_system_that_loses_at_every_rate_fails() -> None:
    table, asked = Table(), []
    with pytest.raises(
        session_rate.SessionsLost, match=r"lost at every rate, at 18750 sessions/s still 1\.00% of the sessions"
    ):
        session_rate.measure(LOAD, table, _attempt(table, 1, 300_000, asked))  # type: ignore[arg-type]
    assert table.held == 0, "the next trial begins with an empty table"


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (Table(room=1000), "room for 1000 sessions, 1000 are asked for"),
        (Table(forgets=1), "1000 sessions got through, but the table holds 999"),
        (Table(stays=500), "500 of 1000 sessions are left"),
    ],
)
def test_a_table_that_does_not_hold_what_it_should_fails_the_trial(table: Table, words: str) -> None:
    with pytest.raises(LoadFault, match=words):
        session_rate.measure(LOAD, table, _attempt(table, 1e9, 300_000, []))  # type: ignore[arg-type]


@pytest.mark.root
@pytest.mark.usefixtures("clean_machine", "generator_built")
def test_sessions_are_opened_answered_and_ended(tmp_path: Path) -> None:
    request = run_study.RunRequest(str(HERE / "study_sessions.toml"), True, (), tmp_path / "r", 1, {})
    result, summary = run_study.run(request, Silent())
    assert [trial["error"] for trial in result.trials if trial["error"]] == []
    for trial in result.trials:
        found, asked = trial["metrics"], trial["factors"]["sessions"]
        assert found["rate"] > 0 and found["loss"] == found["unanswered"] == 0 and found["established"] > 0
        if trial["system"] == "nat44":
            assert asked <= found["sessions"] <= asked + session_rate.STRAY
    rows = {(row["system"], row["bindings"], row["metric"]) for row in summary["rows"]}
    assert {("nat44", "few", "rate"), ("nat44", "many", "established"), ("native", "few", "rate")} <= rows
    page = report.write(tmp_path / "r").read_text()
    assert "Sessions opened, used and ended" in page and "5 000 sessions, few bindings" in page
