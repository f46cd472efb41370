# SPDX-License-Identifier: Apache-2.0 OR MIT
"""ICMPv4 errors from an address of the translator's own host, which the kernel takes for martians by default."""

from __future__ import annotations

import socket

import pytest
from conftest import ROUTER_DATAPATHS
from nat64 import BOUND, Nat64Network
from nat64 import CONFIG as NAT64_CONFIG
from network import SERVER4, WELL_KNOWN_PREFIX, Network, create_socket
from scapy.layers.inet import ICMP, IP
from siit import CONFIG, TRANSLATOR4, V4, V6, V6_MAPPED, SiitNetwork
from test_router_hooks import READ_ONLY_SETTINGS
from test_siit_traffic import discover, in_order

OWN = f"\n[icmp]\naddress4 = '{TRANSLATOR4}'\nsource_pool4 = ['{TRANSLATOR4}/32']\n"
Hop = tuple[int, int, str]


def trace(name: str, source: str, to: str, ttls: range) -> list[Hop]:
    """Type, code and source of the error that each of these hops answers, from a namespace."""
    raw = create_socket(name, socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    raw.settimeout(5)
    heard = []
    with raw:
        for ttl in ttls:
            with create_socket(name, socket.AF_INET, socket.SOCK_DGRAM) as probe:
                probe.bind((source, 0))
                probe.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, ttl)
                probe.sendto(b"trace", (to, 33434))
            packet = IP(raw.recv(1500))
            heard.append((packet[ICMP].type, packet[ICMP].code, packet.src))
    return heard


def accepts(net: SiitNetwork) -> str:
    """Whether the kernel takes packets from own addresses at the device."""
    return net.sysctl(net.translator, "net.ipv4.conf.diolkos0.accept_local")


@pytest.mark.parametrize("siit", ROUTER_DATAPATHS, indirect=True)
def test_a_stateless_translator(siit: SiitNetwork) -> None:
    """Traceroute sees every hop; path MTU discovery works by an error of the translator's and by one of an IPv6 router's."""
    siit.configure(CONFIG.replace("pref64", "mtu6 = 1600\npref64", 1) + OWN)
    siit.siit()
    hops = in_order(siit, [TRANSLATOR4] * 3)
    expected = [(11, 0, hop) for hop in hops] + [(3, 3, V6_MAPPED)]
    assert trace(siit.v4, V4, V6_MAPPED, range(1, len(expected) + 1)) == expected
    assert discover(siit, siit.v4, V6_MAPPED, 28) == 1580
    siit.narrow(1400)
    assert discover(siit, siit.v4, V6_MAPPED, 28) == 1380


def test_a_stateful_translator(nat64: Nat64Network) -> None:
    """Traceroute to a bound port, and an error of the translator's about what is too big."""
    nat64.configure(NAT64_CONFIG.replace("pref64", "mtu6 = 1600\npref64", 1) + OWN)
    nat64.nat64()
    nat64.bind("add", "udp", f"{BOUND}:33434", f"[{V6}]:33434")
    expected = [(11, 0, TRANSLATOR4)] * 3 + [(3, 3, BOUND)]
    assert trace(nat64.v4, V4, BOUND, range(1, 5)) == expected
    nat64.bind("add", "icmp", f"{BOUND}:77", f"[{V6}]:77")
    pings = ("ping", "-e", "77", "-M", "do", "-c2", "-i0.01", "-W1", "-s", "2000", BOUND)
    assert nat64.run(nat64.v4, *pings, check=False).returncode == 1
    assert " mtu 1580 " in nat64.run(nat64.v4, "ip", "route", "get", BOUND).stdout


def test_a_clat(net: Network) -> None:
    """An error from the address that applications on the host have themselves."""
    config = net.scratch / "own.toml"
    config.write_text("[icmp]\naddress4 = '192.0.0.1'\n")
    net.clat("auto", "--pref64", WELL_KNOWN_PREFIX, "--config", str(config))
    assert trace(net.client, "192.0.0.1", SERVER4, range(1, 2)) == [(11, 0, "192.0.0.1")]


def test_only_while_it_is_needed(siit: SiitNetwork) -> None:
    """A reload switches it on and off. Strangers who write an address of the router's as their source are dropped else."""
    siit.siit()
    assert accepts(siit) == "0"
    assert siit.reload(CONFIG + OWN) == (0, "")
    assert accepts(siit) == "1"
    expected = [(11, 0, TRANSLATOR4)] * 3 + [(3, 3, V6_MAPPED)]
    assert trace(siit.v4, V4, V6_MAPPED, range(1, 5)) == expected
    assert siit.reload(CONFIG + OWN.replace(TRANSLATOR4, "198.51.100.77")) == (0, "")
    assert accepts(siit) == "0"


def test_settings_that_cannot_be_written(siit: SiitNetwork) -> None:
    """The log says what to do."""
    siit.configure(CONFIG + OWN)
    siit.sysctl(siit.translator, "net.ipv4.ip_forward", "1")
    siit.sysctl(siit.translator, "net.ipv6.conf.all.forwarding", "1")
    siit.sysctl(siit.translator, "net.ipv4.conf.default.forwarding", "1")
    log = siit.scratch / "log-read-only"
    with log.open("w") as sink:
        command = [*READ_ONLY_SETTINGS, str(siit.program), "siit", "--config", str(siit.config)]
        process = siit.start(siit.translator, *command, stderr=sink, stdout=sink)
    siit.until(lambda: " ready: " in log.read_text() or process.poll() is not None)
    assert process.poll() is None, log.read_text()
    said = [line for line in log.read_text().splitlines() if "accept_local" in line]
    assert len(said) == 1
    assert f"ICMPv4 errors from {TRANSLATOR4} are lost" in said[0]
    assert "set it to 1" in said[0]
