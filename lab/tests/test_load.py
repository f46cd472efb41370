# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Parsers of other tools' output, on captured output."""

import contextlib
import json
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path

import pytest
from pydantic import ValidationError

from diolkos_lab.experiment.loads import DnsLoad, HttpLoad, PingLoad, TcpLoad
from diolkos_lab.load import answers, curl, dnsperf, iperf3, names, ping, registry
from diolkos_lab.load.reading import MOST_POINTS, ClientContext, LoadFault, course

SMALL = HttpLoad(name="http", object_bytes=1024, by="literal", seconds=0.3)
LARGE = HttpLoad(name="http", object_bytes=1 << 24, by="literal", seconds=0.3)
AT_A_RATE = DnsLoad(name="dns", cache="cold", offered=1000, seconds=0.3)
MOST = DnsLoad(name="dns", cache="cold", seconds=0.2)


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


def test_iperf3_shorter_than_a_second_sends_what_the_path_can_in_that_time() -> None:
    load = TcpLoad(name="tcp-download", seconds=0.4, start_s=0.1)
    target = IPv6Address("2001:2:0:f::2")
    first = iperf3.client_command(load, target, None)
    assert first[first.index("--time") + 1] == "1" and "--bytes" not in first
    later = iperf3.client_command(load, target, 20e9)
    assert later[later.index("--bytes") + 1] == str(10**9) and "--time" not in later
    whole = iperf3.client_command(load.model_copy(update={"seconds": 30}), target, 20e9)
    assert whole[whole.index("--time") + 1] == "30"


def test_iperf3_shorter_than_a_second_may_end_before_its_time(data: Path) -> None:
    report = json.loads((data / "iperf3-3.12-tcp-download.json").read_text())
    report["intervals"] = report["intervals"][:2]
    load = TcpLoad(name="tcp-download", seconds=0.4, start_s=0.1)
    counted = report["intervals"][1]["sum"]
    assert iperf3.parse(json.dumps(report), load).metrics["throughput"] == counted["bytes"] * 8 / counted["seconds"]
    report["intervals"] = report["intervals"][:1]
    with pytest.raises(LoadFault, match=r"reported 0\.0 s of 0\.3 s"):
        iperf3.parse(json.dumps(report), load)


@pytest.mark.parametrize(("seconds", "right"), [(0.2, True), (1, True), (3600, True), (0.1, False), (1.5, False)])
def test_tcp_has_whole_seconds_or_less_than_one(seconds: float, right: bool) -> None:
    with contextlib.nullcontext() if right else pytest.raises(ValidationError):
        TcpLoad(name="tcp-upload", seconds=seconds, start_s=0.1)


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


@pytest.mark.parametrize("scale", [1, 10, 100])
def test_ping_resolves_below_the_three_digits_of_long_times(scale: int) -> None:
    """What ping prints: 0.210 ms, 2.10 ms and 21.0 ms. Of six, two are below the median's cell of the grid, and three in it."""
    digits = {1: "{:.3f}", 10: "{:.2f}", 100: "{:.1f}"}[scale]
    times = [0.210, 0.210, 0.211, 0.211, 0.211, 0.212]
    lines = [f"64 bytes from ::1: icmp_seq={n} ttl=64 time={digits.format(t * scale)} ms" for n, t in enumerate(times, start=1)]
    text = "\n".join([*lines, "6 packets transmitted, 6 received, 0% packet loss, time 5ms"])
    reading = ping.parse(text, PingLoad(name="ping", count=6, start=0))
    assert reading.metrics["rtt"] == pytest.approx((0.2105 + 0.001 / 3) * scale * 1e-3, rel=1e-9)


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


def _context(folder: Path, target: str = "64:ff9b::c000:ab") -> ClientContext:
    to = IPv6Address(target) if ":" in target else IPv4Address(target)
    return ClientContext(to, IPv6Address("2001:2:0:1::1"), folder, serial=7)


def test_curl_takes_the_whole_fetch_and_leaves_out_the_one_that_was_cut_off(data: Path) -> None:
    text = (data / "curl-7.88.1-small.txt").read_text()
    assert not text.endswith("\n"), "the end of the time cut a line in two"
    reading = curl.parse(text, SMALL)
    totals = sorted(float(line.split()[5]) for line in text.splitlines()[:-1])
    assert reading.connections == len(totals) == 20
    assert reading.metrics["latency"] == pytest.approx((totals[9] + totals[10]) / 2)
    assert reading.metrics["rate"] == pytest.approx(20 / sum(totals))
    assert reading.received_bytes == 20 * (1024 + 249)
    assert reading.series["latency"]["y"][0] == 0.000403
    assert "lookup" not in reading.metrics and "throughput" not in reading.metrics


def test_curl_by_name_tells_the_lookup_apart(data: Path) -> None:
    reading = curl.parse((data / "curl-7.88.1-by-name.txt").read_text(), SMALL.model_copy(update={"by": "name"}))
    assert 0.0001 < reading.metrics["lookup"] < reading.metrics["latency"]


def test_curl_large_objects_have_a_rate(data: Path) -> None:
    text = (data / "curl-7.88.1-large.txt").read_text()
    reading = curl.parse(text, LARGE)
    seconds = sum(float(line.split()[5]) for line in text.splitlines())
    assert reading.metrics == {"throughput": pytest.approx(len(text.splitlines()) * 8 * 2**24 / seconds)}


def test_curl_faults(data: Path) -> None:
    with pytest.raises(LoadFault, match=r"fetch 1 failed: .*Couldn't connect to server"):
        curl.parse((data / "curl-7.88.1-refused.txt").read_text(), SMALL)
    with pytest.raises(LoadFault, match="fetch 1 failed: HTTP 404, 153 of 1024 bytes"):
        curl.parse((data / "curl-7.88.1-not-found.txt").read_text(), SMALL)
    with pytest.raises(LoadFault, match="no fetch was done in time"):
        curl.parse("", SMALL)
    with pytest.raises(LoadFault, match=r"^curl: mount: .*: permission denied$"):
        curl.parse("sh: noise\nmount: /etc/resolv.conf: permission denied\n", SMALL)
    short = (data / "curl-7.88.1-small.txt").read_text().replace("0 200 1024 249 0.000004", "0 200 1023 249 0.000004", 1)
    with pytest.raises(LoadFault, match="HTTP 200, 1023 of 1024 bytes"):
        curl.parse(short, SMALL)


def test_curl_asks_by_literal_or_by_new_names_of_this_trial_alone(tmp_path: Path) -> None:
    command = curl.client_command(SMALL, _context(tmp_path))
    assert command[-1] == "http://[64:ff9b::c000:ab]:8007/1024?[1-9999999]"
    assert "--ipv6" in command and "unshare" not in command
    named = curl.client_command(SMALL.model_copy(update={"by": "name"}), _context(tmp_path, "192.0.0.171"))
    assert named[-1] == "http://t000007n[0000001-9999999].example.test:8007/1024"
    assert named[:2] == ["unshare", "--mount"] and "--ipv4" in named
    assert (tmp_path / "resolv.conf").read_text() == "nameserver 2001:2:0:1::1\n"


def test_dnsperf_at_a_rate_gives_the_time_of_each_answer(data: Path) -> None:
    reading = dnsperf.parse((data / "dnsperf-2.10.0-cold.txt").read_text(), AT_A_RATE)
    assert reading.answers == len(reading.series["latency"]["y"]) == 300
    assert reading.series["latency"]["y"][0] == 0.000289
    assert 5e-5 < reading.metrics["latency"] < 1e-4
    assert reading.metrics["loss"] == 0 and "rate" not in reading.metrics


def test_dnsperf_without_one_gives_the_rate(data: Path) -> None:
    text = (data / "dnsperf-2.10.0-most.txt").read_text()
    reading = dnsperf.parse(text, MOST)
    assert reading.metrics == {"rate": 25368.048098, "loss": 0.0}
    lost = text.replace("completed:    3000", "completed:    2700").replace("NOERROR 3000", "NOERROR 2700")
    assert dnsperf.parse(lost, MOST).metrics["loss"] == pytest.approx(0.1)


def test_dnsperf_faults(data: Path) -> None:
    with pytest.raises(LoadFault, match=r"no answer to 0 queries \(failed to send packet: Network is unreachable\)"):
        dnsperf.parse((data / "dnsperf-2.10.0-unreachable.txt").read_text(), AT_A_RATE)
    with pytest.raises(LoadFault, match="not every answer is without error: SERVFAIL 1"):
        dnsperf.parse((data / "dnsperf-2.10.0-servfail.txt").read_text(), AT_A_RATE)
    with pytest.raises(LoadFault, match="no output"):
        dnsperf.parse("", MOST)


def test_names_are_new_in_every_trial_or_the_same_few(tmp_path: Path) -> None:
    cold = dnsperf.write_names(AT_A_RATE, _context(tmp_path)).read_text().splitlines()
    assert len(cold) == len(set(cold)) >= 300
    assert cold[0] == "t000007n0000001.example.test AAAA"
    known = AT_A_RATE.model_copy(update={"cache": "warm"})
    (warming,) = registry.load_of(known).prepare(known, _context(tmp_path))
    warm = (tmp_path / "names").read_text().splitlines()
    assert len(warm) == dnsperf.WARM_NAMES and not set(warm) & set(cold)
    assert warming[warming.index("-n") + 1] == "1"
    assert "-n" not in dnsperf.client_command(AT_A_RATE.model_copy(update={"cache": "warm"}), _context(tmp_path))


def test_the_address_is_where_the_rule_looks() -> None:
    """An answer to the longest and the shortest of the names, as RFC 1035 has it: header, question, pointer, address."""
    for name in (names.name(0, 1), names.name(999_999, names.MOST)):
        question = b"".join(bytes([len(label)]) + label.encode() for label in name.split(".")) + b"\0" + b"\0\x1c\0\1"
        address = IPv6Address("64:ff9b::c000:ab").packed
        message = bytes(12) + question + b"\xc0\x0c\0\x1c\0\1" + bytes(4) + b"\0\x10" + address
        assert (bytes(answers.UDP_HEADER) + message).index(address) == answers.AT
    answers.require_all_right(10, 10)
    with pytest.raises(LoadFault, match="1 of 10 answers hold another address"):
        answers.require_all_right(10, 9)


def test_long_series_are_thinned_evenly() -> None:
    thinned = course([0.001] * 1000)
    assert len(thinned["y"]) == len(thinned["t"]) <= MOST_POINTS
    assert thinned["t"][1] == pytest.approx(0.004)
    assert course([]) == {"t": [], "y": []}


def test_a_load_needs_its_own_tools_only() -> None:
    packets = registry.required([PingLoad(name="ping", count=10)])
    assert "curl" not in packets and "unbound" not in packets
    assert {"curl", "nginx"} <= registry.required([SMALL]).keys() and "unbound" not in registry.required([SMALL])
    assert {"curl", "unbound"} <= registry.required([SMALL.model_copy(update={"by": "name"})]).keys()
    assert {"dnsperf", "unbound", "nft"} <= registry.required([MOST]).keys()
