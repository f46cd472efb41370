# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What translates in the drivers of network cards (virtio-net), and at VLANs and VRFs, for which kernels need modules.

One network for all: the cards are cabled outside (cabling.py), and lie in the namespaces of the suite's routers.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

CLONE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(CLONE / "tests/e2e"))

from cabling import CARDS, MTU, address  # noqa: E402
from conftest import program, standing  # noqa: E402
from kernel import VERSION  # noqa: E402
from nat64 import CONFIG as STATEFUL  # noqa: E402
from nat64 import Nat64Network  # noqa: E402
from siit import CONFIG as STATELESS  # noqa: E402
from siit import TRANSLATOR4, TRANSLATOR6, V4, V4_IN_IPV6, V6, V6_MAPPED  # noqa: E402
from test_siit_traffic import UDP_ASK, UDP_ECHO, listen, transfer  # noqa: E402

PINGS = 50
SHORT = 1500
MISSING = 3
# Drivers tell what they can do (the family `netdev` of generic netlink), and this one takes frames in several buffers.
TELLS = VERSION >= (6, 3)
# A table of routes, and the interface whose it is.
TABLE, VRF = "10", "red"
# Bytes of what an interface says by itself.
STRAY = 20_000
SENT = {"xdp": "fast.sent_xdp", "direct": "fast.sent_direct"}


class Lacking(Exception):
    """This guest has not what a check is about."""


@dataclass
class CardNetwork(Nat64Network):
    """The network of a NAT64 whose links are cards. The hosts send whole frames, as to a wire."""

    def lay_links(self) -> None:
        """Bring each card to its place."""
        for card, place in (("v4", self.v4), ("b4", self.translator), ("b6", self.translator), ("v6", self.v6)):
            self.bring(card, place, card if place == self.translator else "a0")
        self.shorten(SHORT)

    def bring(self, card: str, place: str, name: str) -> bool:
        """Bring a card to a namespace; False if this guest has none such."""
        shown = subprocess.run(["ip", "-j", "link"], check=True, capture_output=True, text=True).stdout
        links = {link["address"]: link["ifname"] for link in json.loads(shown)}
        if address(card) in links:
            self.host("ip", "link", "set", links[address(card)], "netns", place, "name", name)
        return address(card) in links

    def remove(self) -> None:
        """As before, and the cards go back under names of their own: those of this network would be in the way of every
        other network that is made beside or after it."""
        for place in (self.v4, self.translator, self.v6):
            shown = self.run(place, "ip", "-j", "link", check=False).stdout
            for link in json.loads(shown or "[]"):
                for card in (card for card in CARDS if address(card) == link["address"]):
                    back = ("down", "netns", "1", "name", f"card-{card}")
                    self.run(place, "ip", "link", "set", link["ifname"], *back, check=False)
        super().remove()

    def ends(self) -> tuple[tuple[str, str], ...]:
        """Of both cables."""
        return (self.v4, "a0"), (self.translator, "b4"), (self.translator, "b6"), (self.v6, "a0")

    def channels(self) -> list[str]:
        """Of a card, as many as there can be, and those in use."""
        return re.findall(r"Combined:\s+(\d+)", self.run(self.translator, "ethtool", "-l", "b4").stdout)

    def shorten(self, mtu: int) -> None:
        """Give all cards an MTU."""
        for place, link in self.ends():
            self.run(place, "ip", "link", "set", link, "mtu", str(mtu))

    def place(self, mode: str, placement: str, *interfaces: str) -> None:
        """Configure a mode with a placement."""
        text = STATELESS if mode == "siit" else STATEFUL
        named = ", ".join(f'"{name}"' for name in interfaces or ("b4", "b6"))
        keys = f'placement = "{placement}"\n' + (f"interfaces = [{named}]\n" if placement != "device" else "")
        self.config.write_text(text.replace("[translator]\n", f"[translator]\n{keys}"))

    def refusal(self, *placed: str) -> str:
        """Why it does not start."""
        self.place("siit", *placed)
        running = self.siit(ready=False)
        assert running.wait() == MISSING, running.log()
        assert not self.leftovers(), self.leftovers()
        said = running.log().splitlines()[-1]
        print(f"  {said}")
        return said

    def carries(self, mode: str, placement: str, *interfaces: str, by: str = "", sizes: tuple[int, ...] = (1, 1400)) -> str:
        """Run it under real traffic; what it has said. `by`: who sends most packets, if not the placement says it."""
        self.place(mode, placement, *interfaces)
        running = self.siit(command=mode)
        self.traffic(mode, sizes)
        counters = self.counters()
        seen = {name: n for name, n in counters.items() if n}
        dropped = {name: n for name, n in seen.items() if ".drop." in name or name.endswith("failed")}
        assert not dropped, f"dropped: {dropped}"
        assert not (by == "inline" and counters["fast.sent_direct"]), f"seen: {seen}"
        if sent := SENT.get(by or placement):
            translated = counters["fast.translated_6to4"] + counters["fast.translated_4to6"]
            assert 2 * counters[sent] > translated > PINGS, f"seen: {seen}"
        assert placement == "xdp" or by == "xdp" or not counters["fast.sent_xdp"], f"seen: {seen}"
        assert running.stop() == 0, running.log()
        print(f"  {mode} {placement}: {seen}\n{running.log()}")
        return running.log()

    def says(self, words: str, change: Callable[[], None]) -> None:
        """Run `direct`, change something, and wait for words about it."""
        self.place("siit", "direct", "b4", "b6", "c6")
        running = self.siit()
        assert words not in running.log(), running.log()
        change()
        self.until(lambda: words in running.log())
        assert running.stop() == 0, running.log()

    def traffic(self, mode: str, sizes: tuple[int, ...]) -> None:
        """Ping and datagrams from the IPv6 host, and TCP both ways, of a SIIT from the IPv4 host."""
        out, back = (self.v6, self.v4, V6, V4_IN_IPV6, V4), (self.v4, self.v6, V4, V6_MAPPED, V6)
        asker, answerer, source, to, answering = out
        pinged = self.run(asker, "ping", f"-c{PINGS}", "-i0.01", "-W9", "-I", source, to, check=False).stdout
        assert f"{PINGS} received" in pinged, pinged
        echo = listen(self, answerer, UDP_ECHO, answering)
        assert self.script(asker, UDP_ASK, source, to, *map(str, sizes)).strip() == "all"
        echo.terminate()
        transfer(self, back if mode == "siit" else out, 1)


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


def vlan(net: CardNetwork) -> None:
    """The IPv4 side is a VLAN: every placement but `xdp` translates there, and that one says why not."""
    for place, link, own in ((net.v4, "a0", V4), (net.translator, "b4", TRANSLATOR4)):
        net.run(place, "ip", "address", "del", f"{own}/24", "dev", link)
        net.run(place, "ip", "link", "add", "link", link, "name", f"{link}.5", "type", "vlan", "id", "5")
        net.run(place, "ip", "address", "add", f"{own}/24", "dev", f"{link}.5")
        net.run(place, "ip", "link", "set", f"{link}.5", "up")
    net.run(net.v4, "ip", "route", "replace", "default", "via", TRANSLATOR4)
    try:
        for placement in ("device", "inline", "direct"):
            net.carries("siit", placement, "b4.5", "b6")
        said = net.refusal("xdp", "b4.5", "b6")
        assert "in the driver (XDP) of b4.5: " in said and "has no native XDP" in said, said
    finally:
        for place, link, own in ((net.v4, "a0", V4), (net.translator, "b4", TRANSLATOR4)):
            net.run(place, "ip", "link", "del", f"{link}.5")
            net.run(place, "ip", "address", "add", f"{own}/24", "dev", link)
        net.run(net.v4, "ip", "route", "replace", "default", "via", TRANSLATOR4)


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
            except Exception as error:
                failed += 1
                print("FAIL", name, flush=True)
                print(f"--- {name}\n{error}", flush=True)
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
