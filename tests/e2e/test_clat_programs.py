# SPDX-License-Identifier: Apache-2.0 OR MIT
"""BPF programs of another CLAT at the uplink, such as NetworkManager 1.58 leaves there: `ready` is said where packets can pass.

The programs here are stand-ins of two instructions, with the name that NetworkManager's have in the kernel. tests/newest has
the real ones.
"""

from __future__ import annotations

import subprocess
import sys

import pytest
from kernel import HAS_TCX
from network import Network

pytestmark = pytest.mark.skipif(not HAS_TCX, reason="NetworkManager attaches by tcx, which came with Linux 6.6")

ITS_NAME = "nm_clat_ingress"
IN_FRONT = 8  # BPF_F_BEFORE
# What the program returns: TCX_PASS lets nobody behind it see the packet, TCX_NEXT does.
KEEPS, PASSES_ON = 0, -1
NOBODY_ELSES = ("setpriv", "--bounding-set", "-sys_admin", "--inh-caps", "-sys_admin")

# NAME RETURNS FLAGS SIDE…: attaches to wan0 while it runs; bpf(2) with BPF_PROG_LOAD (5) and BPF_LINK_CREATE (28).
PROGRAM = """
import ctypes, signal, socket, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
def bpf(command, attr):
    buffer = ctypes.create_string_buffer(attr, 128)
    fd = libc.syscall(321, command, buffer, 128)
    if fd < 0:
        sys.exit(f"bpf: errno {ctypes.get_errno()}")
    return fd
name, returns, flags, *sides = sys.argv[1:]
code = ctypes.create_string_buffer(struct.pack("<BBhiBBhi", 0xb7, 0, 0, int(returns), 0x95, 0, 0, 0))
licence = ctypes.create_string_buffer(b"GPL")
for side in sides:
    attach_type = {"ingress": 46, "egress": 47}[side]
    where = ctypes.addressof(code), ctypes.addressof(licence)
    program = bpf(5, struct.pack("<IIQQIIQII16sII", 3, 2, *where, 0, 0, 0, 0, 0, name.encode(), 0, attach_type))
    bpf(28, struct.pack("<IIII", program, socket.if_nametoindex("wan0"), attach_type, int(flags)))
print("attached", flush=True)
signal.pause()
"""


def attach(net: Network, name: str = ITS_NAME, returns: int = KEEPS, flags: int = 0, *sides: str) -> subprocess.Popen:
    """Programs at both sides of the uplink, or at some; they end with what is returned."""
    log = net.scratch / f"programs-{len(net.running)}"
    words = (name, str(returns), str(flags), *(sides or ("ingress", "egress")))
    with log.open("w") as sink:
        process = net.start(net.client, sys.executable, "-c", PROGRAM, *words, stdout=sink, stderr=sink)
    net.until(lambda: "attached" in log.read_text() or process.poll() is not None)
    assert process.poll() is None, log.read_text()
    return process


def end(process: subprocess.Popen) -> None:
    """Take the programs off."""
    process.kill()
    process.wait()


def test_ours_goes_in_front_of_what_was_left(net: Network) -> None:
    """The other CLAT has no address any more, and nobody else serves the host."""
    attach(net)
    clat = net.clat("tc")
    assert f"{ITS_NAME}, a BPF program of another CLAT, is attached to wan0: that of diolkos goes in front of it" in clat.log()
    assert "2 received" in net.ping("-c2").stdout
    assert net.status()["obstacles"] == []
    assert clat.stop() == 0


def test_it_is_not_ready_while_another_one_keeps_its_packets(net: Network) -> None:
    """That came later, and went in front."""
    clat = net.clat("tc")
    assert "2 received" in net.ping("-c2").stdout
    other = attach(net, ITS_NAME, KEEPS, IN_FRONT)
    net.until(lambda: net.status()["state"] == "waiting")
    [said] = net.status()["obstacles"]
    assert said == (
        f"{ITS_NAME}, a BPF program of another CLAT, is attached to wan0 in front of that of diolkos and keeps packets from "
        "it: restart diolkos, which then goes in front of it"
    )
    end(other)
    net.until(lambda: net.status()["state"] == "ready")
    assert "2 received" in net.ping("-c2").stdout
    # Behind ours, and by another name in front of it, they are in nobody's way.
    attach(net)
    attach(net, "firewall", PASSES_ON, IN_FRONT)
    assert "2 received" in net.ping("-c2").stdout
    assert net.status()["obstacles"] == []
    assert clat.stop() == 0


def test_a_filter_is_always_behind(net: Network) -> None:
    """Who wants clsact hears that tcx comes first."""
    other = attach(net)
    clat = net.clat("clsact", ready=False)
    net.until(lambda: "in front of that of diolkos and keeps packets from it: leave translator.hook out" in clat.log())
    assert net.status()["state"] == "waiting"
    end(other)
    net.until(lambda: net.status()["state"] == "ready")
    assert "2 received" in net.ping("-c2").stdout
    assert clat.stop() == 0


def test_a_tun_device_loses_nothing(net: Network) -> None:
    """Its packets come by the kernel's routes."""
    attach(net)
    clat = net.clat("tun")
    assert "2 received" in net.ping("-c2").stdout
    assert clat.stop() == 0


def test_what_cannot_be_looked_at_is_doubted(net: Network) -> None:
    """Without CAP_SYS_ADMIN, which the units do not give, programs have no names: one that may be a CLAT's is an obstacle
    until the first packet comes."""
    other = attach(net)
    clat = net.clat("tc", wrapper=NOBODY_ELSES)
    assert "not ready: 192.0.0.1 <-> " in clat.log()
    # The kernel's first routes may still be on their way, which is an obstacle of its own.
    net.until(lambda: [found["reason"] for found in net.status()["findings"]] == ["unknown_program"])
    [found] = net.status()["findings"]
    assert found["kind"] == "obstacle"
    assert "lacks CAP_SYS_ADMIN" in found["text"] and "is attached to wan0 in front of that of diolkos" in found["text"]
    assert net.ping("-c1", "-W1").returncode != 0
    assert net.status()["state"] == "waiting"
    end(other)
    net.until(lambda: net.status()["state"] == "ready")
    assert "2 received" in net.ping("-c2").stdout
    assert clat.stop() == 0


@pytest.mark.parametrize("sides", [("ingress",), ("ingress", "egress")])
def test_a_program_that_passes_packets_on_is_believed(net: Network, sides: tuple[str, ...]) -> None:
    """One for a single direction is no CLAT's; of two, the first answer shows that they pass it on."""
    attach(net, "monitor", PASSES_ON, 0, *sides)
    clat = net.clat("tc", wrapper=NOBODY_ELSES)
    assert (" not ready: " in clat.log()) == (len(sides) == 2)
    assert "2 received" in net.ping("-c2").stdout
    net.until(lambda: net.status()["state"] == "ready")
    assert clat.stop() == 0
