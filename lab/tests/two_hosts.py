# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Two machines in one: a namespace for the tester and one for the router's machine, whose OpenSSH server runs in it. veth pairs
play the NICs, and a third one the network by which the other machine is managed."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from diolkos_lab.topology import namespace

SSHD = shutil.which("sshd", path="/usr/sbin:/sbin:/usr/bin")
ADDRESS, HERE = "192.0.2.2", "192.0.2.1"
USER = "root@router"
NICS = {"tester": {"client": "tcl", "server": "tsr"}, "router": {"client": "rcl", "server": "rsr"}}
CONFIG = """
Port 22
ListenAddress {address}
HostKey {folder}/host
AuthorizedKeysFile {folder}/user.pub
StrictModes no
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
PidFile {folder}/sshd.pid
"""
CLIENT = """
Host router
  HostName {address}
  IdentityFile {folder}/user
  IdentitiesOnly yes
  UserKnownHostsFile {folder}/known
  GlobalKnownHostsFile none
"""


class TwoHosts:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tester, self.other = f"labtest-{os.getpid()}-t", f"labtest-{os.getpid()}-r"
        self._server: subprocess.Popen[bytes] | None = None

    def build(self) -> None:
        for name in (self.tester, self.other):
            subprocess.run(["ip", "netns", "add", name], check=True)
            self.ip(name, "link", "set", "lo", "up")
        for here, there in (("mgmt", "mgmt"), ("tcl", "rcl"), ("tsr", "rsr")):
            self.ip(self.tester, "link", "add", "name", here, "type", "veth", "peer", "name", there, "netns", self.other)
        for name, address in ((self.tester, HERE), (self.other, ADDRESS)):
            self.ip(name, "address", "add", f"{address}/24", "dev", "mgmt")
            self.ip(name, "link", "set", "mgmt", "up")
        for key in ("host", "user"):
            command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.folder / key)]
            subprocess.run(command, check=True)
        self.know((self.folder / "host.pub").read_text())
        (self.folder / "server").write_text(CONFIG.format(address=ADDRESS, folder=self.folder))
        (self.folder / "client").write_text(CLIENT.format(address=ADDRESS, folder=self.folder))
        ssh = self.folder / "ssh"
        ssh.write_text(f'#!/bin/sh\nexec ssh -F {self.folder}/client "$@"\n')
        ssh.chmod(0o755)
        nics = [f"[{side}]\n" + "".join(f'{end} = "{nic}"\n' for end, nic in pair.items()) for side, pair in NICS.items()]
        (self.folder / "nics.toml").write_text("format = 1\n" + "\n".join(nics))
        self.start_server()

    def know(self, key: str) -> None:
        """What the tester believes to be the other's host key."""
        (self.folder / "known").write_text(f"{ADDRESS} {' '.join(key.split()[:2])}\n" if key else "")

    def start_server(self) -> None:
        """Returns when it listens."""
        Path("/run/sshd").mkdir(exist_ok=True)
        assert SSHD
        command = ["nsenter", f"--net=/run/netns/{self.other}", SSHD, "-D", "-e", "-f", str(self.folder / "server")]
        self._server = subprocess.Popen(command, stderr=subprocess.PIPE)
        assert self._server.stderr
        for line in self._server.stderr:
            if b"listening" in line:
                return
        raise AssertionError("sshd did not start")

    def stop_server(self) -> None:
        if self._server:
            self._server.terminate()
            self._server.wait()  # not for the end of its output, which sessions keep open
            self._server = None

    def sessions(self) -> list[int]:
        """Processes of OpenSSH's server that have somebody logged in."""
        listed = subprocess.run(["ip", "netns", "pids", self.other], capture_output=True, text=True, check=True)
        pids = [int(pid) for pid in listed.stdout.split()]
        found = []
        for pid in pids:
            with contextlib.suppress(OSError):
                if b"root@notty" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    found.append(pid)
        return found

    def remove(self) -> None:
        self.stop_server()
        for name in (self.tester, self.other):
            subprocess.run(["ip", "netns", "delete", name], check=False)

    @staticmethod
    def ip(where: str, *words: str) -> str:
        entered = ["nsenter", f"--net={namespace.DIRECTORY / where}", "ip"]
        return subprocess.run([*entered, *words], check=True, capture_output=True, text=True).stdout

    def nics(self, where: str) -> set[str]:
        """Devices there, `lo` and that of the management apart."""
        return {link["ifname"] for link in json.loads(self.ip(where, "-json", "link"))} - {"lo", "mgmt"}

    def command(self, *arguments: str) -> list[str]:
        return ["nsenter", f"--net=/run/netns/{self.tester}", sys.executable, "-m", "diolkos_lab", *arguments]

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "SSH": str(self.folder / "ssh"), "COLUMNS": "400"}

    def lab(self, *arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            self.command(*arguments), env=self.environment, capture_output=True, text=True, timeout=240, check=False, **more
        )
        assert "Traceback" not in done.stderr, done.stderr
        return done

    def run(self, study: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.lab("run", str(study), "--quick", "--router", USER, "--nics", str(self.folder / "nics.toml"), *arguments)


@contextlib.contextmanager
def two_hosts(folder: Path) -> Iterator[TwoHosts]:
    made = TwoHosts(folder)
    try:
        made.build()
        yield made
    finally:
        made.remove()
