# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Table capacity: the search, that only whole attempts count, what a full table does, and the page about it."""

import random
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import ValidationError

from contexts import context, option
from diolkos_lab import report, run_study, studies
from diolkos_lab.experiment.loads import MOST_SESSIONS, CapacityLoad, NewFlowsLoad
from diolkos_lab.load import new_flows
from diolkos_lab.load.reading import LoadFault, Reading
from diolkos_lab.report import capacity_chapter
from diolkos_lab.run import capacity, session_rate
from diolkos_lab.run.guards import Objection
from diolkos_lab.stats.pairing import Samples
from diolkos_lab.sut import definition, lookup
from observer import Silent

HERE = Path(__file__).parent
LOAD = CapacityLoad(name="capacity", first=1000, most=1_000_000, resolution=0.001)
EXACT = LOAD.model_copy(update={"resolution": 1e-9})
REFUSES, FORGETS = "refuses", "forgets"


class Table:
    """The sessions of a system with so much room, without the system."""

    def __init__(self, room: int, *, full: str = REFUSES, says: int | None = None, strays: int = 0, stays: int = 0) -> None:
        self.room, self.full, self.says, self.strays, self.stays = room, full, says, strays, stays
        self.held = strays
        self.asked: list[tuple[int, float]] = []

    def limit(self) -> int | None:
        return self.says

    def count(self) -> int:
        return self.held

    def clear(self) -> float:
        self.held = max(self.strays, min(self.held, self.stays))
        return 0.001

    def open(self, load: NewFlowsLoad) -> session_rate.Measured:
        """One attempt at it."""
        assert load.rate and self.held == self.strays, "every attempt begins with an empty table"
        self.asked.append((load.sessions, load.rate))
        wanted = self.held + load.sessions
        self.held = min(self.room, wanted)
        missing = (wanted - self.held) / load.sessions
        if self.full == FORGETS:
            return Reading({"loss": 0.0, "unanswered": missing}), [], {}
        return Reading({"loss": missing, "unanswered": 1.0 if missing else 0.0}), [], {}


def _measure(load: CapacityLoad, table: Table, attempt: Callable[[NewFlowsLoad], session_rate.Measured] | None = None) -> Any:
    return capacity.measure(load, table, attempt or table.open)  # type: ignore[arg-type]


@pytest.mark.parametrize("full", [REFUSES, FORGETS])
@pytest.mark.parametrize("room", [1000, 1001, 1999, 2000, 4096, 299_999, 300_000, 300_001])
def test_a_known_limit_is_found_exactly(room: int, full: str) -> None:
    table = Table(room, full=full, says=room)
    reading, objections, _ = _measure(EXACT, table)
    found = reading.metrics
    assert (found["capacity"], found["too_many"], found["held_of_too_many"]) == (room, room + 1, room) and not objections
    assert found["limit"] == room and found["attempts"] == len(table.asked)
    assert (found["lost_of_too_many"] > 0) == (full == REFUSES)


@pytest.mark.parametrize("room", [1500, 150_000, 262_144, 999_999])
def test_the_interval_is_as_narrow_as_asked(room: int) -> None:
    table = Table(room)
    found = _measure(LOAD, table)[0].metrics
    assert found["capacity"] <= room < found["too_many"]
    assert found["too_many"] - found["capacity"] <= LOAD.resolution * found["too_many"]
    sizes = [sessions for sessions, _ in table.asked]
    doubled = sizes[: sizes.index(max(sizes)) + 1]
    assert doubled == [min(1000 * 2**number, LOAD.most) for number in range(len(doubled))]
    assert "limit" not in found, "it does not tell"


def test_what_is_too_many_is_so_twice_and_at_half_the_rate() -> None:
    table = Table(5000)
    found = _measure(LOAD, table)[0].metrics
    assert table.asked[-1] == (found["too_many"], LOAD.fill_rate / 2)
    assert [rate for sessions, rate in table.asked if sessions == found["too_many"]] == [LOAD.fill_rate, LOAD.fill_rate / 2]


@pytest.mark.parametrize("seed", range(20))
def test_sessions_that_are_lost_once_are_not_lost_for_want_of_room(seed: int) -> None:
    """Any attempt may lose some, but no two at the same number."""
    table, chance, spoilt = Table(300_000), random.Random(seed), set()

    def attempt(load: NewFlowsLoad) -> session_rate.Measured:
        measured = table.open(load)
        if load.sessions not in spoilt and chance.random() < 0.4:
            spoilt.add(load.sessions)
            table.held -= 1
            return Reading({"loss": 0.0, "unanswered": 1 / load.sessions}), [], {}
        return measured

    found = _measure(LOAD, table, attempt)[0].metrics
    assert found["capacity"] <= 300_000 < found["too_many"], f"seed {seed}"
    assert found["too_many"] - found["capacity"] <= LOAD.resolution * found["too_many"], f"seed {seed}"


def test_a_table_that_takes_few_sessions_a_second_near_its_end_is_filled_more_slowly() -> None:
    table = Table(300_000)

    def attempt(load: NewFlowsLoad) -> session_rate.Measured:
        measured = table.open(load)
        assert load.rate
        slow = load.sessions > 280_000 and load.rate > LOAD.fill_rate / 2
        return (Reading({"loss": 0.01, "unanswered": 1.0}), [], {}) if slow else measured

    found = _measure(EXACT, table, attempt)[0].metrics
    assert (found["capacity"], found["too_many"]) == (300_000, 300_001)
    assert found["attempts"] < 200, "it does not go up one by one"


@pytest.mark.parametrize("room", [8000, 10**9])
def test_no_more_are_asked_for_than_the_most(room: int) -> None:
    table = Table(room)
    found = _measure(LOAD.model_copy(update={"most": 8000}), table)[0].metrics
    assert found["capacity"] == 8000 and not found.keys() & {"too_many", "held_of_too_many", "lost_of_too_many"}
    assert [sessions for sessions, _ in table.asked] == [1000, 2000, 4000, 8000]


def test_a_most_that_is_no_doubling_is_tried_itself() -> None:
    table = Table(10**9)
    assert _measure(LOAD.model_copy(update={"most": 5000}), table)[0].metrics["capacity"] == 5000
    assert _measure(LOAD.model_copy(update={"most": 1000}), Table(10**9))[0].metrics["capacity"] == 1000


def test_the_tables_own_count_decides_where_every_answer_gets_back() -> None:
    """What answers without a session is no table."""
    table = Table(5000)

    def attempt(load: NewFlowsLoad) -> session_rate.Measured:
        table.open(load)
        return Reading({"loss": 0.0, "unanswered": 0.0}), [], {}

    found = _measure(EXACT, table, attempt)[0].metrics
    assert (found["capacity"], found["too_many"], found["held_of_too_many"]) == (5000, 5001, 5000)


def test_an_answer_is_asked_for_where_the_table_has_all() -> None:
    table = Table(10**9)

    def attempt(load: NewFlowsLoad) -> session_rate.Measured:
        table.open(load)
        return Reading({"loss": 0.0, "unanswered": 0.0 if load.sessions <= 3000 else 0.1}), [], {}

    found = _measure(EXACT, table, attempt)[0].metrics
    assert (found["capacity"], found["too_many"], found["held_of_too_many"]) == (3000, 3001, 3001)


def test_others_may_have_some_sessions_and_take_room() -> None:
    found = _measure(EXACT, Table(5000, strays=session_rate.STRAY))[0].metrics
    assert found["capacity"] == 5000 - session_rate.STRAY


def test_a_table_with_more_sessions_than_were_opened_is_not_this_tests_own() -> None:
    table = Table(10**9)

    def attempt(load: NewFlowsLoad) -> session_rate.Measured:
        measured = table.open(load)
        table.held += session_rate.STRAY + 1
        return measured

    with pytest.raises(LoadFault, match="1000 sessions were opened, but the table holds 1065"):
        _measure(LOAD, table, attempt)


def test_sessions_that_do_not_end_fail_the_trial() -> None:
    with pytest.raises(LoadFault, match="500 of 1000 sessions are left"):
        _measure(LOAD, Table(5000, stays=500))


def test_what_was_left_in_the_table_is_ended_first() -> None:
    table = Table(5000)
    table.held = 700
    assert _measure(EXACT, table)[0].metrics["capacity"] == 5000


@pytest.mark.parametrize(
    ("full", "words"), [(REFUSES, "too many: 10.00% of them do not get through"), (FORGETS, "too many: 900 are in the table")]
)
def test_a_system_that_does_not_hold_the_first_number_fails(full: str, words: str) -> None:
    table = Table(900, full=full)
    with pytest.raises(session_rate.SessionsLost, match=words):
        _measure(LOAD, table)
    assert [sessions for sessions, _ in table.asked] == [1000] * capacity.TRIES
    assert table.held == 0, "the next trial begins with an empty table"


def test_where_nothing_counts_sessions_there_is_no_capacity() -> None:
    with pytest.raises(LoadFault, match="nothing on the path has sessions"):
        capacity.measure(LOAD, None, Table(5000).open)


def test_guards_are_heard_about_what_was_too_many_alone() -> None:
    """A disturbance loses sessions. It cannot make a table hold them."""

    def disturbed(above: int, below: int, most: int) -> list[str]:
        table = Table(5000)

        def attempt(load: NewFlowsLoad) -> session_rate.Measured:
            reading, _, cpu = table.open(load)
            return reading, [Objection("steal", "")] if below < load.sessions <= above else [], cpu

        return [each.guard for each in _measure(EXACT.model_copy(update={"most": most}), table, attempt)[1]]

    assert disturbed(5000, 0, 10**6) == [], "what was held was held"
    assert disturbed(10**6, 5001, 10**6) == [], "what was found to be too many later counts"
    assert disturbed(5001, 5000, 10**6) == ["steal"]
    assert disturbed(10**6, 0, 4000) == [], "nothing was too many"


def test_an_attempt_opens_and_answers_and_that_is_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIOLKOS_PKTGEN", "/bin/true")
    load = CapacityLoad(name="capacity", bindings="many", placement="one-cpu")
    filling = load.attempt(123_456, 50_000.0)
    command = new_flows.client_command(filling, context(6))
    assert (option(command, "--sessions"), option(command, "--rate")) == ("123456", "50000")
    assert not {"--seconds", "--rounds", "--sport"} & set(command)
    assert filling.placement == "one-cpu" and filling.expected_s < filling.longest_s < load.expected_s


def test_a_report_of_an_attempt_is_read(data: Path) -> None:
    filling = LOAD.attempt(1000, 2000)
    reading = new_flows.parse((data / "pktgen-0.1.0-unanswered.jsonl").read_text(), filling)
    assert reading.metrics["loss"] == pytest.approx(0.1) and reading.metrics["unanswered"] == 1


@pytest.mark.parametrize("wrong", [{"first": 2000, "most": 1000}, {"most": MOST_SESSIONS + 1}, {"resolution": 0}])
def test_a_search_without_an_end_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        CapacityLoad(name="capacity", **wrong)


@pytest.mark.parametrize(("bindings", "nodes"), [("few", 256), ("few", 16_384), ("many", 1)])
def test_bindings_and_nodes_agree(bindings: str, nodes: int) -> None:
    with pytest.raises(ValidationError, match="one node has few bindings"):
        CapacityLoad(name="capacity", bindings=bindings, nodes=nodes)  # type: ignore[arg-type]


@pytest.mark.parametrize(("bindings", "nodes"), [("few", None), ("few", 1), ("many", None), ("many", 256), ("many", 16_384)])
def test_what_loads_can_be_attempted(bindings: Literal["few", "many"], nodes: Literal[1, 256, 16_384] | None) -> None:
    load = CapacityLoad(name="capacity", bindings=bindings, nodes=nodes)
    assert load.expected_s > 0 and load.attempt(1000, 1000).factors["nodes"] == load.factors["nodes"]


def _datapaths() -> list[str]:
    return [name for name, path in definition.load_all()["diolkos"].datapath.items() if path.sessions]


@pytest.mark.parametrize("name", _datapaths())
def test_diolkos_says_the_limit_that_its_configuration_has(name: str, tmp_path: Path) -> None:
    found = lookup.find(definition.load_all()["diolkos"], {})
    if not isinstance(found, lookup.Found):
        pytest.skip("diolkos is not built")
    path, config = found.system.datapath[name], tmp_path / "config"
    assert path.config and path.sessions and path.sessions.limit
    values = {"downlink": "down0", "server_link": "srv0"}
    values |= {"binary": str(found.binary), "config": str(config), "pref64": "64:ff9b::/96", "pool4_network": "198.18.64.0/24"}
    config.write_text(definition.fill(path.config, values))
    command = [definition.fill(word, values) for word in path.sessions.limit]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    configured = tomllib.loads(path.config)["nat64"].get("max_sessions", 4_000_000)
    assert int(said) == configured


def test_the_quick_form_tries_the_known_limit_itself() -> None:
    study, config = studies.load("capacity"), definition.load_all()["diolkos"].datapath["nat64-small-tc"].config
    assert config
    limit = tomllib.loads(config)["nat64"]["max_sessions"]
    (load,) = study.form["quick"].load
    assert isinstance(load, CapacityLoad)
    found = _measure(load, Table(limit))[0].metrics
    assert found["capacity"] == limit
    assert found["too_many"] - found["capacity"] <= load.resolution * found["too_many"]


# ---- the page


def _samples(record: Callable[..., dict[str, Any]], valid: bool = True, /, **metrics: float) -> Samples:
    path = {"system": "nat44", "datapath": "nftables", "family": "ipv4"}
    factors = {"offloads": "on", **LOAD.factors}
    same = {"load": "capacity", "factors": factors, "metrics": metrics, "valid": valid, **path}
    return Samples([record(block=block, **same) for block in range(1, 8)])


@pytest.mark.parametrize(
    ("metrics", "as_it_says", "when_full", "shown"),
    [
        ({"too_many": 303_000, "held_of_too_many": 3e5, "lost_of_too_many": 0.0099}, "yes", "refuses new", "300\u202f000"),
        ({"too_many": 303_000, "held_of_too_many": 3e5, "lost_of_too_many": 0.0}, "yes", "forgets others", "300\u202f000"),
        ({"too_many": 303_000, "held_of_too_many": 3e5, "lost_of_too_many": 0.0001}, "yes", "forgets others", "300\u202f000"),
        ({"too_many": 300_001, "held_of_too_many": 300_001, "lost_of_too_many": 0.0}, "yes", "loses answers", "300\u202f000"),
        ({}, "yes", "–", "≥ 300\u202f000"),
    ],
)
def test_what_a_full_table_does_is_said(
    record: Callable[..., dict[str, Any]], metrics: dict[str, float], as_it_says: str, when_full: str, shown: str
) -> None:
    samples = _samples(record, capacity=300_000, limit=300_000, **metrics)
    (key,) = samples.cells()
    found = capacity_chapter.found(samples, key)
    assert found and (found.as_it_says[0], found.when_full, found.shown) == (as_it_says, when_full, shown)


@pytest.mark.parametrize(
    ("limit", "as_it_says"),
    [
        (None, "–"),
        (299_999, "no, more"),
        (300_000, "yes"),
        (302_999, "yes"),
        (303_000 + session_rate.STRAY - 1, "yes"),
        (303_000 + session_rate.STRAY, "no, fewer"),
        (400_000, "no, fewer"),
    ],
)
def test_a_system_that_holds_fewer_than_it_says_is_seen(
    record: Callable[..., dict[str, Any]], limit: float | None, as_it_says: str
) -> None:
    says = {} if limit is None else {"limit": limit}
    full = {"too_many": 303_000, "held_of_too_many": 300_100, "lost_of_too_many": 0.01}
    samples = _samples(record, capacity=300_000, **full, **says)
    (key,) = samples.cells()
    found = capacity_chapter.found(samples, key)
    assert found and found.as_it_says[0] == as_it_says


def test_a_limit_that_was_not_reached_is_no_matter_of_the_table(record: Callable[..., dict[str, Any]]) -> None:
    samples = _samples(record, capacity=8000, limit=4_000_000)
    said = capacity_chapter.lead(samples).replace("\u202f", " ")
    assert said == "NAT44 holds at least 8 000 sessions: its limit was not reached (4 000 000)."


def test_of_what_is_not_trusted_only_the_least_is_said(record: Callable[..., dict[str, Any]]) -> None:
    full = {"too_many": 303_000, "held_of_too_many": 300_000, "lost_of_too_many": 0.01}
    doubted, trusted = (_samples(record, valid, capacity=300_000, limit=300_000, **full) for valid in (False, True))
    said = [capacity_chapter.lead(samples).replace("\u202f", " ") for samples in (doubted, trusted)]
    assert said[0] == "NAT44 holds at least 300 000 sessions."
    assert said[1] == "NAT44 holds 300 000 sessions and not 303 000: as many as it says (300 000)."
    (table,) = capacity_chapter.chapter(doubted).tables
    assert "(300\u202f000)" in table.lines[0] and "(yes)" in table.lines[0] and "0 of 7" in table.lines[0]
    assert len(table.raw_heads) == len(table.raw_lines[0]) and len(table.heads) == len(table.lines[0])


@pytest.mark.root
@pytest.mark.usefixtures("clean_machine", "generator_built")
def test_nat44_holds_what_is_asked_for(tmp_path: Path) -> None:
    request = run_study.RunRequest(str(HERE / "study_capacity.toml"), True, (), tmp_path / "r", 1, {})
    result, summary = run_study.run(request, Silent())
    assert [trial["error"] for trial in result.trials if trial["error"]] == []
    for trial in result.trials:
        found = trial["metrics"]
        assert found["capacity"] == trial["factors"]["most"] and "too_many" not in found and found["attempts"] == 2
        assert found["limit"] == int(Path("/proc/sys/net/netfilter/nf_conntrack_max").read_text())
    assert {(row["load"], row["metric"], row["unit"]) for row in summary["rows"]} == {("capacity", "capacity", "sessions")}
    page = report.write(tmp_path / "r").read_text()
    assert "How many sessions fit" in page and "≥ 4\u202f000" in page and "Sessions opened, used and ended" not in page
