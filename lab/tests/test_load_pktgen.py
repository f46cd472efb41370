# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The packet generator as a load: its command lines, and what it prints, on captured output."""

import json
from dataclasses import replace
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path

import pytest

from diolkos_lab.experiment.loads import PpsLoad
from diolkos_lab.faults import InstrumentFault
from diolkos_lab.load import pktgen, registry
from diolkos_lab.load.reading import ClientContext, PacketEndpoints

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
