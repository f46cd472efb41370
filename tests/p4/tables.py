# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The configuration of a stateless translator as entries of the tables of `nat64.p4` (p4/PROTOCOL.md)."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_network

from control import DEFAULT, INSERT, Change

OFF, STATELESS, SESSIONS, LEARN, STATELESS_NO_SYN = range(5)
SWITCH_MAC = bytes.fromhex("020000000001")
HOST_MAC = bytes.fromhex("020000000002")
PORT4, PORT6 = 0, 2
ALL32, ALL64 = (1 << 32) - 1, (1 << 64) - 1
WELL_KNOWN = ip_network("64:ff9b::/96")
# Not globally reachable: not to be embedded in the well-known prefix (RFC 6052 section 3.1).
NOT_GLOBAL = (
    "10.0.0.0/8",
    "100.64.0.0/10",
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.0.2.0/24",
    "192.88.99.0/24",
    "192.168.0.0/16",
    "198.18.0.0/15",
    "198.51.100.0/24",
    "203.0.113.0/24",
)
# Priorities: lowest first. Mappings by the length of their prefix, then what is declined, then prefixes.
DECLINED, PREFIXES = 190, 200


@dataclass(frozen=True)
class Bits:
    """Where the bits of an IPv4 address stand in an IPv6 address."""

    hr: int = 0
    hl: int = 0
    hm: int = 0
    lr: int = 0
    lm: int = 0

    @classmethod
    def at(cls, first: int, count: int) -> Bits:
        """The last `count` bits of an IPv4 address from bit `first` on, without a gap."""
        ones = (1 << count) - 1
        if first + count <= 64:
            return cls(hr=64 - first - count, hm=ones)
        if first >= 64:
            return cls(lr=128 - first - count, lm=ones)
        low = first + count - 64
        return cls(hl=low, hm=ones >> low << low, lr=64 - low, lm=(1 << low) - 1)

    @classmethod
    def of_prefix(cls, length: int) -> Bits:
        """RFC 6052 section 2.2: bits 64 to 71 are left out."""
        if length in (32, 96):
            return cls.at(length, 32)
        if length == 64:
            return cls.at(72, 32)
        low = length - 32
        return cls(hl=low, hm=ALL32 >> low << low, lr=56 - low, lm=(1 << low) - 1)

    def from6(self, base: int) -> bytes:
        """Arguments of the action."""
        return struct.pack("!IBBIBI", base, self.hr, self.hl, self.hm, self.lr, self.lm)

    def from4(self, base: int) -> bytes:
        """Arguments of the action."""
        return struct.pack("!QQBBIBI", base >> 64, base & ALL64, self.hr, self.hl, self.hm, self.lr, self.lm)


def settings(mode: int, tc_mask: int = 255, lowest6: int = 1280, pool4: int = 0, ports: tuple[int, int] = (0, 0)) -> Change:
    """How the program works."""
    return Change(DEFAULT, "settings", "set", data=struct.pack("!BBHIHH", mode, tc_mask, lowest6, pool4, *ports))


def local_macs(*macs: bytes) -> list[Change]:
    """Addresses of the switch."""
    return [Change(INSERT, "local_mac", "mine", key=mac) for mac in macs]


def ternary(table: str, action: str, net: IPv4Network | IPv6Network, data: bytes = b"", priority: int = 0) -> Change:
    """An entry for a network."""
    return Change(INSERT, table, action, net.network_address.packed, net.netmask.packed, data, priority)


def hop(net: str, port: int, to: bytes, by: bytes, mtu: int, priority: int = 100) -> Change:
    """A next hop."""
    found = ip_network(net)
    data = struct.pack("!I6s6sH", port, to, by, min(mtu, 0xFFFF))
    return ternary(f"hop{found.version}", "forward", found, data, priority)


def stateless(config: dict) -> list[Change]:
    """The tables of a configuration as vectors have it (vectors/README.md)."""
    is_clat = config.get("clat", False)
    mask = 0 if config.get("traffic_class") == "zero" else 255
    mode = STATELESS_NO_SYN if config.get("tcp_mss", "off") != "off" else STATELESS
    changes = [settings(mode, mask, config.get("lowest_ipv6_mtu", 1280)), *local_macs(SWITCH_MAC)]
    changes.append(hop("0.0.0.0/0", PORT4, HOST_MAC, SWITCH_MAC, config.get("mtu4", 1500)))
    changes.append(hop("::/0", PORT6, HOST_MAC, SWITCH_MAC, config.get("mtu6", 1500)))
    for mapping in config.get("eam", []):
        turns = bool(config.get("pref64")) and not is_clat
        changes += mapped(ip_network(mapping["v4"]), ip_network(mapping["v6"]), is_clat, turns)
    for index, text in enumerate(config.get("pref64", [])):
        prefix = ip_network(text)
        bits = Bits.of_prefix(prefix.prefixlen)
        only_global = prefix == WELL_KNOWN and not config.get("allow_private_with_wkp", False)
        in6, in4 = ("src6",) if is_clat else ("src6", "dst6"), ("dst4",) if is_clat else ("src4", "dst4")
        changes += [ternary(table, "from6", prefix, bits.from6(0), PREFIXES + index) for table in in6]
        if index == 0:
            everything = ip_network("0.0.0.0/0")
            changes += [ternary(table, "from4", everything, bits.from4(int(prefix.network_address)), PREFIXES) for table in in4]
        for net in (ip_network(net) for net in NOT_GLOBAL if only_global):
            embedded = IPv6Network((int(prefix.network_address) | int(net.network_address), 96 + net.prefixlen))
            changes += [ternary(table, "decline", embedded, priority=DECLINED) for table in in6]
            changes += [ternary(table, "decline", net, priority=DECLINED) for table in in4]
    return changes


def mapped(v4: IPv4Network, v6: IPv6Network, is_clat: bool, turns: bool = True) -> list[Change]:
    """An explicit mapping (RFC 7757), by longest prefix.

    turns: a prefix embeds its IPv4 addresses, too, so that a packet to one has to turn back to IPv6 (section 4.2): declined.
    """
    bits = Bits.at(v6.prefixlen, 32 - v4.prefixlen)
    in6, in4 = ("dst6",) if is_clat else ("src6", "dst6"), ("src4",) if is_clat else ("src4", "dst4")
    changes = [ternary(t, "from6", v6, bits.from6(int(v4.network_address)), 128 - v6.prefixlen) for t in in6]
    changes += [ternary(t, "from4", v4, bits.from4(int(v6.network_address)), 32 - v4.prefixlen) for t in in4]
    return changes if not turns else [*changes, ternary("hop4", "decline", v4, priority=32 - v4.prefixlen)]
