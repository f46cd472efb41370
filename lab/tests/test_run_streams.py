# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A whole run of UDP and of latency under load, with a double in the place of the translator; and its page."""

from pathlib import Path

import pytest

from diolkos_lab import report, run_study
from diolkos_lab.experiment.streams import SEARCHED
from diolkos_lab.sut import lookup
from observer import Silent

HERE = Path(__file__).parent
ROLES = {"generator_share", "system_share", "receiver_share", "rest_share"}


@pytest.mark.alone  # short trials of iperf3, in which another test's load is half of the time
@pytest.mark.root
@pytest.mark.usefixtures("clean_machine")
def test_streams_are_measured_at_the_receiver_and_on_the_page(tmp_path: Path) -> None:
    request = run_study.RunRequest(
        str(HERE / "study_streams.toml"), True, (), tmp_path / "r", 1, {"diolkos": str(HERE / "doubles/working")}
    )
    result, summary = run_study.run(request, Silent())
    # Where the search for the knee sends without a limit, iperf3's own control connection may break on a busy machine.
    whole = [trial for trial in result.trials if trial["factors"].get("rate") != "knee"]
    assert [trial["error"] for trial in whole if trial["error"]] == []
    assert [trial["distrust"] for trial in result.trials if trial["distrust"]] == [], "it went through the TUN device as IPv6"
    slow = [trial for trial in result.trials if trial["factors"].get("rate") == 20_000_000]
    assert len(slow) == 2 * 2
    for trial in slow:
        metrics = trial["metrics"]
        assert set(metrics) >= ROLES | {"throughput", "loss", "sent_rate", "socket_loss", "cpu_s_per_gb", "saturated"}
        assert metrics["throughput"] <= 1.2 * metrics["sent_rate"] and metrics["generator_share"] > 0
        assert trial["system"] == "diolkos" or metrics["system_share"] == 0, "native has no process of its own"
    knees = [trial for trial in result.trials if trial["factors"].get("rate") == "knee" and not trial["error"]]
    assert knees and all(1 <= trial["metrics"]["attempts"] <= 1 + SEARCHED for trial in knees)
    whole = [trial for trial in result.trials if trial["load"] == "udp-gso"]
    assert len(whole) == 2 * 2
    assert all(trial["metrics"]["throughput"] > 1e6 and 0 <= trial["metrics"]["loss"] <= 1 for trial in whole)
    loaded = [trial for trial in result.trials if trial["load"] == "ping-under-load"]
    assert len(loaded) == 2 * 2
    assert all(trial["metrics"]["rtt"] > 0 and trial["metrics"]["throughput"] > 1e6 for trial in loaded)
    rows = {(row["system"], row["load"], row["metric"]) for row in summary["rows"]}
    assert {
        ("diolkos", "udp", "throughput"),
        ("diolkos", "udp-gso", "throughput"),
        ("diolkos", "ping-under-load", "rtt"),
    } <= rows
    page = report.write(tmp_path / "r").read_text()
    for chapter in ("UDP", "Latency under load", "CPU of each role"):
        assert f">{chapter}<" in page


PLAT = """
format = 1
name = "plat"
title = "PLAT"
question = "Do datagrams come back from the address that was asked?"
topology = { pref64 = "2001:2:0:64::/96" }
system = [
    { system = "native", datapath = "kernel", family = "ipv6", loads = ["udp"] },
    { system = "tayga", datapath = "masquerade", family = "ipv6", loads = ["udp"] },
]
form.quick = { blocks = 2, load = [{ name = "udp", seconds = 1, rate = 2e7 }] }
"""


@pytest.mark.root
@pytest.mark.usefixtures("clean_machine")
@pytest.mark.skipif(lookup.tool("tayga") is None, reason="tayga is not on this host")
def test_datagrams_come_back_through_a_masquerade(tmp_path: Path) -> None:
    """The server has several addresses. A masquerade sends in the router's own name, which is on the server's link."""
    (tmp_path / "study.toml").write_text(PLAT)
    result, _ = run_study.run(run_study.RunRequest(str(tmp_path / "study.toml"), True, (), tmp_path / "r", 1), Silent())
    assert {trial["system"] for trial in result.trials} == {"native", "tayga"}
    assert [trial["error"] for trial in result.trials if trial["error"]] == []
    assert all(trial["metrics"]["loss"] < 0.5 for trial in result.trials)
