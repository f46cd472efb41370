# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The benchmark of scale: its frames, its configurations, its tables. What it measures needs root and minutes."""

import json
import sys
from pathlib import Path

import pytest
from scapy.layers.inet import UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks" / "scale"))

import testrun

import report


def test_a_frame_is_what_scapy_would_send() -> None:
    src, dst, mac = "2001:2::2", testrun.embedded("2001:2:64::/96", "198.18.0.2"), "02:00:00:00:00:01"
    assert dst == "2001:2:64::c612:2"
    frame = testrun.udp6(src, dst, 5000, 7000, mac)
    ours = Ether(dst=mac, src="00:00:00:00:00:00") / IPv6(src=src, dst=dst, hlim=64)
    assert frame == bytes(ours / UDP(sport=5000, dport=7000) / bytes(18))


def raw(tmp_path: Path, rows: list[dict[str, object]]) -> str:
    path = tmp_path / "raw.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_times_are_compared_with_what_was_measured_beside(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    memory = {"maps": 1000, "process": 5000}
    row = {
        "part": "sessions", "sessions": 100, "placement": "inline", "rounds": 1, "opened_per_s": 1234.5,
        "ns": [110.0, 220.0, 330.0, 440.0, 550.0, 660.0], "ns_of_one": [100.0, 200.0, 300.0, 400.0, 500.0, 600.0],
        "memory_empty": memory, "memory": {"maps": 15_500, "process": 11_000}, "show_sessions_s": 0.5,
    }  # fmt: skip
    assert report.main([raw(tmp_path, [row])]) == 0
    [line] = [line for line in capsys.readouterr().out.splitlines() if "inline" in line]
    assert [cell.strip() for cell in line.split("|")][1:8] == [
        "100", "inline", "1.10 (1.10–1.10)", "35 (14–56)", "1234", "145", "60",
    ]  # fmt: skip


def test_what_two_share_is_what_both_take_longer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def run(ns: int) -> dict[str, object]:
        return {"runs": 9, "mean_ns": float(ns), "quantiles_ns": [ns - 2, ns - 1, ns, ns + 1, ns + 9]}

    one = {"alone0": [run(400)], "alone1": [run(400)], "different": [run(400)] * 2, "same": [run(420)] * 2}
    assert report.main([raw(tmp_path, [{"part": "lines", "mode": "nat64", "placement": "direct", "rounds": [one] * 6}])]) == 0
    different, same = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| nat64")]
    # 32 cores: 32 / 400 ns, and 32 / (400 + 31 · 20) ns.
    assert different.endswith("| 2.50 (2.50–2.50) | 5.00 (5.00–5.00) | 20.00 (20.00–20.00) | 80.00 (80.00–80.00) |")
    assert "| 20 (20–20) |" in same and same.endswith("| 31.37 (31.37–31.37) |")
