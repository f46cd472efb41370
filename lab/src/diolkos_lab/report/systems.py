# SPDX-License-Identifier: Apache-2.0 OR MIT
"""How a system is called and coloured: the same in every picture, table and sentence.

The colours follow Okabe and Ito's palette for colour-blind readers (blue, vermillion, green, orange, purple);
native paths are in the colour of the ink. Each has a second value for dark pages. Lines of two-hop paths are
dashed and markers differ, so that nothing hangs on colour alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from diolkos_lab.experiment.definition import PACKETS
from diolkos_lab.experiment.frames import flows_words, native_words
from diolkos_lab.load.registry import LOADS
from diolkos_lab.report.read import Cell
from diolkos_lab.report.values import natural

INK = "#1a1a19"  # text, axes and the native IPv6 path


@dataclass(frozen=True)
class Look:
    name: str  # of the CSS variable
    light: str
    dark: str
    marker: str  # a symbol of Vega


_LOOKS = {
    ("native", "ipv6"): Look("native6", INK, "#f2f2ee", "diamond"),
    ("native", "ipv4"): Look("native4", "#6f6f6c", "#a9a9a4", "diamond"),
    ("diolkos", "tc"): Look("diolkos-tc", "#0067a5", "#58b0ee", "circle"),
    ("diolkos", "tun"): Look("diolkos-tun", "#3f9bd8", "#93d0f7", "square"),
    ("diolkos", "xdp"): Look("diolkos-xdp", "#003f73", "#2f8fe0", "cross"),
    ("diolkos", "inline"): Look("diolkos-inline", "#1b3fae", "#8aa5ff", "triangle-right"),
    ("diolkos", "direct"): Look("diolkos-direct", "#7a2fc4", "#c79bff", "cross"),
    ("diolkos", "nat64-tc"): Look("diolkos-nat64-tc", "#00757f", "#45c4cf", "triangle-right"),
    ("diolkos", "nat64-tun"): Look("diolkos-nat64-tun", "#2fa3ad", "#a3e4ea", "diamond"),
    ("diolkos", "nat64-xdp"): Look("diolkos-nat64-xdp", "#004c52", "#17909b", "square"),
    ("diolkos", "nat64-inline"): Look("diolkos-nat64-inline", "#0b6e4f", "#5fcfa6", "triangle-up"),
    ("diolkos", "nat64-direct"): Look("diolkos-nat64-direct", "#8e3b8e", "#e0a0e0", "triangle-down"),
    ("diolkos", "inbound-tc"): Look("diolkos-inbound-tc", "#008577", "#4fd6c3", "circle"),
    ("diolkos", "inbound-inline"): Look("diolkos-inbound-inline", "#3b5bb5", "#a3baff", "triangle-left"),
    ("diolkos", "inbound-direct"): Look("diolkos-inbound-direct", "#9a4fc9", "#dbb3ff", "square"),
    ("diolkos", "inbound-tun"): Look("diolkos-inbound-tun", "#5c8fb8", "#b3d9f2", "triangle-down"),
    ("diolkos", "464xlat"): Look("diolkos-chain", "#5346a8", "#a79df5", "square"),
    ("diolkos", "dns64"): Look("diolkos-dns64", "#00699e", "#6cc4f5", "diamond"),
    ("unbound", "dns64"): Look("unbound", "#8a5a00", "#e0b060", "triangle-left"),
    ("tayga", ""): Look("tayga", "#d04f00", "#ff8a4a", "triangle-down"),
    ("tayga", "masquerade"): Look("tayga-masquerade", "#8c2d04", "#ffc9a8", "diamond"),
    ("tayga", "inbound"): Look("tayga-inbound", "#a34a1c", "#ffab7a", "cross"),
    ("tundra", ""): Look("tundra", "#b97e00", "#f2b84b", "triangle-up"),
    ("jool", ""): Look("jool", "#008a63", "#35c79b", "triangle-up"),
    ("jool64", ""): Look("jool64", "#00664a", "#6bd6b0", "circle"),
    ("jool64", "inbound-module"): Look("jool64-inbound", "#2f7d52", "#8fdcae", "square"),
    ("forwarder", "tc"): Look("forwarder-tc", "#6b6b00", "#cfcf4d", "cross"),
    ("forwarder", "xdp"): Look("forwarder-xdp", "#2e6b00", "#93d04d", "square"),
    ("p4swx", "siit"): Look("p4swx-siit", "#8f6a00", "#d9b23a", "square"),
    ("p4swx", "siit-dc"): Look("p4swx-siit-dc", "#8f6a00", "#d9b23a", "circle"),
    ("p4swx", "nat64"): Look("p4swx-nat64", "#a3541b", "#f0a35e", "cross"),
    ("p4swx", "nat64-learn"): Look("p4swx-nat64-learn", "#c2410c", "#ffb27a", "triangle-up"),
    ("p4swx", "inbound"): Look("p4swx-inbound", "#7d3f00", "#cf8a4a", "triangle-left"),
    ("p4bmv2", "siit"): Look("p4bmv2-siit", "#7a1f3d", "#d9799b", "square"),
    ("p4bmv2", "siit-dc"): Look("p4bmv2-siit-dc", "#7a1f3d", "#d9799b", "circle"),
    ("p4bmv2", "nat64"): Look("p4bmv2-nat64", "#a3325a", "#f0a0bd", "cross"),
    ("p4bmv2", "inbound"): Look("p4bmv2-inbound", "#5c1030", "#c7678a", "triangle-left"),
    ("nat44", ""): Look("nat44", "#b04a85", "#e79ac6", "cross"),
}
# For systems that are measured by path and unknown here; taken in turn, in order of their names.
_SPARE = [
    Look("spare1", "#7a5195", "#c39bdc", "square"),
    Look("spare2", "#6b6b00", "#cfcf4d", "triangle-left"),
    Look("spare3", "#8a4b2f", "#d99a7c", "cross"),
    Look("spare4", "#5f6b73", "#aab7bf", "circle"),
]
LOOKS = [*_LOOKS.values(), *_SPARE]
_STRANGERS: dict[tuple[str, str], int] = {}  # systems without a look, in the order in which they were met

_TITLES = {
    "tayga": "Tayga",
    "tundra": "Tundra",
    "jool": "Jool",
    "jool64": "Jool NAT64",
    "nat44": "NAT44",
    "forwarder": "BPF forwarding",
    "p4swx": "P4 on SWX",
    "p4bmv2": "P4 on BMv2",
    "natrules": "NAT rules",
    "wireguard": "WireGuard",
    "bridge": "bridge",
}
_ORDER = ["native", "forwarder", "diolkos", "jool", "jool64", "nat44", "p4swx", "p4bmv2", "tundra", "tayga", "unbound"]
_DATAPATHS = ["kernel", "xdp", "direct", "inline", "tc", "tun"]  # or after what the system does, as in `nat64-tc`
CHAIN = "464xlat"
_BY_THEMSELVES = {"backend", "position", "engine"}  # factors whose levels need no name before them
INBOUND = "inbound"  # from IPv4 to IPv6
_EITHER_FAMILY = {"natrules", "wireguard", "bridge"}  # a run may have them with both; elsewhere the path says which
_WITH = {"masquerade"}  # datapaths that are another program beside the system
FAMILIES = {"ipv6": "IPv6", "ipv4": "IPv4"}
WORDS: dict[str, str] = {name: load.words for name, load in LOADS.items()}
# What stands in the answer for a system, each with its main metric; all else is in the pictures and tables.
HEADLINE = tuple((load, LOADS[load].main({})) for load in PACKETS)


def look(cell: Cell) -> Look:
    mode, _, path = cell.datapath.rpartition("-")
    variants = [cell.family] if cell.native else [cell.datapath, mode, path, ""]
    found = next((_LOOKS[cell.system, v] for v in variants if (cell.system, v) in _LOOKS), None)
    return found or _SPARE[_STRANGERS.setdefault((cell.system, cell.datapath), len(_STRANGERS)) % len(_SPARE)]


def label(cell: Cell) -> str:
    """The name of a cell with the factor levels that tell it apart: "diolkos tc, offloads off"."""
    return short_label(cell) + "".join(f", {_level(key, value)}" for key, value in cell.factors)


def _level(factor: str, level: str) -> str:
    """ "offloads off", "1000 rules", "at the router", "nft-list"."""
    if factor == "rules":
        return f"{level} rules"
    if factor == "place":
        return f"at the {level}"
    return level if factor in _BY_THEMSELVES else f"{factor} {level}"


def subject_label(subject: str) -> str:
    """Of `system/datapath/family/hops`: "NAT rules dnat over IPv4"."""
    system, datapath, family, hops = subject.split("/")
    return short_label(Cell(system, datapath, family, int(hops), alike=True))


def title(system: str) -> str:
    """A system's name without datapath: "Jool"."""
    return _TITLES.get(system, system)


def short_label(cell: Cell) -> str:
    """The name of a cell: "native IPv6", "diolkos tc", "Jool, 2 hops"."""
    name = title(cell.system)
    if cell.native:
        name += f" {FAMILIES.get(cell.family, cell.family)}"
    elif cell.datapath.startswith(INBOUND) and (cell.system, "") in _LOOKS:
        name += f" {INBOUND}"
    elif cell.datapath in _WITH:
        name += f" + {cell.datapath}"
    elif (cell.system, "") not in _LOOKS and cell.datapath:
        name += f" {cell.datapath}"
    if cell.system in _EITHER_FAMILY and cell.family == "ipv4":
        name += " over IPv4"
    if cell.hops != 1 and not cell.alike:
        name += f", {cell.hops} hops"
    return name


def load_label(load: str) -> str:
    """A load with its variant: "TCP upload, 30 s, 10 streams"."""
    base, *variant = load.split(" ")
    return ", ".join([WORDS.get(base, base), *map(_variant, variant)])


def _variant(part: str) -> str:
    key, _, value = part.partition("=")
    if key in _ONE_OF and value in _ONE_OF[key]:
        return _ONE_OF[key][value]
    if key == "object":
        return size(int(value))
    if key == "native_share":
        return native_words(value)
    if key == "rate" and value.isdigit():
        return f"{float(value) / 1e9:g} Gbit/s"
    words = {
        "flows": flows_words(value),
        "directions": f"{value} directions",
        "next_hops": f"{value} next hops",
        "streams": f"{value} streams",
        "nodes": f"{value} nodes",
        "offered": f"{value} a second",
        "seconds": f"{value} s",
        "count": f"{value} echoes",
        "interval": f"every {value} s",
        "by": f"by {value}",
        "datagram": f"{value}-byte datagrams",
        "direction": value,
    }
    return words.get(key, f"{key} {value}")


# Levels of factors that have words of their own.
_ONE_OF = {
    "streams": {"1": "1 stream"},
    "offered": {"most": "as many as are answered"},
    "rate": {"most": "without a limit", "knee": "at its knee"},
    "cache": {"cold": "new names", "warm": "known names"},
}


def variant(load: str) -> dict[str, str]:
    """The factor levels in the name of a load: "http by=name object=1024" has `by` and `object`."""
    return dict(part.split("=", maxsplit=1) for part in load.split(" ")[1:])


def size(count: int) -> str:
    """1024 → "1 KiB"."""
    for power, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if count >= 1 << power:
            return f"{count / (1 << power):g} {unit}"
    return f"{count} bytes"


def load_order(load: str) -> tuple[Any, ...]:
    base = load.split(" ", maxsplit=1)[0]
    return (list(WORDS).index(base) if base in WORDS else len(WORDS), natural(load))


def setting_label(setting: tuple[tuple[str, str], ...]) -> str:
    """Factor levels in words: "offloads off"."""
    return ", ".join(f"{key} {value}" for key, value in setting)


def missing_label(entry: Mapping[str, Any]) -> str:
    """Of an entry of `missing`: a system, or a level of one of its factors."""
    level = ((str(entry.get("factor")), str(entry["level"])),) if entry.get("level") else ()
    return label(Cell(str(entry.get("system", "?")), str(entry.get("datapath") or ""), "ipv6", 1, level))


def order(cell: Cell) -> tuple[Any, ...]:
    """Native first, then the others as an operator would line them up; unknown systems last."""
    rank = _ORDER.index(cell.system) if cell.system in _ORDER else len(_ORDER)
    mode, _, last = cell.datapath.rpartition("-")
    path = _DATAPATHS.index(last) if last in _DATAPATHS else len(_DATAPATHS)
    return natural(cell.factors), rank, cell.system, mode == CHAIN, mode, path, cell.hops, cell.family != "ipv6"


def baseline_label(raw: str | None) -> str:
    """A baseline of summary.json ("native/kernel/ipv6/2") in words: "native IPv6, 2 hops"."""
    if not raw:
        return "native"
    parts = raw.split("/")
    if len(parts) == 4 and parts[3].isdigit():
        return short_label(Cell(parts[0], parts[1], parts[2], int(parts[3])))
    return raw
