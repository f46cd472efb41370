# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Check whether this kernel accepts the BPF programs, by running them once; for `doctor`.

Stages: two namespaces with a link → one short run → what it says.
"""

import contextlib
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from diolkos_lab.sut import lookup
from diolkos_lab.topology import namespace

NEAR, FAR = "198.18.0.1", "198.18.0.2"
NETWORK_BITS = 24
PATIENCE_S = 20.0
READY = " ready: "  # "already" is in messages of failure
# The modes whose programs a study of diolkos needs, and the least that each has to be told.
PREFIX = 'pref64 = ["2001:db8:64::/96"]'
MODES = {
    "siit": f'[translator]\nmode = "siit"\n{PREFIX}\n[[eam]]\nv4 = "192.0.2.0/32"\nv6 = "2001:db8::1/128"\n',
    "nat64": f'[translator]\nmode = "nat64"\n{PREFIX}\n[[nat64.pool4]]\naddress = "192.0.2.0/29"\n',
}


@dataclass(frozen=True)
class KernelCheck:
    """One check; `fault` says why the program does not work here, None if it does."""

    subject: str
    fault: str | None


def programs() -> Iterator[KernelCheck]:
    """The packet generator and the translator's fast path, each if its program is built."""
    if generator := lookup.tool("diolkos-pktgen"):
        yield KernelCheck("packet generator", _generator(generator))
    if translator := lookup.program("diolkos", None, None):
        for mode, text in MODES.items():
            yield KernelCheck(f"fast path of diolkos {mode}", _translator(translator, mode, text))


@contextlib.contextmanager
def _two_ends() -> Iterator[tuple[str, str]]:
    """Two namespaces that a link joins."""
    near, far = (namespace.full_name(namespace.Owner.me(), "doctor", role) for role in ("near", "far"))
    try:
        for name in (near, far):
            namespace.create(name)
        with namespace.netlink(near) as route:
            route.link("add", ifname="a", kind="veth", peer={"ifname": "b", "net_ns_fd": far})
        for name, device, address in ((near, "a", NEAR), (far, "b", FAR)):
            with namespace.netlink(name) as route:
                index = route.link_lookup(ifname=device)[0]
                route.addr("add", index=index, address=address, prefixlen=NETWORK_BITS)
                route.link("set", index=index, state="up")
        yield near, far
    finally:
        namespace.remove([near, far])


def _generator(program: Path) -> str | None:
    """Whether all three of its programs load and frames arrive."""
    with _two_ends() as (near, far):
        load = ("--src", NEAR, "--dst", FAR, "--rate", "10k", "--count", "100")
        return _fault([str(program), "measure", "--from", f"{near}:a", "--to", f"{far}:b", *load])


def _translator(program: Path, mode: str, text: str) -> str | None:
    """Whether it becomes ready with its fast path."""
    with _two_ends() as (near, _), tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "config.toml"
        config.write_text(text)
        start = [str(program), mode, "--config", str(config), "--datapath", "tc"]
        return _fault(["nsenter", f"--net={namespace.DIRECTORY / near}", "setpriv", "--pdeathsig", "KILL", "--", *start], READY)


def _fault(command: list[str], ready: str = "") -> str | None:
    """The last words of a command that fails; None once it ends well, or says that it is ready and is ended."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        said = ""
        overdue = threading.Timer(PATIENCE_S, process.kill)
        overdue.start()
        try:
            for line in process.stderr or ():
                said = line.strip() or said
                if ready and ready in line:
                    return None
            return None if process.wait() == 0 else said or f"it said nothing for {PATIENCE_S:.0f} s"
        finally:
            overdue.cancel()
            process.terminate()
