# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The router's machine, as `topology.machine.LocalMachine` is this one."""

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from diolkos_lab.faults import Fault, MissingFault
from diolkos_lab.topology.machine import Machine
from diolkos_lab.topology.namespace import Owner
from diolkos_lab.topology.remote.connection import Connection
from diolkos_lab.topology.remote.process import RemoteProcess
from diolkos_lab.topology.remote.route import RemoteRoutes

# `ethtool -k` names features by group where the kernel's own names are finer; this is what the lab asks for.
GROUPS = {"rx-gro": "generic-receive-offload"}


class RemoteMachine(Machine):
    """Reached as long as `gone` is None. Closing it removes all that the lab has made over there."""

    def __init__(self, host: str, ssh: Path) -> None:
        """Raises UsageFault or MissingFault with one sentence where that machine cannot play the router."""
        self._running: dict[int, RemoteProcess] = {}
        self._early: dict[int, tuple[int, float]] = {}  # ended before anybody here knew of them
        self.host: str = host
        self.connection = Connection(host, ssh, self._ended, self._lost)
        try:
            self.hello: dict[str, Any] = self.connection.call("hello")
            if not self.hello["root"]:
                raise MissingFault(f"{host}: network namespaces need root over there too: log in as root")
            if missing := self.hello["missing"]:
                raise MissingFault(f"{host}: missing there: {', '.join(missing)}: apt-get install iproute2 util-linux")
        except BaseException:
            self.close()
            raise
        self.cpus = tuple(self.hello["cpus"])
        self.architecture = self.hello["uname"][4]
        self._scratch = Path(self.hello["scratch"])

    @property
    def gone(self) -> str | None:
        return self.connection.gone

    @property
    def is_this_kernel(self) -> bool:
        """A namespace of this machine plays the other one, as in tests. Then the CPUs of both are the same."""
        return bool(self.hello["boot"]) and self.hello["boot"] == Path("/proc/sys/kernel/random/boot_id").read_text()

    @property
    def owner(self) -> Owner:
        return Owner(self.hello["pid"], self.hello["started"])

    def close(self) -> None:
        self.connection.close()

    def clean(self) -> dict[str, list[Any]]:
        """Remove what labs that were killed have left there."""
        found: dict[str, list[Any]] = self.connection.call("clean")
        return found

    def begin(self) -> None:
        """Make the folder for what programs read and print."""
        self.connection.call("begin")

    def create(self, name: str) -> None:
        self.connection.call("create", name=name)

    def remove(self, names: list[str]) -> None:
        with contextlib.suppress(Fault):  # gone: the agent removes them itself
            self.connection.call("remove", names=names)

    @contextlib.contextmanager
    def netlink(self, where: str) -> Iterator[RemoteRoutes]:
        yield RemoteRoutes(self.connection, where)

    def settings(self, where: str, values: Mapping[str, object]) -> None:
        self.connection.call("settings", where=where, values={key: str(value) for key, value in values.items()})

    def empty_conntrack(self, where: str) -> None:
        self.connection.call("empty_conntrack", where=where)

    def features(self, where: str, device: str) -> dict[str, bool]:
        status, text = self._ethtool(where, "-k", device)
        if status:
            raise OSError(status, f"{self.host}: `ethtool -k {device}` failed: {text.strip()}")
        groups = {group: name for name, group in GROUPS.items()}
        found = re.findall(r"^\s*([\w-]+): (on|off)( \[fixed\])?", text, re.MULTILINE)
        return {groups.get(name, name): state == "on" for name, state, fixed in found if not fixed}

    def set_features(self, where: str, device: str, values: Mapping[str, bool]) -> None:
        for name, on in values.items():
            self._ethtool(where, "-K", device, GROUPS.get(name, name), "on" if on else "off")

    def folder(self, path: Path) -> Path:
        there = self._scratch / path.relative_to("/")
        self.connection.call("folder", path=str(there))
        return there

    def write(self, path: Path, text: str) -> None:
        self.connection.call("write", path=str(path), text=text)

    def read(self, path: Path) -> str:
        with contextlib.suppress(Fault):
            return str(self.connection.call("tail", path=str(path)))
        return ""

    def program(self, name: str) -> Path | None:
        found = self.connection.call("which", name=name)
        return Path(found) if found else None

    def digest(self, path: Path) -> str | None:
        status, text = self.output(["sha256sum", str(path)])
        found = re.match(r"\\?([0-9a-f]{64}) ", text)
        return found[1] if found and status == 0 else None

    def exists(self, path: Path) -> bool:
        return bool(self.connection.call("exists", path=str(path)))

    def output(self, command: Sequence[str]) -> tuple[int, str]:
        status, text = self.connection.call("run", command=list(command))
        return status, text

    def start(self, where: str, command: Sequence[str], log: Path) -> RemoteProcess:
        process = RemoteProcess(self.connection, where, command, log)
        self._running[process.pid] = process
        if ended := self._early.pop(process.pid, None):
            process.has_ended(*ended)
        return process

    def run_to_end(self, where: str, command: Sequence[str], log: Path, patience_s: float = 10.0) -> tuple[int, str]:
        status, text = self.connection.call("run", command=list(command), where=where, patience_s=patience_s)
        return status, text

    def texts(self, *paths: str) -> list[str | None]:
        """Files over there; None for one that cannot be read."""
        found: list[str | None] = self.connection.call("read", paths=paths)
        return found

    def _ethtool(self, where: str, *words: str) -> tuple[int, str]:
        if self.program("ethtool") is None:
            raise MissingFault(f"{self.host}: the tool ethtool is not there: apt-get install ethtool")
        return self.run_to_end(where, ["ethtool", *words], self._scratch)

    def _ended(self, pid: int, status: int, usage_s: float) -> None:
        """Called by the thread that reads."""
        if process := self._running.get(pid):
            process.has_ended(status, usage_s)
        else:
            self._early[pid] = status, usage_s

    def _lost(self) -> None:
        for process in self._running.values():
            process.wake_waiters()
