# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Parsers of other tools' output, on captured output."""

import json
from pathlib import Path

import pytest

from diolkos_lab.experiment.definition import PingLoad, TcpLoad
from diolkos_lab.load import iperf3, ping
from diolkos_lab.load.reading import LoadFault


@pytest.mark.parametrize("name", ["tcp-upload", "tcp-download"])
def test_iperf3_takes_the_receivers_bytes_after_the_start(data: Path, name: str) -> None:
    text = (data / f"iperf3-3.12-{name}.json").read_text()
    report = json.loads(text)
    reading = iperf3.parse(text, TcpLoad(name=name, seconds=1, start_s=0.3))
    receiver = report["server_output_json"] if name == "tcp-upload" else report
    counted = [entry["sum"] for entry in receiver["intervals"] if entry["sum"]["start"] >= 0.29]
    assert not counted[0]["sender"]
    expected = sum(entry["bytes"] for entry in counted) * 8 / sum(entry["seconds"] for entry in counted)
    assert reading.metrics["throughput"] == pytest.approx(expected)
    assert reading.metrics["retransmits"] == report["end"]["sum_sent"]["retransmits"]
    assert reading.received_bytes == report["end"]["sum_received"]["bytes"]
    assert len(reading.series["throughput"]["t"]) == 10, "the sliver at the end is no point of the course"


def test_iperf3_start_that_is_slow_does_not_count(data: Path) -> None:
    report = json.loads((data / "iperf3-3.12-tcp-download.json").read_text())
    before = iperf3.parse(json.dumps(report), TcpLoad(name="tcp-download", seconds=1)).metrics["throughput"]
    for entry in report["intervals"][:3]:
        entry["sum"]["bytes"] = 0
    after = iperf3.parse(json.dumps(report), TcpLoad(name="tcp-download", seconds=1)).metrics["throughput"]
    assert after == before


def test_iperf3_faults(data: Path) -> None:
    load = TcpLoad(name="tcp-upload", seconds=1)
    with pytest.raises(LoadFault, match="unable to connect to server"):
        iperf3.parse((data / "iperf3-3.12-refused.json").read_text(), load)
    with pytest.raises(LoadFault, match="no JSON: no output"):
        iperf3.parse("", load)
    whole = json.loads((data / "iperf3-3.12-tcp-upload.json").read_text())
    del whole["server_output_json"]
    with pytest.raises(LoadFault, match=r"the receiver reported 0\.0 s"):
        iperf3.parse(json.dumps(whole), load)


def test_iperf3_long_courses_are_thinned() -> None:
    one = {"start": 0.0, "end": 0.0, "seconds": 0.1, "bytes": 1000}
    intervals = [{"sum": {**one, "start": n / 10, "end": (n + 1) / 10}} for n in range(300)]
    report = {
        "start": {"tcp_mss_default": 1000},
        "intervals": intervals,
        "end": {"sum_received": {"bytes": 300_000}, "sum_sent": {"retransmits": 0}},
    }
    reading = iperf3.parse(json.dumps(report), TcpLoad(name="tcp-download", seconds=30))
    assert reading.series["throughput"]["t"] == [float(second) for second in range(1, 31)]
    assert set(reading.series["throughput"]["y"]) == {80_000}
    assert reading.segments == 300


def test_ping_resolves_below_its_own_grid(data: Path) -> None:
    """The captured replies after the start are six of 8 µs and four of 7 µs; the median is between, not 8."""
    reading = ping.parse((data / "ping-20221126.txt").read_text(), PingLoad(name="ping", count=12, interval_s=0.002))
    assert reading.metrics["loss"] == 0
    assert 7.5e-6 < reading.metrics["rtt"] < 8e-6
    assert reading.series["rtt"]["t"][0] == 0.004
    assert reading.series["rtt"]["y"][0] == 8e-6


def test_ping_loss_counts_only_what_is_counted(data: Path) -> None:
    lines = (data / "ping-20221126.txt").read_text().splitlines()
    without = "\n".join(line for line in lines if "icmp_seq=1 " not in line and "icmp_seq=7 " not in line)
    reading = ping.parse(without, PingLoad(name="ping", count=12, interval_s=0.002))
    assert reading.metrics["loss"] == pytest.approx(1 / 10)


def test_ping_duplicates_are_no_replies(data: Path) -> None:
    text = (data / "ping-20221126.txt").read_text()
    doubled = text.replace("icmp_seq=5 ttl=63 time=0.008 ms", "icmp_seq=5 ttl=63 time=9.000 ms (DUP!)")
    reading = ping.parse(doubled, PingLoad(name="ping", count=12, interval_s=0.002))
    assert reading.metrics["loss"] == pytest.approx(1 / 10)
    assert max(reading.series["rtt"]["y"]) < 1e-3


def test_ping_faults(data: Path) -> None:
    load = PingLoad(name="ping", count=4, interval_s=0.002)
    with pytest.raises(LoadFault, match="no reply to 3 packets"):
        ping.parse((data / "ping-20221126-unreachable.txt").read_text(), load)
    with pytest.raises(LoadFault, match="Network is unreachable"):
        ping.parse("ping: connect: Network is unreachable\n", load)
    with pytest.raises(LoadFault, match="no output"):
        ping.parse("", load)
