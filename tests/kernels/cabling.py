# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Network cards of a guest (virtio-net), and the cables between them.

    v4 ── b4   b6 ── v6        spare        of eight queues: m4 ── c4   c6 ── m6        of two: t4 ── d4   d6 ── t6

Where this host lets somebody make TAP devices (root), each card has several queues, and a cable is a bridge between two TAP
devices in a network namespace that ends with the guest. Elsewhere QEMU's own hubs join cards with one queue.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass

# By the last bytes of their addresses. Those with the same first letter and number are at the two ends of one cable.
CARDS = {"v4": "04:01", "b4": "04:02", "b6": "06:02", "v6": "06:01", "spare": "09:01"}
CABLES = {"4": ("v4", "b4"), "6": ("v6", "b6")}
# Of other networks, whose cards have other numbers of queues.
MANY = {"m4": "14:01", "c4": "14:02", "c6": "16:02", "m6": "16:01"}
TWO = {"t4": "24:01", "d4": "24:02", "d6": "26:02", "t6": "26:01"}
MORE_CABLES = {"14": ("m4", "c4"), "16": ("m6", "c6"), "24": ("t4", "d4"), "26": ("t6", "d6")}
# As many as XDP takes for itself with two processors, beside one for each of them.
QUEUES = 4
MANY_QUEUES = 8
MTU = 9000
# What does not let its host take offloads back, as some clouds' do not.
UNABLE = "ctrl_guest_offloads=off"

# `"$@"` is QEMU's command. Nothing but the guest says anything on these links.
LAY = f"""
set -e
echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6
for card in {" ".join([*CARDS, *MANY, *TWO])}; do
    ip tuntap add "$card" mode tap multi_queue vnet_hdr
    ip link set "$card" mtu {MTU} up
done
lay() {{
    ip link add "$1" type bridge mcast_snooping 0
    ip link set "$1" mtu {MTU} up
    ip link set "$2" master "$1"
    ip link set "$3" master "$1"
}}
{chr(10).join(f"lay cable{name} {' '.join(ends)}" for name, ends in (CABLES | MORE_CABLES).items())}
exec "$@"
"""
AROUND = ("unshare", "--net", "--", "sh", "-c", LAY, "sh")


@dataclass(frozen=True)
class Cabling:
    """What QEMU is told, what it runs within, and how many queues a card has."""

    devices: tuple[str, ...]
    within: tuple[str, ...]
    queues: int


def address(card: str) -> str:
    """A card's link-layer address."""
    return f"02:00:00:00:{(CARDS | MANY | TWO)[card]}"


def cabling() -> Cabling:
    """What this host can do."""
    done = subprocess.run([*AROUND, "true"], check=False, capture_output=True, text=True)
    return with_taps() if done.returncode == 0 else with_hubs()


def with_taps() -> Cabling:
    """Cards with several queues."""
    devices: list[str] = []
    numbers = {**dict.fromkeys(CARDS, QUEUES), **dict.fromkeys(MANY, MANY_QUEUES), **dict.fromkeys(TWO, 2)}
    for card, queues in numbers.items():
        tap = f"tap,id={card},ifname={card},script=no,downscript=no,vhost=off,queues={queues}"
        other = f",{UNABLE}" if card == "spare" else ""
        devices += ["-netdev", tap, "-device", f"virtio-net-device,netdev={card},mac={address(card)},mq=on{other}"]
    return Cabling(tuple(devices), AROUND, QUEUES)


def with_hubs() -> Cabling:
    """Cards with one queue, without offloads."""
    devices: list[str] = []
    for hub, ends in CABLES.items():
        for card in ends:
            devices += ["-netdev", f"hubport,id={card},hubid={hub}"]
            devices += ["-device", f"virtio-net-device,netdev={card},mac={address(card)}"]
    return Cabling(tuple(devices), (), 1)
