# SPDX-License-Identifier: Apache-2.0 OR MIT
"""UDP at a rate, ping beside TCP, and who was charged for the CPU time: on captured output."""

import json
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path

import pytest

from diolkos_lab.experiment import document
from diolkos_lab.experiment.definition import Study
from diolkos_lab.experiment.loads import PingUnderLoad, TcpLoad, UdpGsoLoad, UdpLoad
from diolkos_lab.faults import UsageFault
from diolkos_lab.load import cpu_shares, iperf3, iperf3_udp, ping_under_load, udp_gso
from diolkos_lab.load.interface import CpuUsage, per_gigabyte
from diolkos_lab.load.reading import ClientContext, LoadFault, Reading

UDP = UdpLoad(name="udp", seconds=1, rate=1e8, streams=2)
LOADED = PingUnderLoad(name="ping-under-load", seconds=1, interval_s=0.01)
SERVER = IPv6Address("64:ff9b::c000:ab")
SMALL = Path(__file__).parent / "study_small.toml"


def _option(command: list[str], name: str) -> str:
    return command[command.index(name) + 1]


def test_udp_takes_what_the_receiver_got_after_the_start(data: Path) -> None:
    report = json.loads((data / "iperf3-3.12-udp.json").read_text())
    server = [entry["sum"] for entry in report["server_output_json"]["intervals"]]
    for entry in server[:3]:
        entry.update(bytes=0, lost_packets=entry["packets"])  # a start that loses all
    for entry in server[3:]:
        entry["lost_packets"] = entry["packets"] // 4
        entry["bytes"] = (entry["packets"] - entry["lost_packets"]) * 1400
    reading = iperf3_udp.parse(json.dumps(report), UDP)
    packets, lost = (sum(entry[name] for entry in server[3:]) for name in ("packets", "lost_packets"))
    assert reading.metrics["loss"] == pytest.approx(lost / packets)
    seconds = sum(entry["seconds"] for entry in server[3:])
    assert reading.metrics["throughput"] == pytest.approx((packets - lost) * 1400 * 8 / seconds)
    assert reading.metrics["sent_rate"] == pytest.approx(1e8, rel=0.05), "the sender's rate is another figure"
    assert reading.packets == 8928
    assert reading.received_bytes == sum(entry["bytes"] for entry in server)


def test_udp_faults(data: Path) -> None:
    report = json.loads((data / "iperf3-3.12-udp.json").read_text())
    for entry in report["server_output_json"]["intervals"]:
        entry["sum"]["bytes"] = 0
    with pytest.raises(LoadFault, match="no datagram arrived"):
        iperf3_udp.parse(json.dumps(report), UDP)
    for entry in report["server_output_json"]["intervals"]:
        del entry["sum"]["lost_packets"]
    with pytest.raises(LoadFault, match="does not report 'lost_packets'"):
        iperf3_udp.parse(json.dumps(report), UDP)
    del report["server_output_json"]
    with pytest.raises(LoadFault, match=r"the receiver reported 0\.0 s of 0\.7 s"):
        iperf3_udp.parse(json.dumps(report), UDP)
    with pytest.raises(LoadFault, match="unable to connect to server"):
        iperf3_udp.parse((data / "iperf3-3.12-refused.json").read_text(), UDP)
    with pytest.raises(LoadFault, match="gave no report"):
        iperf3_udp.parse("[]", UDP)


def test_udp_streams_share_the_rate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = tmp_path / "rmem", tmp_path / "wmem"
    for file, limit in zip(limits, ("212992", "4194304"), strict=True):
        file.write_text(f"{limit}\n")
    monkeypatch.setattr(iperf3_udp, "LIMITS", limits)
    command = iperf3_udp.client_command(UDP, SERVER)
    assert _option(command, "--bitrate") == "50000000" and _option(command, "--length") == "1400"
    assert _option(command, "--window") == "212992", "more than the host allows would be refused"
    assert _option(iperf3_udp.client_command(UDP.at(None), SERVER), "--bitrate") == "0", "without a limit"


def test_datagrams_that_stop_coming_are_no_throughput() -> None:
    """The receiver reports intervals up to the last datagram. A path that is silent for four fifths of a trial has a fifth."""
    load = UdpGsoLoad(name="udp-gso", seconds=5, start_s=0)
    amounts = [1_200_000] * 10
    received = {"bytes": sum(amounts), "reads": 10, "t": [round(0.1 * (n + 1), 1) for n in range(10)], "y": amounts}
    report = {"sent": 50_000, "calls": 1000, "seconds": 5.0, "refused": 0, "received": received}
    reading = udp_gso.parse(json.dumps(report), load)
    assert reading.metrics["throughput"] == pytest.approx(8 * sum(amounts) / 5, rel=0.05)


def test_ping_under_load_has_both_results(data: Path) -> None:
    reading = ping_under_load.parse((data / "ping-under-load.txt").read_text(), LOADED)
    assert 5e-6 < reading.metrics["rtt"] < 1e-4
    assert reading.metrics["throughput"] > 1e9 and reading.received_bytes > 0
    assert reading.metrics["loss"] == 0, "echoes that were never sent are not lost"
    assert set(reading.series) == {"rtt", "throughput"}


def test_ping_under_load_counts_what_is_missing_before_the_last_echo(data: Path) -> None:
    text = (data / "ping-under-load.txt").read_text()
    lost = "\n".join(line for line in text.splitlines() if "icmp_seq=5 " not in line and "icmp_seq=12 " not in line)
    assert ping_under_load.parse(lost, LOADED).metrics["loss"] == pytest.approx(1 / 11)


def test_ping_under_load_faults(data: Path) -> None:
    streams = (data / "iperf3-3.12-tcp-upload.json").read_text()
    with pytest.raises(LoadFault, match="ping: no output"):
        ping_under_load.parse(f"{streams}\n--- echoes\n", LOADED)
    with pytest.raises(LoadFault, match="Network is unreachable"):
        ping_under_load.parse(f"{streams}\n--- echoes\nping: connect: Network is unreachable\n", LOADED)
    refused = (data / "iperf3-3.12-refused.json").read_text()
    with pytest.raises(LoadFault, match="unable to connect"):
        ping_under_load.parse(f"{refused}\n--- echoes\n", LOADED)
    with pytest.raises(LoadFault, match="ping beside iperf3: no output"):
        ping_under_load.parse("", LOADED)


def test_echoes_are_asked_with_the_identifier_that_a_binding_lets_through(tmp_path: Path) -> None:
    context = ClientContext(IPv4Address("198.18.64.1"), SERVER, tmp_path, serial=1, echo_identifier=5201)
    command = ping_under_load.client_command(LOADED, context)
    assert _option(command, "-e") == "5201"
    assert command.index("ping") < command.index("--") < command.index("iperf3")


@pytest.mark.parametrize(
    ("load", "message"),
    [
        ('name = "udp"\nseconds = 1\ndatagram_bytes = 1453', "1453 does not fit the MTU of 1500 as IPv6; write 1452 or less"),
        ('name = "udp"\nseconds = 1\nstart_s = 0.6', "start_s may cut off at most half of the trial"),
        ('name = "udp"\nseconds = 1\nrate = "fast"', "rate"),
        ('name = "udp"\nseconds = 1\nrate = 10.0', "rate"),
        ('name = "ping-under-load"\nseconds = 1\ninterval_s = 0.5', "0.5 leaves no time for two echoes in 0.6 s"),
        ('name = "ping-under-load"\nseconds = 1\ndirection = "up"', "direction"),
    ],
)
def test_a_load_that_cannot_be_is_refused_with_its_place(load: str, message: str) -> None:
    text = SMALL.read_text() + f"\n[[form.quick.load]]\n{load}\n"
    with pytest.raises(UsageFault, match=r"^s\.toml:\d+:\d+: ") as fault:
        document.parse(text, Path("s.toml"), Study)
    assert message in str(fault.value)


def test_any_study_may_have_them() -> None:
    text = SMALL.read_text() + '\n[[form.quick.load]]\nname = "udp"\nseconds = 1\ndatagram_bytes = 1452\n'
    study = document.parse(text, Path("s.toml"), Study)
    load = study.form["quick"].load[-1]
    assert all(subject.gets(load) for subject in study.system)


def test_each_end_is_charged_for_what_it_used() -> None:
    used = CpuUsage(client=0.6, system=0.5, threads=0.0, all=1.9, path=1.8, server=0.3)
    up = cpu_shares.shares(used, Reading({}), "client")
    assert up == pytest.approx(
        {"generator_share": 0.6, "system_share": 0.5, "receiver_share": 0.3, "rest_share": 0.4, "saturated": 0.0}
    )
    down = cpu_shares.shares(used, Reading({}), "server")
    assert (down["generator_share"], down["receiver_share"]) == (0.3, 0.6), "in a download the server sends"


@pytest.mark.parametrize(
    ("client", "server", "together", "saturated"),
    [(0.98, 0.1, False, 1.0), (0.96, 0.5, False, 0.0), (0.6, 0.38, True, 1.0), (0.6, 0.3, True, 0.0)],
)
def test_a_generator_without_cpu_to_spare_is_marked(client: float, server: float, together: bool, saturated: float) -> None:
    used = CpuUsage(client=client, system=0.0, threads=0.0, all=2.0, server=server, ends_share_cpu=together)
    assert cpu_shares.shares(used, Reading({}), "client")["saturated"] == saturated


# Trials of 0.4 s that the lab made on a busy host: CPU seconds of client, system and server, seconds of the whole trial, and
# seconds for which iperf3 says that it sent.
RECORDED = (
    (0.074, 0.0, 0.031, 0.577, 0.483),
    (0.035, 0.0, 0.066, 0.627, 0.547),
    (0.032, 0.107, 0.017, 0.934, 0.797),
    (0.019, 0.058, 0.009, 0.477, 0.363),
)


@pytest.mark.parametrize("trial", RECORDED)
def test_shares_are_of_the_time_that_a_trial_took(trial: tuple[float, ...]) -> None:
    client, system, server, elapsed_s, sent_s = trial
    used = CpuUsage(client, system, 0.0, all=2 * elapsed_s, path=client + system + server, elapsed=elapsed_s, server=server)
    found = cpu_shares.shares(used, Reading({}, seconds=sent_s), "client")
    assert found["generator_share"] == pytest.approx(client / elapsed_s)
    assert found["system_share"] == pytest.approx(system / elapsed_s)


def test_two_ends_that_share_a_cpu_use_no_more_than_it_has() -> None:
    """CPU times of tun uploads, medians of a run whose trials were planned for 0.4 s: over these, the ends would have used 1.6
    of their CPU. They ended by their bytes."""
    used = CpuUsage(
        client=0.364, system=0.504, threads=0.0, all=1.18, path=1.15, elapsed=0.71, server=0.276, ends_share_cpu=True
    )
    took = cpu_shares.shares(used, Reading({}, seconds=0.68), "client")
    assert took["generator_share"] + took["receiver_share"] == pytest.approx(0.64 / 0.71)
    assert took["saturated"] == 0.0, "the ends waited for the system"
    assert cpu_shares.shares(used, Reading({}, seconds=0.65), "client")["saturated"] == 1.0


def test_a_box_that_tells_no_cpu_time_has_no_cost() -> None:
    reading = Reading({"throughput": 1e9}, received_bytes=10**9)
    assert per_gigabyte(reading, CpuUsage(0.1, 0.0, 0.0, all=2.0, path=1.5)) == {"cpu_s_per_gb": 1.5}
    assert per_gigabyte(reading, CpuUsage(0.1, 0.0, 0.0, all=2.0, path=None)) == {}


def test_what_iperf3_says_of_the_length_is_read(data: Path) -> None:
    text = (data / "iperf3-3.12-tcp-upload.json").read_text()
    reading = iperf3.parse(text, TcpLoad(name="tcp-upload", seconds=1))
    assert reading.seconds == json.loads(text)["end"]["sum_sent"]["seconds"] > 0
