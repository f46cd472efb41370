# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A lane with its system under test and its iperf3 server: the place where trials of one subject are made.

Stages: set up → trial (alive? → before → load → after → parse → judge) → repair after a failure → tear down.
"""

import contextlib
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from diolkos_lab.experiment.cells import LaneCell, TrialCell
from diolkos_lab.experiment.definition import Guards, Topology
from diolkos_lab.faults import Fault
from diolkos_lab.load import iperf3, tools
from diolkos_lab.load.reading import LoadFault, Reading
from diolkos_lab.run import guards
from diolkos_lab.run.counters import Device, HostCounters, NetCounters, Window, cpu_time_s, difference, drops
from diolkos_lab.run.trial import Trial
from diolkos_lab.sut.definition import Datapath
from diolkos_lab.sut.lookup import Found
from diolkos_lab.sut.running import RunningSystem
from diolkos_lab.topology import addresses as plan
from diolkos_lab.topology.lane import Lane, Shape
from diolkos_lab.topology.process import Process, first_to_end

PATIENCE_S = 5.0  # beyond the time a load should take
SERVER_START_S = 2.0
SETTLE_S = 0.01  # what the trial before left in queues drains away
STARTS_BEFORE_GIVING_UP = 3
GIGABYTE = 1e9


@dataclass(frozen=True)
class Surroundings:
    """What all stations of a run share."""

    topology: Topology
    guards: Guards
    folder: Path  # scratch
    cpus: tuple[int, ...]
    softirq_threads: tuple[int, ...]

    @property
    def load_cpu(self) -> int | None:
        """The CPU for both ends of the load: the last, since the first has the most interrupts. The system is free."""
        return self.cpus[-1] if self.topology.placement == "load-on-one-cpu" else None


class Station:
    """Use as a context manager. `failure` holds the reason while the system does not work."""

    def __init__(self, cell: LaneCell, found: Found, around: Surroundings) -> None:
        datapath = found.system.datapath[cell.subject.datapath]
        shape = Shape(
            hops=cell.subject.hops,
            ipv6_only=datapath.access == "ipv6-only",
            offloads=cell.offloads == "on",
            pref64=around.topology.pref64,
            mtu=around.topology.mtu,
            plat=any(part.is_plat for part in found.system.path(cell.subject.datapath)),
        )
        self.cell = cell
        self.lane = Lane(cell.name, shape)
        self.failure: str | None = None
        self.given_up = False
        self._around = around
        self._folder = around.folder / cell.name
        self._folder.mkdir(parents=True)
        self._system = RunningSystem(found, cell.subject, self.lane, self._folder / "system")
        self._server: Process | None = None
        self._windows: dict[str, Window] = {}
        self._failed_starts = 0

    def __enter__(self) -> "Station":
        self.lane.__enter__()
        try:
            self._windows = {role: Window(self.lane.namespace(role)) for role in self.lane.roles}
            self._start_server()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._system.stop()
        if self._server:
            self._server.kill()
        for window in self._windows.values():
            window.close()
        self.lane.remove()

    @property
    def counters(self) -> dict[str, int]:
        """What the system under test counts itself."""
        return self._system.counters()

    def bring_up(self) -> None:
        """Start the system under test, or start it again. After three failures in a row it is left alone."""
        self._system.stop()
        try:
            self._system.start()
            self.failure = None
            self._failed_starts = 0
        except Fault as fault:
            self.failure = str(fault)
            self._failed_starts += 1
            self.given_up = self._failed_starts >= STARTS_BEFORE_GIVING_UP

    def measure(self, cell: TrialCell, block: int, order: int) -> Trial:
        """One trial. Every failure becomes part of the record; only a signal gets out of here."""
        time.sleep(SETTLE_S)
        started = datetime.now(UTC).isoformat(timespec="milliseconds")
        begin = time.monotonic()
        if self.failure:
            return Trial(block, order, cell, started, 0.0, error=self.failure)
        try:
            reading, distrust, cpu = self._load(cell)
        except Fault as fault:
            self.failure = str(fault)
            self._restart_server()
            return Trial(block, order, cell, started, time.monotonic() - begin, error=str(fault))
        return Trial(
            block,
            order,
            cell,
            started,
            time.monotonic() - begin,
            distrust=distrust,
            metrics={**reading.metrics, **cpu},
            series=reading.series,
        )

    def _load(self, cell: TrialCell) -> tuple[Reading, list[guards.Distrust], dict[str, float]]:
        self._system.check_alive()
        assert self._server
        if self._server.exit_status is not None:
            raise LoadFault(f"the iperf3 server {self._server.how_it_ended()}: {' '.join(self._server.last_words())}")
        output = self._folder / "client"
        output.unlink(missing_ok=True)
        net_before = self._read_windows()
        own_before = self._own_cpu_s()
        before = HostCounters.read()
        client = Process(
            self.lane.namespace("client"),
            tools.client_command(cell.load, self._system.target),
            output,
            self._folder / "client-errors",
            cpu=self._around.load_cpu,
        )
        try:
            self._wait(client, cell.load.expected_s + PATIENCE_S)
        finally:
            client.kill()
        after = HostCounters.read()
        own = self._own_cpu_s() - own_before + client.usage_s
        changes = {role: difference(now, net_before[role]) for role, now in self._read_windows().items()}
        text = output.read_text(errors="replace")
        if client.exit_status and not text.strip():
            words = " ".join(client.last_words())
            raise LoadFault(f"{client.command[0]} {client.how_it_ended()}: {words}")
        reading = tools.parse(text, cell.load)
        evidence = self._evidence(cell, reading, before, after, own, changes)
        busy_s = evidence.busy_s
        cpu = {"cpu": busy_s / (reading.received_bytes / GIGABYTE)} if reading.received_bytes else {}
        return reading, guards.judge(evidence, self._around.guards, self._around.topology), cpu

    def _wait(self, client: Process, patience_s: float) -> None:
        first = first_to_end([client, *self._system.processes], patience_s)
        if first is None:
            raise LoadFault(f"no result within {patience_s:.1f} s: nothing came through the path")
        # The load may have ended in the same moment; then the death belongs to the next trial.
        if first is not client and first_to_end([client], 0) is None:
            self._system.check_alive()

    def _evidence(
        self,
        cell: TrialCell,
        reading: Reading,
        before: HostCounters,
        after: HostCounters,
        own_s: float,
        changes: dict[str, NetCounters],
    ) -> guards.Evidence:
        links: dict[str, set[str]] = {}
        for role, device in self.lane.devices():
            links.setdefault(role, set()).add(device)
        lost = sum(drops([changes[role]], dict.fromkeys(devices)) for role, devices in links.items())
        elapsed_s = after.monotonic_s - before.monotonic_s
        return guards.Evidence(
            native=self._system.datapath.is_native,
            tuns=tuple(self._tun(program.datapath, changes) for program in self._system.programs if program.datapath.bulk),
            server_family=self._system.server_family,
            cores=len(self._around.cpus),
            expected_s=cell.load.expected_s,
            elapsed_s=elapsed_s,
            busy_s=after.busy_s - before.busy_s,
            own_s=own_s,
            steal_s=after.steal_s - before.steal_s,
            clock_jump_s=after.realtime_s - before.realtime_s - elapsed_s,
            outside_drops=lost + after.softnet_drops - before.softnet_drops,
            server=changes["server"],
            server_link=changes["server"].devices.get(plan.SERVER_LINK, Device(0, 0, 0, 0, 0, 0)),
            reading=reading,
        )

    @staticmethod
    def _tun(datapath: Datapath, changes: dict[str, NetCounters]) -> guards.Tun:
        assert datapath.bulk and datapath.tun
        return guards.Tun(datapath.bulk, changes[datapath.place].devices.get(datapath.tun))

    def _read_windows(self) -> dict[str, NetCounters]:
        return {role: window.read() for role, window in self._windows.items()}

    def _own_cpu_s(self) -> float:
        """CPU time of all that belongs to the measurement, save the client, which reports its own when it ends."""
        pids = [process.pid for process in (self._server, *self._system.processes) if process]
        return time.process_time() + sum(cpu_time_s(pid) for pid in (*pids, *self._around.softirq_threads))

    def _start_server(self) -> None:
        log = self._folder / "server"
        log.write_bytes(b"")
        self._server = Process(self.lane.namespace("server"), iperf3.SERVER_COMMAND, log, log, cpu=self._around.load_cpu)
        deadline = time.monotonic() + SERVER_START_S
        window = self._windows["server"]
        while not window.is_listening(iperf3.PORT):
            if self._server.exit_status is not None or time.monotonic() > deadline:
                words = " ".join(self._server.last_words())
                raise Fault(f"the iperf3 server of {self.cell.name} did not start: {words or 'it printed nothing'}")
            first_to_end([self._server], 0.01)

    def _restart_server(self) -> None:
        """A client that broke off can leave the server waiting for it."""
        if self._server:
            self._server.kill()
        with contextlib.suppress(Fault):
            self._start_server()
