# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The packet generator as a load: its command lines, and what it prints, on captured output."""

import json
import re
from dataclasses import replace
from ipaddress import IPv4Address, IPv6Address, IPv6Network
from itertools import pairwise
from pathlib import Path

import pytest
from pydantic import ValidationError

from diolkos_lab.experiment.frames import ForwardingRateLoad
from diolkos_lab.experiment.latency import LatencyLoad
from diolkos_lab.experiment.loads import PpsLoad
from diolkos_lab.experiment.procedures import Rfc8219
from diolkos_lab.faults import InstrumentFault
from diolkos_lab.load import pktgen, registry
from diolkos_lab.load.reading import Answers, ClientContext, LoadFault, Native, PacketEndpoints

LOAD = PpsLoad(name="pps", seconds=0.3)
PPS = registry.LOADS["pps"]


@pytest.fixture(autouse=True)
def generator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIOLKOS_PKTGEN", "/bin/true")


def _context(version: int, *, keeps_state: bool = False) -> ClientContext:
    to = IPv6Address("64:ff9b::c000:ab") if version == 6 else IPv4Address("192.0.0.171")
    own = IPv6Address("2001:2:0:1::2") if version == 6 else IPv4Address("192.0.0.2")
    ends = PacketEndpoints("lane-client:up0", "lane-server:srv0", own, keeps_state)
    return ClientContext(to, IPv6Address("2001:2:0:1::1"), Path("/nowhere"), 1, ends)


def test_the_offered_load_is_what_was_written_and_a_quiet_trial_loses_nothing(data: Path) -> None:
    reading = pktgen.parse((data / "pktgen-0.1.0-measured.jsonl").read_text(), LOAD.at(50_000))
    assert reading.metrics["sent"] == reading.metrics["received"] == reading.packets == 15_000
    assert reading.metrics["loss"] == 0
    assert reading.metrics["rate"] == pytest.approx(49_920.85, abs=0.01)
    assert reading.metrics["latency"] == pytest.approx(2.013e-6)
    assert reading.metrics["latency_worst"] == pytest.approx(26.0555e-6)
    assert reading.metrics["pdv"] == pytest.approx(24.1035e-6), "99.9th percentile less the least (RFC 8219 section 7.3.1)"
    assert reading.pace_error == pytest.approx(-0.00168, abs=1e-5)
    assert reading.behind_s == pytest.approx(0.0204882, abs=1e-7)


def test_stalls_are_told_where_cpus_were_watched(data: Path) -> None:
    report = json.loads((data / "pktgen-0.1.0-measured.jsonl").read_text())
    assert pktgen.parse(json.dumps(report), LOAD.at(50_000)).stalls_s == ()
    stalled = {"cpu": 0, "stalls": [{"until_ns": 5, "stood_still_ns": 9_300_000}]}
    for watched, expected in ((None, ()), ([{"cpu": 1, "stalls": []}, stalled], (pytest.approx(0.0093),))):
        assert pktgen.parse(json.dumps({**report, "watched": watched}), LOAD.at(50_000)).stalls_s == expected
    context = _context(6)
    assert "--watch-cpu" not in PPS.command(LOAD.at(1000), context)
    watched = replace(context, ends=replace(context.ends, cpus=(0, 3)))
    command = PPS.command(LOAD.at(1000), watched)
    assert command[command.index("--watch-cpu") + 1] == "0,3"


def test_what_the_first_ring_refuses_is_lost(data: Path) -> None:
    reading = pktgen.parse((data / "pktgen-0.1.0-refused.jsonl").read_text(), LOAD.at(2_000_000))
    assert reading.metrics["refused"] == 565_848
    assert reading.metrics["loss"] == pytest.approx(1 - 34_152 / 600_000)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no interface up0",
        '{"format":2,"event":"measured","directions":[]}',
        '{"format":1,"event":"sent"}',
        '{"format":1,"event":"measured","directions":[]}',
    ],
)
def test_a_report_of_another_kind_is_a_fault_of_the_instrument(text: str) -> None:
    with pytest.raises(InstrumentFault, match="diolkos-pktgen"):
        pktgen.parse(text, LOAD.at(1000))


def test_frames_of_ipv4_are_shorter_by_the_header() -> None:
    for version, size in ((6, "84"), (4, "64")):
        command = PPS.command(LOAD.at(123_456), _context(version))
        assert "nice -n -20" in command[2], "the generator keeps time"
        assert command[5:10] == ["measure", "--from", "lane-client:up0", "--to", "lane-server:srv0"]
        assert command[command.index("--size") + 1] == size
        assert command[command.index("--rate") + 1] == "123456"


def test_sessions_are_opened_first_where_the_path_keeps_state() -> None:
    assert PPS.prepare(LOAD.at(1000), _context(6)) == []
    [command] = PPS.prepare(LOAD.at(1000), _context(6, keeps_state=True))
    assert command[1:4] == ["send", "--interface", "up0"]
    assert command[command.index("--count") + 1] == str(LOAD.flows), "one packet of each flow"
    measure = PPS.command(LOAD.at(1000), _context(6))
    for option in ("--src", "--dst", "--flows"):
        assert command[command.index(option) + 1] == measure[measure.index(option) + 1], "of the same flows"


def _options(command: list[str]) -> dict[str, str]:
    return {name: value for name, value in pairwise(command) if name.startswith("--")}


def _ends(context: ClientContext, *, keeps_state: bool = False) -> ClientContext:
    """With a far end that answers, 256 clients and 64 destinations."""
    answers = Answers(
        IPv6Address("2001:2:0:f::2"),
        IPv6Address("2001:2:0:1::2"),
        IPv6Network("2001:2:0:2::/120"),
        IPv6Network("2001:2:0:2::/120"),
        IPv6Network("2001:2:0:f::40/122"),
    )
    assert context.ends
    ends = replace(context.ends, answers=answers, keeps_state=keeps_state, targets=IPv6Network("2001:2:0:f::40/122"))
    return replace(context, ends=ends)


def test_packets_have_many_flows_unless_a_study_asks_for_few() -> None:
    for load in (LOAD, ForwardingRateLoad(name="forwarding-rate", seconds=0.2), LatencyLoad(name="latency")):
        assert load.factors["flows"] == 4096
    assert _options(PPS.command(LOAD.at(1000), _context(6)))["--flows"] == "4096"
    assert Rfc8219(name="rfc8219").trial(1000, 1, "throughput").factors["flows"] == 4096
    assert {"directions", "next_hops", "nodes"}.isdisjoint(LOAD.factors), "where there is one of each"


def test_unique_flows_are_of_many_clients_and_of_this_trial_alone() -> None:
    load, context = LOAD.model_copy(update={"flows": "unique"}).at(1000), _ends(_context(6), keeps_state=True)
    first, second = (_options(PPS.command(load, replace(context, serial=serial))) for serial in (1, 2))
    assert (first["--flows"], first["--src"]) == ("unique", "2001:2:0:2::/120")
    assert abs(int(first["--seed"]) - int(second["--seed"])) > 2_000_000 * 30, "flows of one trial are none of another's"
    assert PPS.prepare(load, context) == [], "each packet opens its own session"


def test_flows_of_many_nodes_come_from_many_addresses() -> None:
    load, context = LOAD.model_copy(update={"nodes": 16_384}).at(1000), _ends(_context(6))
    assert context.ends and context.ends.answers
    crowd = replace(context.ends.answers, crowd=IPv6Network("2001:2:0:8000::/114"))
    many = replace(context, ends=replace(context.ends, answers=crowd))
    said = _options(PPS.command(load, many))
    assert (said["--src"], said["--flows"], load.factors["nodes"]) == ("2001:2:0:8000::/114", "4096", 16_384)
    with pytest.raises(LoadFault, match="single client"):
        PPS.command(load, context)
    alone = replace(context, ends=replace(context.ends, answers=None))
    assert _options(PPS.command(load, alone))["--src"] == str(context.ends.source), "to a sink right behind it"
    with pytest.raises(ValidationError, match="in one direction"):
        PpsLoad(name="pps", seconds=1, nodes=16_384, directions="both")


def test_both_directions_have_ports_of_their_own() -> None:
    load = LOAD.model_copy(update={"directions": "both", "next_hops": 64}).at(1000)
    command = PPS.command(load, _ends(_context(6)))
    said = _options(command)
    assert command[5] == "measure" and said["--rate"] == "1000"
    assert said["--dst"] == said["--back-src"] == "2001:2:0:f::40/122" and said["--back-dst"] == "2001:2:0:1::2"
    assert (said["--back-sport"], said["--back-dport"]) == ("1-49151", "1024-65535"), "RFC 4814 section 4.5, turned round"
    assert load.factors["directions"] == "both" and load.factors["next_hops"] == 64


def test_packets_go_back_over_open_sessions_where_the_path_keeps_state() -> None:
    load, context = LOAD.model_copy(update={"directions": "both"}).at(1000), _ends(_context(6), keeps_state=True)
    command = PPS.command(load, context)
    said = _options(command)
    assert command[5] == "connect" and PPS.prepare(load, context) == []
    assert (said["--sessions"], said["--both-rate"], said["--seconds"]) == ("4096", "1000", "0.3")
    assert "--flows" not in said and "--back-sport" not in said, "answers go where packets came from"
    assert PPS.allowed_s(load) > PPS.allowed_s(LOAD.at(1000)) + 4 * 4096 / float(said["--rate"])


def test_of_two_directions_counts_are_added_and_the_worse_time_counts(data: Path) -> None:
    report = json.loads((data / "pktgen-0.1.0-measured.jsonl").read_text())
    forth = report["directions"][0]
    back = json.loads(json.dumps(forth)) | {"direction": "back"}
    back["received"] |= {"received": 14_000, "late": 500, "pdv_ns": 1.0}
    back["received"]["delay_ns"] |= {"p50": 7e3}
    back["sent"] |= {"rate_pps": 40_000.0}
    load = LOAD.model_copy(update={"directions": "both"}).at(50_000)
    for text in (
        {**report, "directions": [forth, back]},
        {"format": 1, "event": "connected", "sessions": 4096, "carried": [forth, back]},
    ):
        reading = pktgen.parse(json.dumps(text), load)
        assert (reading.metrics["sent"], reading.metrics["received"]) == (30_000, 29_000)
        assert reading.metrics["loss"] == pytest.approx(1 / 30)
        assert reading.metrics["latency"] == pytest.approx(7e-6) and reading.metrics["pdv"] == pytest.approx(24.1035e-6)
        assert reading.pace_error == pytest.approx(-0.2)


def _with_native(context: ClientContext, folder: Path) -> ClientContext:
    assert context.ends
    own, server = IPv6Address("2001:2:0:1::2"), IPv6Address("2001:2:0:f::2")
    native = Native(own, server, IPv6Network("2001:2:0:2::/120"), None)
    return replace(context, folder=folder, ends=replace(context.ends, native=native))


def test_native_packets_take_their_share_of_the_offered_rate(tmp_path: Path) -> None:
    load = LOAD.model_copy(update={"native_share": 0.1, "directions": "both"}).at(1000)
    script = PPS.command(load, _with_native(_ends(_context(6)), tmp_path))[-1]
    sends = re.findall(r"netns/(\S+) .* send --stream (\d) .*--src (\S+) --dst (\S+) .*--rate (\d+) --seconds 0.3 ", script)
    own, server = "2001:2:0:1::2", "2001:2:0:f::2"
    assert sends == [
        ("lane-client", "0", own, "64:ff9b::c000:ab", "900"),
        ("lane-client", "1", own, server, "100"),
        ("lane-server", "0", server, own, "900"),
        ("lane-server", "1", server, own, "100"),
    ]
    assert re.findall(r"netns/(\S+) .* sink --streams 2", script) == ["lane-server", "lane-client"]
    assert load.factors["native_share"] == 0.1 and "native_share" not in LOAD.factors


@pytest.mark.parametrize(("lost", "of_native"), [(0, 0), (9, 0), (0, 1)])
def test_both_kinds_are_counted_together_and_each_by_itself(data: Path, lost: int, of_native: int) -> None:
    load = LOAD.model_copy(update={"native_share": 0.25}).at(20_000)
    report = json.loads((data / "pktgen-0.1.0-measured.jsonl").read_text())["directions"][0]
    lines = [{"event": "begun", "format": 1}]
    lines += [{**report["sent"], "event": "sent", "stream": 0, "written": 3000, "rate_pps": 15_000.0}]
    lines += [{**report["sent"], "event": "sent", "stream": 1, "written": 1000, "rate_pps": 5100.0}]
    arrived = [{**report["received"], "received": 3000 - lost, "rate_pps": 15_000.0, "stream": 0}]
    arrived += [{**report["received"], "received": 1000 - of_native, "rate_pps": 5000.0, "stream": 1}]
    lines += [{"event": "received", "streams": arrived, "corrupted_unattributed": 2, "foreign": 7}]
    reading = pktgen.parse("\n".join(map(json.dumps, lines)), load)
    assert (reading.metrics["sent"], reading.metrics["received"]) == (4000, 4000 - lost - of_native)
    assert (reading.metrics["native_sent"], reading.metrics["native_received"]) == (1000, 1000 - of_native)
    assert reading.metrics["translated_loss"] == pytest.approx(lost / 3000) and reading.packets == 3000 - lost
    assert reading.metrics["rate"] == 20_000 and reading.metrics["corrupted"] == 2
    assert reading.pace_error == pytest.approx(0.02), "the worse of both generators"


@pytest.mark.parametrize("text", ["", "no interface up0", '{"event":"sent","stream":0}', '{"event":"received","streams":[]}'])
def test_a_generator_or_a_sink_without_a_report_is_a_fault_of_the_instrument(text: str) -> None:
    with pytest.raises(InstrumentFault, match="gave no report"):
        pktgen.parse(text, LOAD.model_copy(update={"native_share": 0.5}).at(50_000))


def test_a_rate_without_limit_has_no_native_share() -> None:
    with pytest.raises(ValidationError, match="forwarding-rate has none"):
        ForwardingRateLoad(name="forwarding-rate", seconds=0.2, native_share=0.5)


def test_sessions_that_are_not_there_are_a_fault() -> None:
    opened = {"received": {"received": 4000}}
    text = {"format": 1, "event": "connected", "sessions": 4096, "opened": opened, "answered": None, "carried": None}
    with pytest.raises(LoadFault, match="of 4096 sessions 4000 were opened and 0 answered"):
        pktgen.parse(json.dumps(text), LOAD.model_copy(update={"directions": "both"}))


def test_a_frame_beyond_its_time_limit_is_lost(data: Path) -> None:
    report = json.loads((data / "pktgen-0.1.0-measured.jsonl").read_text())
    report["directions"][0]["received"]["late"] = 30
    plan = Rfc8219(name="rfc8219", frame_timeout_s=0.1, directions="one")
    limited = plan.trial(50_000, 0.3, "throughput")
    assert _options(PPS.command(limited, _context(6)))["--late-ms"] == "100"
    assert pktgen.parse(json.dumps(report), limited).metrics["loss"] == pytest.approx(30 / 15_000)
    unlimited = plan.model_copy(update={"frame_timeout_s": None}).trial(50_000, 0.3, "throughput")
    assert pktgen.parse(json.dumps(report), unlimited).metrics["loss"] == 0


def test_packets_from_the_server_alone() -> None:
    """Over sessions that the client has opened where the path keeps any; elsewhere the two ends change places."""
    load = ForwardingRateLoad(name="forwarding-rate", seconds=0.4, flows=100, size=84)
    server, client = IPv4Address("198.18.1.2"), IPv4Address("198.18.1.1")
    answers = Answers(server, client, IPv6Network("2001:2::/64"), IPv6Network("2001:2::/64"))
    for keeps_state in (True, False):
        context = _context(6, keeps_state=keeps_state)
        assert context.ends
        context = replace(context, ends=replace(context.ends, answers=answers))
        command = pktgen.backwards_command(load, context, ("chrt",))
        words = " ".join(command)
        assert command[:3] == ["chrt", "/bin/true", "connect" if keeps_state else "measure"]
        if keeps_state:
            assert "--from lane-client:up0 --to lane-server:srv0" in words and "--back-only" in words
            assert "--back-src 198.18.1.2 --back-dst 198.18.1.1 --back-size 64" in words
            assert command[command.index("--sessions") + 1] == "100"
        else:
            assert "--from lane-server:srv0 --to lane-client:up0 --src 198.18.1.2 --dst 198.18.1.1 --size 64" in words
            assert "--sport 1-49151 --dport 1024-65535" in words and "--back" not in words
