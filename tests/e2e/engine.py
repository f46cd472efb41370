# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The engine of a cluster: three members of etcd, with TLS, in one namespace with an address each."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from authority import Authority
from network import Network
from plan import MEMBERS, member_address

CLIENTS, PEERS = 2379, 2380
PAGE = Path(__file__).resolve().parents[2] / "docs" / "engine.md"
# Files of members need no disk that survives: each write waits for it, and tests run side by side.
IN_MEMORY = Path("/dev/shm")


ENVIRONMENT = {**os.environ, "ETCDCTL_API": "3"}


def password(user: str) -> str:
    """Of a user of etcd."""
    return f"password of {user}"


@dataclass
class Engine:
    """The members, by name. `role` is that of their namespace, and the name of their certificate."""

    network: Network
    role: str
    authority: Authority
    processes: dict[str, subprocess.Popen] = field(default_factory=dict)
    # Of etcdctl, once there are users.
    user: str = ""

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

    def back_up(self) -> Path:
        """Write what it has to a file."""
        file = self.network.scratch / "backup"
        self.ctl("snapshot", "save", str(file), of=MEMBERS[:1])
        return file

    def restore(self, backup: Path) -> None:
        """Start all members anew from a file, with the token that they had."""
        self.wipe()
        self.data.mkdir(mode=0o700)
        for member in MEMBERS:
            to = ("--data-dir", str(self.data / member), *self._initial(member))
            self.network.run(self.where, "etcdctl", "snapshot", "restore", str(backup), *to, env=ENVIRONMENT)
        self.start()

    def add_users(self, cluster: str, *nodes: str) -> None:
        """A user for each gateway, and root, as docs/engine.md says; `password` makes their passwords."""
        block = PAGE.read_text().split("<!-- users -->")[1].split("```")[1]
        lines = [line.split()[1:] for line in block.replace("/c1/", f"/{cluster}/").strip().splitlines()]
        # The page has two gateways. Lines of the second one serve for all.
        common = [words for words in lines if not any("gw-" in word for word in words)]
        of_each = [words for words in lines if any("gw-b" in word for word in words)]
        enable = common.pop()
        for words in (*common, *([w.replace("gw-b", node) for w in words] for node in nodes for words in of_each), enable):
            is_user = words[:2] == ["user", "add"]
            self.ctl(*words[:-1], f"{words[-1]}:{password(words[-1])}" if is_user else words[-1])
        self.user = "root"

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

    def ctl(
        self, *arguments: str, check: bool = True, user: str = "", of: Sequence[str] = MEMBERS
    ) -> subprocess.CompletedProcess:
        """Run etcdctl with the members' certificate."""
        user = user or self.user
        certificate, key = self.authority.of(self.role)
        files = ["--cacert", str(self.authority.certificate), "--cert", str(certificate), "--key", str(key)]
        to = ["--endpoints", ",".join(map(self.url, of)), "--command-timeout=2s"]
        to += ["--user", f"{user}:{password(user)}"] if user else []
        return self.network.run(self.where, "etcdctl", *to, *files, *arguments, check=check, env=ENVIRONMENT)

    @staticmethod
    def url(member: str) -> str:
        """Where a member's clients find it."""
        return f"https://[{member_address(member)}]:{CLIENTS}"

    def _signal(self, number: int) -> None:
        for process in self.processes.values():
            process.send_signal(number)

    @staticmethod
    def _peer(member: str) -> str:
        return f"https://[{member_address(member)}]:{PEERS}"

    def _initial(self, member: str) -> list[str]:
        return [
            f"--name={member}",
            f"--initial-advertise-peer-urls={self._peer(member)}",
            "--initial-cluster=" + ",".join(f"{name}={self._peer(name)}" for name in MEMBERS),
            "--initial-cluster-token=e2e",
        ]

    def _started(self, member: str) -> subprocess.Popen:
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
            f"--data-dir={self.data / member}",
            f"--listen-client-urls={self.url(member)}",
            f"--advertise-client-urls={self.url(member)}",
            f"--listen-peer-urls={self._peer(member)}",
            *self._initial(member),
            # A password costs a member milliseconds, not a second.
            "--bcrypt-cost=4",
            *tls,
        ]
        self.data.mkdir(mode=0o700, exist_ok=True)
        with (self.network.scratch / f"log-{member}").open("a") as log:
            return self.network.start(self.where, *command, stdout=log, stderr=log)
