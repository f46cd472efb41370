# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Pairs of ports: a device, and a shadow through which the kernel gets what the program declines.

    DEVICE ══ port 2n  simple_switch  port 2n+1 ══ inner end ── SHADOW (virtual Ethernet)

simple_switch takes frames by AF_PACKET, which is a copy: a filter drops the kernel's own at DEVICE and at the inner end.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

FILTER = "25716"  # the preference that diolkos-switch has, too
# A classic BPF program whose one instruction returns TC_ACT_SHOT.
DROP = ["protocol", "all", "handle", "1", "bpf", "direct-action", "bytecode", "1,6 0 0 2"]
OWNER = "bmv2-switch "  # alias of a shadow; process and device follow
DEVICES = Path("/sys/class/net")
KEPT = ("rx_packets", "rx_bytes", "tx_packets", "tx_bytes", "tx_dropped")


@dataclass(frozen=True)
class Pair:
    """One of them."""

    device: str
    shadow: str
    inner: str


def pair(text: str, number: int) -> Pair:
    """Of DEVICE=SHADOW. Raises ValueError."""
    device, _, shadow = text.partition("=")
    if not device or not shadow:
        raise ValueError(f"{text}: DEVICE=SHADOW is expected")
    return Pair(device, shadow, f"bm{os.getpid()}-{number}")


def run(*command: str) -> None:
    """Raises OSError with what it says."""
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"{' '.join(command[:5])} …: {done.stderr.strip()}")


def check(of: Pair) -> None:
    """Whether it may be added. Raises OSError; changes nothing, so that what another switch has stays whole."""
    if not (DEVICES / of.device).exists():
        raise OSError(f"{of.device}: no such device")
    if (DEVICES / of.shadow).exists() and not is_left(of.shadow):
        raise OSError(f"{of.shadow}: is there already")
    for shadow in DEVICES.iterdir():
        if owner(shadow.name)[1:] == [of.device] and not is_left(shadow.name):
            raise OSError(f"{of.device}: a switch has it already, with the shadow {shadow.name}")


def add(of: Pair) -> None:
    """The shadow has address and MTU of the device, and both ends are up. After `check`."""
    if (DEVICES / of.shadow).exists():
        run("ip", "link", "del", of.shadow)
    mac, mtu = ((DEVICES / of.device / name).read_text().strip() for name in ("address", "mtu"))
    inner = ["peer", "name", of.inner, "mtu", mtu]
    run("ip", "link", "add", of.shadow, "address", mac, "mtu", mtu, "type", "veth", *inner)
    run("ip", "link", "set", of.shadow, "alias", f"{OWNER}{os.getpid()} {of.device}")
    # Nobody speaks there, and a checksum that the kernel leaves to a device is finished before a frame leaves it.
    run("ip", "link", "set", of.inner, "addrgenmode", "none")
    run("ethtool", "-K", of.shadow, "tx", "off", "tso", "off", "gso", "off", "gro", "off")
    run("ethtool", "-K", of.inner, "tso", "off", "gso", "off", "gro", "off")
    for name in (of.inner, of.shadow):
        run("ip", "link", "set", name, "up")
    for name in (of.device, of.inner):
        subprocess.run(["tc", "qdisc", "add", "dev", name, "clsact"], check=False, capture_output=True)  # it may be there
        run("tc", "filter", "replace", "dev", name, "ingress", "pref", FILTER, *DROP)


def owner(shadow: str) -> list[str]:
    """Process and device, if one of us has made it."""
    try:
        alias = (DEVICES / shadow / "ifalias").read_text().strip()
    except OSError:  # it has gone, or is no device
        return []
    words = alias.removeprefix(OWNER).split()
    return words if alias.startswith(OWNER) and len(words) == 2 and words[0].isdigit() else []


def is_left(shadow: str) -> bool:
    """Whether one of us has made it who was killed."""
    made = owner(shadow)
    if not made:
        return False
    try:
        return b"switch.py" not in Path(f"/proc/{made[0]}/cmdline").read_bytes()
    except FileNotFoundError:
        return True


def remove(of: Pair) -> None:
    """What there is of it."""
    for command in (
        ["tc", "filter", "del", "dev", of.device, "ingress", "pref", FILTER],
        ["ip", "link", "del", of.inner],
    ):
        subprocess.run(command, check=False, capture_output=True)


def counters(of: Pair, port: int) -> list[int]:
    """Of a port, as op PORT has them."""
    folder = DEVICES / (of.inner if port % 2 else of.device) / "statistics"
    return [int((folder / name).read_text()) for name in KEPT] + [0]
