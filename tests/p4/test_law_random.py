# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The fast-path law for the switch on seeded packets: the bytes of the slow path (`diolkos translate`), or declined.

`DIOLKOS_LAW_SEED` repeats a failure, `DIOLKOS_LAW_CASES` makes more packets.
"""

from __future__ import annotations

import json
import os
import random
import struct
import subprocess
from ipaddress import ip_address
from pathlib import Path

import pytest
from control import INSERT, Change, Piped, program
from packets import ETHERNET, checksum_is_right, framed, icmp, ipv4, ipv6, is_ipv4, tcp, udp, without_id
from tables import HOST_MAC, PORT4, PORT6, SESSIONS, SWITCH_MAC, hop, local_macs, settings, stateless

CASES = int(os.environ.get("DIOLKOS_LAW_CASES", "1500"))
RAW = 101
MAPPINGS = [
    {"v4": "192.0.2.0/28", "v6": "2001:db8:4::/64"},
    {"v4": "192.0.2.8/29", "v6": "2001:db8:5:8000::/61"},
    {"v4": "192.0.2.9/32", "v6": "2001:db8:6::2/128"},
    {"v4": "198.51.100.0/24", "v6": "2001:db8:7::/120"},
]
PREFIX = "2001:db8:64::/96"


def chance_of(name: str) -> random.Random:
    """With a seed that is printed."""
    seed = int(os.environ.get("DIOLKOS_LAW_SEED", random.randrange(1 << 32)))
    print(f"{name}: DIOLKOS_LAW_SEED={seed}")
    return random.Random(seed)


def slow_path(folder: Path, config: str, packets: list[bytes]) -> tuple[list[list[bytes]], list[dict]]:
    """What leaves the slow path for each packet, and what it says of each."""
    (folder / "c.toml").write_text(config)
    write_pcap(folder / "in.pcap", packets)
    command = [program().with_name("diolkos"), "translate", "--config", folder / "c.toml", "--from-pcap", folder / "in.pcap"]
    done = subprocess.run([*command, "--to-pcap", folder / "out.pcap", "--json"], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    out: list[list[bytes]] = [[] for _ in packets]
    for number, packet in read_pcap(folder / "out.pcap"):
        out[number].append(packet)
    return out, [json.loads(line) for line in done.stdout.splitlines()]


def write_pcap(path: Path, packets: list[bytes]) -> None:
    """Packet n at millisecond n, so that its results can be told, and no session is over meanwhile."""
    parts = [struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, RAW)]
    parts += [
        struct.pack("<IIII", at // 1000, at % 1000 * 1000, len(packet), len(packet)) + packet
        for at, packet in enumerate(packets)
    ]
    path.write_bytes(b"".join(parts))


def read_pcap(path: Path) -> list[tuple[int, bytes]]:
    """Millisecond and bytes of each packet, in either resolution and byte order."""
    data = path.read_bytes()
    order = "<" if data[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1") else ">"
    per_ms = 1000 if data[:4] in (b"\xd4\xc3\xb2\xa1", b"\xa1\xb2\xc3\xd4") else 1_000_000
    at, found = 24, []
    while at < len(data):
        second, part, length, _ = struct.unpack_from(order + "IIII", data, at)
        found.append((second * 1000 + part // per_ms, data[at + 16 : at + 16 + length]))
        at += 16 + length
    return found


def obeys(switch: Piped, sent: bytes, wanted: list[bytes]) -> bool | None:
    """True: it is translated, to the bytes that are wanted; False: declined; None: something else."""
    port, frame = framed(sent)
    out = switch.send(port, frame)
    if not out:
        return False if len(sent) < 20 or not wanted else None  # refused at the port, as shorter than its headers
    if len(out) == 1 and out[0] == (port ^ 1, frame):
        return False
    packets = [found[ETHERNET:] for _, found in out]
    if packets == wanted:
        return True
    if len(packets) != 1 or len(wanted) != 1 or not is_ipv4(wanted[0]) or wanted[0][6] & 0x40:
        return None
    return True if checksum_is_right(packets[0]) and without_id(packets[0]) == without_id(wanted[0]) else None


def any_transport(chance: random.Random, is6: bool, pseudo: bytes) -> tuple[int, bytes]:
    """Protocol and bytes, most of them plain."""
    data = chance.randbytes(chance.choice([0, 1, 8, 57, 512, 1180, 1200, 1240, 1440, chance.randrange(1480)]))
    ports = chance.randrange(1 << 16), chance.randrange(1 << 16)
    kind = chance.choice(["tcp", "udp", "udp", "echo", "echo", "reply", "zeros", "other", "short"])
    if kind == "tcp":
        flags = chance.choice([0x10, 0x18, 0x02, 0x11, 0x04])
        found = 6, tcp(pseudo, *ports, data, flags, chance.choice([5, 5, 6, 15, 4]))
    elif kind == "udp":
        found = 17, udp(pseudo, *ports, data)
    elif kind == "other":
        return chance.choice([0, 1, 2, 4, 41, 43, 44, 47, 50, 58, 60, 132, 136]), data
    elif kind == "short":
        return chance.choice([1, 6, 17, 58]), data[: chance.randrange(20)]
    else:
        request, reply, protocol = (128, 129, 58) if is6 else (8, 0, 1)
        kinds = {"echo": request, "reply": reply, "zeros": reply}
        message = b"" if kind == "zeros" else data
        number = (0, 0) if kind == "zeros" else ports
        found = protocol, icmp(pseudo if is6 else b"", kinds[kind], chance.choice([0, 0, 0, 1]), *number, message)
    protocol, body = found
    if chance.random() < 0.1 and len(body) > 18:
        at = {6: 16, 17: 6, 1: 2, 58: 2}[protocol]
        body = body[:at] + chance.choice([b"\0\0", b"\xff\xff", chance.randbytes(2)]) + body[at + 2 :]
    return protocol, body


def any_packet(chance: random.Random) -> bytes:
    """Of either family; now and then with something that is not plain."""
    v4 = ["192.0.2.1", "192.0.2.9", "192.0.2.10", "198.51.100.7", "203.0.113.5", "8.8.8.8", "10.1.2.3"]
    odd4 = ["127.0.0.1", "224.0.0.1", "0.0.0.0", "255.255.255.255", "169.254.1.1"]
    v6 = ["2001:db8:64::808:808", "2001:db8:64::cb00:7105", "2001:db8:6::2", "2001:db8:7::7", "2001:db8:4:0:1000::"]
    v6 += ["2001:db8:5:8002::", "2001:db8:64::a01:203", "2001:db8:4::"]
    odd6 = ["::1", "fe80::1", "ff02::1", "::", "2001:db8:99::1", "2001:db8:64::7f00:1", "2001:db8:64::e000:1"]
    is6 = chance.random() < 0.5
    plain, odd = (v6, odd6) if is6 else (v4, odd4)
    source, destination = (ip_address(chance.choice(odd if chance.random() < 0.05 else plain)).packed for _ in range(2))
    protocol, body = any_transport(chance, is6, source + destination)
    ttl, tos = chance.choice([64, 64, 255, 2, 1, 0]), chance.choice([0, 0, 0xB8, 0xFF, 1])
    if is6:
        packet = ipv6(source, destination, protocol, body, ttl, tos, chance.choice([0, 0, 0xFFFFF]))
    else:
        fragment = chance.choice([0x4000] * 6 + [0] * 6 + [0x2000, 0x0001, 0x8000, 0xC000])
        packet = ipv4(source, destination, protocol, body, ttl, tos, chance.randrange(1 << 16), fragment)
        if chance.random() < 0.03:
            packet = packet[:10] + chance.randbytes(2) + packet[12:]
    if chance.random() < 0.03:
        packet = packet[: chance.randrange(1, len(packet))]
    return packet


@pytest.mark.parametrize("mss", ["off", 1220])
def test_stateless_packets(tmp_path: Path, switch: Piped, mss: str | int) -> None:
    """Prefix and mappings of several lengths, one inside of the other."""
    chance = chance_of("stateless")
    packets = [any_packet(chance) for _ in range(CASES)]
    config = f'[translator]\nmode = "siit"\npref64 = ["{PREFIX}"]\nmtu4 = 1500\nmtu6 = 1500\ntcp_mss = {json.dumps(mss)}\n'
    config += "".join(f'[[eam]]\nv4 = "{mapping["v4"]}"\nv6 = "{mapping["v6"]}"\n' for mapping in MAPPINGS)
    wanted, _ = slow_path(tmp_path, config, packets)
    switch.control.write(stateless({"pref64": [PREFIX], "eam": MAPPINGS, "tcp_mss": mss}))
    results = [obeys(switch, sent, out) for sent, out in zip(packets, wanted, strict=True)]
    wrong = [packet.hex() for packet, result in zip(packets, results, strict=True) if result is None]
    assert not wrong
    assert results.count(True) > CASES / 8, "it declines too much"


FLOWS = 24
POOL = "192.0.2.1"
PREF64 = "64:ff9b::/96"
NAT64 = f"""
[translator]
mode = "nat64"
pref64 = ["{PREF64}"]
mtu4 = 1500
mtu6 = 1500

[[nat64.pool4]]
address = "{POOL}"
"""


def test_packets_of_sessions(tmp_path: Path, switch: Piped) -> None:
    """Sessions that the slow path opens, written into the switch: what follows is the same in both."""
    chance = chance_of("sessions")
    flows = [(chance.choice([6, 17, 58]), f"2001:db8:6::{n + 2:x}", 1024 + n, f"8.8.4.{n + 1}", 53) for n in range(FLOWS)]
    first = [opening(*flow) for flow in flows]
    _, said = slow_path(tmp_path, NAT64, first)
    outside = [int(line["out"][0].get("src_port", line["out"][0].get("icmp_id"))) for line in said if "packet" in line]
    assert len(outside) == FLOWS, said
    later = [packet for flow, port in zip(flows, outside, strict=True) for packet in following(chance, *flow, port)]
    chance.shuffle(later)
    # TCP is established once the peer has answered; the slow path sees that, the switch has nothing of it.
    answers = [answer(*flow, port) for flow, port in zip(flows, outside, strict=True)]
    wanted, _ = slow_path(tmp_path, NAT64, [*first, *answers, *later])
    switch.control.write([settings(SESSIONS), *local_macs(SWITCH_MAC), hop("0.0.0.0/0", PORT4, HOST_MAC, SWITCH_MAC, 1500)])
    switch.control.write([hop("::/0", PORT6, HOST_MAC, SWITCH_MAC, 1500)])
    for slot, (flow, port) in enumerate(zip(flows, outside, strict=True), 1):
        switch.control.write(session(*flow, port, slot))
    results = [obeys(switch, sent, out) for sent, out in zip(later, wanted[2 * FLOWS :], strict=True)]
    assert None not in results, later[results.index(None)].hex()
    assert results.count(True) > len(later) / 2
    assert switch.control.used(0, 64) == set(range(1, FLOWS + 1))
    assert switch.control.used(0, 64) == set(), "each use is told once"


def in_prefix(v4: str) -> bytes:
    """The IPv6 address of an IPv4 node."""
    return bytes.fromhex("0064ff9b0000000000000000") + ip_address(v4).packed


def upward(protocol: int, node: str, port: int, peer: str, peer_port: int, data: bytes, flags: int = 0x10) -> bytes:
    """A packet of the node."""
    source, destination = ip_address(node).packed, in_prefix(peer)
    pseudo = source + destination
    bodies = {
        6: lambda: tcp(pseudo, port, peer_port, data, flags),
        17: lambda: udp(pseudo, port, peer_port, data),
        58: lambda: icmp(pseudo, 128, 0, port, 1, data),
    }
    return ipv6(source, destination, protocol, bodies[protocol](), 64, 0, 0)


def downward(protocol: int, peer: str, peer_port: int, outside: int, data: bytes, flags: int = 0x10) -> bytes:
    """A packet of the peer."""
    source, destination = ip_address(peer).packed, ip_address(POOL).packed
    pseudo = source + destination
    bodies = {
        6: lambda: tcp(pseudo, peer_port, outside, data, flags),
        17: lambda: udp(pseudo, peer_port, outside, data),
        58: lambda: icmp(b"", 0, 0, outside, 1, data),
    }
    return ipv4(source, destination, {58: 1}.get(protocol, protocol), bodies[protocol](), 64, 0, 7, 0x4000)


def opening(protocol: int, node: str, port: int, peer: str, peer_port: int) -> bytes:
    """The packet that begins a session."""
    return upward(protocol, node, port, peer, peer_port, b"", 0x02)


def answer(protocol: int, node: str, port: int, peer: str, peer_port: int, outside: int) -> bytes:
    """The peer's first."""
    del node, port
    return downward(protocol, peer, peer_port, outside, b"", 0x12)


def following(
    chance: random.Random, protocol: int, node: str, port: int, peer: str, peer_port: int, outside: int
) -> list[bytes]:
    """Packets of a session that exists, and some of none."""
    found = []
    for _ in range(6):
        data = chance.randbytes(chance.choice([0, 1, 100, 1180, 1400]))
        found += [upward(protocol, node, port, peer, peer_port, data), downward(protocol, peer, peer_port, outside, data)]
    found.append(downward(protocol, peer, peer_port, outside ^ 1, b"nobody's"))
    found.append(downward(protocol, "8.8.5.5", peer_port, outside, b"of a stranger") if protocol == 58 else found[0])
    return found


def session(protocol: int, node: str, port: int, peer: str, peer_port: int, outside: int, slot: int) -> list[Change]:
    """Both entries of one."""
    echo = protocol == 58
    source, destination, v4 = ip_address(node).packed, in_prefix(peer), ip_address(peer).packed
    pool = ip_address(POOL).packed
    key6 = source + destination + struct.pack("!BHH", protocol, port, 0 if echo else peer_port)
    key4 = v4 + pool + struct.pack("!BHH", 1 if echo else protocol, 0 if echo else peer_port, outside)
    return [
        Change(INSERT, "session6", "to4", key6, data=pool + v4 + struct.pack("!HI", outside, slot)),
        Change(INSERT, "session4", "to6", key4, data=destination + source + struct.pack("!HI", port, slot)),
    ]
