# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The engine of a cluster: three members of etcd, with TLS, in one namespace with an address each."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from authority import Authority
from network import Network
from plan import MEMBERS, member_address

CLIENTS, PEERS = 2379, 2380
# Files of members need no disk that survives: each write waits for it, and tests run side by side.
IN_MEMORY = Path("/dev/shm")


@dataclass
class Engine:
    """The members, by name. `role` is that of their namespace, and the name of their certificate."""

    network: Network
    role: str
    authority: Authority
    processes: dict[str, subprocess.Popen] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.where = f"{self.network.tag}-{self.role}"
        self.data = (IN_MEMORY if IN_MEMORY.is_dir() else self.network.scratch) / f"{self.network.tag}-etcd"

    def start(self, *members: str) -> None:
        """Start members, all by default, with the data that they had, and wait until they have a leader."""
        for member in members or MEMBERS:
            self.processes[member] = self._started(member)
        self.network.until(self.answers, 40)

    def stop(self, *members: str) -> None:
        """Kill members."""
        for member in members:
            process = self.processes.pop(member)
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()
            self.network.running.remove(process)

    def wipe(self) -> None:
        """Kill all members and remove what they had."""
        self.stop(*self.processes)
        shutil.rmtree(self.data, ignore_errors=True)

    def freeze(self) -> None:
        """Let all members stand still."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let them go on."""
        self._signal(signal.SIGCONT)

    def answers(self) -> bool:
        """Whether a write is possible now."""
        return self.ctl("put", "e2e", "answers", check=False).returncode == 0

    def written(self) -> list[str]:
        """All keys that stand in it, but for this test's own."""
        listed = self.ctl("get", "", "--from-key", "--keys-only").stdout.split()
        return [key for key in listed if key != "e2e"]

    def leader(self) -> str:
        """The member that leads."""
        asked = self.ctl("endpoint", "status", "--cluster", "-w", "json").stdout
        found = {entry["Status"]["header"]["member_id"]: entry for entry in json.loads(asked)}
        leads = next(iter(found.values()))["Status"]["leader"]
        endpoint = found[leads]["Endpoint"]
        return next(member for member in MEMBERS if f"[{member_address(member)}]" in endpoint)

    def ctl(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess:
        """Run etcdctl with the members' certificate."""
        certificate, key = self.authority.of(self.role)
        files = ["--cacert", str(self.authority.certificate), "--cert", str(certificate), "--key", str(key)]
        to = ["--endpoints", ",".join(map(self.url, MEMBERS)), "--command-timeout=2s"]
        return self.network.run(
            self.where, "etcdctl", *to, *files, *arguments, check=check, env={**os.environ, "ETCDCTL_API": "3"}
        )

    @staticmethod
    def url(member: str) -> str:
        """Where a member's clients find it."""
        return f"https://[{member_address(member)}]:{CLIENTS}"

    def _signal(self, number: int) -> None:
        for process in self.processes.values():
            process.send_signal(number)

    def _started(self, member: str) -> subprocess.Popen:
        peers = {name: f"https://[{member_address(name)}]:{PEERS}" for name in MEMBERS}
        certificate, key = self.authority.of(self.role)
        tls = [
            f"--{kind}{option}"
            for kind in ("", "peer-")
            for option in (
                f"cert-file={certificate}",
                f"key-file={key}",
                f"trusted-ca-file={self.authority.certificate}",
                "client-cert-auth",
            )
        ]
        command = [
            "etcd",
            f"--name={member}",
            f"--data-dir={self.data / member}",
            f"--listen-client-urls={self.url(member)}",
            f"--advertise-client-urls={self.url(member)}",
            f"--listen-peer-urls={peers[member]}",
            f"--initial-advertise-peer-urls={peers[member]}",
            "--initial-cluster=" + ",".join(f"{name}={url}" for name, url in peers.items()),
            "--initial-cluster-token=e2e",
            *tls,
        ]
        self.data.mkdir(mode=0o700, exist_ok=True)
        with (self.network.scratch / f"log-{member}").open("a") as log:
            return self.network.start(self.where, *command, stdout=log, stderr=log)
