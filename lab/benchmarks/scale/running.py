# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What it costs to run: the time from start to ready, the CPU time of a scrape of the metrics, and of a logged block of ports.

CPU time is that of all threads of the process, as the scheduler counts it. It moves less than packets a second do when the
machine is busy. The same work without scrapes, and without a log, is done in turn and subtracted.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from network import LONGEST_S, PREF64, Daemon, Network, Report, network_section, pktgen, program, run, say
from sessions import SERVER, SERVER6, fill
from sessions import config as many_sessions

SCRAPES = 10
# Figures are made four times a second at most.
PAUSE_S = 0.3
SESSIONS = 100_000
BLOCK = 64  # ports
LOGS = ("file", "syslog", "ipfix")
RATE = "5k"  # blocks a second; 100 000 a minute are 1667
LOG_THREAD = "log "
NODES = "2001:2:0:1::/104"
PORT = 5514
# Reads what is sent to it, until it is ended.
SINK = f"""
import socket
sink = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sink.bind(("127.0.0.1", {PORT}))
print("listening", flush=True)
while True:
    sink.recv(65536)
"""


def starts(datapath: str, repeat: int) -> Report:
    """From the start of a CLAT with a known prefix until it reports READY=1 (`sd_notify`), in ms."""
    found: Report = {"part": "starts", "datapath": datapath, "ms": []}
    with Network() as network:
        run("ip", "netns", "exec", network.clients, "sysctl", "-qw", "net.ipv6.conf.c0.dad_transmits=1")
        for _ in range(repeat):
            found["ms"].append(_start(network, datapath))
    return found


def _start(network: Network, datapath: str) -> float:
    path = network.folder / "notify"
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ready, (network.folder / "log").open("w") as log:
        ready.bind(str(path))
        ready.settimeout(LONGEST_S)
        clat = (str(program()), "clat", "--uplink", "c0", "--pref64", PREF64, "--datapath", datapath)
        command = ["nsenter", f"--net=/run/netns/{network.clients}", *clat]
        begun = time.monotonic()
        process = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, "NOTIFY_SOCKET": str(path)})
        try:
            while b"READY=1" not in ready.recv(4096):
                pass
            took = time.monotonic() - begun
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(LONGEST_S)
    return 1e3 * took


def cpu_s(daemon: Daemon, thread: str = "") -> float:
    """CPU time so far of all its threads, or of those whose name begins so."""
    total = 0
    for task in (Path("/proc") / str(daemon.process.pid) / "task").iterdir():
        if (task / "comm").read_text().startswith(thread):
            total += int((task / "schedstat").read_text().split()[0])
    return total / 1e9


def scrapes(placement: str, repeat: int, rate: str) -> Report:
    """CPU time of a scrape by a NAT64 with many sessions, in ms."""
    found: Report = {"part": "scrapes", "placement": placement, "sessions": SESSIONS, "ms": []}
    with Network() as network:
        path = network.folder / "metrics"
        metrics = f'[metrics]\nlisten = ["{path}"]\n'
        with Daemon(network, many_sessions(network, placement, 4 * SESSIONS) + metrics) as daemon:
            fill(network, SESSIONS, rate)
            for _ in range(repeat):
                before, begun = cpu_s(daemon), time.monotonic()
                for _ in range(SCRAPES):
                    found["bytes"] = scrape(path)
                    time.sleep(PAUSE_S)
                between, length = cpu_s(daemon), time.monotonic() - begun
                time.sleep(length)
                idle = cpu_s(daemon) - between
                found["ms"].append(1e3 * (between - before - idle) / SCRAPES)
    return found


def scrape(path: Path) -> int:
    """Read all figures once; how many bytes that is."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asked:
        asked.connect(str(path))
        asked.sendall(b"GET /metrics HTTP/1.1\r\nHost: figures\r\nConnection: close\r\n\r\n")
        answer = b"".join(iter(lambda: asked.recv(1 << 16), b""))
    if not answer.startswith(b"HTTP/1.1 200"):
        raise SystemExit(f"no figures: {answer[:200]!r}")
    return len(answer)


def logs(to: str, placement: str, repeat: int, sessions: int) -> Report:
    """CPU time of a logged block in µs, and of its thread alone: two NAT64s open blocks in turn, and one tells of them."""
    found: Report = {"part": "logs", "to": to, "placement": placement, "us": [], "us_silent": [], "us_thread": []}
    with Network() as network, Network() as silent, _sink(network):
        daemons = Daemon(network, blocks(network, placement, to)), Daemon(silent, blocks(silent, placement, None))
        with daemons[0], daemons[1]:
            for number in range(repeat):
                for daemon, name in zip(daemons, ("us", "us_silent"), strict=True):
                    before, written = cpu_s(daemon), cpu_s(daemon, LOG_THREAD)
                    opened = _open(daemon, sessions, number * sessions)
                    found[name].append(1e6 * (cpu_s(daemon) - before) / opened)
                    if name == "us":
                        found["us_thread"].append(1e6 * (cpu_s(daemon, LOG_THREAD) - written) / opened)
            found["counters"] = {key: n for key, n in daemons[0].counters().items() if key.startswith("log")}
    return found


def blocks(network: Network, placement: str, to: str | None) -> str:
    """A NAT64 that gives ports in blocks."""
    shares = "\n".join(f"{key} = 100" for key in ("host_share", "source_share", "site_share"))
    mode = f'[translator]\nmode = "nat64"\n{network_section(placement, network)}'
    where = f'path = "{network.folder}/bindings"' if to == "file" else f'address = "127.0.0.1:{PORT}"'
    log = f'[[log.bindings]]\nto = "{to}"\n{where}\n' if to else ""
    nodes = "source_prefix_len = 128\nsite_prefix_lens = []"
    return f'{mode}\n[nat64]\n{shares}\n{nodes}\nports_per_block = {BLOCK}\n[[nat64.pool4]]\naddress = "198.19.0.0/18"\n{log}'


def _open(daemon: Daemon, sessions: int, seed: int) -> int:
    """Open a block for each of so many nodes; how many were opened."""
    near, far = daemon.network.ends()
    before = daemon.counters().get("state.bindings", 0)
    back = ["--back-src", SERVER, "--back-dst", "198.19.0.1"]
    looks = ["--src", NODES, "--dst", SERVER6, "--sport", "1024-65535", "--dport", "7000-7000", "--cpu", "0"]
    amount = ["--sessions", str(sessions), "--rate", RATE, "--seed", str(seed), "--settle", "0.3"]
    pktgen("connect", "--from", near, "--to", far, *looks, *back, *amount)
    time.sleep(1)
    opened = daemon.counters().get("state.bindings", 0) - before
    say(f"{opened} blocks were opened")
    if opened < sessions / 2:
        raise SystemExit(f"of {sessions} blocks only {opened} were opened: {daemon.counters()}")
    return opened


@contextmanager
def _sink(network: Network) -> Iterator[None]:
    """A collector in the router that reads and forgets."""
    command = ["nsenter", f"--net=/run/netns/{network.router}", sys.executable, "-c", SINK]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        process.stdout.readline()
        try:
            yield
        finally:
            process.kill()
