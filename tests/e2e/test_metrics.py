# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Figures for a monitoring system: what a real Prometheus makes of them, and what hostile readers can do."""

from __future__ import annotations

import json
import re
import socket
import subprocess
from pathlib import Path

import pytest
from conftest import ROOT
from nat64 import CONFIG, V4_OTHER, Nat64Network, ask, in_ipv6
from network import WELL_KNOWN_PREFIX, Network, create_socket
from prometheus import AT, METRICS, PROMETHEUS, Prometheus, curl, scraped
from siit import TRANSLATOR4, V4, V6

DNS64 = '\n[dns64]\nlisten = ["[::1]:53"]\nupstream = ["127.0.0.1:5353"]\n'
DASHBOARD = ROOT / "packaging" / "grafana" / "diolkos.json"
# What the page of Prometheus' documentation calls a metric name.
NAME = re.compile(r"\b(?:diolkos|process)_\w+|\bup\b")


def answer_names(nat64: Nat64Network) -> None:
    """The DNS64 of the same file, once it answers who asks for its counters."""
    with (nat64.scratch / "log-dns64").open("w") as sink:
        nat64.start(nat64.translator, str(nat64.program), "dns64", "--config", str(nat64.config), stderr=sink)
    shown = (str(nat64.program), "show", "counters", "--device", "dns64")
    nat64.until(lambda: nat64.run(nat64.translator, *shown, check=False).returncode == 0)


def test_the_alerts_are_right() -> None:
    """They parse, and come when they should."""
    for what in (["check", "rules", "diolkos.rules.yml"], ["test", "rules", "diolkos.rules.test.yml"]):
        done = subprocess.run(["promtool", *what], cwd=PROMETHEUS, check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


def test_a_prometheus_understands_it_all(nat64: Nat64Network) -> None:
    """Every panel of the dashboard and every alert asks for series that are there."""
    nat64.configure(CONFIG + METRICS + DNS64)
    running = nat64.siit(command="run")
    answer_names(nat64)
    nat64.until(lambda: " ready: nat64" in running.log())
    question = nat64.socket(V6)
    answerer = nat64.socket(V4, 4711)
    ask(question, (in_ipv6(V4), 4711), answerer)
    prometheus = Prometheus(nat64, nat64.translator)
    # A rate needs two samples.
    nat64.until(lambda: prometheus.query("rate(diolkos_translated_packets_total[1m])"), patience=60)
    [target] = prometheus.get("targets", state="active")["data"]["activeTargets"]
    assert (target["health"], target["lastError"]) == ("up", "")

    dashboard = json.loads(DASHBOARD.read_text())
    panels = asked_by(dashboard)
    assert len(panels) > 20
    for title, expressions in panels.items():
        if title.startswith("Cluster: "):
            continue  # `test_cluster_metrics` has a cluster
        for expression in expressions:
            # A list of what is wrong is of series that are there, and selects among them.
            assert prometheus.query(re.sub(r" (?:>|==) 0$", "", expression)), (title, expression)
    variable = dashboard["templating"]["list"][1]["definition"]
    assert variable == "label_values(diolkos_build_info, instance)"
    assert all("instance" in series["metric"] for series in prometheus.query("diolkos_build_info"))

    [group] = prometheus.get("rules")["data"]["groups"]
    for rule in group["rules"]:
        assert rule["health"] in ("ok", "unknown") and "lastError" not in rule, rule
        names = set(NAME.findall(rule["query"]))
        assert names
        if all(name.startswith("diolkos_cluster_") for name in names):
            continue  # a gateway that is alone has no figures of a cluster
        for name in names:
            assert prometheus.query(name), (rule["name"], name)
        # Its left side, which is a figure where the alert is none.
        for side in re.split(r" and |\bunless\b(?: on \(.*?\))?", rule["query"]):
            figure = re.sub(r"(?: >| ==) [\d.]+$", "", side.strip())
            assert figure != side.strip(), side
            assert prometheus.query(figure.replace("[5m]", "[1m]")), (rule["name"], figure)


def asked_by(dashboard: dict) -> dict[str, list[str]]:
    """What the panels ask for, by title, of all translators."""
    return {
        panel["title"]: [
            target["expr"].replace("$instance", ".*").replace("$__rate_interval", "1m") for target in panel["targets"]
        ]
        for panel in dashboard["panels"]
        if panel["type"] != "row"
    }


def test_the_first_row_says_whether_all_is_well(nat64: Nat64Network) -> None:
    """Who looks at it at night sees that packets cannot pass, and where; and that they can again."""
    nat64.configure(CONFIG + METRICS)
    running = nat64.siit(command="run")
    nat64.until(lambda: " ready: nat64" in running.log())
    prometheus = Prometheus(nat64, nat64.translator)
    panels = asked_by(json.loads(DASHBOARD.read_text()))

    def figure(title: str) -> float:
        [series] = prometheus.query(panels[title][0])
        return float(series["value"][1])

    def wrong() -> set[str]:
        found = (series for expression in panels["What is wrong"] for series in prometheus.query(expression))
        return {labels.get("reason", labels.get("resource", "no answer")) for labels in (series["metric"] for series in found)}

    nat64.until(lambda: prometheus.query("diolkos_ready"), patience=60)
    assert (figure("Translators that are ready"), figure("Alarms"), wrong()) == (1, 0, set())
    assert figure("Ports left") > 0.99 and figure("Fullest resource") < 0.01

    nat64.run(nat64.translator, "ip", "link", "set", "diolkos0", "down")
    nat64.until(lambda: figure("Translators that are ready") == 0, patience=60)
    nat64.until(lambda: figure("Alarms") == 1 and wrong() == {"way"}, patience=30)
    nat64.run(nat64.translator, "ip", "link", "set", "diolkos0", "up")
    nat64.until(lambda: (figure("Translators that are ready"), figure("Alarms"), wrong()) == (1, 0, set()), patience=60)

    running.process.terminate()
    nat64.until(lambda: wrong() == {"no answer"}, patience=60)


def checked(net: Network, name: str) -> str:
    """The page as whoever asks for no format gets it, once promtool has found nothing wrong with it."""
    done = curl(net, name, "--include", f"http://{AT}/metrics")
    head, _, page = done.stdout.partition("\n\n")
    assert page
    assert "content-type: text/plain; version=0.0.4; charset=utf-8" in head and "vary: Accept" in head
    found = subprocess.run(["promtool", "check", "metrics"], input=page, check=False, capture_output=True, text=True)
    assert (found.returncode, found.stdout + found.stderr) == (0, ""), found
    return page


def test_who_asks_for_no_format_gets_what_everybody_knows(nat64: Nat64Network) -> None:
    """The older text format, which is valid, and has the samples of the other."""
    nat64.configure(CONFIG + METRICS + DNS64)
    running = nat64.siit(command="run")
    answer_names(nat64)
    nat64.until(lambda: "metrics are served" in running.log())
    ask(nat64.socket(V6), (in_ipv6(V4), 4711), nat64.socket(V4, 4711))
    page = checked(nat64, nat64.translator)
    names = {line.rpartition(" ")[0] for line in page.splitlines() if not line.startswith("#")}
    assert names == set(scraped(nat64, nat64.translator))
    assert "# TYPE diolkos_instance_info gauge" in page and "# EOF" not in page


def test_a_host_with_idle_connections_displaces_nobody_else(nat64: Nat64Network) -> None:
    """However many it opens, and however slowly another one asks."""
    at = (TRANSLATOR4, 9464)
    nat64.configure(CONFIG + f'\n[metrics]\nlisten = ["{TRANSLATOR4}:9464"]\n')
    running = nat64.siit(command="nat64")
    nat64.until(lambda: "metrics are served" in running.log())
    slow = nat64.socket(V4_OTHER, 0, socket.SOCK_STREAM)
    # Made before: who takes more than five seconds for a request is closed anyway.
    idle = [nat64.socket(V4, 0, socket.SOCK_STREAM) for _ in range(64)]
    slow.connect(at)
    slow.sendall(b"GET /metrics HTTP/1.1\r\n")
    for sock in idle:
        sock.connect(at)
    # The first ones had to go: those of the same host.
    idle[0].settimeout(10)
    assert idle[0].recv(100) == b""
    slow.settimeout(20)
    slow.sendall(b"Host: x\r\nConnection: close\r\n\r\n")
    page = b"".join(iter(lambda: slow.recv(1 << 16), b""))
    assert page.startswith(b"HTTP/1.1 200") and b"diolkos_sessions_limit" in page


@pytest.mark.parametrize("nat64", ["tun", "tc"], indirect=True)
def test_figures_are_those_that_are_shown(nat64: Nat64Network) -> None:
    """Sessions, ports and packets: what happened is what is told, by its name."""
    nat64.configure(CONFIG + METRICS)
    nat64.siit(command="nat64")
    before = scraped(nat64, nat64.translator)
    answerer = nat64.socket(V4, 4711)
    # From these ports, programs open no sessions: the tables are asked.
    for port in range(701, 704):
        ask(nat64.socket(V6, port), (in_ipv6(V4), 4711), answerer)
    wanted = {
        'diolkos_sessions{protocol="udp"}': 3,
        'diolkos_bindings{protocol="udp"}': 3,
        'diolkos_sessions{protocol="tcp"}': 0,
        "diolkos_sessions_limit": 4_000_000,
        # A /29 has 8 addresses of 64512 ports.
        "diolkos_pool_addresses": 8,
        "diolkos_sources": 1,
        'diolkos_pool_exhausted_addresses{protocol="udp"}': 0,
    }
    nat64.until(lambda: wanted.items() <= scraped(nat64, nat64.translator).items())
    after = scraped(nat64, nat64.translator)
    ports = [after[f'diolkos_pool_ports{{protocol="udp",state="{state}"}}'] for state in ("free", "lent", "bound")]
    assert (sum(ports), ports[2]) == (8 * 64512, 3)
    shown = nat64.counters()
    moved = dict.fromkeys(("4to6", "6to4"), 0.0)
    for path in ("fast", "slow"):
        for direction in moved:
            series = f'diolkos_translated_packets_total{{path="{path}",direction="{direction}"}}'
            if series in after:
                assert after[series] == shown[f"{path}.translated_{direction}"]
                moved[direction] += after[series] - before[series]
    assert moved == {"4to6": 3, "6to4": 3}
    # The first packet of each, at least, was such a question.
    assert after["diolkos_controller_packet_seconds_count"] >= 3


def is_read(nat64: Nat64Network) -> bool:
    """Whether the server has read all that its connections have brought."""
    rows = nat64.run(nat64.translator, "ss", "-Htn", "state", "established", "sport", "=", ":9464").stdout.splitlines()
    return bool(rows) and all(row.split()[0] == "0" for row in rows)


def test_a_reader_costs_little_and_locks_nobody_out(nat64: Nat64Network) -> None:
    """Who sends nonsense, keeps connections or wants to change something is refused, and others are served."""
    nat64.configure(CONFIG + METRICS)
    nat64.siit(command="nat64")
    for arguments, code in (
        (("--request", "POST"), "405"),
        (("--request", "DELETE"), "405"),
        (("--data", "x"), "405"),
        (("--header", "X: " + "x" * 20_000), "431"),
    ):
        done = curl(
            nat64, nat64.translator, "--output", "/dev/null", "--write-out", "%{http_code}", *arguments, f"http://{AT}/metrics"
        )
        assert done.stdout == code, (arguments, done)
    assert "/metrics" in curl(nat64, nat64.translator, f"http://{AT}/").stdout
    # More than are served at a time, and none of them ever ends its request.
    silent = []
    for _ in range(40):
        sock = create_socket(nat64.translator, socket.AF_INET6, socket.SOCK_STREAM)
        sock.connect(("::1", 9464))
        sock.send(b"GET /metrics HTTP/1.1\r\nX: ")
        if not silent:
            # What is closed with unread bytes is reset, and does not end.
            nat64.until(lambda: is_read(nat64))
        silent.append(sock)
        nat64.sockets.append(sock)
    assert scraped(nat64, nat64.translator)["diolkos_sessions_limit"] > 0
    # The oldest ones had to go.
    silent[0].settimeout(10)
    assert silent[0].recv(100) == b""


def test_places_follow_a_reload(nat64: Nat64Network) -> None:
    """A Unix socket in place of a port, without a restart; a port that is taken is not the end."""
    path = nat64.scratch / "metrics.sock"
    unix = CONFIG + f'\n[metrics]\nlisten = ["{path}"]\n'
    taken = create_socket(nat64.translator, socket.AF_INET6, socket.SOCK_STREAM)
    nat64.sockets.append(taken)
    taken.bind(("::1", 9464))
    taken.listen(1)
    nat64.configure(CONFIG + METRICS)
    running = nat64.siit(command="nat64")
    nat64.until(lambda: "metrics cannot be served at [::1]:9464" in running.log())
    assert nat64.reload(unix) == (0, "")
    nat64.until(path.exists)
    nat64.until(lambda: "metrics are served at" in running.log())
    page = curl(nat64, nat64.translator, "--unix-socket", str(path), "http://localhost/metrics").stdout
    assert "\ndiolkos_sessions_limit 4000000\n" in page
    assert path.stat().st_mode & 0o777 == 0o660
    assert nat64.reload(CONFIG) == (0, "")
    nat64.until(lambda: not path.exists())
    assert nat64.reload(unix) == (0, "")
    nat64.until(path.exists)
    assert running.stop() == 0
    assert not path.exists()


def test_a_clat_and_a_dns64_tell_too(net: Network, tmp_path: Path) -> None:
    """Each has the figures that it has."""
    config = tmp_path / "clat.toml"
    config.write_text(METRICS)
    net.clat("auto", "--pref64", WELL_KNOWN_PREFIX, "--config", str(config))
    net.ping("-c1")
    series = scraped(net, net.client)
    assert any(name.startswith('diolkos_instance_info{mode="clat"') for name in series)
    assert series["diolkos_ready"] == 1
    checked(net, net.client)
    assert not any(name.startswith("diolkos_sessions") for name in series)
    assert any(name.startswith("diolkos_translated_packets_total") and value for name, value in series.items())

    config.write_text(METRICS + DNS64)
    log = (tmp_path / "log").open("w")
    net.start(net.router, str(net.program), "dns64", "--config", str(config), stdout=log, stderr=log)
    net.until(lambda: curl(net, net.router, f"http://{AT}/metrics").returncode == 0)
    series = scraped(net, net.router)
    assert series['diolkos_dns64_events_total{event="query_udp"}'] == 0
    assert series['diolkos_instance_info{mode="dns64"}'] == 1
    assert series["diolkos_ready"] == 1
    checked(net, net.router)
    assert curl(net, net.router, f"http://{AT}/healthz").stdout == "healthy\n"
