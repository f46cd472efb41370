# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A network that says its translation prefix: by its resolver, by its router, by both, or falsely.

The network is that of `network`. The resolver is the server, and the server is also what is reached through any prefix
that a test names.
"""

from __future__ import annotations

import ipaddress
import json
import shutil
import subprocess
import sys
from dataclasses import dataclass

from network import SERVER4, SERVER6, Network

RESOLVER = SERVER6
OWN = "2001:db8:64::/96"
OTHER = "2001:db8:46::/96"
WELL_KNOWN_ADDRESSES = ("192.0.0.170", "192.0.0.171")

UNBOUND = """
server:
    interface: ::0
    access-control: ::0/0 allow
    username: ""
    chroot: ""
    directory: "{folder}"
    pidfile: "{folder}/unbound.pid"
    use-syslog: no
    do-daemonize: no
    root-hints: ""
    module-config: "dns64 iterator"
    dns64-prefix: {prefix}
remote-control:
    control-enable: no
auth-zone:
    name: "ipv4only.arpa."
    zonefile: "{folder}/zone"
    for-downstream: no
    for-upstream: yes
"""

ZONE = """
$TTL {ttl}
@ IN SOA ns.example. hostmaster.example. 1 3600 600 86400 120
  IN NS ns.example.
  IN A 192.0.0.170
  IN A 192.0.0.171
"""

# A resolver that gives every name the addresses that stand in a file, behind their TTL if they are to have another, or
# the response code that stands there instead.
RESOLVER_THAT_SAYS = """
import socket, struct, sys
udp = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
udp.bind(("::", 53))
print("listening", flush=True)
while True:
    query, client = udp.recvfrom(4096)
    end = query.index(b"\\0", 12) + 5
    words = open(sys.argv[1]).read().split()
    ttl = int(words.pop(0)[4:]) if words and words[0].startswith("ttl=") else 300
    code = int(words[0]) if words and words[0].isdigit() else 0
    addresses = [] if code else [socket.inet_pton(socket.AF_INET6, word) for word in words]
    head = query[:2] + struct.pack("!HHHHH", 0x8180 | code, 1, len(addresses), 0, 0)
    records = [b"\\xc0\\x0c" + struct.pack("!HHIH", 28, 1, ttl, 16) + address for address in addresses]
    udp.sendto(head + query[12:end] + b"".join(records), client)
"""

# A resolver whose every datagram is truncated; by TCP it gives the addresses that are its arguments.
TRUNCATING_RESOLVER = """
import select, socket, struct, sys
udp = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
udp.bind(("::", 53))
tcp = socket.socket(socket.AF_INET6)
tcp.bind(("::", 53))
tcp.listen()
print("listening", flush=True)
def reply(query, flags, addresses):
    end = query.index(b"\\0", 12) + 5
    head = query[:2] + struct.pack("!HHHHH", flags, 1, len(addresses), 0, 0)
    records = [b"\\xc0\\x0c" + struct.pack("!HHIH", 28, 1, 300, 16) + address for address in addresses]
    return head + query[12:end] + b"".join(records)
addresses = [socket.inet_pton(socket.AF_INET6, word) for word in sys.argv[1:]]
while True:
    for ready in select.select([udp, tcp], [], [])[0]:
        if ready is udp:
            query, client = udp.recvfrom(4096)
            udp.sendto(reply(query, 0x8380, []), client)
        else:
            connection, _ = tcp.accept()
            answer = reply(connection.recv(4096)[2:], 0x8180, addresses)
            connection.sendall(struct.pack("!H", len(answer)) + answer)
            connection.close()
"""

# A router advertisement, made by scapy: its packet is the expression that is the last argument. It is sent now, or to
# each that solicits one.
ROUTER = """
import sys
from scapy.arch import get_if_hwaddr
from scapy.layers.inet6 import ICMPv6ND_RA, ICMPv6ND_RS, IPv6, in6_chksum
from scapy.layers.inet6 import ICMPv6NDOptMTU, ICMPv6NDOptPREF64, ICMPv6NDOptPrefixInfo
from scapy.layers.l2 import Ether
from scapy.packet import Raw, raw
from scapy.sendrecv import sendp, sniff
when, packet = sys.argv[1], eval(sys.argv[2])
advertisement = Ether(dst="33:33:00:00:00:01", src=get_if_hwaddr("down0")) / packet
advertise = lambda *_: sendp(advertisement, iface="down0", verbose=False)
if when == "now":
    advertise()
else:
    valid = lambda p: ICMPv6ND_RS in p and p[IPv6].hlim == 255 and in6_chksum(58, p[IPv6], raw(p[ICMPv6ND_RS])) == 0
    says = lambda: print("listening", flush=True)
    sniff(iface="down0", lfilter=valid, prn=advertise, started_callback=says)
"""


@dataclass
class Option:
    """A PREF64 option (RFC 8781 section 4)."""

    prefix: str = OWN
    lifetime: int = 1800
    code: int | None = None

    def __str__(self) -> str:
        net = ipaddress.IPv6Network(self.prefix)
        code = [96, 64, 56, 48, 40, 32].index(net.prefixlen) if self.code is None else self.code
        lifetime = self.lifetime // 8
        return f"ICMPv6NDOptPREF64(scaledlifetime={lifetime}, plc={code}, prefix='{net.network_address}')"


def embed(prefix: str, v4: str) -> str:
    """An IPv4 address behind a prefix (RFC 6052 section 2.2)."""
    net = ipaddress.IPv6Network(prefix)
    octets = bytearray(net.network_address.packed)
    at = net.prefixlen // 8
    for octet in ipaddress.IPv4Address(v4).packed:
        at += at == 8
        octets[at] = octet
        at += 1
    return str(ipaddress.IPv6Address(bytes(octets)))


class Pref64Network(Network):
    """A network that says its prefix."""

    def reach(self, *prefixes: str) -> None:
        """Let the server be reached through these prefixes, as if a NAT64 stood there."""
        for prefix in prefixes:
            self.ip(self.server, "address", "add", f"{embed(prefix, SERVER4)}/128", "dev", "lo", "nodad")
            self.ip(self.router, "route", "add", prefix, "via", SERVER6)

    def unbound(self, prefix: str, ttl: int = 3600) -> subprocess.Popen:
        """Start the resolver, as a DNS64 with this prefix."""
        folder = self.scratch / f"unbound-{len(self.running)}"
        folder.mkdir()
        (folder / "zone").write_text(ZONE.format(ttl=ttl))
        (folder / "conf").write_text(UNBOUND.format(folder=folder, prefix=prefix))
        # Under its own path AppArmor may keep it from files that are not below /etc/unbound.
        program = shutil.copy(shutil.which("unbound") or "/usr/sbin/unbound", folder / "unbound")
        log = (folder / "log").open("w")
        process = self.start(self.server, str(program), "-d", "-c", str(folder / "conf"), stdout=log, stderr=log)
        self.until(lambda: embed(prefix, "192.0.0.170") in self.dig())
        return process

    def dig(self) -> str:
        """What the resolver says."""
        return self.run(
            self.client, "dig", f"@{RESOLVER}", "+short", "+tries=1", "+time=1", "ipv4only.arpa", "AAAA", check=False
        ).stdout

    def resolver_says(self, *words: str) -> None:
        """Start a resolver that says this, or let it say something else."""
        file = self.scratch / "says"
        is_new = not file.exists()
        file.write_text(" ".join(words))
        if is_new:
            log = self.scratch / "says.log"
            with log.open("w") as sink:
                self.start(self.server, sys.executable, "-c", RESOLVER_THAT_SAYS, str(file), stdout=sink, stderr=sink)
            self.until(lambda: "listening" in log.read_text())

    def truncating_resolver(self, *addresses: str) -> None:
        """Start a resolver that has to be asked by TCP."""
        log = self.scratch / "truncating.log"
        with log.open("w") as sink:
            self.start(self.server, sys.executable, "-c", TRUNCATING_RESOLVER, *addresses, stdout=sink, stderr=sink)
        self.until(lambda: "listening" in log.read_text())

    def answer_solicitations(self, *options: Option) -> None:
        """Let the router advertise to each that solicits it."""
        log = self.scratch / "router.log"
        with log.open("w") as sink:
            command = (sys.executable, "-c", ROUTER, "when solicited", self.advertisement(*options))
            self.start(self.router, *command, stdout=sink, stderr=sink)
        self.until(lambda: "listening" in log.read_text(), patience=60)

    def advertise(self, *options: Option | str, **wrong: str) -> None:
        """Send one router advertisement."""
        self.run(self.router, sys.executable, "-c", ROUTER, "now", self.advertisement(*options, **wrong))

    def advertisement(self, *options: Option | str, ip: str = "", ra: str = "") -> str:
        """A router advertisement as scapy takes it; the other arguments say what is wrong with it."""
        source = "" if "src=" in ip else f'src="{self.router_address()}", '
        hop_limit = "" if "hlim=" in ip else "hlim=255, "
        packet = f'IPv6(dst="ff02::1", {source}{hop_limit}{ip})/ICMPv6ND_RA(routerlifetime=0, {ra})'
        return packet + "".join(f"/{option}" for option in options)

    def router_address(self) -> str:
        """Its link-local address."""
        for link in self.ip_json(self.router, "-6", "address", "show", "dev", "down0", "scope", "link"):
            for address in link.get("addr_info", []):
                if "local" in address:
                    return address["local"]
        raise AssertionError("it has none")

    def prefixes(self) -> list[dict]:
        """What `show prefix` says."""
        return json.loads(self.run(self.client, str(self.program), "show", "prefix", "--json").stdout)["prefixes"]

    def in_force(self) -> str | None:
        """The prefix in force."""
        return next((row["prefix"] for row in self.prefixes() if row["in_force"]), None)

    def routes(self) -> list[str]:
        """IPv4 routes through the device."""
        return [route["dst"] for route in self.ip_json(self.client, "-4", "route", "show") if route.get("dev") == "diolkos0"]
