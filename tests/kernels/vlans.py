# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Checks of VLANs on network cards, and of bonds, for which kernels need modules."""

from __future__ import annotations

import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

from card_network import PINGS, CardNetwork, Lacking
from siit import TRANSLATOR4, TRANSLATOR6, V4, V4_IN_IPV6, V6

if TYPE_CHECKING:
    from collections.abc import Iterator

# Of the IPv4 side, of the IPv6 side, and one that nobody is in.
FOUR, SIX, NOBODY = "5", "6", "7"


def add(net: CardNetwork, place: str, card: str, number: str, *settings: str) -> None:
    """Make a VLAN on a card."""
    vlan = f"{card}.{number}"
    net.run(place, "ip", "link", "add", "link", card, "name", vlan, *settings, "type", "vlan", "id", number)
    net.run(place, "ip", "link", "set", vlan, "up")


@contextmanager
def four_in_vlan(net: CardNetwork) -> Iterator[None]:
    """The IPv4 side is a VLAN."""
    ends = ((net.v4, "a0", V4), (net.translator, "b4", TRANSLATOR4))
    for place, card, own in ends:
        net.run(place, "ip", "address", "del", f"{own}/24", "dev", card)
        add(net, place, card, FOUR)
        net.run(place, "ip", "address", "add", f"{own}/24", "dev", f"{card}.{FOUR}")
    net.run(net.v4, "ip", "route", "replace", "default", "via", TRANSLATOR4)
    try:
        yield
    finally:
        for place, card, own in ends:
            net.run(place, "ip", "link", "del", f"{card}.{FOUR}")
            net.run(place, "ip", "address", "add", f"{own}/24", "dev", card)
        net.run(net.v4, "ip", "route", "replace", "default", "via", TRANSLATOR4)


def vlan(net: CardNetwork) -> None:
    """The IPv4 side is a VLAN: every placement translates there, and drivers put its tags on and take them off."""
    with four_in_vlan(net):
        for placement in ("device", "inline", "direct", "xdp"):
            said = net.carries("siit", placement, f"b4.{FOUR}", "b6")
            named = f"b4.{FOUR} (virtio_net, VLAN {FOUR} of b4) sends frames" in said
            assert named is (placement == "xdp"), said
        net.carries("nat64", "xdp", f"b4.{FOUR}", "b6")
        add(net, net.translator, f"b4.{FOUR}", NOBODY)
        said = net.refusal("xdp", f"b4.{FOUR}.{NOBODY}", "b6")
        assert f"of b4.{FOUR}.{NOBODY}: XDP knows VLANs with one tag of IEEE 802.1Q" in said, said


@contextmanager
def six_beside(net: CardNetwork) -> Iterator[None]:
    """The IPv6 side is another VLAN of the same card. Its host's end of it lies in the namespace of that host."""
    net.run(net.v6, "ip", "address", "del", f"{V6}/64", "dev", "a0")
    net.run(net.translator, "ip", "address", "del", f"{TRANSLATOR6}/64", "dev", "b6")
    add(net, net.v4, "a0", SIX)
    net.run(net.v4, "ip", "link", "set", f"a0.{SIX}", "netns", net.v6)
    net.run(net.v6, "ip", "link", "set", f"a0.{SIX}", "up")
    net.run(net.v6, "ip", "address", "add", f"{V6}/64", "dev", f"a0.{SIX}", "nodad")
    # Its card has another address of this network, and would be the way, as long as the kernel knows the neighbour there.
    net.run(net.v6, "ip", "route", "replace", "default", "via", TRANSLATOR6, "dev", f"a0.{SIX}")
    comes(net, SIX)
    try:
        yield
    finally:
        net.run(net.translator, "ip", "link", "del", "six", check=False)
        net.run(net.v6, "ip", "link", "del", f"a0.{SIX}")
        net.run(net.v6, "ip", "address", "add", f"{V6}/64", "dev", "a0", "nodad")
        net.run(net.v6, "ip", "route", "replace", "default", "via", TRANSLATOR6)
        net.run(net.translator, "ip", "address", "add", f"{TRANSLATOR6}/64", "dev", "b6", "nodad")


def comes(net: CardNetwork, number: str, *settings: str) -> None:
    """The translator's interface to the IPv6 side, in a VLAN."""
    net.run(net.translator, "ip", "link", "add", "link", "b4", "name", "six", *settings, "type", "vlan", "id", number)
    net.run(net.translator, "ip", "link", "set", "six", "up")
    net.run(net.translator, "ip", "address", "add", f"{TRANSLATOR6}/64", "dev", "six", "nodad")


def answered(net: CardNetwork) -> int:
    """How many pings of the IPv6 host come back."""
    pinged = net.run(net.v6, "ping", f"-c{PINGS}", "-i0.01", "-W1", "-I", V6, V4_IN_IPV6, check=False).stdout
    return int(pinged.split(" received")[0].split()[-1])


def heard_beside(net: CardNetwork) -> int:
    """Packets that the hosts' card has received in the VLAN that nobody is in."""
    return net.ip_json(net.v4, "-s", "link", "show", f"a0.{NOBODY}")[0]["stats64"]["rx"]["packets"]


def stick(net: CardNetwork) -> None:
    """Both sides are VLANs of one card. One goes while packets pass, comes back as another VLAN, and as itself."""
    with four_in_vlan(net), six_beside(net):
        for mode in ("siit", "nat64"):
            said = net.carries(mode, "xdp", f"b4.{FOUR}", "six")
            assert f"six (virtio_net, VLAN {SIX} of b4) sends frames" in said, said
        net.place("siit", "xdp", f"b4.{FOUR}", "six")
        running = net.siit()
        add(net, net.v4, "a0", NOBODY)
        try:
            assert answered(net) == PINGS
            index = net.ip_json(net.translator, "link", "show", "six")[0]["ifindex"]
            load = net.start(net.v6, "ping", "-q", "-f", "-w60", V4_IN_IPV6, stdout=subprocess.DEVNULL)
            net.run(net.translator, "ip", "link", "del", "six")
            net.until(lambda: "is gone" in running.log())
            before = heard_beside(net)
            comes(net, NOBODY, "index", str(index + 100))
            net.until(lambda: "six is back" in running.log())
            assert answered(net) == 0
            net.run(net.translator, "ip", "link", "del", "six")
            comes(net, SIX, "index", str(index + 200))
            net.until(lambda: running.log().count("six is back") == 2)
            load.terminate()
            net.until(lambda: answered(net) == PINGS)
            sent = net.counters()["fast.sent_xdp"]
            assert answered(net) == PINGS
            assert net.counters()["fast.sent_xdp"] >= sent + PINGS
            # It says by itself what every interface says that comes up, and nothing of what others sent.
            assert heard_beside(net) - before < PINGS
            stays_down(net)
        finally:
            net.run(net.v4, "ip", "link", "del", f"a0.{NOBODY}")
        assert running.stop() == 0, running.log()


def stays_down(net: CardNetwork) -> None:
    """A VLAN that is set down takes nothing, though its card goes on receiving its frames; and up again, it does."""
    net.run(net.translator, "ip", "link", "set", f"b4.{FOUR}", "down")
    assert answered(net) == 0
    net.run(net.translator, "ip", "link", "set", f"b4.{FOUR}", "up")
    net.until(lambda: answered(net) == PINGS)


def bond(net: CardNetwork) -> None:
    """Frames of a bond are its members': XDP would translate none, so it is refused, and VLANs on it, too."""
    if subprocess.run(["modprobe", "-q", "bonding"], check=False).returncode != 0:
        raise Lacking("this kernel has no bonds")
    net.run(net.translator, "ip", "link", "add", "other0", "type", "bond", "mode", "active-backup")
    try:
        said = net.refusal("xdp", "b4", "other0")
        assert "of other0: it is a bond, and drivers hand over its frames as those of its members" in said, said
        assert 'set translator.placement to "direct"' in said, said
        net.run(net.translator, "ip", "link", "set", "other0", "up")
        add(net, net.translator, "other0", FOUR)
        said = net.refusal("xdp", "b4", f"other0.{FOUR}")
        assert f'of other0.{FOUR}: its card "other0" is a bond' in said, said
        net.carries("siit", "auto", "b4", "b6", "other0", by="direct")
    finally:
        net.run(net.translator, "ip", "link", "del", "other0")
