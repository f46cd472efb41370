# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The traffic of one trial: started ahead of the fault, ended after it, and what it wrote down.

Stages: times → servers → clients → wait → collect (as files: `evaluate` reads them).
"""

import hashlib
import json
import random
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from diolkos_lab.experiment.failover import FaultPlan, Flows, Traffic
from diolkos_lab.failover import plan
from diolkos_lab.failover.network import Network
from diolkos_lab.failover.waiting import wait_until
from diolkos_lab.faults import InstrumentFault
from diolkos_lab.topology.process import SLOWNESS, Process, first_to_end, wait_for_text

PROGRAMS = Path(__file__).parent / "programs"
SETTLE_S = 3.0  # from the start of the programs to their first packet
PATIENCE_S = 45.0  # that a download or a program may take longer than planned
CONNECT_PATIENCE_S = 0.9
AHEAD = ("nice", "-n", "-10")  # what measures runs before what is measured, and after BFD
# Which client sends what, and to which port of the server.
SETS = {"many": (1, 5001), "fine": (2, 5002), "calls": (2, 5003)}
MEASURING = (*SETS, "connections")  # clients that come to their end whatever a gateway does
FIRST_PORTS = {"many": 10_000, "fine": 20_000, "calls": 30_000}  # of the clients
CONNECTIONS_PORT, FILES_PORT, STREAMS_PORT = 5004, 8080, 5201
CONNECTION_SOURCES = 300
FILE_NAME = "file"
# Sources of a client by use, so that no two uses share a host: what one does must not help the other.
OFFSETS = {"many": 0, "fine": 0, "calls": 200, "connections": 400, "downloads": 800, "streams": 900}


@dataclass(frozen=True)
class Times:
    """Moments of a trial, CLOCK_MONOTONIC in ns."""

    start_ns: int
    fault_ns: int
    end_ns: int


@dataclass
class Running:
    """The traffic that runs."""

    folder: Path
    times: Times
    digest: str  # SHA-256 of the file that is loaded
    servers: dict[str, Process] = field(default_factory=dict)
    clients: dict[str, Process] = field(default_factory=dict)

    def wait_for_fault(self, ahead_s: float) -> None:
        """Sleep until so many seconds before the fault. An application may break off: that is a result.

        Raises InstrumentFault when a program that measures has ended before.
        """
        measuring = {name: self.clients[name] for name in MEASURING}
        while (left_s := (self.times.fault_ns - time.monotonic_ns()) / 1e9 - ahead_s) > 0:
            if ended := first_to_end(list(measuring.values()), min(left_s, 1.0)):
                name = next(name for name, each in measuring.items() if each is ended)
                raise InstrumentFault(f"before the fault, {name} {ended.how_it_ended()}: {' '.join(ended.last_words())}")

    def finish(self) -> dict[str, Any]:
        """Wait for everything to end. What of it is no file yet: how many downloads have the right content.

        Raises InstrumentFault when a program that measures has not come to its end, or a server has ended before it.
        """
        wait_s = max(0.0, (self.times.end_ns - time.monotonic_ns()) / 1e9) + PATIENCE_S
        wait_until(lambda: all(each.exit_status is not None for each in self.clients.values()), wait_s)
        # Ends of flows write their reports when they have heard the last of them.
        wait_until(lambda: all(self.servers[name].exit_status is not None for name in SETS), PATIENCE_S)
        exits = {name: each.exit_status for name, each in self.clients.items()}
        for name in MEASURING:
            if exits[name] != 0:
                _blame(f"program of {name}", self.clients[name])
        for name, server in self.servers.items():  # ends of flows come to an end by themselves, and others never
            if server.exit_status != (0 if name in SETS else None):
                _blame(f"server of {name}", server)
        for process in (*self.clients.values(), *self.servers.values()):
            process.kill()
        downloads = [name for name in self.clients if name.startswith("download")]
        whole = sum(exits[name] == 0 and _digest(self.folder / name) == self.digest for name in downloads)
        return {"downloads": len(downloads), "downloads_whole": whole}


def _blame(name: str, process: Process) -> None:
    raise InstrumentFault(f"the {name} {process.how_it_ended()}: {' '.join(process.last_words(1))}")


def start(network: Network, folder: Path, traffic: Traffic, fault: FaultPlan, seed: int) -> Running:
    """Start both ends of everything. The first packet leaves `SETTLE_S` later."""
    folder.mkdir(parents=True, exist_ok=True)
    now_ns = time.monotonic_ns() + int(SETTLE_S * SLOWNESS * 1e9)
    fault_ns = now_ns + int(traffic.before_s * 1e9)
    times = Times(now_ns, fault_ns, fault_ns + int(fault.after_s * 1e9))
    running = Running(folder, times, _make_file(folder, traffic, fault, seed))
    for name, (client, port) in SETS.items():
        spec = folder / f"{name}.json"
        spec.write_text(json.dumps(flows_spec(name, getattr(traffic, name), client, port, times)))
        server = [*_python("flows"), "server", str(spec), str(folder / f"{name}.up"), str(folder / f"{name}-server.json")]
        _server(network, running, name, server)
        own = [*_python("flows"), "client", str(spec), str(folder / f"{name}.down"), str(folder / f"{name}-client.json")]
        _client(network, running, client, name, own)
    _connections(network, running, traffic)
    _downloads(network, running, traffic)
    _streams(network, running, traffic, fault)
    return running


def flows_spec(name: str, flows: Flows, client: int, port: int, times: Times) -> dict[str, Any]:
    """What `programs/flows.py` reads, for both ends of a set."""
    return {
        **flows.model_dump(),
        "first_source": str(plan.source6(client, OFFSETS[name])),
        "first_port": FIRST_PORTS[name],
        "server6": str(plan.SERVER6),
        "server4": str(plan.SERVER4),
        "port": port,
        "start_ns": times.start_ns,
        "end_ns": times.end_ns,
    }


def _connections(network: Network, running: Running, traffic: Traffic) -> None:
    spec = running.folder / "connections-spec.json"
    spec.write_text(
        json.dumps(
            {
                "sources": CONNECTION_SOURCES,
                "first_source": str(plan.source6(2, OFFSETS["connections"])),
                "server6": str(plan.SERVER6),
                "server4": str(plan.SERVER4),
                "port": CONNECTIONS_PORT,
                "interval_s": traffic.connection_interval_s,
                "patience_s": CONNECT_PATIENCE_S,
                "start_ns": running.times.start_ns,
                "end_ns": running.times.end_ns,
            }
        )
    )
    _server(network, running, "connections", [*_python("opener"), "server", str(spec)])
    report = str(running.folder / "connections.json")
    _client(network, running, 2, "connections", [*_python("opener"), "client", str(spec), report])


def _downloads(network: Network, running: Running, traffic: Traffic) -> None:
    served = (str(plan.SERVER4), str(FILES_PORT), str(running.folder / "www" / FILE_NAME), str(traffic.download_rate))
    files = _server(network, running, "files", [*_python("files"), *served])
    if not wait_for_text(files, "serving", PATIENCE_S):
        raise InstrumentFault(f"the server of files does not get ready: {' '.join(files.last_words())}")
    for number in range(traffic.downloads):
        name = f"download-{number}"
        url = f"http://[{plan.SERVER6}]:{FILES_PORT}/{FILE_NAME}"
        source = str(plan.source6(2, OFFSETS["downloads"] + number))
        command = ["curl", "--silent", "--show-error", "--fail", "--max-time", "600", "--interface", source]
        _client(network, running, 2, name, [*command, "--output", str(running.folder / name), url])


def _streams(network: Network, running: Running, traffic: Traffic, fault: FaultPlan) -> None:
    length_s = SETTLE_S + traffic.before_s + fault.after_s - 2
    for number in range(traffic.streams):
        port = str(STREAMS_PORT + number)
        _server(network, running, f"stream-{number}", ["iperf3", "--server", "--port", port, "--bind", str(plan.SERVER4)])
        source = str(plan.source6(2, OFFSETS["streams"] + number))
        command = ["iperf3", "--client", str(plan.SERVER6), "--port", port, "--bind", source, "--time", f"{length_s:.0f}"]
        rate = ["--bitrate", str(traffic.stream_rate), "--interval", "0.1", "--json"]
        retrying = ["sh", "-c", 'sleep 1; exec "$@"', "sh"]  # its server needs a moment
        _client(network, running, 2, f"stream-{number}", [*retrying, *command, *rate])


def _make_file(folder: Path, traffic: Traffic, fault: FaultPlan, seed: int) -> str:
    """Of a length that takes from before the fault to shortly before the end. Returns its digest."""
    www = folder / "www"
    www.mkdir(exist_ok=True)
    length = int(traffic.download_rate * (SETTLE_S + traffic.before_s + fault.after_s * 0.8))
    (www / FILE_NAME).write_bytes(random.Random(seed).randbytes(length))
    return _digest(www / FILE_NAME)


def _digest(file: Path) -> str:
    if not file.exists():
        return ""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _python(program: str) -> list[str]:
    return [*AHEAD, sys.executable, "-P", str(PROGRAMS / f"{program}.py")]


def _server(network: Network, running: Running, name: str, command: list[str]) -> Process:
    log = running.folder / f"{name}-server.log"
    process = Process(network.namespace(plan.SERVER), command, log, log)
    running.servers[name] = process
    return process


def _client(network: Network, running: Running, client: int, name: str, command: list[str]) -> None:
    where = network.namespace(plan.CLIENTS[client - 1])
    output, errors = running.folder / f"{name}-client.log", running.folder / f"{name}-client.err"
    running.clients[name] = Process(where, command, output, errors)
