# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The network of the benchmark: clients, a router, servers, and as many pairs of links as CPUs are to be busy.

    pair i:   clients c{i} ── down{i} router up{i} ── s{i} servers

Clients have IPv6 (2001:2:{i}::/64, and behind it 2001:2:{i}:1::/64), servers IPv4 (198.18.{i}.0/24). Neighbours are fixed, so
that no packet waits for one.
"""

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import testrun

ROOT = Path(__file__).resolve().parents[3]
SERIAL = itertools.count()
PREF64 = "2001:2:64::/96"
POOL = "198.19.0.0/24"
LONGEST_S = 280.0  # for whatever is waited for

Report = dict[str, Any]


def program(name: str = "diolkos") -> Path:
    """The built program; `DIOLKOS` in the environment names another one."""
    return Path(os.environ.get("DIOLKOS", ROOT / "bin" / "diolkos")).absolute().with_name(name)


def say(words: str) -> None:
    """Where it is: a level with millions of sessions takes minutes."""
    print(f"{time.strftime('%X')} {words}", file=sys.stderr, flush=True)


def run(*command: str | Path) -> str:
    """What it prints; a failure says what it said."""
    done = subprocess.run([*map(str, command)], check=False, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"`{' '.join(map(str, command))}` failed: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


class Network:
    """Three namespaces, for as long as the context lasts."""

    def __init__(self, pairs: int = 1) -> None:
        self.pairs = pairs
        tag = f"dio-scale-{os.getpid()}-{next(SERIAL)}"
        self.clients, self.router, self.servers = (f"{tag}-{role}" for role in ("clients", "router", "servers"))
        self.folder = Path(tempfile.mkdtemp(prefix=f"{tag}-"))

    def __enter__(self) -> Self:
        for name in (self.clients, self.router, self.servers):
            run("ip", "netns", "add", name)
            run("ip", "-n", name, "link", "set", "lo", "up")
            run("ip", "netns", "exec", name, "sysctl", "-qw", "net.ipv6.conf.default.dad_transmits=0")
        for forwarding in ("net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"):
            run("ip", "netns", "exec", self.router, "sysctl", "-qw", f"{forwarding}=1")
        for i in range(self.pairs):
            self._link(self.clients, f"c{i}", f"down{i}", f"2001:2:{i}::2/64", f"2001:2:{i}::1/64")
            # Further nodes of the clients' side, as many as a load wants.
            run("ip", "-n", self.router, "route", "add", f"2001:2:{i}:1::/64", "via", f"2001:2:{i}::2", "dev", f"down{i}")
            self._link(self.servers, f"s{i}", f"up{i}", f"198.18.{i}.2/24", f"198.18.{i}.1/24")
            # Beside it, what needs no translation.
            native = f"2001:2:{100 + i}"
            run("ip", "-n", self.router, "address", "add", f"{native}::1/64", "dev", f"up{i}", "nodad")
            run("ip", "-n", self.servers, "address", "add", f"{native}::2/64", "dev", f"s{i}", "nodad")
            self._neighbour(self.router, f"up{i}", f"{native}::2", self.mac(self.servers, f"s{i}"))
        return self

    def _link(self, host: str, near: str, far: str, own: str, router: str) -> None:
        run("ip", "link", "add", near, "netns", host, "type", "veth", "peer", far, "netns", self.router)
        for name, link, address in ((host, near, own), (self.router, far, router)):
            run("ip", "-n", name, "address", "add", address, "dev", link, *(["nodad"] if ":" in address else []))
            run("ip", "-n", name, "link", "set", link, "up")
            # Frames of XDP, which the generator makes, need it at the end that receives them.
            run("ip", "netns", "exec", name, "ethtool", "-K", link, "gro", "on")
        gateway, other = (address.rpartition("/")[0] for address in (router, own))
        self._neighbour(host, near, gateway, self.mac(self.router, far))
        self._neighbour(self.router, far, other, self.mac(host, near))
        metric = str(10 + int(near[1:]))
        run("ip", "-n", host, "route", "add", "default", "via", gateway, "dev", near, "metric", metric)

    def _neighbour(self, name: str, link: str, address: str, mac: str) -> None:
        run("ip", "-n", name, "neigh", "replace", address, "dev", link, "lladdr", mac, "nud", "permanent")

    def mac(self, name: str, link: str) -> str:
        """The link-layer address of an interface."""
        [found] = json.loads(run("ip", "-n", name, "-j", "link", "show", "dev", link))
        return str(found["address"])

    def ends(self, i: int = 0) -> tuple[str, str]:
        """What the generator calls both ends of a pair."""
        return f"{self.clients}:c{i}", f"{self.servers}:s{i}"

    def links(self) -> list[str]:
        """The interfaces of the router."""
        return [f"{side}{i}" for i in range(self.pairs) for side in ("down", "up")]

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None) -> None:
        for name in (self.clients, self.router, self.servers):
            subprocess.run(["ip", "netns", "del", name], check=False)
        shutil.rmtree(self.folder)


class Daemon:
    """A running translator, and what it takes."""

    def __init__(self, network: Network, config: str, *options: str) -> None:
        self.network, self.options = network, options
        self.config = network.folder / "diolkos.toml"
        self.config.write_text(config)
        self.start()

    def start(self) -> None:
        """Start it; `ready_s` says how long that took."""
        log = (self.network.folder / "log").open("w+")
        command = [program(), "run", "--config", self.config, *self.options]
        begun = time.monotonic()
        self.process = subprocess.Popen(
            ["nsenter", f"--net=/run/netns/{self.network.router}", *map(str, command)], stdout=log, stderr=subprocess.STDOUT
        )
        while " ready: " not in (self.network.folder / "log").read_text():
            if self.process.poll() is not None or time.monotonic() - begun > LONGEST_S:
                self.process.kill()
                raise SystemExit(f"diolkos did not get ready: {(self.network.folder / 'log').read_text()[-2000:]}")
            time.sleep(0.01)
        self.ready_s = time.monotonic() - begun
        say(f"ready after {self.ready_s:.2f} s")

    def end(self, how: signal.Signals = signal.SIGTERM) -> float:
        """End it; how long that took."""
        begun = time.monotonic()
        self.process.send_signal(how)
        self.process.wait(LONGEST_S)
        took = time.monotonic() - begun
        say(f"ended by {how.name} after {took:.2f} s")
        return took

    def ask(self, *words: str) -> str:
        """What a command says."""
        return run("nsenter", f"--net=/run/netns/{self.network.router}", program(), *words)

    def timed(self, *words: str) -> float:
        """How long a command takes, in seconds."""
        begun = time.monotonic()
        self.ask(*words)
        took = time.monotonic() - begun
        say(f"`diolkos {' '.join(words)}` took {took:.2f} s")
        return took

    def counters(self) -> dict[str, int]:
        """All counters that are not 0."""
        found: dict[str, int] = json.loads(self.ask("show", "counters", "--json"))["counters"]
        return {name: count for name, count in found.items() if count}

    def memory(self) -> dict[str, int]:
        """Bytes: of the process, and of its maps as the kernel counts them."""
        proc = Path("/proc") / str(self.process.pid)
        [resident] = [line for line in (proc / "status").read_text().splitlines() if line.startswith("VmRSS")]
        return {"process": int(resident.split()[1]) * 1024, "maps": testrun.map_bytes(self.programs())}

    def programs(self) -> set[int]:
        """The kernel's numbers of its programs that are attached."""
        return set(self._fdinfo("prog_id", "link_id").values())

    def _fdinfo(self, key: str, unique: str) -> dict[int, int]:
        found = {}
        for file in (Path("/proc") / str(self.process.pid) / "fdinfo").iterdir():
            try:
                fields = dict(line.split(":\t", 1) for line in file.read_text().splitlines() if ":\t" in line)
            except OSError:
                continue
            if key in fields and unique in fields:
                found[int(fields[unique])] = int(fields[key].split()[0])
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None) -> None:
        if self.process.poll() is None:
            self.end()
        if "--state" in self.options:
            self.ask("stop")


def pktgen(*options: str) -> Report:
    """The report of one run of the generator."""
    begun = time.monotonic()
    report: Report = json.loads(run(program("diolkos-pktgen"), *options).splitlines()[-1])
    say(f"the generator took {time.monotonic() - begun:.2f} s to {options[0]}")
    return report


def network_section(placement: str, network: Network) -> str:
    """The keys of `[translator]` that say where packets are translated."""
    where = f"interfaces = {json.dumps(network.links())}\n" if placement != "device" else ""
    return f'pref64 = ["{PREF64}"]\ndatapath = "tc"\nplacement = "{placement}"\n{where}'
