# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A testbed: a lane with its system under test and its servers, where trials of one subject are measured.

Stages: set up → trial (alive? → prepare → before → load → after → parse → judge) → repair after a failure → tear down.
"""

import contextlib
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from ipaddress import IPv6Address
from typing import Any

from diolkos_lab.experiment.cells import LaneCell, TrialCell
from diolkos_lab.experiment.definition import Family
from diolkos_lab.experiment.frames import Traffic
from diolkos_lab.experiment.loads import AnyLoad, PpsLoad
from diolkos_lab.experiment.procedures import Procedure
from diolkos_lab.faults import Fault, InstrumentFault
from diolkos_lab.load import registry
from diolkos_lab.load.answers import RightAnswers, require_all_right
from diolkos_lab.load.interface import CpuUsage, Load
from diolkos_lab.load.reading import ClientContext, LoadFault, PacketEndpoints, Reading
from diolkos_lab.metric import MetricName
from diolkos_lab.run import endpoints, evidence, guards, searches, session_rate
from diolkos_lab.run.conntrack import empty_conntrack
from diolkos_lab.run.counters import NetCounters, Window, difference
from diolkos_lab.run.cpu_account import Watch
from diolkos_lab.run.environment import RunEnvironment
from diolkos_lab.run.lane_servers import LaneServers
from diolkos_lab.run.placement import CpuPinning
from diolkos_lab.run.remote_host import RemoteCpuPinning, RemoteHost, RemoteWatch, window_of
from diolkos_lab.run.trial import Trial
from diolkos_lab.sut.lookup import Found, program
from diolkos_lab.sut.running import RunningSystem
from diolkos_lab.topology import addresses as plan
from diolkos_lab.topology import control_group
from diolkos_lab.topology.control_group import Group, Role, entered
from diolkos_lab.topology.lane import Lane, Shape
from diolkos_lab.topology.process import SLOWNESS, Process, first_to_end, first_to_end_and_stopped_s, run_to_end
from diolkos_lab.topology.processes import cpu_time_s
from diolkos_lab.topology.remote.process import SplitGroup
from diolkos_lab.topology.scheduling import prioritize

PATIENCE_S = 5.0 * SLOWNESS  # beyond the time a load should take
PREPARING_S = 60.0 * SLOWNESS  # a million sessions are opened within it
SETTLE_S = 0.01  # what the trial before left in queues drains away
STARTS_BEFORE_GIVING_UP = 3
SIGNALLED = 128  # a shell adds the number of the signal that killed what it ran
SOCKET_DROPS = "UdpRcvbufErrors", "Udp6RcvbufErrors"


class Testbed:
    """Use as a context manager. `failure` holds the reason while the system does not work."""

    def __init__(
        self,
        cell: LaneCell,
        found: Found,
        environment: RunEnvironment,
        loads: Sequence[AnyLoad | Procedure],
        resolver: Found | None,
    ) -> None:
        """`loads` are all that this testbed has to measure; `resolver` serves names where one of them needs it."""
        datapath = found.system.datapath[cell.subject.datapath]
        parts = found.system.path(cell.subject.datapath)
        lacks = {each for part in parts for each in part.without}
        shape = Shape(
            hops=cell.subject.hops,
            ipv6_only=datapath.access == "ipv6-only",
            offloads=cell.offloads == "on" and "super-packets" not in lacks,
            checksums="unfinished-checksums" not in lacks,
            pref64=environment.topology.pref64,
            mtu=environment.topology.mtu,
            inbound=datapath.is_inbound,
            plat=any(part.is_plat for part in parts),
            neighbours=any(isinstance(load, Traffic) and load.next_hops > 1 for load in loads),
            addresses=plan.PLANS[environment.topology.shape],
        )
        self.cell = cell
        self.lane = Lane(cell.name, shape, environment.nic_links)
        self.failure: str | None = None
        self.given_up = False
        self._environment = environment
        self._folder = environment.folder / cell.name
        self._folder.mkdir(parents=True)
        self._system = RunningSystem(found, cell.subject, self.lane, self._folder / "system", resolver, dict(cell.levels))
        self._loads = loads
        self._servers: LaneServers | None = None
        self._answers: RightAnswers | None = None
        self._windows: dict[str, Window] = {}
        self._groups: dict[Role, Group] = {}
        self._remote = RemoteHost(remote) if (remote := environment.nic_links and environment.nic_links.remote) else None
        self._pinning = (
            RemoteCpuPinning(environment.cpus)
            if environment.nic_links
            else CpuPinning(self.lane, environment.cpus, self._folder)
        )
        self._failed_starts = 0
        self._serial = 0

    def __enter__(self) -> "Testbed":
        self.lane.__enter__()
        try:
            for role in control_group.ROLES:
                self._groups[role] = control_group.make(self.cell.name, role)
            if self._remote:
                self._groups["system"] = SplitGroup(self._groups["system"], one_kernel=not self._remote.has_own_cpus)
            self._windows = {role: window_of(self.lane.at(role), self.lane.namespace(role)) for role in self.lane.roles}
            self._servers = LaneServers(
                self.cell.name, self.lane, self._windows["server"], self._folder, self._environment.load_cpu
            )
            with entered(self._groups["server"]):
                self._servers.start(self._loads, self._environment.objects, self._system.records)
            if any(registry.LOADS[load.name].counted_by == "authority" for load in self._loads):
                self._answers = self._watch_answers()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._system.stop()
        if self._servers:
            self._servers.stop()
        for window in self._windows.values():
            window.close()
        for group in self._groups.values():
            group.remove()
        self.lane.remove()

    @property
    def counters(self) -> dict[str, int]:
        """What the system under test counts itself."""
        return self._system.counters()

    @property
    def has_both_families(self) -> bool:
        """IPv6 and IPv4 reach the first device of its path."""
        return self._system.datapath.access == "dual-stack"

    def generator_rate(self, load: PpsLoad, family: Family) -> float | None:
        """Packets/s that the sink counts right behind the generator's device; None where that cannot be found out."""
        if self._environment.nic_links:  # the sink cannot stand behind them
            return None
        target = self.lane.shape.addresses.server(endpoints.version(family))
        context = ClientContext(target, self._system.resolver, self._folder, 0, endpoints.generator_to_sink(self.lane, family))
        most = load.model_copy(update={"offered": None, "directions": "one", "native_share": 0.0})
        try:
            chosen = self._pinning.apply(load.placement, ())
            generator = registry.load_of(most)
            command = generator.command(most, context)
            pinned = [] if chosen.generator is None else ["taskset", "--cpu-list", str(chosen.generator)]
            _, text = run_to_end(self.lane.namespace("client"), [*pinned, *command], self._folder / "alone")
            # Those of two directions have one CPU between them.
            return generator.read(text, most).metrics["rate"] / (2 if load.directions == "both" else 1)
        except (Fault, OSError):
            return None

    def bring_up(self) -> None:
        """Start the system under test, or start it again. After three failures in a row it is left alone."""
        self._system.stop()
        self._groups["system"].kill()  # what outlived it, such as a daemon that left its parent
        try:
            self.lane.wake()
            with entered(self._groups["system"]):
                self._system.start()
            self.failure = None
            self._failed_starts = 0
        except Fault as fault:
            self.failure = str(fault)
            self._failed_starts += 1
            self.given_up = self._failed_starts >= STARTS_BEFORE_GIVING_UP

    def measure(self, cell: TrialCell, block: int, order: int) -> Trial:
        """One trial. Every failure becomes part of the record, as the system's or as an instrument's; only a signal gets out
        of here."""
        time.sleep(SETTLE_S)
        self._environment.idle_wait.wait()
        started = datetime.now(UTC).isoformat(timespec="milliseconds")
        begin = time.monotonic()
        if self._system.datapath.is_native:
            self.failure = None  # no program of it could have ended: it is asked anew
        if self.failure:
            return Trial(block, order, cell, started, 0.0, error=self.failure)

        def attempt(load: AnyLoad) -> session_rate.Measured:
            return self._load(TrialCell(cell.lane, load))

        try:
            if self.lane.wake():
                self._system.wait_until_reachable()
            if self._environment.topology.empty_conntrack:
                empty_conntrack(self.lane)
            search = searches.search_for(cell.load)
            reading, objections, costs = search(cell.load, self._system.sessions, attempt) if search else self._load(cell)
        except session_rate.SessionsLost as lost:
            return Trial(block, order, cell, started, time.monotonic() - begin, error=str(lost))
        except (Fault, OSError) as fault:  # a command that takes too long is a TimeoutError
            ours = self._instrument_failure(fault)
            assert self._servers
            with entered(self._groups["server"]):
                self._servers.restart()
            if ours:
                return Trial.without_instrument(cell, block, order, ours, started, time.monotonic() - begin)
            self.failure = str(fault)
            return Trial(block, order, cell, started, time.monotonic() - begin, error=str(fault))
        return Trial(
            block,
            order,
            cell,
            started,
            time.monotonic() - begin,
            objections=objections,
            metrics={**reading.metrics, **costs},
            series=reading.series,
            bounds=reading.bounds,
        )

    def _instrument_failure(self, fault: Fault | OSError) -> str | None:
        """How an instrument failed, where there is evidence that one did; None where the path has to answer for the fault.

        Evidence: it says so itself, the kernel refused the lab something, or a server of the lane has ended or stands still.
        A system that has ended has failed, whatever became of the instruments then.
        """
        try:
            self._system.check_alive()
            assert self._servers
            self._servers.check_alive()
        except InstrumentFault as found:
            return str(found)
        except Fault:
            return None
        return str(fault) if isinstance(fault, InstrumentFault | OSError) else None

    def _load(self, cell: TrialCell) -> tuple[Reading, list[guards.Objection], dict[MetricName, float]]:
        assert self._servers
        self._system.check_alive()
        self._servers.check_alive()
        self._serial += 1
        load = registry.load_of(cell.load)
        load_cpu, cpus = self._pin(cell.load)
        server_cpu = self._environment.cpus[0] if load.apart and load_cpu is not None else self._environment.load_cpu
        self._servers.pin(server_cpu)
        context = self._context(cell, endpoints.through_system(self.lane, self._system, self.cell.subject.family, cpus))
        self._prepare(cell.load, context)
        output = self._folder / "client"
        output.unlink(missing_ok=True)
        right_before = self._answers.count() if self._answers else 0
        threads_before = self._threads_cpu_s()
        router = RemoteWatch(self._remote, self._groups["system"])
        net_before = self._read_windows()
        watch = Watch(self._groups)
        with entered(self._groups["client"]):
            client = Process(
                self.lane.namespace("client"),
                load.command(cell.load, context),
                output,
                self._folder / "client-errors",
                cpu=load_cpu,
            )
        try:
            with contextlib.suppress(OSError):  # it has ended already, and will say why
                if load.counted_by == "sink":
                    prioritize(client.pid)
            still_s = self._wait(client, load.allowed_s(cell.load) + PATIENCE_S)
        finally:
            client.kill()
        # Some clients bring a figure although their server ended meanwhile.
        self._servers.check_alive()
        watch.end()
        router.end()
        changes = {role: difference(now, net_before[role]) for role, now in self._read_windows().items()}
        used = CpuUsage(
            client=watch.roles["client"],
            system=watch.roles["system"],
            threads=self._threads_cpu_s() - threads_before,
            all=watch.account.busy_s + router.busy_s,
            # Nobody can ask a black box for its CPU time.
            path=None if self._environment.nic_links and not self._remote else watch.account.path_s + router.path_s,
            elapsed=watch.elapsed_s,
            socket_drops=sum(changes["server"].protocols[name] for name in SOCKET_DROPS),
            server=watch.roles["server"],
            ends_share_cpu=load_cpu is not None and load_cpu == server_cpu,
        )
        reading = load.read(_printed(client, load), cell.load)
        self._environment.fastest[cell] = max(context.fastest or 0.0, reading.metrics.get(load.metrics[0], 0.0))
        if load.counted_by == "authority":
            assert self._answers
            require_all_right(reading.answers, self._answers.count() - right_before)
        known = evidence.gather(
            self.lane,
            self._system,
            cell.load,
            reading,
            watch,
            changes,
            used,
            pinned=load_cpu is not None,
            still_s=still_s,
            authority_rate=self._authority_rate(cell.load),
        )
        objections = guards.judge(known, self._environment.guards, self._environment.topology)
        objections += router.objections(known, self._environment.guards)
        costs = load.costs(cell.load, reading, used)
        if (slow := guards.slow_share(known)) is not None:
            costs["slow_share"] = slow
        if guards.limited_by_authority(known, self._environment.guards):
            reading = replace(reading, bounds={"rate": (reading.metrics["rate"], None)})
        return reading, objections, costs

    def _pin(self, load: AnyLoad) -> tuple[int | None, tuple[int, ...]]:
        """Pin processes as the load asks; returns the CPU of the client and all CPUs that can delay packets."""
        kind = registry.load_of(load)
        if placement := kind.placement(load):
            answers = kind.answered or (isinstance(load, Traffic) and load.directions == "both")
            chosen = self._pinning.apply(placement, self._groups["system"].members(), answers=answers)
            return chosen.generator, chosen.used or self._environment.cpus
        self._pinning.release()
        return self._environment.load_cpu, ()

    def _context(self, cell: TrialCell, endpoints: PacketEndpoints) -> ClientContext:
        system, fastest = self._system, self._environment.fastest.get(cell)
        return ClientContext(
            system.target, system.resolver, self._folder, self._serial, endpoints, fastest, system.echo_identifier
        )

    def _prepare(self, load: AnyLoad, context: ClientContext) -> None:
        for command in (of := registry.load_of(load)).prepare(load, context):
            status, text = run_to_end(self.lane.namespace("client"), command, self._folder / "prepare", PREPARING_S)
            if status:
                said = f"{command[0]} ended with exit code {status}: {' '.join(text.split()[-30:])}"
                raise InstrumentFault(said) if _is_the_instruments(status, of) else LoadFault(said)

    def _watch_answers(self) -> RightAnswers:
        nft, target = program("nft", None, None), self._system.target
        assert nft and isinstance(target, IPv6Address)
        return RightAnswers(self.lane.namespace("client"), nft, target, self._folder)

    def _wait(self, client: Process, patience_s: float) -> float:
        """Until the load has ended; returns how long the lab itself stood still meanwhile."""
        first, still_s = first_to_end_and_stopped_s([client, *self._system.processes], patience_s)
        if first is None:
            raise LoadFault(f"no result within {patience_s:.1f} s: nothing came through the path")
        # The load may have ended in the same moment; then the death belongs to the next trial.
        if first is not client and first_to_end([client], 0) is None:
            self._system.check_alive()
        return still_s

    def _read_windows(self) -> dict[str, NetCounters]:
        return {role: window.read() for role, window in self._windows.items()}

    def _threads_cpu_s(self) -> float:
        return sum(cpu_time_s(pid) for pid in self._pinning.threads)

    def _authority_rate(self, load: AnyLoad) -> float | None:
        """Asked for once, when the first load needs it."""
        if registry.load_of(load).unpaced_lookups_s(load) is None:
            return None
        assert self._servers
        return self._servers.authority_rate()


def _printed(client: Process, load: Load[Any]) -> str:
    """What the load says. Raises InstrumentFault where it did not come to its end by itself, LoadFault where it failed and says
    nothing."""
    text, status = client.output.read_text(errors="replace"), client.exit_status or 0
    failed = bool(status) and not text.strip() and not load.ended_by_time
    if _was_killed(status) or (failed and _is_the_instruments(status, load)):
        raise InstrumentFault(f"{client.command[0]} {client.how_it_ended()}: {' '.join(client.last_words())}")
    if failed:
        raise LoadFault(f"{client.command[0]} {client.how_it_ended()}: {' '.join(client.last_words())}")
    return text


def _is_the_instruments(status: int, load: Load[Any]) -> bool:
    """Whether a failure is the program's own. A generator whose packets a sink counts asks nothing of the path, which has no
    part in it if it fails."""
    return _was_killed(status) or load.counted_by == "sink"


def _was_killed(status: int) -> bool:
    return status < 0 or status > SIGNALLED
