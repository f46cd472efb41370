# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A NAT64 reproduced from a capture: on the capture's clock, from a seed, and as the running slow path."""

from __future__ import annotations

import json
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import program
from nat64 import BOUND, PREF64, TRANSLATOR, V4, V6, Nat64Network, in_ipv6
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import ICMPv6EchoRequest, IPv6, IPv6ExtHdrFragment
from scapy.packet import Packet, Raw
from scapy.utils import RawPcapReader
from siit import TRANSLATOR6
from test_clat_faults import RUN_TIME, USAGE, one_sentence
from test_siit_offline import capture

POOL = "192.0.2.4"
PEER = "198.51.100.2"
# One port of each protocol: what a node gets does not depend on chance.
ONE_PORT = f"""{TRANSLATOR}
[icmp]
address6 = "{TRANSLATOR6}"

[[nat64.pool4]]
address = "{POOL}"
ports = "2000-2000"
"""
MANY_PORTS = ONE_PORT.replace("2000-2000", "1024-65535")
STATIC = f"""
[[nat64.static]]
protocol = "udp"
v4 = "{BOUND}:53"
v6 = "[{V6}]:5353"
"""


@dataclass
class Offline:
    """A folder, and the program at work in it."""

    folder: Path

    def run(self, config: str, taken: bytes, *options: str) -> subprocess.CompletedProcess:
        """Translate a capture; the result stands in out.pcap."""
        (self.folder / "nat64.toml").write_text(config)
        (self.folder / "in.pcap").write_bytes(taken)
        command = [program(), "translate", "--config", self.folder / "nat64.toml", "--from-pcap", self.folder / "in.pcap"]
        return subprocess.run([*command, *options], check=False, capture_output=True, text=True)

    def lines(self, config: str, packets: list[tuple[float, Packet]], *options: str) -> list[dict]:
        """What is said of each packet as JSON."""
        done = self.run(config, taken(packets), "--json", "--to-pcap", str(self.folder / "out.pcap"), *options)
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    def sent(self) -> list[tuple[float, Packet]]:
        """The packets that came out, with their times."""
        out = []
        for data, meta in RawPcapReader(str(self.folder / "out.pcap")):
            out.append((meta.sec + meta.usec / 1e6, (IPv6 if data[0] >> 4 == 6 else IP)(data)))
        return out


def taken(packets: list[tuple[float, Packet]]) -> bytes:
    """A capture of raw IP."""
    return capture([(int(at), round(at % 1 * 1e6), bytes(packet)) for at, packet in packets])


@pytest.fixture
def offline(tmp_path: Path) -> Offline:
    return Offline(tmp_path)


def asked(port: int = 5000, source: str = V6) -> Packet:
    """A datagram of a node."""
    return IPv6(src=source, dst=in_ipv6(PEER)) / UDP(sport=port, dport=7) / b"question"


def answered(port: int = 2000) -> Packet:
    """One to it."""
    return IP(src=PEER, dst=POOL) / UDP(sport=7, dport=port) / b"answer"


def tcp6(flags: str) -> Packet:
    return IPv6(src=V6, dst=in_ipv6(PEER)) / TCP(sport=5000, dport=80, flags=flags, seq=1, ack=1)


def tcp4(flags: str) -> Packet:
    return IP(src=PEER, dst=POOL) / TCP(sport=80, dport=2000, flags=flags, seq=1, ack=1)


def test_a_session_in_lines_and_packets(offline: Offline) -> None:
    """A question, its answer, and one that nobody has asked for."""
    lines = offline.lines(ONE_PORT, [(10.0, asked()), (10.25, answered()), (11.5, answered(2001))])
    assert [(line["packet"], line["verdict"], line.get("drop")) for line in lines] == [
        (1, "forward", None),
        (2, "forward", None),
        (3, "drop", "no_binding"),
    ]
    assert [line["time"] for line in lines] == ["10.000000000", "10.250000000", "11.500000000"]
    assert lines[0]["in"] == {
        "src": V6, "dst": in_ipv6(PEER), "protocol": "udp", "src_port": 5000, "dst_port": 7, "length": 56,
    }  # fmt: skip
    assert [(out["src"], out["src_port"], out["dst"], out["dst_port"]) for out in lines[0]["out"]] == [(POOL, 2000, PEER, 7)]
    assert [(out["src"], out["dst"], out["dst_port"]) for out in lines[1]["out"]] == [(in_ipv6(PEER), V6, 5000)]
    opened = {"protocol": "udp", "v6": f"[{V6}]:5000", "v4": f"{POOL}:2000"}
    assert lines[0]["state"] == [
        {"event": "binding-opened", **opened},
        {"event": "session-opened", **opened, "peer": f"{PEER}:7", "state": "udp"},
    ]
    # RFC 6146 section 3.5.1: Destination Unreachable, host unreachable.
    (error,) = lines[2]["out"]
    assert (error["src"], error["dst"], error["icmp_type"], error["icmp_code"]) == (POOL, PEER, 3, 1)
    sent = offline.sent()
    assert [at for at, _ in sent] == [10.0, 10.25, 11.5]
    for _, packet in sent:
        again = packet.copy()
        del again[1].chksum
        assert bytes(type(packet)(bytes(again))) == bytes(packet), "the checksum is right"


def test_sessions_expire_by_the_clock_of_the_capture(offline: Offline) -> None:
    """UDP_DEFAULT is five minutes (RFC 6146 section 4); each packet begins it anew. Less than a second more is allowed."""
    times = [(0.0, asked()), (299.0, answered()), (598.0, answered()), (899.5, answered())]
    lines = offline.lines(ONE_PORT, times)
    assert [line["verdict"] for line in lines] == ["forward", "forward", "forward", "expired", "drop"]
    expired = lines[3]
    assert 898.0 <= float(expired["time"]) < 899.5 and "packet" not in expired
    assert [change["event"] for change in expired["state"]] == ["session-closed", "binding-closed"]


def test_an_established_connection_is_probed_at_its_time(offline: Offline) -> None:
    """After TCP_EST (two hours and four minutes) a packet asks the node, and after TCP_TRANS (four minutes) the session ends
    (RFC 6146 section 3.5.2.2)."""
    shake = [(0.0, tcp6("S")), (0.1, tcp4("SA")), (0.2, tcp6("A"))]
    lines = offline.lines(ONE_PORT, [*shake, (100_000.0, tcp4("A"))])
    assert [line["verdict"] for line in lines] == ["forward"] * 3 + ["expired"] * 2 + ["drop"]
    probe, end = lines[3:5]
    assert 7440.0 <= float(probe["time"]) - 0.2 < 7442
    assert [(out["dst"], out["dst_port"]) for out in probe["out"]] == [(V6, 5000)]
    assert 240.0 <= float(end["time"]) - float(probe["time"]) < 242
    at, packet = offline.sent()[3]
    assert at == float(probe["time"]) and packet[IPv6].dst == V6


def test_a_syn_that_nobody_answers_is_told_after_six_seconds(offline: Offline) -> None:
    """RFC 6146 section 3.5.2.2, state V4 INIT: the sender gets an ICMP error about it."""
    lines = offline.lines(ONE_PORT, [(1.0, tcp4("S")), (60.0, asked())])
    assert [line["verdict"] for line in lines] == ["held", "expired", "forward"]
    assert float(lines[1]["time"]) == 7.0
    assert lines[1]["held_drops"] == ["syn_unanswered"]
    (error,) = lines[1]["out"]
    assert (error["dst"], error["icmp_type"]) == (PEER, 3)


def test_a_fragment_waits_for_the_first(offline: Offline) -> None:
    """It leaves behind it; one whose first does not come is dropped after two seconds (FRAGMENT_MIN)."""
    rest = bytes(16)
    head = IPv6(src=V6, dst=in_ipv6(PEER))
    udp = UDP(sport=5000, dport=7, len=8 + 24) / bytes(8)
    first = head / IPv6ExtHdrFragment(id=9, m=1, nh=17) / Raw(bytes(udp)[:16])
    later = head / IPv6ExtHdrFragment(id=9, offset=2, nh=17) / Raw(rest)
    lines = offline.lines(ONE_PORT, [(1.0, later), (1.5, first), (2.0, IPv6(bytes(later))), (10.0, asked())])
    assert [line["verdict"] for line in lines[:3]] == ["held", "emitted", "forward"]
    assert [out["fragment_offset"] for out in lines[1]["out"]] == [0, 16]
    lonely = head / IPv6ExtHdrFragment(id=10, offset=2, nh=17) / Raw(rest)
    lines = offline.lines(ONE_PORT, [(1.0, lonely), (10.0, asked())])
    assert [(line["verdict"], line.get("held_drops"), line["time"]) for line in lines[:2]] == [
        ("held", None, "1.000000000"),
        ("expired", ["fragment_timeout"], "3.000000000"),
    ]


def test_the_same_seed_gives_the_same_bytes(offline: Offline) -> None:
    """Another one gives other ports."""
    packets = [(n / 10, asked(5000 + n)) for n in range(20)]
    seen = {}
    for options in ((), ("--seed", "0"), ("--seed", "1"), ("--seed", "1")):
        lines = offline.lines(MANY_PORTS, packets, *options)
        ports = tuple(line["out"][0]["src_port"] for line in lines)
        result = (ports, (offline.folder / "out.pcap").read_bytes())
        assert seen.setdefault(options[-1] if options else "0", result) == result
    assert len(set(seen["0"][0])) == 20 and seen["0"][0] != seen["1"][0]


def test_bindings_of_the_configuration_and_of_a_file(offline: Offline) -> None:
    """What `show bindings --json` prints may say the same as the configuration, and more."""
    shown = [
        {"protocol": "udp", "v6": f"[{V6}]:5353", "v4": f"{BOUND}:53", "sessions": 0, "origin": "configured"},
        {"protocol": "udp", "v6": f"[{V6}]:9", "v4": f"{POOL}:2000", "sessions": 1, "origin": "dynamic"},
    ]
    path = offline.folder / "bindings.json"
    path.write_text(json.dumps({"entries": shown, "total": 2}))
    static = IP(src=PEER, dst=BOUND) / UDP(sport=7, dport=53) / b"x"
    lines = offline.lines(ONE_PORT + STATIC, [(1.0, static), (2.0, answered())])
    assert [line["verdict"] for line in lines] == ["forward", "drop"]
    lines = offline.lines(ONE_PORT + STATIC, [(1.0, static), (2.0, answered()), (1e6, answered())], "--bindings", str(path))
    lines = [line for line in lines if "packet" in line]
    assert [(line["out"][0]["dst"], line["out"][0]["dst_port"]) for line in lines] == [(V6, 5353), (V6, 9), (V6, 9)]


@pytest.mark.parametrize(
    ("text", "words", "code"),
    [
        (None, "cannot be read", RUN_TIME),
        ("{", "is not the output of `diolkos show bindings --json`", RUN_TIME),
        ("[" * 100_000, "is not the output of `diolkos show bindings --json`", RUN_TIME),
        ('{"entries": [{"protocol": "udp", "v6": "[::1]:9", "v4": "192.0.2.256:1"}]}', "is not the output", RUN_TIME),
        (
            json.dumps({"entries": [{"protocol": "udp", "v6": f"[{V6}]:{port}", "v4": f"{POOL}:9"} for port in (1, 2)]}),
            "are bound to",
            USAGE,
        ),
        (
            json.dumps({"entries": [{"protocol": "udp", "v6": f"[{PREF64[:-3]}1]:1", "v4": f"{POOL}:9"}]}),
            "cannot be made",
            USAGE,
        ),
    ],
)
def test_wrong_bindings(offline: Offline, text: str | None, words: str, code: int) -> None:
    """One sentence that names the file."""
    path = offline.folder / "bindings.json"
    if text is not None:
        path.write_text(text)
    done = offline.run(ONE_PORT, taken([]), "--json", "--bindings", str(path))
    assert done.returncode == code, done.stderr
    assert words in one_sentence(done.stderr.strip()) and str(path) in done.stderr


def test_lines_for_people(offline: Offline) -> None:
    """No capture need be written for them. Nobody need read them to the end."""
    done = offline.run(ONE_PORT, taken([(1.0, asked()), (2.0, tcp4("S"))]), "--each")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        f"1 1.000000000 forward: [{V6}]:5000 > [{in_ipv6(PEER)}]:7 udp 56 bytes",
        f"    sent: {POOL}:2000 > {PEER}:7 udp 36 bytes",
        f"    binding-opened: udp [{V6}]:5000 {POOL}:2000",
        f"    session-opened: udp [{V6}]:5000 {POOL}:2000 peer {PEER}:7 udp",
        f"2 2.000000000 held: {PEER}:80 > {POOL}:2000 tcp syn 40 bytes",
    ]
    summary = dict(line.rsplit(maxsplit=1) for line in done.stderr.splitlines())
    assert summary == {
        "read": "2", "forward": "1", "held": "1", "sessions at the end": "1", "bindings at the end": "1", "written": "1",
    }  # fmt: skip
    question = bytes(asked())
    many = capture([(n // 100, 0, question) for n in range(20_000)])
    (offline.folder / "in.pcap").write_bytes(many)
    command = f"{program()} translate --config nat64.toml --from-pcap in.pcap --json --to-pcap out.pcap | head -n 1"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], check=False, capture_output=True, cwd=offline.folder)
    assert done.returncode == 0, done.stderr
    assert (offline.folder / "out.pcap").stat().st_size == 24 + 20_000 * (16 + 36)


def test_a_long_time_is_no_long_wait(offline: Offline) -> None:
    """A capture that jumps to the end of time and back, with what may wait a week in between."""
    week = ONE_PORT.replace("[[nat64", "[nat64.timeouts]\nudp = 604800\n\n[[nat64")
    jumps = [(float(at), asked()) for n in range(1, 1000) for at in (n, 4_294_000_000 + n)]
    lines = offline.lines(week, jumps)
    assert sum(line["verdict"] == "forward" for line in lines) == len(jumps)


def test_pcapng_by_editcap_and_the_result_by_tshark(offline: Offline) -> None:
    """Wireshark's programs write what we read, and read what we write."""
    packets = [(10.000001, asked()), (11.5, answered()), (12.0, tcp6("S")), (12.1, tcp4("SA"))]
    packets.append((13.0, IPv6(src=V6, dst=in_ipv6(PEER)) / ICMPv6EchoRequest(id=4, seq=5, data=b"x")))
    lines = offline.lines(ONE_PORT, packets)
    expected = offline.sent()
    for options in (["-F", "pcapng"], ["-F", "nsecpcap"], ["-F", "pcap"]):
        subprocess.run(["editcap", *options, "in.pcap", "converted"], check=True, capture_output=True, cwd=offline.folder)
        converted = (offline.folder / "converted").read_bytes()
        done = offline.run(ONE_PORT, converted, "--json", "--to-pcap", str(offline.folder / "out.pcap"))
        assert done.returncode == 0, done.stderr
        assert [json.loads(line) for line in done.stdout.splitlines()] == lines
        fields = [
            "frame.time_epoch",
            "ip.src",
            "ipv6.dst",
            "udp.checksum.status",
            "tcp.checksum.status",
            "icmp.checksum.status",
        ]
        command = ["tshark", "-n", "-r", "out.pcap", "-T", "fields", *(part for name in fields for part in ("-e", name))]
        command += ["-o", "udp.check_checksum:TRUE", "-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE"]
        shown = subprocess.run(command, check=True, capture_output=True, text=True, cwd=offline.folder).stdout
        rows = [line.split("\t") for line in shown.splitlines()]
        assert [float(row[0]) for row in rows] == [at for at, _ in expected]
        assert [row[1] or row[2] for row in rows] == [POOL, V6, POOL, V6, POOL]
        assert ["".join(row[3:]) for row in rows] == ["1"] * 5, "1: good"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda file: file[:-1], "ends within block"),
        (lambda file: file[:8] + b"\0\0\0\0" + file[12:], "block 1 is malformed"),
        (lambda file: file[:4] + b"\0\0\0\0" + file[8:], "block 1 claims 0 bytes"),
        (lambda file: file[:4] + b"\xff\xff\xff\x7f" + file[8:], "block 1 claims 2147483647 bytes"),
    ],
)
def test_malformed_pcapng(offline: Offline, change, words: str) -> None:
    """One sentence, exit code 1."""
    (offline.folder / "plain.pcap").write_bytes(taken([(1.0, asked())]))
    subprocess.run(["editcap", "-F", "pcapng", "plain.pcap", "whole"], check=True, capture_output=True, cwd=offline.folder)
    file = (offline.folder / "whole").read_bytes()
    done = offline.run(ONE_PORT, change(file), "--each")
    assert done.returncode == RUN_TIME
    assert words in one_sentence(done.stderr.strip())


def test_bindings_are_of_a_nat64(offline: Offline) -> None:
    """Others have none."""
    done = offline.run('[translator]\nmode = "siit"\n', taken([]), "--each", "--bindings", "b.json")
    assert done.returncode == USAGE
    assert "only a NAT64 has bindings" in one_sentence(done.stderr.strip())


def masked(packet: bytes) -> bytes:
    """Without what is drawn by chance: the identification of an IPv4 packet that may be fragmented, and its checksum."""
    return packet[:4] + bytes(2) + packet[6:10] + bytes(2) + packet[12:] if packet[0] >> 4 == 4 else packet


@pytest.mark.parametrize("nat64", ["tun"], indirect=True)
def test_as_the_running_slow_path(nat64: Nat64Network, offline: Offline) -> None:
    """What tcpdump sees enter the device becomes offline what it sees come out of it."""
    config = ONE_PORT.replace("[translator]", "[translator]\nqueues = 1\nmtu4 = 1500\nmtu6 = 1500") + STATIC
    for name in (nat64.v4, nat64.v6):
        # A checksum that is left to a device would be recorded unfinished.
        nat64.run(name, "ethtool", "-K", "a0", "tx", "off", "gso", "off", "gro", "off")
    for link in ("b4", "b6"):
        nat64.run(nat64.translator, "ethtool", "-K", link, "gro", "off")
    nat64.run(nat64.v4, "ip", "route", "replace", "192.0.2.0/24", "via", "198.51.100.1")
    nat64.nat64(config)
    files = {way: nat64.scratch / f"{way}.pcap" for way in ("out", "in")}
    dumps = []
    for way, path in files.items():
        log = (nat64.scratch / f"tcpdump-{way}").open("w+")
        command = [
            "tcpdump",
            "-i",
            "diolkos0",
            "-Q",
            way,
            "-Z",
            "root",
            "-U",
            "-s",
            "9000",
            "-B",
            "16384",
            "--immediate-mode",
            "-w",
            str(path),
        ]
        dumps.append((nat64.start(nat64.translator, *command, stderr=log), log))
        nat64.until(lambda log=log: "listening on" in Path(log.name).read_text())

    talk(nat64)

    for dump, log in dumps:
        dump.send_signal(signal.SIGINT)
        assert dump.wait(10) == 0
        log.close()
        assert "0 packets dropped by kernel" in Path(log.name).read_text()
    done = offline.run(config, files["out"].read_bytes(), "--to-pcap", str(offline.folder / "out.pcap"))
    assert done.returncode == 0, done.stderr
    live = [masked(data) for data, _ in RawPcapReader(str(files["in"]))]
    replayed = [masked(data) for data, _ in RawPcapReader(str(offline.folder / "out.pcap"))]
    assert len(live) > 20
    assert [packet.hex() for packet in replayed] == [packet.hex() for packet in live]


def talk(nat64: Nat64Network) -> None:
    """Traffic of every kind, one packet after the other."""
    v4, v6 = nat64.v4, nat64.v6
    peer6 = in_ipv6(V4)
    nat64.run(v6, "ping", "-c3", "-i0.2", "-W2", peer6)
    nat64.run(v6, "ping", "-c1", "-t1", "-W0.3", peer6, check=False)
    nat64.run(v6, "ping", "-c1", "-W2", "-s", "2000", "-M", "dont", peer6, check=False)
    nat64.script(v4, UDP_FROM_V4, BOUND, V4)
    nat64.script(v6, UDP_FROM_V6, peer6)
    nat64.run(v6, "curl", "-s", "-m", "2", f"http://[{peer6}]:9/", check=False)


UDP_FROM_V4 = """
import socket, sys
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.bind((sys.argv[2], 7))
sock.settimeout(2)
IP_MTU_DISCOVER, DONT, ERRORS = 10, 0, 11
sock.setsockopt(0, IP_MTU_DISCOVER, DONT)
def refused(to, data):
    try:
        sock.sendto(data, to)
        sock.recv(9000)
    except (OSError, TimeoutError) as error:
        return error
# The node has no such program: its ICMP error comes back. Then a port that nobody has.
for size in (1, 1400, 3000):
    sock.sendto(bytes(size), (sys.argv[1], 53))
sock.setsockopt(0, ERRORS, 1)
assert refused(("192.0.2.4", 2222), b"x")
"""
UDP_FROM_V6 = """
import socket, sys
sock = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
sock.settimeout(2)
sock.setsockopt(41, 25, 1)  # IPV6_RECVERR
for size in (1, 3000, 1200):
    try:
        sock.sendto(bytes(size), (sys.argv[1], 7))
        sock.recv(9000)
    except OSError:
        pass
"""
