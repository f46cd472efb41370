# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Two hosts and the switch between them, in three namespaces.

    four a0 ── w4 (s4) switch (s6) w6 ── a0 six
    198.51.100.2       .1     2001:db8:6::1   2001:db8:6::2

s4 and s6 are the shadows, on which the kernel's addresses stand.
"""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from control import SPEC, Change, Control, program
from tables import INSERT, PORT4, PORT6, hop, local_macs

V4, GATEWAY4 = "198.51.100.2", "198.51.100.1"
V6, GATEWAY6 = "2001:db8:6::2", "2001:db8:6::1"
PREF64 = "2001:db8:64::/96"
V4_IN_IPV6 = "2001:db8:64::c633:6402"
V6_MAPPED = "192.0.2.2"
POOL = "192.0.2.1"
NUMBER = itertools.count()
MTU = 1500
# Seconds that only a hang reaches.
PATIENCE = 30


@dataclass
class Wires:
    """See above."""

    folder: Path
    spec: Path = SPEC
    process: subprocess.Popen | None = None
    control: Control | None = None
    macs: dict[str, bytes] = field(default_factory=dict)
    said: str = ""  # by the last switch that ended, after "ready"

    def __post_init__(self) -> None:
        name = f"dio-p4-{os.getpid()}-{next(NUMBER)}"
        self.four, self.router, self.six = (f"{name}-{of}" for of in ("four", "sw", "six"))

    def run(self, namespace: str, *command: str, code: int = 0) -> str:
        """Of a command there; it has to end with this code."""
        done = subprocess.run(["ip", "netns", "exec", namespace, *command], check=False, capture_output=True, text=True)
        assert done.returncode == code, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def build(self) -> None:
        """Everything but the switch."""
        for namespace in (self.four, self.router, self.six):
            subprocess.run(["ip", "netns", "add", namespace], check=True)
            self.run(namespace, "ip", "link", "set", "lo", "up")
        for host, wire, address, gateway in ((self.four, "w4", f"{V4}/24", GATEWAY4), (self.six, "w6", f"{V6}/64", GATEWAY6)):
            self.run(host, "ip", "link", "add", "a0", "type", "veth", "peer", "name", wire, "netns", self.router)
            # The switch takes no super-packets; it finishes checksums itself.
            self.run(host, "ethtool", "-K", "a0", "tso", "off", "gso", "off", "gro", "off")
            self.run(host, "ip", "address", "add", address, "dev", "a0", *(["nodad"] if ":" in address else []))
            self.run(host, "ip", "link", "set", "a0", "up")
            self.run(self.router, "ip", "link", "set", wire, "up")
            self.run(host, "ip", "route", "add", "default", "via", gateway)
            for device, there in (("a0", host), (wire, self.router)):
                self.macs[f"{there}/{device}"] = self.mac(there, device)
        self.run(self.router, "sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")

    def mac(self, namespace: str, device: str) -> bytes:
        """Of a device."""
        return bytes.fromhex(self.run(namespace, "cat", f"/sys/class/net/{device}/address").strip().replace(":", ""))

    def switch(self) -> list[str | Path]:
        """The command that runs the program."""
        return [program(), "--spec", self.spec]

    def start(self, *options: str, addresses: bool = True, ports: tuple[str, ...] = ("w4=s4", "w6=s6")) -> Control:
        """Start the switch; its tables are empty. addresses: the kernel has those of the gateway."""
        path = self.folder / "switch.sock"
        command = [*self.switch(), "--control", path, *options]
        command += [word for pair in ports for word in ("--port", pair)]
        self.process = subprocess.Popen(["ip", "netns", "exec", self.router, *command], stderr=subprocess.PIPE, text=True)
        assert self.process.stderr
        said = self.process.stderr.readline()
        assert said.endswith("-switch: ready\n"), said
        if addresses:
            self.run(self.router, "ip", "address", "add", f"{GATEWAY4}/24", "dev", "s4")
            self.run(self.router, "ip", "address", "add", f"{GATEWAY6}/64", "dev", "s6", "nodad")
        self.control = Control(path)
        return self.control

    def end(self, how: int = signal.SIGTERM) -> int:
        """Its exit code."""
        assert self.process
        self.process.send_signal(how)
        return self.ended()

    def ended(self) -> int:
        """The exit code of a switch that ends by itself."""
        assert self.process
        if self.control:
            self.control.socket.close()
        try:
            code = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        finally:
            process, self.process = self.process, None
            assert process.stderr
            with process.stderr:
                self.said = process.stderr.read()
        return code

    def is_deaf(self, device: str) -> bool:
        """Whether the kernel gets no frames of a device of the switch, for want of somebody who removes the filter."""
        return "25716" in self.run(self.router, "tc", "filter", "show", "dev", device, "ingress")

    def remove(self) -> None:
        """Whatever there is."""
        if self.process:
            self.end(signal.SIGKILL)
        for namespace in (self.four, self.router, self.six):
            subprocess.run(["ip", "netns", "del", namespace], check=False, capture_output=True)

    def hops(self) -> list[Change]:
        """To both hosts."""
        four, six = self.macs[f"{self.four}/a0"], self.macs[f"{self.six}/a0"]
        by4, by6 = self.macs[f"{self.router}/w4"], self.macs[f"{self.router}/w6"]
        return [
            *local_macs(by4, by6),
            hop(f"{V4}/32", PORT4, four, by4, MTU),
            hop(f"{V6}/128", PORT6, six, by6, MTU),
        ]

    def owns(self) -> list[Change]:
        """What the switch answers for: the addresses of the gateway."""
        by4, by6 = self.macs[f"{self.router}/w4"], self.macs[f"{self.router}/w6"]
        key4, key6 = bytes.fromhex("c6336401"), bytes.fromhex("20010db8000600000000000000000001")
        return [
            Change(INSERT, "own4", "own", key4, data=by4),
            Change(INSERT, "own6", "own", key6, data=by6),
            Change(INSERT, "echo4", "yes", key4),
            Change(INSERT, "echo6", "yes", key6),
        ]
