# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A system under test at work in its lane: one program, or two where a PLAT has to stand behind a CLAT.

Stages: start each, from the server to the client → reachable; then alive? and counters, trial by trial; stop.
"""

import time
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path

from diolkos_lab.experiment.definition import Family, Subject
from diolkos_lab.sut.definition import Datapath
from diolkos_lab.sut.lookup import Found
from diolkos_lab.sut.program import RunningProgram, SutFault
from diolkos_lab.topology import addresses as plan
from diolkos_lab.topology.lane import Lane
from diolkos_lab.topology.process import Process, run_to_end

REACHABLE_S = 5.0


class RunningSystem:
    """One system in one lane. `start` may be called again after `stop`, which a dead system gets once per block."""

    def __init__(self, found: Found, subject: Subject, lane: Lane, folder: Path) -> None:
        self.found = found
        self.subject = subject
        self.lane = lane
        self.datapath: Datapath = found.system.datapath[subject.datapath]
        self._folder = folder
        self.programs = tuple(
            RunningProgram(found, datapath, lane, folder / datapath.place) for datapath in found.system.path(subject.datapath)
        )
        self._ready = False  # it has been seen to pass traffic

    @property
    def place(self) -> str:
        """Namespace of the program next to the client."""
        return self.programs[-1].place

    @property
    def target(self) -> IPv4Address | IPv6Address:
        """The server's address as the application knows it."""
        if self.datapath.access == "dual-stack":
            return plan.SERVER6 if self.subject.family == "ipv6" else plan.SERVER4
        if self.subject.family == "ipv4":
            return plan.LITERAL4
        return plan.synthesized(self.lane.shape.pref64, plan.LITERAL4)

    @property
    def server_family(self) -> Family:
        """What arrives at the server: behind a CLAT IPv6, behind a PLAT IPv4."""
        if self.datapath.access == "dual-stack":
            return self.subject.family
        return "ipv4" if self.lane.shape.plat else "ipv6"

    @property
    def processes(self) -> list[Process]:
        return [program.process for program in self.programs if program.process]

    def start(self) -> None:
        """Returns when the server answers through the system. Raises SutFault, and then nothing of it runs."""
        try:
            for program in self.programs:
                program.start()
            self._wait_until_reachable()
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
        for program in reversed(self.programs):
            program.stop()

    def check_alive(self) -> None:
        """Raises SutFault when one of its programs should run and does not."""
        for program in self.programs:
            program.check_alive()

    def counters(self) -> dict[str, int]:
        """The system's own counters; of two programs, each with the place of its program before its name."""
        if len(self.programs) == 1:
            return self.programs[0].counters()
        return {
            f"{program.datapath.place}: {name}": count
            for program in self.programs
            for name, count in program.counters().items()
        }

    def _wait_until_reachable(self) -> None:
        """Ping the server until it answers; the first packets wait for links, addresses and neighbours."""
        deadline = time.monotonic() + REACHABLE_S
        log = self._folder / "reachable"
        ping = ["ping", "-n", "-q", "-c", "1", "-W", "0.3", str(self.target)]
        log.write_bytes(b"")
        while True:
            self.check_alive()
            status, _ = run_to_end(self.lane.namespace("client"), ping, log)
            if status == 0:
                return
            if time.monotonic() > deadline:
                message = f"{self.subject.system} runs, but {self.target} did not answer through it within {REACHABLE_S:g} s"
                raise SutFault(message, self._last_words())
            time.sleep(0.05)

    def _last_words(self) -> list[str]:
        return [words for program in self.programs for words in program.last_words()]
