# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The lab's half on the router's machine. `connection` sends this file and `cleanup` over SSH, and python3 there runs them.

It needs Linux, Python 3.8 with its standard library, iproute2, util-linux, and ethtool for offloads. Orders come in on
standard input, one JSON object a line; answers and the ends of processes go out on standard output. When the tester goes
away, by the end of the input or because nothing is heard for `SILENCE_S`, the agent removes all that it made and gives the
NICs back.

Stages: orders → namespaces, files, processes, counters → everything removed.
"""

from __future__ import annotations

import contextlib
import errno
import glob
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import threading
import time
from typing import Any, BinaryIO, Iterable, Sequence

from diolkos_lab.topology.remote.cleanup import NETNS, Refused, clean, inside, ip, namespaces, remove, scratch, started
from diolkos_lab.topology.remote.cleanup import empty_conntrack as forget_connections
from diolkos_lab.topology.remote.cleanup import take as take_nic
from diolkos_lab.topology.remote.cleanup import without_carrier as idle

FORMAT = 1
HELLO = "diolkos-lab agent"
SILENCE_S = 30.0  # the tester says something every two seconds
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
TAIL = 4096


class Agent:
    """Every method without an underscore is an order."""

    def __init__(self, output: BinaryIO) -> None:
        self._output, self._lock = output, threading.RLock()
        self._children: dict[int, subprocess.Popen[bytes]] = {}
        self._heard = time.monotonic()
        self._pid = os.getpid()
        os.environ.update(LC_ALL="C", PATH=os.environ.get("PATH", "") + ":" + PATH)

    def hello(self) -> dict[str, Any]:
        missing = [tool for tool in ("ip", "nsenter", "setpriv") if not shutil.which(tool)]
        return {
            "root": os.geteuid() == 0,
            "missing": missing,
            "pid": self._pid,
            "started": started(self._pid),
            "scratch": scratch(self._pid),
            "python": platform.python_version(),
            "uname": list(os.uname()),
            "boot": self.read(["/proc/sys/kernel/random/boot_id"])[0],
            "cpus": sorted(os.sched_getaffinity(0)),
            "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
            "tick_s": 1 / os.sysconf("SC_CLK_TCK"),
            "load_average": list(os.getloadavg()),
        }

    def clean(self) -> dict[str, list[Any]]:
        return clean()

    def begin(self) -> None:
        os.mkdir(scratch(self._pid), 0o700)

    def create(self, name: str) -> None:
        ip("netns", "add", name)

    def remove(self, names: list[str]) -> list[int]:
        return remove(names)

    def ip(self, words: list[str], where: str) -> str:
        return ip(*words, where=where)

    def take(self, device: str, where: str) -> None:
        take_nic(device, where, self._pid)

    def without_carrier(self, devices: list[str], where: str) -> list[str]:
        return idle(devices, where)

    def settings(self, where: str, values: dict[str, str]) -> None:
        with inside(where):
            for key, value in values.items():
                with open(os.path.join("/proc/sys/net", key), "w") as file:
                    file.write(value)

    def empty_conntrack(self, where: str) -> None:
        with inside(where):
            forget_connections()

    def net(self, where: str, names: list[str]) -> list[str | None]:
        with inside(where):
            return self.read([f"/proc/thread-self/net/{name}" for name in names])

    def read(self, paths: Sequence[str]) -> list[str | None]:
        """The texts of files; None for one that cannot be read."""
        texts: list[str | None] = []
        for path in paths:
            try:
                with open(path, errors="replace") as file:
                    texts.append(file.read())
            except OSError:
                texts.append(None)
        return texts

    def glob(self, pattern: str) -> list[str]:
        return sorted(glob.glob(pattern))

    def counters(self) -> list[Any]:
        """CPU time and clocks, read as close to each other as can be."""
        stat, softnet = self.read(["/proc/stat", "/proc/net/softnet_stat"])
        return [stat, softnet, time.clock_gettime(time.CLOCK_REALTIME), time.clock_gettime(time.CLOCK_MONOTONIC_RAW)]

    def cpu(self, pids: list[int]) -> float:
        """CPU time of processes with threads and descendants. The clock's number is that of clock_getcpuclockid(3)."""
        children: dict[int, list[int]] = {}
        waited: dict[int, float] = {}  # of descendants that ended
        for path in glob.glob("/proc/[0-9]*/stat"):
            with contextlib.suppress(OSError), open(path, "rb") as file:
                fields = file.read().rpartition(b")")[2].split()  # proc_pid_stat(5), from field 3 on
                pid = int(path.split("/")[2])
                children.setdefault(int(fields[1]), []).append(pid)
                waited[pid] = (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")
        total, family = 0.0, list(pids)
        for pid in family:  # which grows
            family += children.get(pid, [])
            with contextlib.suppress(OSError):
                total += time.clock_gettime((~pid << 3) | 2) + waited.get(pid, 0.0)
        return total

    def softirq_threads(self) -> list[int]:
        found = []
        for path in glob.glob("/proc/[0-9]*/comm"):
            with contextlib.suppress(OSError), open(path) as file:
                if file.read().startswith("ksoftirqd/"):
                    found.append(int(path.split("/")[2]))
        return found

    def folder(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def write(self, path: str, text: str) -> None:
        with open(path, "w") as file:
            file.write(text)

    def tail(self, path: str) -> str:
        try:
            with open(path, "rb") as file:
                file.seek(max(0, os.path.getsize(path) - TAIL))
                return file.read().decode(errors="replace")
        except FileNotFoundError:
            return ""

    def contains(self, path: str, text: str) -> bool:
        with open(path, "rb") as file:
            return text.encode() in file.read()

    def which(self, name: str) -> str | None:
        path = os.path.isabs(name) and os.path.isfile(name) and os.access(name, os.X_OK)
        return name if path else shutil.which(name) if not os.path.isabs(name) else None

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def run(self, command: list[str], where: str | None = None, patience_s: float = 10.0) -> list[Any]:
        """A short command: its exit status, and what it printed. Its time is up after so long."""
        command = self._wrapped(command, where) if where else command
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=patience_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise OSError(errno.ETIMEDOUT, f"{command[0]} did not end within {patience_s:g} s") from None
        return [done.returncode, done.stdout.decode(errors="replace")]

    def start(self, command: list[str], where: str, output: str, errors: str) -> int:
        with open(output, "ab") as out, open(errors, "ab") as err:
            child = subprocess.Popen(
                self._wrapped(command, where),
                stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True,
            )  # fmt: skip
        self._children[child.pid] = child
        threading.Thread(target=self._wait_for, args=(child,), daemon=True).start()
        return child.pid

    def signal(self, pid: int, number: int) -> None:
        """Only a process that was started here and has not been waited for: its number cannot be another's yet."""
        if pid in self._children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def alive(self) -> None:
        """Says that the tester is there."""

    # ---- the machinery of orders

    @staticmethod
    def _wrapped(command: list[str], where: str) -> list[str]:
        """As `topology.process` wraps commands: in the namespace, and dead when this process is."""
        return ["nsenter", f"--net={NETNS}/{where}", "setpriv", "--pdeathsig", "KILL", "--", *command]

    def _wait_for(self, child: subprocess.Popen[bytes]) -> None:
        _, status, usage = os.wait4(child.pid, 0)
        self._children.pop(child.pid, None)
        code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        child.returncode = code
        self._say({"ended": child.pid, "status": code, "usage_s": usage.ru_utime + usage.ru_stime})

    def _say(self, value: dict[str, Any]) -> None:
        with self._lock, contextlib.suppress(OSError, ValueError):  # nobody listens any more
            self._output.write(json.dumps(value).encode() + b"\n")
            self._output.flush()

    def _obey(self, order: dict[str, Any]) -> dict[str, Any]:
        name = order["do"]
        try:
            return {"id": order["id"], "result": getattr(self, name)(**order["with"])}
        except Refused as refused:
            return {"id": order["id"], "refused": str(refused)}
        except OSError as error:
            return {"id": order["id"], "errno": error.errno or errno.EIO, "error": error.strerror or str(error)}
        except Exception as error:  # the tester has to hear of it: it waits for an answer
            return {"id": order["id"], "errno": errno.EIO, "error": f"{type(error).__name__}: {error}"}

    def _watch(self) -> None:
        while time.monotonic() - self._heard < SILENCE_S:
            time.sleep(1)
        self._leave()

    def _leave(self) -> None:
        """Remove everything, and end at once: other threads may wait for what never comes."""
        with self._lock:
            remove(namespaces(self._pid))
            shutil.rmtree(scratch(self._pid), ignore_errors=True)
            os._exit(0)

    def _serve(self, source: Iterable[bytes]) -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda *_: self._leave())
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        threading.Thread(target=self._watch, daemon=True).start()
        self._say({"agent": HELLO, "format": FORMAT})
        for line in source:
            self._heard = time.monotonic()
            order = json.loads(line)
            self._say(self._obey(order))
            self._heard = time.monotonic()
        self._leave()


def serve() -> None:
    Agent(sys.stdout.buffer)._serve(sys.stdin.buffer)
