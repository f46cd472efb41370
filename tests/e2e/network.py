# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The smallest network in which a CLAT makes sense.

    client wan0 ── down0 router out0 ── in0 server

Client and router share 2001:2:0:1::/64, router and server 2001:2:0:2::/64. The server answers on its own address and
on 64:ff9b::192.0.0.171, which is what a CLAT makes of 192.0.0.171, so that no PLAT is needed.
"""

from __future__ import annotations

import ctypes
import itertools
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

CLIENT6 = "2001:2:0:1::2"
ROUTER6 = "2001:2:0:1::1"
SERVER6 = "2001:2:0:2::2"
SERVER4 = "192.0.0.171"
SERVER_SYNTHESIZED = "64:ff9b::c000:ab"
WELL_KNOWN_PREFIX = "64:ff9b::/96"
# Seconds; an emulated machine is given more.
PATIENCE = float(os.environ.get("DIOLKOS_PATIENCE", "15"))
# The exit code of `show status` where packets, or some of them, cannot pass.
NOT_READY = 4
SERIAL = itertools.count()
# The number of a link that no other end of a pair has. The kernel takes a virtual link whose ends have the same number for a
# physical one, and lets such links come up once a second only (linkwatch_urgent_event).
UNLIKE = 101
# linux/sched.h
CLONE_NEWNET = 0x40000000
LIBC = ctypes.CDLL(None, use_errno=True)


@contextmanager
def inside(name: str) -> Iterator[None]:
    """The calling thread, and what it starts, is in a namespace. A program that enters one would be started for each step."""
    with open("/proc/thread-self/ns/net") as home, open(f"/run/netns/{name}") as there:
        enter(there.fileno())
        try:
            yield
        finally:
            enter(home.fileno())


def enter(namespace: int) -> None:
    """setns(2) for a network namespace."""
    if LIBC.setns(namespace, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")


def create_socket(name: str, family: int = socket.AF_INET, kind: int = socket.SOCK_STREAM, protocol: int = 0) -> socket.socket:
    """A socket of a namespace."""
    with inside(name):
        return socket.socket(family, kind, protocol)


@dataclass
class Running:
    """A started diolkos."""

    process: subprocess.Popen
    log_path: Path

    def log(self) -> str:
        """Everything it said so far."""
        return self.log_path.read_text()

    def wait(self) -> int:
        """Its exit code, once it ends by itself."""
        return self.process.wait(PATIENCE)

    def stop(self, how: int = signal.SIGTERM) -> int:
        """Its exit code after a signal."""
        self.process.send_signal(how)
        return self.wait()


class Unsettled(Exception):
    """A link of a new network has no link-local address; it says what ip(8) says of it."""


def has_link_local_address(link: dict) -> bool:
    """Whether a link, as ip(8) describes it, has an IPv6 one that is fit for use."""
    scopes = [(a["family"], a["scope"]) for a in link["addr_info"] if not a.get("tentative")]
    return ("inet6", "link") in scopes


@dataclass
class Network:
    """Three namespaces, and what runs in them."""

    program: Path
    tag: str = field(default_factory=lambda: f"dio-e2e-{os.getpid()}-{next(SERIAL)}")
    running: list[subprocess.Popen] = field(default_factory=list)
    further: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.client, self.router, self.server = (f"{self.tag}-{role}" for role in ("client", "router", "server"))
        self.scratch = Path(tempfile.mkdtemp(prefix=f"{self.tag}-"))

    def build(self) -> None:
        """Make namespaces, links, addresses and routes."""
        self.add_namespaces(self.client, self.router, self.server)
        self.batch(
            None,
            f"link add wan0 netns {self.client} type veth peer down0 netns {self.router} index {UNLIKE}",
            f"link add in0 netns {self.server} type veth peer out0 netns {self.router} index {UNLIKE + 1}",
        )
        self.set_up(self.client, {"wan0": [f"{CLIENT6}/64"]})
        self.set_up(self.router, {"down0": [f"{ROUTER6}/64"], "out0": ["2001:2:0:2::1/64"]})
        self.set_up(self.server, {"in0": [f"{SERVER6}/64"]})
        self.sysctl(self.router, "net.ipv6.conf.all.forwarding", "1")
        self.ip(self.client, "route", "add", "default", "via", ROUTER6)
        self.batch(
            self.server,
            "route add default via 2001:2:0:2::1",
            f"address add {SERVER_SYNTHESIZED}/128 dev lo",
        )
        self.ip(self.router, "route", "add", "64:ff9b::/96", "via", SERVER6)
        self.settle()
        self.until(lambda: self.run(self.client, "ping", "-6", "-c1", "-W0.2", SERVER6, check=False).returncode == 0)

    def add_namespace(self, name: str) -> None:
        """Make a namespace, and switch its loopback interface on."""
        self.add_namespaces(name)
        self.ip(name, "link", "set", "lo", "up")

    def add_namespaces(self, *names: str) -> None:
        """Make namespaces in which nothing waits for Duplicate Address Detection."""
        self.batch(None, *(f"netns add {name}" for name in names))
        for name in names:
            # A CLAT does as the kernel, and both would take a second.
            self.sysctl(name, "net.ipv6.conf.default.dad_transmits", "0")
            # Even so the kernel would let a random part of a second pass before a link-local address is fit for use (RFC 4862
            # section 5.4.2). Without one a router cannot solicit a neighbour; it tries again a second later.
            for interface in ("all", "default"):
                self.sysctl(name, f"net.ipv6.conf.{interface}.accept_dad", "0")

    def set_up(self, name: str, links: dict[str, list[str]]) -> None:
        """Give links of a namespace their addresses and switch them on, the loopback interface first."""
        commands = ["link set lo up"]
        for link, addresses in links.items():
            commands += [f"address add {one} dev {link}{' nodad' if ':' in one else ''}" for one in addresses]
            commands.append(f"link set {link} up")
        self.batch(name, *commands)

    def settle(self) -> None:
        """Wait until every link has its link-local address."""
        for name in (self.client, self.router, self.server):
            try:
                self.until(lambda name=name: all(map(has_link_local_address, self.ip_json(name, "address", "show", "up")[1:])))
            except AssertionError as never:
                raise Unsettled(self.ip(name, "-d", "-6", "address") + self.ip(name, "-d", "link")) from never

    def add_network_behind(self) -> str:
        """An IPv4 host behind the client, which masquerades it: eth0 of the namespace that is returned, lan0 here."""
        behind = self.add_host_behind()
        self.sysctl(self.client, "net.ipv4.ip_forward", "1")
        self.run(self.client, "nft", "-f", "-", input="""
            table ip behind {
                chain post {
                    type nat hook postrouting priority 100;
                    oifname "diolkos0" masquerade;
                }
            }""")  # fmt: skip
        return behind

    def add_host_behind(self) -> str:
        """An IPv4 host behind the client, which does nothing for it yet."""
        behind = f"{self.tag}-behind"
        self.host("ip", "netns", "add", behind)
        self.further.append(behind)
        self.host("ip", "link", "add", "lan0", "netns", self.client, "type", "veth", "peer", "eth0", "netns", behind)
        for name, link, address in ((self.client, "lan0", "198.18.5.1"), (behind, "eth0", "198.18.5.2")):
            self.ip(name, "address", "add", f"{address}/24", "dev", link)
            self.ip(name, "link", "set", link, "up")
        self.run(behind, "ip", "route", "add", "default", "via", "198.18.5.1")
        return behind

    def remove(self) -> None:
        """End what runs and remove the namespaces."""
        for process in self.running:
            # Asked first: a diolkos that is killed leaves a note about the settings it changed.
            process.terminate()
        for process in self.running:
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        lines = "".join(f"netns del {name}\n" for name in (self.client, self.router, self.server, *self.further))
        subprocess.run(["ip", "-force", "-batch", "-"], input=lines, check=False, capture_output=True, text=True)
        shutil.rmtree(self.scratch)

    # --- doing things in a namespace

    @staticmethod
    def host(*command: str) -> None:
        """Run a command that makes or removes a namespace or a link between two."""
        subprocess.run(command, check=True, capture_output=True)

    def run(self, name: str, *command: str, check: bool = True, **options) -> subprocess.CompletedProcess:
        """Run a command in a namespace and wait for it."""
        options = {"capture_output": True, "text": True, "timeout": 4 * PATIENCE, **options}
        with inside(name):
            done = subprocess.run(command, check=False, **options)
        if check and done.returncode != 0:
            raise AssertionError(f"{command} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
        return done

    def start(self, name: str, *command: str, **options) -> subprocess.Popen:
        """Start a command in a namespace; it ends with the test."""
        with inside(name):
            process = subprocess.Popen(command, **options)
        self.running.append(process)
        return process

    def batch(self, name: str | None, *lines: str) -> None:
        """Run lines of ip(8) in a namespace, or outside of all those that make namespaces and links between them.

        They share a process, since its start takes longer than its work.
        """
        options = {"input": "".join(f"{line}\n" for line in lines), "capture_output": True, "text": True}
        with inside(name) if name else nullcontext():
            done = subprocess.run(["ip", "-batch", "-"], check=False, **options)
        if done.returncode != 0:
            raise AssertionError(f"{lines} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")

    def ip(self, name: str, *arguments: str) -> str:
        """Run ip(8); the family follows from the arguments."""
        family = ["-6"] if any(":" in a for a in arguments) or "default" in arguments else []
        return self.run(name, "ip", *family, *arguments).stdout

    def ip_json(self, name: str, *arguments: str) -> list[dict]:
        """What ip(8) says, as objects."""
        return json.loads(self.run(name, "ip", "-j", *arguments).stdout or "[]")

    def sysctl(self, name: str, key: str, value: str | None = None) -> str:
        """Read, or write, a setting of the namespace."""
        setting = Path("/proc/sys") / key.replace(".", "/")
        with inside(name):
            if value is None:
                return setting.read_text().strip()
            setting.write_text(f"{value}\n")
        return ""

    def has_vlan(self, name: str, link: str, number: int) -> bool:
        """Put a link into a VLAN, if this kernel has VLANs."""
        vlan = (f"{link}.{number}", "type", "vlan", "id", str(number))
        if self.run(name, "ip", "link", "add", "link", link, "name", *vlan, check=False).returncode != 0:
            return False
        self.run(name, "ip", "link", "set", vlan[0], "up")
        return True

    @staticmethod
    def until(condition, patience: float = PATIENCE) -> None:
        """Wait for something to become true."""
        end = time.monotonic() + patience
        over = False
        while not condition():
            assert not over, "it did not happen in time"
            # Looked at once more when the time is over: a machine that stood still has not waited.
            over = time.monotonic() >= end
            time.sleep(0.05)

    # --- the program under test

    def clat(self, datapath: str = "auto", *options: str, wrapper: tuple[str, ...] = (), ready: bool = True) -> Running:
        """Start `diolkos clat` in the client and wait until it is ready. The prefix is given, unless a file may say it."""
        log = self.scratch / f"log-{len(self.running)}"
        uplink = [] if "--uplink" in options else ["--uplink", "wan0"]
        prefix = [] if {"--pref64", "--config"} & set(options) else ["--pref64", WELL_KNOWN_PREFIX]
        arguments = [*wrapper, str(self.program), "clat", *uplink, *prefix, *options]
        if datapath == "clsact":
            config = self.scratch / "clsact.toml"
            config.write_text('[translator]\ndatapath = "tc"\nhook = "clsact"\n')
            arguments += ["--config", str(config)]
        else:
            arguments += ["--datapath", datapath]
        with log.open("w") as sink:
            process = self.start(self.client, *arguments, stderr=sink, stdout=sink)
        running = Running(process, log)
        if ready:
            self.until(lambda: " ready: " in running.log() or process.poll() is not None)
            assert process.poll() is None, running.log()
        return running

    def refused(self, *arguments: str, wrapper: tuple[str, ...] = ()) -> tuple[int, str]:
        """Run diolkos in the client where it must not come up; its exit code and its last words."""
        done = self.run(self.client, *wrapper, str(self.program), *arguments, check=False, timeout=PATIENCE)
        return done.returncode, done.stderr.strip()

    def counters(self, unit: str = "counters") -> dict[str, int]:
        """Packets by fate, or `bytes`."""
        shown = self.run(self.client, str(self.program), "show", "counters", "--json").stdout
        return json.loads(shown)[unit]

    def status(self, name: str = "", device: str = "diolkos0") -> dict:
        """What `show status` says in a namespace, or in the client. Its exit code says in short whether packets can pass."""
        done = self.run(name or self.client, str(self.program), "show", "status", "--json", "--device", device, check=False)
        assert done.returncode in (0, NOT_READY), done
        status = json.loads(done.stdout)
        assert (done.returncode == 0) == (status["state"] == "ready"), done
        assert status["obstacles"] == [found["text"] for found in status["findings"] if found["kind"] == "obstacle"]
        return status

    def ping(self, *options: str, to: str = SERVER4) -> subprocess.CompletedProcess:
        """Ping from the client; true success is exit code 0.

        Once there was an answer, ping waits for the last ones an interval only (or twice the longest time so far).
        """
        return self.run(self.client, "ping", "-i0.2", "-W2", *options, to, check=False)
