# SPDX-License-Identifier: Apache-2.0 OR MIT
"""One datapath of a system at work in one namespace of a lane.

Stages: fill in → compile → configure → prepare → helpers, then the command, each until it is ready → TUN device with its
routes → what follows; then alive? and counters; stop.
"""

import contextlib
import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from pyroute2.netlink.exceptions import NetlinkError

from diolkos_lab.faults import Fault
from diolkos_lab.sut import compiling
from diolkos_lab.sut.definition import Datapath, fill
from diolkos_lab.sut.factors import Command
from diolkos_lab.sut.lookup import Found
from diolkos_lab.topology import addresses as plan
from diolkos_lab.topology import mounts
from diolkos_lab.topology.lane import IPV6_HEADER_MINUS_IPV4, Lane
from diolkos_lab.topology.machine import THIS_MACHINE
from diolkos_lab.topology.process import Process, first_to_end, wait_for_text

READY_S = 10.0
FOREGROUND = Path(__file__).parent / "scripts" / "foreground.py"
LAST_WORDS = 5


class SutFault(Fault):
    """The system under test did not start, died or never answered. `log` holds the last lines it printed."""

    def __init__(self, message: str, log: list[str]) -> None:
        super().__init__(message + (f"; its last words: {' | '.join(log)}" if log else "; it printed nothing"))


class RunningProgram:
    """May be started again after `stop`. `folder` is its own, for its configuration and what it prints."""

    def __init__(
        self,
        found: Found,
        datapath: Datapath,
        lane: Lane,
        folder: Path,
        names: Mapping[str, str],
        rules: str | None = None,
    ) -> None:
        """`names` holds the placeholders that differ from path to path, `rules` the list that the lab made for it."""
        self.datapath = datapath
        self.lane = lane
        self.place = lane.namespace(datapath.place)
        self._at = lane.at(datapath.place)
        self.found = found = (found.here or found) if self._at is THIS_MACHINE else found
        self.processes: list[Process] = []  # helpers first
        self._name = found.system.system
        self._folder = folder = self._at.folder(folder)
        self._log = folder / "log"
        self._values = {
            "config": str(folder / "config"),
            "directory": str(folder),
            "uplink": plan.UPLINK,
            "downlink": plan.DOWNLINK,
            "server_link": plan.SERVER_LINK,
            "pref64": str(lane.shape.pref64),
            "pref64_address": str(lane.shape.pref64.network_address),
            "clat4": str(plan.CLAT4.ip),
            "clat4_peer": str(plan.CLAT4_PEER.ip),
            "clat6": str(plan.CLAT6),
            "clat6_peer": str(plan.CLAT6_PEER),
            "pool4": str(plan.POOL4),
            "pool4_network": str(plan.POOL4_NETWORK),
            "pool4_spare": str(plan.POOL4_SPARE),
            "pool4_neighbours": str(plan.POOL4_NEIGHBOURS),
            "neighbours6": str(lane.shape.addresses.neighbours(6)),
            "plat6": str(plan.PLAT6),
            "server6": str(lane.shape.addresses.server(6)),
            "bound": str(plan.BOUND),
            "mtu": str(lane.shape.mtu),
            "cores": str(len(self._at.cpus)),
            **compiling.values(found, self._at.architecture),
            "rule_list": str(folder / "rule-list"),
            **names,
        }
        if rules is not None:
            self._at.write(folder / "rule-list", rules)

    def start(self) -> None:
        """Returns when it says that it is ready and its device leads where it should. Raises SutFault or OSError."""
        path = self.datapath
        self._compile()
        if path.config:
            self._at.write(self._folder / "config", fill(path.config, self._values).lstrip())
        if path.forwarding:
            self._at.settings(self.place, {"ipv4/ip_forward": 1, "ipv6/conf/all/forwarding": 1})
        if path.xdp:
            self.lane.set_gro_on_peers(path.place)
        for command in path.prepare:
            self._run([fill(word, self._values) for word in command])
        if path.nftables:
            # `nft -f` rather than netlink messages: one file is one transaction, and it reads like the manual.
            rules = self._folder / "rules.nft"
            self._at.write(rules, fill(path.nftables, self._values))
            self._run([str(self._nft()), "-f", str(rules)])
        for number, helper in enumerate(path.helper):
            self._begin(helper.command, helper.ready, self._folder / f"helper-{number}", daemon=helper.daemon)
        if path.command:
            command = self._in_container(path) if path.container else path.command
            self._begin(command, path.ready, self._log, daemon=path.daemon)
        if path.set_up:
            assert path.tun
            self._set_up(path.tun)
        for command in path.when_ready:
            self._run([fill(word, self._values) for word in command])

    def stop(self) -> None:
        while self.processes:
            self.processes.pop().stop()

    def check_alive(self) -> None:
        """Raises SutFault when a process should run and does not."""
        wanted = len(self.datapath.helper) + bool(self.datapath.command)
        if len(self.processes) < wanted:
            raise SutFault(f"{self._name} is not running", self.last_words())
        self._check_ended()

    def _check_ended(self) -> None:
        for number, process in enumerate(self.processes):
            if process.exit_status is not None:
                key = "command" if number == len(self.datapath.helper) else "helper"
                how = f"{self.datapath.where(key)}{self._name}: {Path(process.command[0]).name} {process.how_it_ended()}"
                if process.exit_status == 0 and key == "command" and not self.datapath.daemon:
                    how += "; if it forks into the background, write `daemon = true`"
                raise SutFault(how, process.last_words(LAST_WORDS))

    def counters(self) -> dict[str, int]:
        """Its own counters; empty when it has none or does not tell."""
        if not (self.found.system.counters and self.processes):
            return {}
        command = [fill(word, self._values) for word in self.found.system.counters]
        with contextlib.suppress(Fault, OSError, ValueError, KeyError, TypeError):
            status, text = self._at.run_to_end(self.place, command, self._folder / "counters", patience_s=2.0)
            if status == 0:
                return {str(name): int(count) for name, count in json.loads(text)["counters"].items()}
        return {}

    def empty_conntrack(self) -> None:
        """Forget the connections that the kernel tracks where the program runs. Raises OSError."""
        self._at.empty_conntrack(self.place)

    @property
    def is_here(self) -> bool:
        """Does it run on this machine?"""
        return self._at is THIS_MACHINE

    def answer(self, command: Command, patience_s: float = 10.0) -> str:
        """What a short command prints where the program runs. Raises SutFault when it fails or takes longer than that."""
        filled = [fill(word, self._values) for word in command]
        try:
            status, text = self._at.run_to_end(self.place, filled, self._folder / "answer", patience_s)
        except OSError as error:  # TimeoutError among them
            raise SutFault(f"`{' '.join(filled)}` did not work: {error}", self.last_words()) from error
        if status:
            raise SutFault(f"`{' '.join(filled)}` ended with exit code {status}", text.strip().splitlines()[-LAST_WORDS:])
        return text

    def last_words(self) -> list[str]:
        for process in reversed(self.processes):
            if said := process.last_words(LAST_WORDS):
                return said
        lines = self._at.read(self._log).splitlines()
        return [line.strip() for line in lines if line.strip()][-LAST_WORDS:]

    def _begin(self, command: Command, ready: str | None, log: Path, *, daemon: bool) -> None:
        """Start a process and wait until it says that it is ready. Raises SutFault."""
        self._at.write(log, "")
        filled = [fill(word, self._values) for word in command]
        if daemon:
            self._at.write(self._folder / FOREGROUND.name, FOREGROUND.read_text())
            filled = [sys.executable if self._at.host is None else "python3", str(self._folder / FOREGROUND.name), *filled]
        self.processes.append(self._at.start(self.place, mounts.own(filled) if self.datapath.own_mounts else filled, log))
        if ready and not wait_for_text(self.processes[-1], ready, READY_S):
            self._check_ended()
            where = self.datapath.where("ready")
            raise SutFault(f'{where}{self._name} did not print "{ready}" within {READY_S:g} s', self.last_words())

    def _in_container(self, path: Datapath) -> Command:
        """podman keeps the network namespace that it is called in. The folder of the lane has the same path inside."""
        folder, devices = str(self._folder), ["--device", "/dev/net/tun"] if path.tun else []
        rights = ["--cap-add", "NET_ADMIN,NET_RAW", *devices]
        shared = ["--network", "host", "--pull", "never", "--volume", f"{folder}:{folder}"]
        assert path.container
        return ("podman", "run", "--rm", *shared, *rights, path.container, *(path.command or ()))

    def _compile(self) -> None:
        try:
            if program := compiling.of_datapath(self.found, self.datapath, self._at.architecture):
                self._values["object"] = str(program)
        except compiling.CompilingFault as fault:
            raise SutFault(str(fault), []) from fault

    def _nft(self) -> Path:
        """The system's own program when it is nft, else that of the host."""
        nft = self.found.binary if self.found.system.binary == "nft" else self._at.program("nft")
        if nft is None:
            raise SutFault(f"{self._name} needs nft, which is not on this host: apt-get install nftables", self.last_words())
        return nft

    def _run(self, command: list[str]) -> None:
        status, text = self._at.run_to_end(self.place, command, self._log)
        if status:
            raise SutFault(f"`{' '.join(command)}` ended with exit code {status}", text.strip().splitlines()[-LAST_WORDS:])

    def _set_up(self, device: str) -> None:
        """What the system's manual asks the operator to do: the device up, its address, and routes into it."""
        deadline = time.monotonic() + READY_S
        with self._at.netlink(self.place) as route:
            while not (found := route.link_lookup(ifname=device)):
                self.check_alive()
                if time.monotonic() > deadline:
                    where = self.datapath.where("tun")
                    raise SutFault(f"{where}{self._name} made no device {device} within {READY_S:g} s", self.last_words())
                first_to_end(self.processes, 0.02)
            index = found[0]
            route.link("set", index=index, state="up", mtu=self.lane.shape.mtu)
            if self.datapath.is_plat or self.datapath.is_inbound:
                for network in (self.lane.shape.pref64, plan.POOL4_NETWORK, f"{plan.PLAT6}/128"):
                    route.route("replace", dst=str(network), oif=index)
                return
            with contextlib.suppress(NetlinkError):  # there already after a restart with a device that stayed
                route.addr("add", index=index, address=str(plan.CLAT4.ip), prefixlen=32)
            route.route("replace", dst=str(plan.CLAT6_NETWORK), oif=index)
        # Full-size packets must fit once they have the longer header.
        self.lane.default_route(self.datapath.place, device, self.lane.shape.mtu - IPV6_HEADER_MINUS_IPV4)
