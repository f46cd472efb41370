# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The servers of a lane at work: started once, asked whether they live, started again after a client broke off.

Stages: start each → listening; then alive? trial by trial; how fast is the authority by itself? → stop.
"""

import contextlib
import os
import time
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path

from diolkos_lab.experiment.loads import AnyLoad, DnsLoad
from diolkos_lab.experiment.procedures import Procedure
from diolkos_lab.faults import Fault, InstrumentFault
from diolkos_lab.load import dnsperf, servers
from diolkos_lab.load.reading import ClientContext
from diolkos_lab.run.counters import Window
from diolkos_lab.topology.lane import Lane
from diolkos_lab.topology.process import SLOWNESS, Process, first_to_end, run_to_end

START_S = 2.0 * SLOWNESS
ALONE_S = 0.3  # how long the authority is asked by itself


class LaneServers:
    """All servers in the server's namespace."""

    def __init__(self, name: str, lane: Lane, window: Window, folder: Path, cpu: int | None) -> None:
        self._name = name
        self._lane = lane
        self._window = window
        self._folder = folder
        self._cpu = cpu
        self._wanted: Sequence[servers.Server] = ()
        self._running: dict[str, Process] = {}
        self._authority_rate: float | None = None

    @property
    def processes(self) -> list[Process]:
        return list(self._running.values())

    def start(self, loads: Sequence[AnyLoad | Procedure], objects: Path, records: Sequence[IPv4Address | IPv6Address]) -> None:
        """Returns when all listen. Raises Fault when one does not."""
        at = self._lane.shape.addresses
        self._wanted = servers.wanted(loads, self._folder, objects, (at.server(6), at.server(4)), records)
        for server in self._wanted:
            self._start(server)

    def pin(self, cpu: int | None) -> None:
        """Move all servers to a CPU; None leaves them to the scheduler."""
        if cpu != self._cpu and cpu is not None:
            self._cpu = cpu
            for process in self._running.values():
                with contextlib.suppress(OSError):  # one that ended, which `check_alive` tells
                    for thread in os.listdir(f"/proc/{process.pid}/task"):
                        os.sched_setaffinity(int(thread), {cpu})

    def check_alive(self) -> None:
        """Raises InstrumentFault when a server has ended, or stands still."""
        for server in self._wanted:
            process = self._running.get(server.name)
            if process is None or process.exit_status is not None:
                how = f"{process.how_it_ended()}: {' '.join(process.last_words())}" if process else "does not run"
                raise InstrumentFault(f"the server {server.name} {how}")
            if process.is_stopped:
                raise InstrumentFault(f"the server {server.name} stands still: somebody stopped it")

    def restart(self) -> None:
        """A client that broke off can leave a server waiting for it."""
        self.stop()
        with contextlib.suppress(Fault):
            for server in self._wanted:
                self._start(server)

    def stop(self) -> None:
        for process in self._running.values():
            process.kill()
        self._running = {}

    def authority_rate(self) -> float:
        """Answers per second that the authority gives the client when nobody stands between them (RFC 8219 §9.2.1)."""
        if self._authority_rate is None:
            folder = self._folder / "alone"
            folder.mkdir(exist_ok=True)
            alone = DnsLoad(name="dns", cache="cold", seconds=ALONE_S)
            server = self._lane.shape.addresses.server(6)
            aim = ClientContext(server, server, folder, serial=0)
            dnsperf.write_names(alone, aim)
            pinned = [] if self._cpu is None else ["taskset", "--cpu-list", str(self._cpu)]
            command = [*pinned, *dnsperf.client_command(alone, aim)]
            _, text = run_to_end(self._lane.namespace("client"), command, folder / "log")
            self._authority_rate = dnsperf.parse(text, alone).metrics["rate"]
        return self._authority_rate

    def _start(self, server: servers.Server) -> None:
        log = self._folder / f"server-{server.name}"
        log.write_bytes(b"")
        process = Process(self._lane.namespace("server"), server.command, log, log, cpu=self._cpu)
        self._running[server.name] = process
        deadline = time.monotonic() + START_S
        while not self._window.is_listening(server.port):
            if process.exit_status is not None or time.monotonic() > deadline:
                words = " ".join(process.last_words())
                raise Fault(f"the {server.name} server of {self._name} did not start: {words or 'it printed nothing'}")
            first_to_end([process], 0.01)
