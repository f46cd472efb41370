# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Which systems can run on the router's machine, as `lookup` says it of this one."""

import shlex
from collections.abc import Mapping
from pathlib import Path

from diolkos_lab.experiment.levels import Level
from diolkos_lab.faults import UsageFault
from diolkos_lab.sut.definition import Datapath, System, fill
from diolkos_lab.sut.lookup import Found, Missing, too_old
from diolkos_lab.topology.machine import Machine


def find(system: System, given: Mapping[str, str], machine: Machine) -> Found | Missing:
    """Look for one system over there: at the path that the command line names, else in PATH."""
    binary = None
    if system.binary:
        named = given.get(system.system)
        binary = machine.program(named or system.binary)
        if binary is None and named:
            raise UsageFault(f'{machine.host}: "{named}", given for {system.system}, is no program there')
        if binary is None:
            option = f"--{system.system} PATH" if system.system == "diolkos" else f"--path {system.system}=PATH"
            how = f"install it there, or name it by its path there with {option}"
            return Missing(system, f"the program {system.binary} is not on {machine.host}", how)
    if lack := _lack(system, machine):
        return Missing(system, *lack)
    version = _version(system, binary, machine)
    if reason := too_old(system, version):
        return Missing(system, f"{machine.host}: {reason}", system.how)
    return Found(system, binary, version, on_router=True)


def _lack(system: System, machine: Machine) -> tuple[str, str] | None:
    """What else that machine lacks, and how to get it."""
    if any(path.container for path in system.datapath.values()) and machine.program("podman") is None:
        return f"podman is not on {machine.host}, and it runs in a container", "install podman there"
    if system.controller or system.p4:
        return "its controller and its P4 program are not brought to another machine", "measure it on one machine"
    if system.programs:
        return "its BPF programs are not brought to another machine", "measure it on one machine"
    if system.module and not machine.exists(Path(f"/sys/module/{system.module}")):
        return f"the kernel module {system.module} is not loaded on {machine.host}", system.how
    if any(path.tun for path in system.datapath.values()) and not machine.exists(Path("/dev/net/tun")):
        return f"/dev/net/tun does not exist on {machine.host}", "load the module there with `modprobe tun`"
    return None


def obstacle(system: System, name: str, levels: Mapping[str, Level] | None = None) -> str | None:
    """Why a datapath cannot be measured over two machines; None where it can."""
    parts: tuple[Datapath, ...] = system.path(name, levels)
    if any(part.place == "server" and not part.is_native for part in parts):
        return "it is part of the server, not of what is before it"
    if any(part.xdp for part in parts):
        return "its frames of XDP do not leave through macvlan devices, by which all lanes share the NICs"
    if system.datapath[name].is_inbound:
        return "static bindings from IPv4 to IPv6 are measured on one machine only"
    return None


def _version(system: System, binary: Path | None, machine: Machine) -> str | None:
    if system.version and binary:
        status, text = machine.output([fill(word, {"binary": str(binary)}) for word in system.version])
        if status == 0 and text.strip():
            return text.strip().splitlines()[0]
    if system.package and str(binary).startswith("/usr/"):
        query = f"dpkg-query -W -f '${{Package}} ${{Version}}' {shlex.quote(system.package)} 2>/dev/null"
        status, text = machine.output(["sh", "-c", query])
        return text.strip() if status == 0 else None
    return None
