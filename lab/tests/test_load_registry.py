# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The registry of loads is whole, and no load gives a metric that it does not declare."""

import re
from pathlib import Path
from typing import get_args

import pytest

from diolkos_lab.experiment.frames import ForwardingRateLoad
from diolkos_lab.experiment.loads import (
    AnyLoad,
    DnsLoad,
    HttpLoad,
    LoadName,
    NewFlowsLoad,
    PingLoad,
    PingUnderLoad,
    PpsLoad,
    TcpLoad,
    UdpGsoLoad,
    UdpLoad,
)
from diolkos_lab.load.interface import CpuUsage
from diolkos_lab.load.registry import LOADS, asks_names, load_of
from diolkos_lab.metric import METRICS, ROW_METRICS
from diolkos_lab.run import router

FETCH = HttpLoad(name="http", object_bytes=1024, by="literal", seconds=0.3)
CAPTURED: dict[str, AnyLoad] = {
    "iperf3-3.12-tcp-upload.json": TcpLoad(name="tcp-upload", seconds=1),
    "iperf3-3.12-tcp-download.json": TcpLoad(name="tcp-download", seconds=1),
    "iperf3-3.12-udp.json": UdpLoad(name="udp", seconds=1),
    "udp-gso.json": UdpGsoLoad(name="udp-gso", seconds=0.5),
    "ping-under-load.txt": PingUnderLoad(name="ping-under-load", seconds=1),
    "ping-20221126.txt": PingLoad(name="ping", count=12),
    "curl-7.88.1-small.txt": FETCH,
    "curl-7.88.1-by-name.txt": FETCH.model_copy(update={"by": "name"}),
    "curl-7.88.1-large.txt": FETCH.model_copy(update={"object_bytes": 1 << 24}),
    "dnsperf-2.10.0-cold.txt": DnsLoad(name="dns", cache="cold", offered=1000, seconds=0.3),
    "dnsperf-2.10.0-most.txt": DnsLoad(name="dns", cache="cold", seconds=0.2),
    "pktgen-0.1.0-measured.jsonl": PpsLoad(name="pps", seconds=1).at(1000),
    "pktgen-0.1.0-connected.jsonl": NewFlowsLoad(name="new-flows", sessions=2000),
}


def test_every_load_of_a_study_has_one_entry() -> None:
    assert set(LOADS) == set(get_args(LoadName))
    assert all(load.name == name and load.words and load.needs for name, load in LOADS.items())


def test_every_declared_metric_is_in_the_registry_of_metrics() -> None:
    for load in LOADS.values():
        assert set(load.metrics) <= set(METRICS), load.name
        assert load.metrics[0] in ROW_METRICS, f"{load.name}: the main metric has a row"


@pytest.mark.parametrize("file", CAPTURED)
def test_a_trial_has_no_metric_that_its_load_does_not_declare(data: Path, file: str) -> None:
    section = CAPTURED[file]
    load = load_of(section)
    reading = load.read((data / file).read_text(), section)
    given = {**reading.metrics, **load.costs(section, reading, CpuUsage(client=0.1, system=0.2, threads=0.3, all=1.0))}
    assert reading.metrics and set(given) <= set(load.metrics)
    assert set(reading.series) <= {name for name, metric in METRICS.items() if metric.singles} | {"throughput"}


def test_of_an_overload_neither_loss_nor_latency_is_told(data: Path) -> None:
    """Loss would say how fast the generator is, and latency how long the ring."""
    section = ForwardingRateLoad(name="forwarding-rate", seconds=1, size=128)
    load = load_of(section)
    reading = load.read((data / "pktgen-0.1.0-measured.jsonl").read_text(), section)
    given = {**reading.metrics, **load.costs(section, reading, CpuUsage(client=0.1, system=0.2, threads=0.3, all=1.0))}
    assert set(given) == set(load.metrics) and {"rate", "received"} <= set(given)
    assert section.frame(6) - section.frame(4) == 20, "the same packet in the shorter family"


def test_who_needs_a_resolver() -> None:
    assert asks_names(DnsLoad(name="dns", cache="warm", seconds=1)) and asks_names(FETCH.model_copy(update={"by": "name"}))
    assert not asks_names(FETCH) and not asks_names(PingLoad(name="ping", count=10))


def test_the_main_metric_follows_the_factors() -> None:
    assert LOADS["http"].main({"object": 1 << 24}) == "throughput" and LOADS["http"].main({"object": 10}) == "latency"
    assert LOADS["dns"].main({"offered": "most"}) == "rate" and LOADS["dns"].main({"offered": 200}) == "latency"
    mains = {name: load.main({}) for name, load in LOADS.items() if name not in ("http", "dns")}
    assert mains == {
        **{
            "tcp-upload": "throughput",
            "tcp-download": "throughput",
            "udp": "throughput",
            "udp-gso": "throughput",
            "ping": "rtt",
            "ping-under-load": "rtt",
            "capacity": "capacity",
            "latency": "latency",
        },
        **dict.fromkeys(("pps", "forwarding-rate", "new-flows", "connections", "mlrsearch", "rfc8219"), "rate"),
    }


def test_the_page_of_two_hosts_names_every_load_on_its_side() -> None:
    lines = (Path(__file__).parents[1] / "docs/two-hosts.md").read_text().splitlines()
    allowed, left_out = (
        next(set(re.findall(r"`([a-z0-9-]+)`", line)) for line in lines if line.startswith(start))
        for start in ("* Loads over two hosts: ", "* Left out over two hosts, ")
    )
    assert allowed & set(get_args(LoadName)) == set(get_args(LoadName)) - set(router.BOTH_WAYS)
    assert left_out & set(get_args(LoadName)) == set(router.BOTH_WAYS)
