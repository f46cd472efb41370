# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A system under test at work in its lane: one program, or two where a PLAT has to stand behind a CLAT; and the path's
resolver where a load asks for names.

Stages: start each, from the server to the client → reachable; then alive? and counters, trial by trial; stop.
"""

import time
from collections.abc import Mapping
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path

from diolkos_lab.experiment.definition import Family, Subject
from diolkos_lab.experiment.levels import Level
from diolkos_lab.sut import rules
from diolkos_lab.sut.definition import Datapath
from diolkos_lab.sut.lookup import Found
from diolkos_lab.sut.program import RunningProgram, SutFault
from diolkos_lab.sut.sessions import Sessions
from diolkos_lab.topology import addresses as plan
from diolkos_lab.topology.lane import Lane
from diolkos_lab.topology.process import SLOWNESS, Process, run_to_end

REACHABLE_S = 5.0 * SLOWNESS


class RunningSystem:
    """One system in one lane. `start` may be called again after `stop`, which a dead system gets once per block."""

    def __init__(
        self,
        found: Found,
        subject: Subject,
        lane: Lane,
        folder: Path,
        resolver: Found | None = None,
        levels: Mapping[str, Level] | None = None,
    ) -> None:
        """`resolver` is the system that serves names on this path, None when nobody asks or this one serves them itself.
        `levels` are those of the datapath's factors."""
        levels = levels or {}
        self.found = found
        self.subject = subject
        self.lane = lane
        self._levels = levels
        self.datapath: Datapath = found.system.datapath[subject.datapath].at(levels)
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)  # its programs' own folders may be on another machine
        names = {**self._names(), **{name: str(level) for name, level in levels.items()}}
        self.programs = tuple(
            RunningProgram(found, datapath, lane, folder / datapath.place, names, self._rules(datapath, levels))
            for datapath in found.system.path(subject.datapath, levels)
        )
        self._resolver: RunningProgram | None = None
        if resolver and self.datapath.serves == "packets":
            serving = resolver.system.datapath[self.datapath.resolver.partition("/")[2]]
            self._resolver = RunningProgram(resolver, serving, lane, folder / "resolver", names)
        self._ready = False  # it has been seen to pass traffic

    @property
    def place(self) -> str:
        """Namespace of the program next to the client."""
        return self.programs[-1].place

    @property
    def target(self) -> IPv4Address | IPv6Address:
        """The server's address as the application knows it."""
        if self.datapath.access == "dual-stack":
            at = self.lane.shape.addresses
            return at.alias(self._version) if self.datapath.target == "alias" else at.server(self._version)
        if self.datapath.is_inbound:
            return plan.POOL4
        if self.subject.family == "ipv4":
            return plan.LITERAL4
        return plan.synthesized(self.lane.shape.pref64, plan.LITERAL4)

    @property
    def server_family(self) -> Family:
        """What arrives at the server: behind a CLAT and behind static bindings IPv6, behind a PLAT IPv4."""
        if self.datapath.access == "dual-stack":
            return self.subject.family
        return "ipv4" if self.lane.shape.plat else "ipv6"

    @property
    def keeps_state(self) -> bool:
        """Is there a translator or NAT on the router?"""
        return self.found.system.keeps_state(self.subject.datapath, self._levels)

    @property
    def resolver(self) -> IPv4Address | IPv6Address:
        """Whom the application asks for names."""
        over_ipv4 = self.datapath.access == "dual-stack" and self.subject.family == "ipv4"
        return self.lane.shape.addresses.resolver(4 if over_ipv4 else 6)

    @property
    def echo_identifier(self) -> int | None:
        """Of echo requests that static bindings let through; None where any will do."""
        return plan.BOUND if self.datapath.is_inbound else None

    @property
    def records(self) -> tuple[IPv4Address | IPv6Address, ...]:
        """The addresses that every name has: those of the server, or the one that only a translator can reach."""
        at = self.lane.shape.addresses
        return (at.server(4), at.server(6)) if self.datapath.access == "dual-stack" else (plan.LITERAL4,)

    @property
    def processes(self) -> list[Process]:
        return [process for program in self._all for process in program.processes]

    @property
    def _all(self) -> tuple[RunningProgram, ...]:
        return (*((self._resolver,) if self._resolver else ()), *self.programs)

    def start(self) -> None:
        """Returns when the server answers through the system. Raises SutFault, and then nothing of it runs."""
        try:
            for program in self._all:
                program.start()
            self.wait_until_reachable()
            self._ready = True
        except OSError as error:
            self.stop()
            raise SutFault(
                f"{self.subject.system} could not be started: {error.strerror or error}", self._last_words()
            ) from error
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        self._ready = False
        for program in reversed(self._all):
            program.stop()

    def check_alive(self) -> None:
        """Raises SutFault when one of its programs should run and does not."""
        for program in self._all:
            program.check_alive()

    @property
    def sessions(self) -> Sessions | None:
        """The table of what keeps state on the path; None where nothing does, or it cannot be asked."""
        return next((Sessions(program) for program in self.programs if program.datapath.sessions), None)

    def counters(self) -> dict[str, int]:
        """The system's own counters; of two programs, each with the place of its program before its name."""
        if len(self.programs) == 1:
            return self.programs[0].counters()
        return {
            f"{program.datapath.place}: {name}": count
            for program in self.programs
            for name, count in program.counters().items()
        }

    @property
    def _version(self) -> int:
        return 6 if self.subject.family == "ipv6" else 4

    def _rules(self, datapath: Datapath, levels: Mapping[str, Level]) -> str | None:
        if datapath.rules is None:
            return None
        at, version = self.lane.shape.addresses, self._version
        return rules.dnat(levels, rules.Addresses(at.alias(version), at.server(version), at.decoy(version)))

    def _names(self) -> dict[str, str]:
        """Who asks whom for names. The authority is asked in the family that arrives at the server, so that queries are
        never taken for traffic that went past the translator."""
        asked, at, version = self.resolver, self.lane.shape.addresses, self._version
        link, server_link = (at.a6 if version == 6 else at.a4), (at.s6 if version == 6 else at.s4)
        return {
            "client": str(self.lane.client_address(version)),
            "client_network": str(link[0].network),
            "server": str(at.server(version)),
            "server_network": str(server_link[1].network),
            "alias": str(at.alias(version)),
            "iptables": "ip6tables" if version == 6 else "iptables",
            "tunnel_socket": f"[{at.resolver(6)}]:51820" if version == 6 else f"{at.resolver(4)}:51820",
            "resolver": str(asked),
            "resolver_socket": f"{asked}:53" if asked.version == 4 else f"[{asked}]:53",
            "authority": str(at.server(4 if self.server_family == "ipv4" else 6)),
        }

    def wait_until_reachable(self) -> None:
        """Ping the server until it answers; the first packets wait for links, addresses and neighbours.

        Through a resolver no packet goes, so it is pinged itself.
        """
        target = self.resolver if self.datapath.serves == "names" else self.target
        deadline = time.monotonic() + REACHABLE_S
        log = self._folder / "reachable"
        identified = ["-e", str(self.echo_identifier)] if self.echo_identifier else []
        ping = ["ping", "-n", "-q", "-c", "1", "-W", "0.3", *identified, str(target)]
        log.write_bytes(b"")
        while True:
            self.check_alive()
            status, _ = run_to_end(self.lane.namespace("client"), ping, log)
            if status == 0:
                return
            if time.monotonic() > deadline:
                where = self.datapath.where("")
                message = f"{where}{self.subject.system} runs, but {target} did not answer through it within {REACHABLE_S:g} s"
                raise SutFault(message, self._last_words())
            time.sleep(0.05)

    def _last_words(self) -> list[str]:
        return [words for program in self._all for words in program.last_words()]
