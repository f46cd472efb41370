# SPDX-License-Identifier: Apache-2.0 OR MIT
"""docs/network.md does what it says: radvd and dnsmasq with the configuration of the page tell a host all that it needs.

RADVD names another radvd, such as one that knows PREF64.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import servers
from advertising import ask_whether_it_is_there, default_router, knows_pref64, radvd
from nat64 import CONFIG, Nat64Network
from siit import TRANSLATOR6, V4

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "network.md").read_text()
DNS64 = f"""
[dns64]
listen = ["[{TRANSLATOR6}]:53"]
upstream = ["{V4}"]
clients = ["2001:db8:6::/64"]
"""

# Asks for an address (RFC 2131) and for these options (RFC 2132 section 9.8); prints which of them are offered.
DISCOVER = """
import socket, struct, sys
wanted = [int(word) for word in sys.argv[1:]]
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
udp.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"a0")
udp.bind(("", 68))
udp.settimeout(10)
packets = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
packets.bind(("a0", 0))
hardware = packets.getsockname()[4]
head = struct.pack("!BBBBIHH", 1, 1, 6, 0, 0x12345678, 0, 0x8000) + bytes(16) + hardware.ljust(16, b"\\0") + bytes(192)
options = bytes([53, 1, 1, 55, len(wanted), *wanted, 255])
udp.sendto(head + b"\\x63\\x82\\x53\\x63" + options, ("255.255.255.255", 67))
offer, at = udp.recv(2000), 240
while offer[at] != 255:
    code, length = offer[at], offer[at + 1]
    if code in wanted:
        print(code, offer[at + 2:at + 2 + length].hex())
    at += 2 + length
"""


def block(file: str) -> str:
    """The block of the page that begins with the name of a file."""
    return re.search(rf"^```\n# {re.escape(file)}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE).group(1)


def test_the_page(nat64: Nat64Network) -> None:
    """A host with nothing but its link: address, router and resolver by advertisements, names in the prefix, IPv4 by a CLAT."""
    nat64.run(nat64.translator, "ip", "link", "set", "b6", "down")
    nat64.run(nat64.translator, "ip", "link", "set", "b6", "name", "lan0")
    nat64.run(nat64.translator, "ip", "link", "set", "lan0", "up")
    nat64.run(nat64.translator, "ip", "-6", "address", "replace", f"{TRANSLATOR6}/64", "dev", "lan0", "nodad")
    nat64.run(nat64.v6, "ip", "-6", "route", "flush", "default")
    nat64.run(nat64.v6, "ip", "-6", "address", "flush", "dev", "a0", "scope", "global")
    nat64.run(nat64.v6, "ip", "-6", "address", "flush", "dev", "lo", "scope", "global")
    servers.names(nat64)
    nat64.configure(CONFIG + DNS64)
    running = nat64.siit(command="run")
    nat64.until(lambda: "neighbours see an IPv6 router on b4, lan0 while diolkos runs" in running.log())
    with (nat64.scratch / "log-dns64").open("w") as sink:
        nat64.start(nat64.translator, str(nat64.program), "dns64", "--config", str(nat64.config), stderr=sink)

    advertised = block("/etc/radvd.conf")
    has_pref64 = knows_pref64()
    if not has_pref64:
        advertised, found = re.subn(r"    nat64prefix .*?\};\n", "", advertised, flags=re.DOTALL)
        assert found == 1
    radvd(nat64, nat64.translator, advertised)
    nat64.until(lambda: default_router(nat64, nat64.v6, "a0") is not None)

    dig = ("dig", "+short", "+tries=1", "+time=2", "-t", "AAAA", f"@{TRANSLATOR6}")

    def prefix() -> str:
        return nat64.run(nat64.v6, *dig, "ipv4only.arpa", check=False).stdout

    nat64.until(lambda: "2001:db8:64::c000:aa\n2001:db8:64::c000:ab" in "\n".join(sorted(prefix().split())))
    assert "2001:db8:64::c000:aa\n2001:db8:64::c000:ab" in PAGE
    nat64.until(lambda: "2001:db8:64::c633:6402" in nat64.run(nat64.v6, *dig, "www.example", check=False).stdout)

    log = nat64.scratch / "log-clat"
    with log.open("w") as sink:
        clat = (str(nat64.program), "clat", "--uplink", "a0", "--pref64", "auto", "--resolver", TRANSLATOR6)
        nat64.start(nat64.v6, *clat, stdout=sink, stderr=sink)
    nat64.until(lambda: " ready: " in log.read_text())
    nat64.until(lambda: nat64.run(nat64.v6, "ping", "-4", "-c1", "-W0.3", V4, check=False).returncode == 0)

    def shown() -> str:
        return nat64.run(nat64.v6, str(nat64.program), "show", "prefix").stdout

    source = "router fe80" if has_pref64 else r"resolver \[2001"
    nat64.until(lambda: re.search(rf"^2001:db8:64::/96 +{source}.* in force$", shown(), re.MULTILINE))
    for _ in range(2):
        ask_whether_it_is_there(nat64, nat64.v6, "a0")
    assert nat64.run(nat64.v6, "ping", "-4", "-c1", "-W2", V4).returncode == 0


def test_option_108_of_dnsmasq(nat64: Nat64Network) -> None:
    """Only those that request it get it (RFC 8925 section 3.3), with the time that the page says."""
    conf = nat64.scratch / "dnsmasq.conf"
    conf.write_text(block("/etc/dnsmasq.d/lan0.conf").replace("lan0", "b6"))
    nat64.run(nat64.translator, "ip", "address", "add", "192.168.6.1/24", "dev", "b6")
    log = nat64.scratch / "dnsmasq.log"
    files = (f"--conf-file={conf}", f"--dhcp-leasefile={nat64.scratch / 'leases'}", "--pid-file=")
    with log.open("w") as sink:
        options = ("--keep-in-foreground", "--user=root", "--log-facility=-", *files)
        nat64.start(nat64.translator, "dnsmasq", *options, stdout=sink, stderr=sink)
    nat64.until(lambda: "DHCP, IP range 192.168.6.10" in log.read_text())

    def offered(*options: str) -> list[str]:
        return nat64.run(nat64.v6, sys.executable, "-c", DISCOVER, *options).stdout.splitlines()

    assert sorted(offered("3", "108")) == ["108 00000708", "3 c0a80601"]
    assert offered("3") == ["3 c0a80601"]
