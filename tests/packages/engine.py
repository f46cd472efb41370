# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Podman with images, containers and settings of its own, which knows no network but a test's.

    system("bookworm"), a folder ─► podman import, as the base that packaging/Containerfile names ─► podman build ─► podman run

Nothing is pulled, and nothing of the host's podman is read or written.
"""

from __future__ import annotations

import os
import re
import resource
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

# Runtimes, in the order in which podman itself prefers them. crun refuses a host that has both versions of control groups.
RUNTIMES = ("crun", "runc")
# How many files and processes a container may have, unless this process may have fewer. Podman's own limits are higher, and
# need CAP_SYS_RESOURCE.
LIMITS = {"nofile": (resource.RLIMIT_NOFILE, 4096), "nproc": (resource.RLIMIT_NPROC, 4096)}


@dataclass
class Engine:
    """One podman, which keeps everything below a folder."""

    folder: Path
    runtime: str = RUNTIMES[0]

    def __post_init__(self) -> None:
        self.group = f"diolkos-engine-{os.getpid()}"
        self.folder.mkdir()
        self.settle(self.runtime)

    def settle(self, runtime: str) -> None:
        """Write the settings that every command reads."""
        self.runtime = runtime
        # An overlay cannot lie on another one; copies of whole images can.
        look = ("findmnt", "--noheadings", "--output=FSTYPE", "--target", str(self.folder))
        kind = subprocess.run(look, check=True, capture_output=True, text=True).stdout.strip()
        storage = {
            "driver": "vfs" if kind == "overlay" else "overlay",
            "runroot": str(self.folder / "run"),
            "graphroot": str(self.folder / "graph"),
        }
        (self.folder / "storage.conf").write_text(table("storage", storage))
        limits = [f"{name}={most}:{most}" for name, most in ((name, maximum(*limit)) for name, limit in LIMITS.items())]
        containers = {"log_driver": "k8s-file", "default_ulimits": limits}
        engine = {
            "runtime": runtime,
            "cgroup_manager": "cgroupfs",
            "events_logger": "none",
            "lock_type": "file",
            "tmp_dir": str(self.folder / "tmp"),
        }
        (self.folder / "containers.conf").write_text(table("containers", containers) + table("engine", engine))

    def shell(self, text: str, where: Path, check: bool = True) -> subprocess.CompletedProcess:
        """Run commands as an operator types them; the first that fails ends them, and its output is shown."""
        files = {"CONTAINERS_CONF": "containers.conf", "CONTAINERS_STORAGE_CONF": "storage.conf"}
        settings = {name: str(self.folder / file) for name, file in files.items()}
        ran = subprocess.run(
            ("sh", "-e", "-c", text), check=False, capture_output=True, text=True, cwd=where, env={**os.environ, **settings}
        )
        assert not check or ran.returncode == 0, f"{text}\n{ran.stdout}{ran.stderr}"
        return ran

    def podman(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess:
        """Run one of podman's commands."""
        return self.shell(" ".join(("podman", *arguments)), self.folder, check)

    def add_image(self, name: str, system: Path) -> None:
        """Have an installation in a folder as an image."""
        self.shell(f"tar --directory={system} --create . | podman import - {name}", self.folder)

    def find_runtime(self, image: str) -> str | None:
        """Take the first runtime that runs a command of an image here; why none does."""
        refused = []
        for runtime in filter(shutil.which, RUNTIMES):
            self.settle(runtime)
            tried = self.podman("run", "--rm", "--network=none", f"--cgroup-parent={self.group}", image, "true", check=False)
            if tried.returncode == 0:
                return None
            refused.append(tried.stderr.strip())
        return "; ".join(refused) or f"none of {' and '.join(RUNTIMES)} is there"

    def remove(self) -> None:
        """End all containers, and leave no control group."""
        self.podman("rm", "--all", "--force", "--time=0", check=False)
        for group in Path("/sys/fs/cgroup").glob(f"**/{self.group}"):
            for below in [*sorted(group.rglob("*/"), reverse=True), group]:
                below.rmdir()


def maximum(kind: int, wanted: int) -> int:
    """As much of a resource as is wanted, or as this process may pass on."""
    most = resource.getrlimit(kind)[1]
    return wanted if most == resource.RLIM_INFINITY else min(wanted, most)


def table(name: str, keys: dict[str, str | list[str]]) -> str:
    """A table of a TOML file."""
    # Text and lists of text look the same in Python and TOML but for the quotes.
    lines = [f"{key} = {value!r}" for key, value in keys.items()]
    return "\n".join((f"[{name}]", *lines, ""))


def commands(page: Path, first: str) -> str:
    """The block of a page whose commands begin so, on one line each."""
    blocks = re.findall(r"^```\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    (block,) = [block for block in blocks if block.startswith(first)]
    return re.sub(r" *\\\n *", " ", block)
