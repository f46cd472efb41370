# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A system under test at work in its lane.

Stages: fill in → configure → prepare → start → ready → TUN device → reachable; then alive? and counters, trial by trial; stop.
"""

import contextlib
import json
import os
import time
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path

from pyroute2.netlink.exceptions import NetlinkError

from diolkos_lab.experiment.definition import Subject
from diolkos_lab.faults import Fault
from diolkos_lab.sut.definition import Datapath, fill
from diolkos_lab.sut.lookup import Found
from diolkos_lab.topology import addresses as plan
from diolkos_lab.topology import namespace
from diolkos_lab.topology.lane import IPV6_HEADER_MINUS_IPV4, Lane
from diolkos_lab.topology.process import Process, first_to_end, run_to_end, wait_for_text

READY_S = 10.0
REACHABLE_S = 5.0
LAST_WORDS = 5


class SutFault(Fault):
    """The system under test did not start, died or never answered. `log` holds the last lines it printed."""

    def __init__(self, message: str, log: list[str]) -> None:
        super().__init__(message + (f"; its last words: {' | '.join(log)}" if log else "; it printed nothing"))


class RunningSystem:
    """One system in one lane. `start` may be called again after `stop`, which a dead system gets once per block."""

    def __init__(self, found: Found, subject: Subject, lane: Lane, folder: Path) -> None:
        self.found = found
        self.subject = subject
        self.lane = lane
        self.datapath: Datapath = found.system.datapath[subject.datapath]
        self.place = lane.namespace(self.datapath.place)
        self._folder = folder
        self._log = folder / "log"
        self._process: Process | None = None
        self._ready = False  # it has been seen to pass traffic
        folder.mkdir(parents=True, exist_ok=True)
        self._values = {
            "binary": str(found.binary),
            "config": str(folder / "config"),
            "directory": str(folder),
            "uplink": plan.UPLINK,
            "server_link": plan.SERVER_LINK,
            "pref64": str(lane.shape.pref64),
            "pref64_address": str(lane.shape.pref64.network_address),
            "clat4": str(plan.CLAT4.ip),
            "clat4_peer": str(plan.CLAT4_PEER.ip),
            "clat6": str(plan.CLAT6),
            "clat6_peer": str(plan.CLAT6_PEER),
            "mtu": str(lane.shape.mtu),
            "cores": str(len(os.sched_getaffinity(0))),
        }

    @property
    def target(self) -> IPv4Address | IPv6Address:
        """The server's address as the application knows it."""
        if self.subject.family == "ipv6":
            return plan.SERVER6
        return plan.SERVER4 if self.datapath.access == "dual-stack" else plan.LITERAL4

    @property
    def server_family(self) -> str:
        """What arrives at the server: a CLAT path delivers IPv6."""
        return "ipv6" if self.datapath.access == "ipv6-only" else self.subject.family

    @property
    def process(self) -> Process | None:
        return self._process

    def start(self) -> None:
        """Returns when the server answers through the system. Raises SutFault, and then nothing of it runs."""
        try:
            self._start()
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
        if self._process:
            self._process.stop()
            self._process = None

    def check_alive(self) -> None:
        """Raises SutFault when it should run and does not."""
        if self.datapath.command and (self._process is None or self._process.exit_status is not None):
            how = self._process.how_it_ended() if self._process else "is not running"
            raise SutFault(f"{self.subject.system} {how}", self._last_words())

    def counters(self) -> dict[str, int]:
        """The system's own counters; empty when it has none or does not tell."""
        if not self.found.system.counters or self._process is None:
            return {}
        command = [fill(word, self._values) for word in self.found.system.counters]
        with contextlib.suppress(OSError, TimeoutError, ValueError, KeyError, TypeError):
            status, text = run_to_end(self.place, command, self._folder / "counters", patience_s=2.0)
            if status == 0:
                return {str(name): int(count) for name, count in json.loads(text)["counters"].items()}
        return {}

    def _start(self) -> None:
        path = self.datapath
        if path.config:
            (self._folder / "config").write_text(fill(path.config, self._values).lstrip())
        if path.forwarding:
            with namespace.entered(self.place):
                Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
                Path("/proc/sys/net/ipv6/conf/all/forwarding").write_text("1")
        for command in path.prepare:
            self._run([fill(word, self._values) for word in command])
        if path.nftables:
            # `nft -f` rather than netlink messages: one file is one transaction, and it reads like the manual.
            rules = self._folder / "rules.nft"
            rules.write_text(fill(path.nftables, self._values))
            self._run([str(self.found.binary), "-f", str(rules)])
        if path.command:
            self._log.write_bytes(b"")
            self._process = Process(self.place, [fill(word, self._values) for word in path.command], self._log, self._log)
            if path.ready and not wait_for_text(self._process, path.ready, READY_S):
                self.check_alive()
                raise SutFault(f"{self.subject.system} did not say that it is ready within {READY_S:g} s", self._last_words())
        if path.set_up:
            assert path.tun
            self._set_up(path.tun)
        self._wait_until_reachable()

    def _run(self, command: list[str]) -> None:
        self._log.touch()
        status, text = run_to_end(self.place, command, self._log)
        if status:
            raise SutFault(f"`{' '.join(command)}` ended with exit code {status}", text.strip().splitlines()[-LAST_WORDS:])

    def _set_up(self, device: str) -> None:
        """What the system's manual asks the operator to do: the device up, the host's address on it, routes into it."""
        deadline = time.monotonic() + READY_S
        with namespace.netlink(self.place) as route:
            while not (found := route.link_lookup(ifname=device)):
                self.check_alive()
                if time.monotonic() > deadline:
                    raise SutFault(f"{self.subject.system} made no device {device} within {READY_S:g} s", self._last_words())
                first_to_end([self._process] if self._process else [], 0.02)
            index = found[0]
            route.link("set", index=index, state="up", mtu=self.lane.shape.mtu)
            with contextlib.suppress(NetlinkError):  # there already after a restart with a device that stayed
                route.addr("add", index=index, address=str(plan.CLAT4.ip), prefixlen=32)
            route.route("replace", dst=str(plan.CLAT6_NETWORK), oif=index)
        # Full-size packets must fit once they have the longer header.
        self.lane.default_route(self.datapath.place, device, self.lane.shape.mtu - IPV6_HEADER_MINUS_IPV4)

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
        if self._process:
            return self._process.last_words(LAST_WORDS)
        if not self._log.exists():
            return []
        lines = self._log.read_text(errors="replace").splitlines()
        return [line.strip() for line in lines if line.strip()][-LAST_WORDS:]
