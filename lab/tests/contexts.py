# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The client context of a load that opens sessions, and a look-up of an option in the command that follows from it."""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from pathlib import Path

from diolkos_lab.load.reading import Answers, ClientContext, PacketEndpoints


def context(version: int) -> ClientContext:
    six = version == 6
    target = IPv6Address("64:ff9b::c000:ab") if six else IPv4Address("198.19.0.2")
    own = IPv6Address("2001:2:0:1::2") if six else IPv4Address("198.18.1.2")
    many = IPv6Network("2001:2:0:2::/120") if six else IPv4Network("198.18.2.0/24")
    crowd = IPv6Network("2001:2:0:2::/114") if six else IPv4Network("198.18.192.0/18")
    there = IPv4Network("198.19.0.1/32")
    answers = Answers(IPv4Address("192.0.0.171"), IPv4Address("198.19.0.1"), many, there, crowd=crowd)
    return ClientContext(target, own, Path("/nowhere"), 7, PacketEndpoints("c:up0", "s:srv0", own, True, answers))


def option(command: list[str], name: str) -> str:
    return command[command.index(name) + 1]
