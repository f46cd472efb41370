# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What translates in the drivers of network cards (virtio-net), and at VLANs and VRFs, for which kernels need modules.

One network for all: the cards are cabled outside (cabling.py), and lie in the namespaces of the suite's routers.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator

from cabling import MTU
from card_network import SHORT, TELLS, CardNetwork, Lacking
from conftest import program, standing
from siit import TRANSLATOR6, V6
from vlans import bond, stick, vlan

# A table of routes, and the interface whose it is.
TABLE, VRF = "10", "red"
# Bytes of what an interface says by itself.
STRAY = 20_000


def sends(net: CardNetwork) -> None:
    """A SIIT, and what is said of the cards: each kernel knows it in its own way."""
    said = net.carries("siit", "xdp")
    can = "any number of buffers" if TELLS else "one buffer, as far as is known of this driver"
    assert f"b4 (virtio_net) sends frames in {can}" in said, said
    assert net.channels() == ["1", "1"] or "under locks" not in said, said
    assert "direct and XDP between b4, b6" in said, said


def chosen(net: CardNetwork) -> None:
    """What is left to the program."""
    said = net.carries("siit", "auto", by="xdp")
    assert "direct and XDP between b4, b6" in said, said


def is_direct(said: str, why: str) -> None:
    """`auto` goes on with tc, and says why, and nothing else."""
    assert re.search(f"placement auto: direct: .*{why}", said), said
    assert "ready: " in said and ", direct between b4" in said and "XDP between" not in said, said


def long_frames(net: CardNetwork) -> None:
    """Frames longer than a page: the driver takes them, or says why it does not, and tc does."""
    net.shorten(MTU)
    try:
        if TELLS:
            net.carries("siit", "xdp", sizes=(8000,))
            return
        said = net.refusal("xdp")
        assert re.search(r'the driver of b4 refuses an XDP program \("virtio_net: .*MTU', said), said
        said = net.carries("siit", "auto", by="direct", sizes=(8000,))
        is_direct(said, "MTU")
    finally:
        net.shorten(SHORT)


def few_queues(net: CardNetwork) -> None:
    """All queues are the kernel's, and none is left for XDP. With more of them than CPUs, the kernel would panic."""
    most, now = net.channels()
    if most == now:
        said = net.carries("siit", "xdp")
        assert f"under locks, because {most} of its {most} channels are in use: " in said, said
        return
    net.run(net.translator, "ethtool", "-L", "b4", "combined", most)
    try:
        said = net.refusal("xdp")
        assert f"of b4: it uses {most} of its {most} channels" in said, said
        assert f"`ethtool -L b4 combined {now}`" in said, said
    finally:
        net.run(net.translator, "ethtool", "-L", "b4", "combined", now)


def offloads_that_stay(net: CardNetwork) -> None:
    """A card whose host puts packets together and cannot be asked to stop: its driver says so, and that is passed on."""
    if not net.bring("spare", net.translator, "c9"):
        raise Lacking("this host makes cards without offloads")
    said = net.refusal("xdp", "b4", "c9")
    assert re.search(r'the driver of c9 refuses an XDP program \("virtio_net: .*GRO_HW', said), said
    assert "`ethtool -K c9`" in said, said
    said = net.carries("siit", "auto", "b4", "b6", "c9", by="direct")
    is_direct(said, "GRO_HW")


def without_drivers(net: CardNetwork) -> None:
    """Virtual interfaces whose drivers run no program."""
    for kind, below in (("dummy", ()), ("ipvlan", ("link", "b6"))):
        net.run(net.translator, "ip", "link", "add", *below, "name", "other0", "type", kind)
        said = net.refusal("xdp", "b4", "other0")
        assert f'of other0: its driver "{kind}" has no native XDP' in said, said
        net.run(net.translator, "ip", "link", "del", "other0")


def vrf(net: CardNetwork) -> None:
    """Both sides in a VRF, and a route of the main table that leads elsewhere: that is no way for packets of the VRF."""
    net.run(net.translator, "ip", "link", "add", VRF, "type", "vrf", "table", TABLE)
    net.run(net.translator, "ip", "link", "set", VRF, "up")
    net.host("ip", "link", "add", "a1", "netns", net.v6, "type", "veth", "peer", "c6", "netns", net.translator)
    for place, link in ((net.translator, "c6"), (net.v6, "a1")):
        net.run(place, "ip", "link", "set", link, "up")
    elsewhere = net.ip_json(net.v6, "link", "show", "a1")[0]["address"]
    net.run(net.translator, "ip", "-6", "route", "add", f"{V6}/128", "dev", "c6")
    net.run(net.translator, "ip", "-6", "neigh", "add", V6, "lladdr", elsewhere, "dev", "c6", "nud", "permanent")
    belongs = f'b4 belongs to the VRF "{VRF}"'
    try:
        net.says(belongs, lambda: enslave(net, VRF))
        net.carries("siit", "direct")
        for placement in ("inline", "direct"):
            said = net.carries("siit", placement, "b4", "b6", "c6", by="inline")
            assert (belongs in said) is (placement == "direct"), said
        assert f'b4: it belongs to the VRF "{VRF}"' in net.refusal("xdp")
        went = net.ip_json(net.translator, "-s", "link", "show", "c6")[0]["stats64"]["tx"]["bytes"]
        assert went < STRAY, f"{went} bytes took the way of the main table"
    finally:
        enslave(net, "")
        for link in (VRF, "c6"):
            net.run(net.translator, "ip", "link", "del", link)


def enslave(net: CardNetwork, vrf: str) -> None:
    """Bring both interfaces into a VRF, or out of one. IPv6 forgets their addresses."""
    for link in ("b4", "b6"):
        net.run(net.translator, "ip", "link", "set", link, *(("master", vrf) if vrf else ("nomaster",)))
    net.run(net.translator, "ip", "-6", "address", "replace", f"{TRANSLATOR6}/64", "dev", "b6", "nodad")


def checks() -> Iterator[tuple[str, Callable[[CardNetwork], None]]]:
    """Each with its name."""
    yield "siit xdp", sends
    yield "nat64 xdp", lambda net: net.carries("nat64", "xdp") and None
    yield "auto", chosen
    yield "frames longer than a page", long_frames
    yield "no queue left", few_queues
    yield "offloads that stay", offloads_that_stay
    yield "no driver", without_drivers
    yield "vlan", vlan
    yield "router on a stick", stick
    yield "bond", bond
    yield "vrf", vrf


def main() -> int:
    """Each check, one line; with arguments, those whose names have one of them."""
    failed = 0
    with standing(lambda: CardNetwork(program(), datapath="tc")) as net:
        for name, check in checks():
            if sys.argv[1:] and not any(word in name for word in sys.argv[1:]):
                continue
            try:
                check(net)
                print("ok", name, flush=True)
            except Lacking as why:
                print(f"skip {name}: {why}", flush=True)
            except Exception:
                failed += 1
                print("FAIL", name, flush=True)
                print(f"--- {name}\n{traceback.format_exc()}", flush=True)
                for process in net.running:
                    process.terminate()
                    process.wait()
    shown = subprocess.run(["ip", "-j", "link"], check=True, capture_output=True, text=True).stdout
    astray = {link["ifname"] for link in json.loads(shown)} & {"a0", "b4", "b6", "c9"}
    if astray:
        print(f"FAIL cards go back: {', '.join(astray)} stand here", flush=True)
    return failed > 0 or bool(astray)


if __name__ == "__main__":
    sys.exit(main())
