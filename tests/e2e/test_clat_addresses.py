# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Where a CLAT's IPv6 address is from: the uplink's /64, a prefix that is routed to the host, or a single address."""

from __future__ import annotations

import ipaddress
import socket

import pytest
from kernel import remains
from network import CLIENT6, PATIENCE, ROUTER6, SERVER4, SERVER_SYNTHESIZED, WELL_KNOWN_PREFIX, Network, create_socket
from test_clat_faults import RUN_TIME, USAGE, one_sentence
from test_clat_moves import address_of, reaches

DELEGATED = "2001:2:0:f00::/56"
NEW_DELEGATED = "2001:2:0:e00::/56"
LINK = "2001:2:0:1::/64"
SOLICITED_NODE = "ff02::1:ff00:2"  # of CLIENT6


def take_the_64(net: Network) -> None:
    """What a network with DHCPv6 and without SLAAC gives a host: one address, on a link that has a prefix."""
    net.ip(net.client, "address", "del", f"{CLIENT6}/64", "dev", "wan0")
    net.ip(net.client, "address", "add", f"{CLIENT6}/128", "dev", "wan0", "nodad")
    net.ip(net.client, "route", "replace", LINK, "dev", "wan0")
    net.ip(net.client, "route", "replace", "default", "via", ROUTER6)
    # The kernel joins the group of the address by a task of its own.
    net.until(lambda: SOLICITED_NODE in groups(net))


def delegate(net: Network, prefix: str = DELEGATED) -> None:
    """The router routes a prefix to the host, as after DHCPv6-PD. The host throws the rest of it away (RFC 7084, L-14)."""
    net.ip(net.router, "route", "add", prefix, "via", CLIENT6)
    net.ip(net.client, "route", "add", "unreachable", prefix, "metric", "4096")


def address6(net: Network) -> dict | None:
    """What `show status` says of it."""
    return net.status()["address6"]


def datagram_returns(net: Network, size: int) -> bool:
    """A datagram goes to the server and back, in fragments if it is long."""
    there = create_socket(net.server, socket.AF_INET6, socket.SOCK_DGRAM)
    here = create_socket(net.client, socket.AF_INET, socket.SOCK_DGRAM)
    with there, here:
        there.bind((SERVER_SYNTHESIZED, 9000))
        for end in (there, here):
            end.settimeout(PATIENCE)
        here.sendto(b"x" * size, (SERVER4, 9000))
        there.sendto(*there.recvfrom(size + 1))
        return len(here.recv(size + 1)) == size


def is_asked_for(net: Network, address: str) -> bool:
    """Whether the router has solicited it on the link."""
    return net.ip_json(net.router, "-6", "neighbour", "show", address, "dev", "down0") != []


def groups(net: Network) -> str:
    """The multicast groups of the uplink."""
    return net.run(net.client, "ip", "-6", "maddress", "show", "dev", "wan0").stdout


def test_a_delegated_prefix(net: Network, datapath: str) -> None:
    """No /64 on the uplink, and no neighbour is answered: packets pass, and the address is the same at the next start."""
    take_the_64(net)
    delegate(net)
    before = groups(net)
    addresses = set()
    for _ in range(2):
        clat = net.clat(datapath, "--v6-prefix", DELEGATED)
        address = address_of(clat.log())
        addresses.add(address)
        assert ipaddress.IPv6Address(address) in ipaddress.IPv6Network(DELEGATED)
        assert f"is {address}: made from clat.v6_prefix, {DELEGATED}; the network routes it here" in clat.log()
        assert address6(net) == {
            "address": address,
            "origin": f"made from clat.v6_prefix, {DELEGATED}; the network routes it here, so no neighbour is answered",
        }
        assert "3 received" in net.ping("-c3").stdout, clat.log()
        assert datagram_returns(net, 4000), "the slow path translates fragments"
        assert not is_asked_for(net, address)
        assert groups(net) == before
        config = net.run(net.client, str(net.program), "show", "config").stdout
        assert f'v6_prefix = "{DELEGATED}"' in config and f'v6 = "{address}"' in config
        assert clat.stop() == 0
        assert remains(net) == []
    assert len(addresses) == 1


@pytest.mark.parametrize("options", [(), ("--v6", "shared")], ids=["own", "shared"])
def test_the_host_has_no_address_yet(net: Network, options: tuple[str, ...]) -> None:
    """At the start of a host: the default route is there, and the kernel still tests the address (RFC 4862 section 5.4)."""
    net.ip(net.client, "address", "del", f"{CLIENT6}/64", "dev", "wan0")
    net.ip(net.client, "route", "replace", LINK, "dev", "wan0")
    net.ip(net.client, "route", "replace", "default", "via", ROUTER6)
    clat = net.clat("auto", *options, ready=False)
    net.until(lambda: "wan0 has no global IPv6 address" in clat.log())
    status = net.status()
    assert status["state"] == "waiting", status
    net.sysctl(net.client, "net.ipv6.conf.wan0.dad_transmits", "1")
    net.ip(net.client, "address", "add", f"{CLIENT6}/64", "dev", "wan0")
    net.until(lambda: " ready: " in clat.log())
    assert "3 received" in net.ping("-c3").stdout, clat.log()
    assert clat.log().count("wan0 has no global IPv6 address") == 1, clat.log()
    assert clat.stop() == 0
    assert remains(net) == []


def test_the_prefix_of_the_link_is_given(net: Network) -> None:
    """The router asks neighbours for what is on the link: they are answered, whatever the key promises."""
    clat = net.clat("auto", "--v6-prefix", LINK)
    address = address_of(clat.log())
    assert f"made from clat.v6_prefix, {LINK}; diolkos answers neighbours on wan0 for it" in clat.log()
    assert "3 received" in net.ping("-c3").stdout, clat.log()
    assert is_asked_for(net, address)


def test_one_more_address_by_dhcpv6(net: Network, datapath: str) -> None:
    """There is no /64, and the CLAT answers for the address that it is given."""
    take_the_64(net)
    clat = net.clat(datapath, "--v6", "2001:2:0:1::464")
    assert "clat.v6 sets it; diolkos answers neighbours on wan0 for it" in clat.log()
    assert "3 received" in net.ping("-c3").stdout, clat.log()
    assert is_asked_for(net, "2001:2:0:1::464")


def test_the_address_of_the_host_is_not_taken(net: Network) -> None:
    """It is the host's own; the CLAT shares it only if nobody says an address."""
    take_the_64(net)
    code, message = net.refused("clat", "--uplink", "wan0", "--pref64", WELL_KNOWN_PREFIX, "--v6", CLIENT6)
    assert code == RUN_TIME and f"{CLIENT6} is already the address of wan0" in one_sentence(message)
    assert remains(net) == []


def test_another_prefix_is_delegated(net: Network, datapath: str) -> None:
    """The DHCPv6 client's script writes the new prefix and reloads: the CLAT moves to it, and back to the /64."""
    delegate(net)
    delegate(net, NEW_DELEGATED)
    head = '[translator]\ninterfaces = ["wan0"]\npref64 = ["64:ff9b::/96"]\n'
    if datapath == "clsact":
        head += 'datapath = "tc"\nhook = "clsact"\n'
    file = net.scratch / "clat.toml"
    file.write_text(f'{head}[clat]\nv6_prefix = "{DELEGATED}"\n')
    clat = net.clat("tc" if datapath == "clsact" else datapath, "--config", str(file))
    for section, prefix in (f'[clat]\nv6_prefix = "{NEW_DELEGATED}"\n', NEW_DELEGATED), ("", LINK):
        before = address_of(clat.log())
        file.write_text(head + section)
        net.run(net.client, str(net.program), "reload")
        net.until(lambda before=before: address_of(clat.log()) != before)
        assert ipaddress.IPv6Address(address_of(clat.log())) in ipaddress.IPv6Network(prefix)
        net.until(lambda: reaches(net))
    assert clat.stop() == 0
    assert remains(net) == []


def test_addresses_change_while_the_next_one_is_tested(net: Network) -> None:
    """After a reload, the address of the delegated prefix works until one of the link is known to be free."""
    net.sysctl(net.client, "net.ipv6.conf.wan0.dad_transmits", "1")
    delegate(net)
    file = net.scratch / "clat.toml"
    head = '[translator]\ninterfaces = ["wan0"]\npref64 = ["64:ff9b::/96"]\n'
    file.write_text(f'{head}[clat]\nv6_prefix = "{DELEGATED}"\n')
    clat = net.clat("auto", "--config", str(file))
    before = address_of(clat.log())
    file.write_text(head)
    net.run(net.client, str(net.program), "reload")
    net.ip(net.client, "address", "add", "2001:2:0:1::77/64", "dev", "wan0", "nodad")
    net.until(lambda: address_of(clat.log()) != before or clat.process.poll() is not None)
    assert ipaddress.IPv6Address(address_of(clat.log())) in ipaddress.IPv6Network(LINK), clat.log()
    net.until(lambda: reaches(net))
    assert clat.stop() == 0


@pytest.mark.parametrize("prefix", ["2001:db8::1/64", "2001:db8::/97", "fe80::/64", "ff00::/64", "64:ff9b::/96", "teleport"])
def test_prefixes_that_cannot_be(net: Network, prefix: str) -> None:
    """Nothing is made with them."""
    code, message = net.refused("clat", "--uplink", "wan0", "--v6-prefix", prefix)
    assert code == USAGE and prefix in message
    assert remains(net) == []
