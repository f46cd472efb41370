# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Lists of rules, made by the levels of factors: how many, where among them the one that counts, and for which program.

One rule makes the server's address of the alias; all others are for addresses behind the alias, which no packet has. A
program for thousands of rules gets one file, as its manual says: the lists stand at once, and none is half there.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address

from diolkos_lab.experiment.levels import Level

FACTORS = frozenset(("rules", "position", "place", "backend"))
Address = IPv4Address | IPv6Address
Rule = tuple[Address, Address]  # destination of the packet, and what it becomes


@dataclass(frozen=True)
class Addresses:
    alias: Address  # the others are the ones that follow it
    server: Address
    decoy: Address


def dnat(levels: Mapping[str, Level], addresses: Addresses) -> str:
    """The file for the backend. Raises KeyError for a factor that is not there, ValueError for a level that has no list."""
    rules = listed(int(levels["rules"]), str(levels["position"]), addresses)
    at_client = levels["place"] == "client"
    backend = str(levels["backend"])
    if backend.startswith("iptables"):
        return _iptables(rules, "OUTPUT" if at_client else "PREROUTING")
    if backend in ("nft-list", "nft-map"):
        hook = "output" if at_client else "prerouting"
        return _nft(rules, hook, addresses.alias.version, as_map=backend == "nft-map")
    raise ValueError(f"no list of rules is made for {backend}")


def listed(decoys: int, position: str, addresses: Addresses) -> list[Rule]:
    """As many decoys, and the rule that counts before, amid or behind them."""
    before = {"top": 0, "middle": decoys // 2, "append": decoys}
    if position not in before:
        raise ValueError(f"no rule stands at {position}; positions are {', '.join(before)}")
    others = list(_decoys(decoys, addresses))
    at = before[position]
    return [*others[:at], (addresses.alias, addresses.server), *others[at:]]


def _decoys(count: int, addresses: Addresses) -> Iterator[Rule]:
    return ((addresses.alias + number, addresses.decoy) for number in range(1, count + 1))


def _iptables(rules: Sequence[Rule], chain: str) -> str:
    """For iptables-restore and its kin, which take the whole table."""
    lines = [f"-A {chain} -d {before} -j DNAT --to-destination {after}" for before, after in rules]
    return "\n".join(["*nat", *lines, "COMMIT", ""])


def _nft(rules: Sequence[Rule], hook: str, version: int, *, as_map: bool) -> str:
    """For `nft -f`. The first two lines remove what an earlier start has left."""
    family, header = ("ip6", "ip6") if version == 6 else ("ip", "ip")
    names = f"type ipv{version}_addr : ipv{version}_addr"
    if as_map:
        elements = ",\n".join(f"            {before} : {after}" for before, after in rules)
        targets = f"    map targets {{\n        {names}\n        elements = {{\n{elements}\n        }}\n    }}\n"
        body = f"        dnat to {header} daddr map @targets"
    else:
        targets, body = "", "\n".join(f"        {header} daddr {before} dnat to {after}" for before, after in rules)
    table = f"table {family} lab"
    chain = f"    chain destinations {{\n        type nat hook {hook} priority -100;\n{body}\n    }}\n"
    return f"{table}\ndelete {table}\n{table} {{\n{targets}{chain}}}\n"
