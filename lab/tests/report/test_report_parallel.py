# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The page of the study of parallel connections: its own tables, and the chapters of streams. The folder is SYNTHETIC."""

import csv
import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

from diolkos_lab import report, studies, summary
from diolkos_lab.report.read import Cell
from diolkos_lab.report.systems import label, look
from diolkos_lab.samples import contents, folder

SPEEDS = {
    ("native", "kernel", "ipv6"): 20e9,
    ("native", "kernel", "ipv4"): 21e9,
    ("diolkos", "nat64-tc", "ipv6"): 19e9,
    ("diolkos", "inbound-tc", "ipv4"): 18e9,
    ("tayga", "masquerade", "ipv6"): 2e9,
    ("nat44", "nftables", "ipv4"): 17e9,
}
BLOCKS = 8


def _lines() -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = [{"format": 1, "study": "nat64-parallel", "quick": True, "seed": 7, "missing": []}]
    for block in range(BLOCKS):
        for (system, datapath, family), speed in SPEEDS.items():
            rate = speed * (1 + 0.01 * math.sin(block + speed))
            fast = rate > 1e10
            roles = {
                "generator_share": 0.7 if fast else 0.1,
                "system_share": 0.0 if fast else 0.9,
                "receiver_share": 0.29,
                "rest_share": 0.02,
                "saturated": float(fast),
                "cpu_s_per_gb": 8e9 / rate,
            }
            points = {"t": [0.1, 0.2, 0.3, 0.4, 0.5], "y": [0.0, 0.0, 0.0, 0.9 * rate, 1.1 * rate]}
            tcp, udp = {"throughput": rate}, {"throughput": rate / 10, "sent_rate": rate / 8, "loss": 0.2, "socket_loss": 0.05}
            trials: list[tuple[str, dict[str, Any], dict[str, float], dict[str, Any]]] = []
            for streams in (1, 50):
                shape = {"streams": streams, "seconds": 1}
                trials.append(("tcp-upload", shape, tcp, {"series": {"throughput": points}}))
                trials.append(("udp", {**shape, "datagram": 1400, "rate": "most"}, udp, {}))
            at_knee = {"bounds": {"throughput": [rate / 10, None]}} if fast else {}
            trials.append(("udp", {"streams": 1, "seconds": 1, "datagram": 1400, "rate": "knee"}, udp, at_knee))
            busy = {"direction": "upload", "streams": 1, "seconds": 1, "interval": 0.01}
            trials.append(("ping-under-load", busy, {"rtt": 3e5 / rate, "loss": 0.0, "throughput": rate}, {}))
            for order, (load, factors, metrics, more) in enumerate(trials):
                path = {"system": system, "datapath": datapath, "family": family, "hops": 1, "replica": 1}
                judged = {"valid": True, "distrust": [], "error": None, "series": {}}
                record = {"block": block, "order": order, **path, "load": load, "factors": {"offloads": "on", **factors}}
                made.append({**record, "started": "", "duration": 1.1, **judged, "metrics": {**metrics, **roles}, **more})
    return made


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    here = tmp_path_factory.mktemp("parallel")
    (here / "study.toml").write_text(studies.shipped()["nat64-parallel"].read_text())
    (here / "host.json").write_text('{"format": 1}')
    (here / "samples.jsonl").write_text("".join(json.dumps(line) + "\n" for line in _lines()))
    summary.write(folder.whole(contents.load(here)))
    return here


@pytest.fixture
def page(made: Path, sketched: None) -> str:
    return report.write(made).read_text()


def _table(made: Path, name: str) -> list[dict[str, str]]:
    with (made / "tables" / f"{name}.csv").open() as file:
        return list(csv.DictReader(file))


def test_tables_have_the_published_form(page: str, made: Path) -> None:
    assert "TCP, IPv6 to IPv4: min / avg / max over the runs in Gbit/s" in page
    assert "UDP without a limit, IPv4 to IPv6: average sent" in page
    tcp = {(line["implementation"], line["connections"]): line for line in _table(made, "tcp-v6-v4")}
    assert {name for name, _ in tcp} == {"native IPv6", "native IPv4", "diolkos nat64-tc", "Tayga + masquerade", "NAT44"}
    tayga = tcp["Tayga + masquerade", "50"]
    runs = [2e9 * (1 + 0.01 * math.sin(block + 2e9)) for block in range(1, BLOCKS)]
    told = [float(tayga[f"{name} (bit/s)"]) for name in ("min", "avg", "max")]
    assert told == pytest.approx([min(runs), sum(runs) / len(runs), max(runs)]), "over runs, not over readings within them"
    assert tayga["runs"] == str(BLOCKS - 1)
    inbound = {line["implementation"] for line in _table(made, "tcp-v4-v6")}
    assert inbound == {"native IPv6", "native IPv4", "diolkos inbound-tc", "NAT44"}
    udp = {(line["implementation"], line["connections"]): line for line in _table(made, "udp-v6-v4")}
    assert float(udp["NAT44", "1"]["loss"]) == pytest.approx(0.2)
    assert float(udp["NAT44", "1"]["received (bit/s)"]) < float(udp["NAT44", "1"]["sent (bit/s)"])


def test_saturated_generators_are_marked(page: str, made: Path) -> None:
    roles = {(line["system"], line["load"]): line for line in _table(made, "roles") if "tcp" in line["load"]}
    for (name, _), line in roles.items():
        assert line["saturated_trials"] == ("0" if "Tayga" in name else str(BLOCKS - 1))
        assert line["trials"] == str(BLOCKS - 1)
    assert re.search(r"≥\s*19", page), "the rate is that of the generator"
    more = float(next(line for (name, _), line in roles.items() if "nat64-tc" in name)["cpu_more_than_native (s/GB)"])
    assert more == pytest.approx(8 / 19 - 8 / 20, abs=0.01)


def test_streams_have_chapters_and_no_table_mixes_loads(page: str, made: Path) -> None:
    for chapter in ("By the number of connections", "UDP", "Latency under load", "CPU of each role"):
        assert f">{chapter}<" in page
    assert "A knee is the highest rate" in page
    knees = [line for line in _table(made, "udp-throughput") if "knee" in line["load"]]
    assert [line["median (bit/s)"] for line in knees if "Tayga" not in line["system"] and line["system"] != "tayga"] == [""] * 5
    assert not (made / "tables" / "rtt.csv").exists(), "no ping by itself was made"
    assert len(_table(made, "rtt-under-load")) == len(SPEEDS)


def test_the_page_says_what_the_published_study_could_not_see(page: str) -> None:
    assert "What the published study could not see" in page and "and did not arrive" in page
    assert "latency while the path is loaded" not in page, "it was measured"


def test_no_two_paths_of_the_study_look_or_read_alike() -> None:
    study = studies.load("nat64-parallel")
    cells = [Cell(subject.system, subject.datapath, subject.family, subject.hops, alike=True) for subject in study.system]
    assert len({label(cell) for cell in cells}) == len({look(cell).name for cell in cells}) == len(cells)
