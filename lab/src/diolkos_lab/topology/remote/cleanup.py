# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What the lab makes on a machine and has to remove again: namespaces, scratch folders, and NICs that it took.

The same code at both ends. `agent` runs it on the router's machine, which has Python 3.8 and nothing of the lab.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import glob
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
from typing import Any, Iterable, Iterator, Sequence

PREFIX = "dklab"
NETNS = "/run/netns"
NICS = "nics"  # lane and role in the name of the namespace that holds the NICs
CLONE_NEWNET = 0x40000000
NETLINK_NETFILTER = 12
IPCTNL_MSG_CT_DELETE = 1 << 8 | 2  # of the subsystem NFNL_SUBSYS_CTNETLINK
NLM_F_REQUEST, NLM_F_ACK = 1, 4


class Refused(Exception):
    """An order that cannot be carried out; the message is for the user."""


# ---- who owns what: names as `topology.namespace` makes them


def started(pid: int) -> int | None:
    """Start time of a process in clock ticks (proc_pid_stat(5), field 22); None where no such process lives."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def namespaces(pid: int | None = None) -> list[str]:
    """The lab's namespaces: those of one process, or those whose owner no longer lives."""
    found = []
    for name in sorted(os.listdir(NETNS) if os.path.isdir(NETNS) else []):
        parts = name.split("-", 4)
        if len(parts) == 5 and parts[0] == PREFIX and parts[1].isdigit() and parts[2].isdigit():
            owner, begun = int(parts[1]), int(parts[2])
            if (owner == pid and started(pid) == begun) if pid else started(owner) != begun:
                found.append(name)
    return found


def scratch(pid: int) -> str:
    return os.path.join(tempfile.gettempdir(), f"{PREFIX}-{pid}-{started(pid)}")


def abandoned() -> list[str]:
    """Scratch folders whose owner no longer lives."""
    found = []
    for path in glob.glob(os.path.join(tempfile.gettempdir(), f"{PREFIX}-*")):
        parts = os.path.basename(path).split("-")[1:]
        if len(parts) == 2 and all(part.isdigit() for part in parts) and started(int(parts[0])) != int(parts[1]):
            found.append(path)
    return sorted(found)


# ---- namespaces


@contextlib.contextmanager
def inside(name: str) -> Iterator[None]:
    """The calling thread is in the namespace for the length of a `with` block."""
    libc = ctypes.CDLL(None, use_errno=True)
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    there = os.open(os.path.join(NETNS, name), os.O_RDONLY | os.O_CLOEXEC)
    try:
        if libc.setns(there, CLONE_NEWNET):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), name)
        try:
            yield
        finally:
            libc.setns(home, CLONE_NEWNET)
    finally:
        os.close(there)
        os.close(home)


def empty_conntrack() -> None:
    """Forget the connections that the kernel tracks in the namespace of the calling thread. Raises OSError.

    A message to delete that names no connection deletes all; `ip` does not say it, and conntrack(8) is seldom installed.
    """
    message = struct.pack("=IHHIIBBH", 20, IPCTNL_MSG_CT_DELETE, NLM_F_REQUEST | NLM_F_ACK, 1, 0, socket.AF_UNSPEC, 0, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, NETLINK_NETFILTER) as table:
        table.send(message)
        number = -struct.unpack_from("=i", table.recv(4096), 16)[0]  # of the answer, which is a struct nlmsgerr
    if number:
        raise OSError(number, os.strerror(number))


def ip(*words: str, where: str = "") -> str:
    """Run ip(8), in a namespace if one is named. Returns what it printed; raises OSError with its own words.

    `ip -n` mounts things, which it cannot in a chroot, where `/` is no mount.
    """
    entered = ["nsenter", f"--net={os.path.join(NETNS, where)}"] if where else []
    try:
        done = subprocess.run([*entered, "ip", *words], capture_output=True, text=True, timeout=10, check=False)
    except FileNotFoundError:
        tool, package = ("nsenter", "util-linux") if where and not shutil.which("nsenter") else ("ip", "iproute2")
        raise Refused(f"the tool {tool} is not there: apt-get install {package}") from None
    if done.returncode:
        said = (done.stderr or done.stdout).strip().replace("\n", " ") or f"exit code {done.returncode}"
        exists = "File exists" in said
        raise OSError(errno.EEXIST if exists else errno.EIO, f"`ip {' '.join(words)}` failed: {said}")
    return done.stdout


def processes_in(names: Iterable[str]) -> list[int]:
    wanted = set()
    for name in names:
        with contextlib.suppress(OSError):
            status = os.stat(os.path.join(NETNS, name))
            wanted.add((status.st_dev, status.st_ino))
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                status = os.stat(f"/proc/{entry}/ns/net")
                if (status.st_dev, status.st_ino) in wanted:
                    found.append(int(entry))
    return found


def remove(names: Sequence[str], patience_s: float = 3.0) -> list[int]:
    """Kill what runs in the namespaces, give their NICs back, and remove them. Returns the processes that were killed."""
    killed: set[int] = set()
    end = time.monotonic() + patience_s
    while True:
        running = processes_in(names)
        if not running or time.monotonic() > end:
            break
        for pid in running:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        killed.update(running)
        time.sleep(0.02)
    for name in names:
        if name.endswith(f"-{NICS}-{NICS}"):
            return_nics(name)
        with contextlib.suppress(OSError):
            ip("netns", "delete", name)
    return sorted(killed)


def clean() -> dict[str, list[Any]]:
    """Remove what agents and labs that no longer live have left. Returns how much."""
    names, folders = namespaces(), abandoned()
    killed = remove(names)
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
    return {"namespaces": names, "processes": killed, "folders": folders}


# ---- NICs


def take(device: str, where: str, owner: int) -> None:
    """Move a NIC that nobody uses into the namespace, up. Its state is kept in the scratch folder of `owner`."""
    every = json.loads(ip("-json", "address"))
    found = [each for each in every if each["ifname"] == device]
    if not found:
        names = ", ".join(each["ifname"] for each in every if each["ifname"] != "lo") or "none"
        raise Refused(f'there is no NIC "{device}"; there are {names}')
    flags, link = found[0].get("flags", ()), found[0].get("link_type")
    if link != "ether":
        raise Refused(f'"{device}" is no Ethernet NIC but {link}; name another one')
    used = [each["local"] for each in found[0]["addr_info"] if each.get("scope") != "link"]
    if used or found[0].get("master"):
        how = f"it has the address {used[0]}" if used else f"it belongs to {found[0]['master']}"
        raise Refused(f'the NIC "{device}" is in use: {how}; name an unused one, or free it first')
    with open(os.path.join(scratch(owner), f"nic-{device}"), "w") as file:
        file.write(f"{'up' if 'UP' in flags else 'down'} {_home()}")
    ip("link", "set", "dev", device, "netns", where)
    ip("link", "set", "dev", device, "up", where=where)


def return_nics(where: str) -> None:
    """Move the NICs of a namespace to where they were taken from, up where they were up then."""
    pid, begun = where.split("-")[1:3]
    with contextlib.suppress(OSError, ValueError):
        for link in json.loads(ip("-json", "link", where=where)):
            name = link["ifname"]
            if name == "lo":
                continue
            state, home = "down", ""
            note = os.path.join(tempfile.gettempdir(), f"{PREFIX}-{pid}-{begun}", f"nic-{name}")
            with contextlib.suppress(OSError), open(note) as file:
                state, _, home = file.read().partition(" ")
            home = home if os.path.exists(os.path.join(NETNS, home)) else ""
            ip("link", "set", "dev", name, "netns", home or str(os.getpid()), where=where)
            ip("link", "set", "dev", name, state, where=home)


def _home() -> str:
    """Name of the namespace that this process is in; empty where it has none, as that of the machine."""
    here = os.stat("/proc/self/ns/net")
    for name in os.listdir(NETNS) if os.path.isdir(NETNS) else []:
        with contextlib.suppress(OSError):
            there = os.stat(os.path.join(NETNS, name))
            if (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino):
                return name
    return ""


def without_carrier(devices: Sequence[str], where: str) -> list[str]:
    """Those of the devices without a carrier."""
    links = json.loads(ip("-json", "link", where=where))
    return [link["ifname"] for link in links if link["ifname"] in devices and "LOWER_UP" not in link["flags"]]
