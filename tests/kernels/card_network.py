# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The suite's network of a SIIT or NAT64 whose links are network cards (virtio-net), which are cabled outside (cabling.py)."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

CLONE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(CLONE / "tests/e2e"))

from cabling import CARDS, MANY, TWO, address  # noqa: E402
from kernel import VERSION  # noqa: E402
from nat64 import CONFIG as STATEFUL  # noqa: E402
from nat64 import Nat64Network  # noqa: E402
from siit import CONFIG as STATELESS  # noqa: E402
from siit import V4, V4_IN_IPV6, V6, V6_MAPPED  # noqa: E402
from test_siit_traffic import UDP_ASK, UDP_ECHO, listen, transfer  # noqa: E402

PINGS = 50
SHORT = 1500
MISSING = 3
# Drivers tell what they can do (the family `netdev` of generic netlink), and this one takes frames in several buffers.
TELLS = VERSION >= (6, 3)
SENT = {"xdp": "fast.sent_xdp", "direct": "fast.sent_direct"}


class Lacking(Exception):
    """This guest has not what a check is about."""


@dataclass
class CardNetwork(Nat64Network):
    """The network of a NAT64 whose links are cards. The hosts send whole frames, as to a wire."""

    cards: tuple[str, str, str, str] = ("v4", "b4", "b6", "v6")
    """Whose other ends are cabled to each other: that of the IPv4 host, the translator's two, that of the IPv6 host."""

    def lay_links(self) -> None:
        """Bring each card to its place."""
        names = ((self.v4, "a0"), (self.translator, "b4"), (self.translator, "b6"), (self.v6, "a0"))
        for card, (place, name) in zip(self.cards, names, strict=True):
            if not self.bring(card, place, name):
                raise Lacking(f"this host makes no cards such as {card}: that takes root")
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
                for card in (card for card in CARDS | MANY | TWO if address(card) == link["address"]):
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
