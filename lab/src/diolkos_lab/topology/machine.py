# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A machine on which namespaces of a lane are made and programs run: this one, or the router's (`topology.remote`).

Code that works in a namespace asks the lane for its machine (`Lane.at`) and never assumes this one.
"""

import contextlib
import hashlib
import os
import platform
import shutil
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from pyroute2.ethtool import Ethtool

from diolkos_lab.topology import namespace
from diolkos_lab.topology.process import Process, run_to_end
from diolkos_lab.topology.remote import cleanup

SYSTEM_FOLDERS = "/usr/local/sbin:/usr/sbin:/sbin"  # not in everyone's PATH


class Machine(ABC):
    """Every operation raises OSError when it fails. `where` is the name of a namespace of this place."""

    host: str | None  # `user@host`; None for this machine
    cpus: tuple[int, ...]
    architecture: str

    @property
    @abstractmethod
    def owner(self) -> namespace.Owner:
        """Whose process number the names of namespaces carry."""

    @abstractmethod
    def create(self, name: str) -> None:
        """Make a namespace."""

    @abstractmethod
    def remove(self, names: list[str]) -> None:
        """Kill what runs in the namespaces and remove them."""

    @abstractmethod
    def netlink(self, where: str) -> AbstractContextManager[Any]:
        """What speaks rtnetlink there, with the methods of `pyroute2.IPRoute` that the lab uses."""

    @abstractmethod
    def settings(self, where: str, values: Mapping[str, object]) -> None:
        """Write files below /proc/sys/net."""

    @abstractmethod
    def empty_conntrack(self, where: str) -> None:
        """Forget the connections that the kernel tracks. To ask for it does not make it track any."""

    @abstractmethod
    def features(self, where: str, device: str) -> dict[str, bool]:
        """Offloads of a device: name, as `ethtool -k` has it, to on or off."""

    @abstractmethod
    def set_features(self, where: str, device: str, values: Mapping[str, bool]) -> None:
        """Switch those of them that can be changed."""

    @abstractmethod
    def folder(self, path: Path) -> Path:
        """Make a folder for a program that runs here; returns its path there."""

    @abstractmethod
    def write(self, path: Path, text: str) -> None: ...

    @abstractmethod
    def read(self, path: Path) -> str:
        """The end of a log; empty where there is none."""

    @abstractmethod
    def program(self, name: str) -> Path | None:
        """Path of a program; None where it is not found."""

    @abstractmethod
    def digest(self, path: Path) -> str | None:
        """SHA-256 of a file."""

    @abstractmethod
    def exists(self, path: Path) -> bool: ...

    @abstractmethod
    def output(self, command: Sequence[str]) -> tuple[int, str]:
        """Run a short command outside the lab's namespaces: exit status and output."""

    @abstractmethod
    def start(self, where: str, command: Sequence[str], log: Path) -> Process:
        """Start a program whose output goes to the log."""

    @abstractmethod
    def run_to_end(self, where: str, command: Sequence[str], log: Path, patience_s: float = 10.0) -> tuple[int, str]:
        """Run a short command in a namespace. Returns its exit status and everything it printed."""


class LocalMachine(Machine):
    """This machine."""

    host = None

    def __init__(self) -> None:
        self.cpus = tuple(sorted(os.sched_getaffinity(0)))
        self.architecture = platform.machine()

    @property
    def owner(self) -> namespace.Owner:
        return namespace.Owner.me()

    def create(self, name: str) -> None:
        namespace.create(name)

    def remove(self, names: list[str]) -> None:
        namespace.remove(names)

    def netlink(self, where: str) -> AbstractContextManager[Any]:
        return namespace.netlink(where)

    def settings(self, where: str, values: Mapping[str, object]) -> None:
        with namespace.entered(where):
            for key, value in values.items():
                Path("/proc/sys/net", key).write_text(str(value))

    def empty_conntrack(self, where: str) -> None:
        with namespace.entered(where):
            cleanup.empty_conntrack()

    def features(self, where: str, device: str) -> dict[str, bool]:
        with namespace.entered(where), contextlib.closing(Ethtool()) as ethtool:
            return {name: feature.enable for name, feature in ethtool.get_features(device).features.items()}

    def set_features(self, where: str, device: str, values: Mapping[str, bool]) -> None:
        with namespace.entered(where), contextlib.closing(Ethtool()) as ethtool:
            features = ethtool.get_features(device)
            for name, on in values.items():
                if features.features[name].available:
                    features.features[name].enable = on
            ethtool.set_features(device, features)

    def folder(self, path: Path) -> Path:
        path.mkdir(parents=True, exist_ok=True)
        return path

    def write(self, path: Path, text: str) -> None:
        path.write_text(text)

    def read(self, path: Path) -> str:
        return path.read_text(errors="replace") if path.exists() else ""

    def program(self, name: str) -> Path | None:
        found = shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:{SYSTEM_FOLDERS}")
        return Path(found) if found else None

    def digest(self, path: Path) -> str | None:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()

    def exists(self, path: Path) -> bool:
        return path.exists()

    def output(self, command: Sequence[str]) -> tuple[int, str]:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=10, check=False)
        return done.returncode, done.stdout

    def start(self, where: str, command: Sequence[str], log: Path) -> Process:
        return Process(where, command, log, log)

    def run_to_end(self, where: str, command: Sequence[str], log: Path, patience_s: float = 10.0) -> tuple[int, str]:
        return run_to_end(where, command, log, patience_s)


THIS_MACHINE = LocalMachine()
