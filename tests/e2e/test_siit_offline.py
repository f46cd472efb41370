# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Translation of capture files, held against the vectors as they are exported for other translators."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import ROOT, program
from scapy.layers.inet import ICMP, IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import ARP, Dot1Q, Ether
from scapy.packet import Packet, Raw
from scapy.utils import RawPcapReader
from test_clat_faults import NO_ROOT, RUN_TIME, USAGE, one_sentence

SIIT = '[translator]\nmode = "siit"\npref64 = ["2001:db8:100::/40"]\n'
RAW_IP, ETHERNET = 101, 1
MICRO, NANO = 0xA1B2C3D4, 0xA1B23C4D
DATAGRAM = IP(src="198.51.100.2", dst="192.0.2.33", flags="DF") / UDP(sport=5, dport=6) / b"diolkos"


class Offline:
    """A folder, and the program at work in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.out = "out.pcap"
        self.config(SIIT)

    def config(self, text: str) -> None:
        """Write the configuration."""
        (self.folder / "x.toml").write_text(text)

    def translate(self, capture: bytes, *options: str, wrapper: tuple[str, ...] = ()) -> tuple[int, bytes, str]:
        """Exit code, the capture that came out, and what was said."""
        source, result = self.folder / "in.pcap", self.folder / self.out
        source.write_bytes(capture)
        command = [*wrapper, program(), "translate", "--config", self.folder / "x.toml"]
        command += ["--from-pcap", source, "--to-pcap", result, *options]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        return done.returncode, result.read_bytes() if result.exists() else b"", done.stderr.strip()


@pytest.fixture
def offline(tmp_path: Path) -> Offline:
    return Offline(tmp_path)


def capture(packets: list[tuple[int, int, bytes]], link: int = RAW_IP, magic: int = MICRO, order: str = "<") -> bytes:
    """A capture of packets with their seconds and fractions."""
    parts = [struct.pack(f"{order}IHHiIII", magic, 2, 4, 0, 0, 65535 + 40, link)]
    for second, fraction, data in packets:
        parts += [struct.pack(f"{order}IIII", second, fraction, len(data), len(data)), data]
    return b"".join(parts)


GOOD = capture([(1, 0, bytes(DATAGRAM))])


def toml(config: dict) -> str:
    """A vector's configuration as a file has it."""
    # To RFC 7915, options of TCP are data; a default of ours is none of the vectors' keys.
    config = {"pref64": [], "tcp_mss": "off", **config}
    if config.pop("clat", False):
        (mapping,) = config.pop("eam")
        config = {"mode": "clat", "interfaces": ["eth0"], **config}
        tables = {"clat": {family: net.split("/")[0] for family, net in mapping.items()}}
    else:
        config = {"mode": "siit", **config}
        tables = {}
    tables["icmp"] = config.pop("icmp", {})
    mappings = config.pop("eam", [])
    lines = ["[translator]", *itemised(config)]
    lines += [line for mapping in mappings for line in ("[[eam]]", *itemised(mapping))]
    lines += [line for name, table in tables.items() for line in (f"[{name}]", *itemised(table))]
    return "\n".join(lines) + "\n"


def itemised(table: dict) -> Iterator[str]:
    """Keys and values; strings, numbers, booleans and lists of strings look in TOML as in JSON."""
    return (f"{key} = {json.dumps(value)}" for key, value in table.items())


@pytest.fixture(scope="session")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All vectors, as `vectors/to_pcap.py` writes them."""
    folder = tmp_path_factory.mktemp("vectors")
    subprocess.run([sys.executable, ROOT / "vectors" / "to_pcap.py", folder], check=True, capture_output=True)
    return folder


def records(pcap: bytes) -> list[tuple[int, bytes]]:
    """The second and the bytes of every packet of a little-endian capture."""
    found, at = [], 24
    while at < len(pcap):
        second, _, length, _ = struct.unpack_from("<IIII", pcap, at)
        found.append((second, pcap[at + 16 : at + 16 + length]))
        at += 16 + length
    return found


def test_every_vector_byte_for_byte(offline: Offline, exported: Path) -> None:
    """Each vector alone, so that its identifications begin where it says."""
    count = 0
    for group in sorted(exported.iterdir()):
        offline.config(toml(json.loads((group / "config.json").read_text())))
        names = dict(line.split() for line in (group / "names.txt").read_text().splitlines())
        expected = records((group / "expected.pcap").read_bytes())
        for second, packet in records((group / "in.pcap").read_bytes()):
            code, got, said = offline.translate(capture([(second, 0, packet)]), "--ipv4-id", "1234")
            assert code == 0, said
            wanted = capture([(s, 0, p) for s, p in expected if s == second])
            assert got == wanted, f"{names[str(second)]} in {group.name}: {said}"
            count += 1
    assert count > 700


def test_a_whole_capture(offline: Offline, exported: Path) -> None:
    """The vectors of one configuration in one file: everything comes out in order, with the time of what came in."""
    group = max(exported.iterdir(), key=lambda folder: (folder / "in.pcap").stat().st_size)
    offline.config(toml(json.loads((group / "config.json").read_text())))
    sent = records((group / "in.pcap").read_bytes())
    expected = records((group / "expected.pcap").read_bytes())
    code, got, said = offline.translate((group / "in.pcap").read_bytes())
    assert code == 0, said
    assert [(s, len(p)) for s, p in records(got)] == [(s, len(p)) for s, p in expected]
    lines = dict(line.rsplit(maxsplit=1) for line in said.splitlines())
    assert (int(lines["read"]), int(lines["written"])) == (len(sent), len(expected))
    drops = {name: int(n) for name, n in lines.items() if name.startswith("drop.")}
    assert drops["drop.hop_limit"] > 0
    assert int(lines["forward"]) + int(lines["emitted"]) + sum(drops.values()) == len(sent)
    again = offline.translate((group / "in.pcap").read_bytes())
    assert again == (code, got, said), "the same files give the same files"


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(("magic", "fraction"), [(MICRO, 999_999), (NANO, 999_999_999)])
@pytest.mark.parametrize("link", [RAW_IP, 12, 14, 228])
def test_times_and_byte_orders(offline: Offline, order: str, magic: int, fraction: int, link: int) -> None:
    """The output is little-endian raw IP; its time stamps are the input's, to the nanosecond."""
    code, got, said = offline.translate(capture([(0xFFFFFFFF, fraction, bytes(DATAGRAM))], link, magic, order))
    assert code == 0, said
    assert struct.unpack_from("<IHHiIII", got) == (magic, 2, 4, 0, 0, 65575, RAW_IP)
    assert struct.unpack_from("<II", got, 24) == (0xFFFFFFFF, fraction)
    translated = IPv6(got[40:])
    assert (translated.src, translated.dst, translated[UDP].sport) == ("2001:db8:1c6:3364:2::", "2001:db8:1c0:2:21::", 5)


@pytest.mark.parametrize("tags", [[], [Dot1Q(vlan=5)], [Dot1Q(vlan=5), Dot1Q(vlan=6)]])
def test_ethernet(offline: Offline, tags: list[Packet]) -> None:
    """Frames give up their packets, without padding; what is no IP is counted and left out."""
    ether = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
    stack: Packet = ether
    for tag in tags:
        stack = stack / tag
    short = bytes(stack / DATAGRAM)
    frames = [bytes(ether / ARP()), short + b"\0" * (64 - len(short))]
    code, got, said = offline.translate(capture([(1, 0, frame) for frame in frames], ETHERNET))
    assert code == 0, said
    (path := offline.folder / "got.pcap").write_bytes(got)
    (translated,) = [IPv6(data) for data, _ in RawPcapReader(str(path))]
    assert bytes(translated[UDP].payload) == b"diolkos"
    assert [line.split()[-1] for line in said.splitlines()] == ["2", "1", "1", "1"]


def test_rate_limits_follow_the_time_of_the_capture(offline: Offline) -> None:
    """One error a second: the second packet is half a second early."""
    offline.config(SIIT + "[icmp]\nrate = 1\nburst = 1\n")
    expiring = bytes(IP(src="198.51.100.2", dst="192.0.2.33", ttl=1) / UDP() / b"x")
    code, got, said = offline.translate(capture([(5, 0, expiring), (5, 500_000, expiring), (6, 0, expiring)]))
    assert code == 0, said
    assert [second for second, _ in records(got)] == [5, 6]
    errors = [IP(packet) for _, packet in records(got)]
    assert {(error[ICMP].type, error[ICMP].code, error.src) for error in errors} == {(11, 0, "192.0.0.8")}


def test_fragments_come_out_one_by_one(offline: Offline) -> None:
    """A packet that may be fragmented leaves in pieces with its own time."""
    long = IP(src="198.51.100.2", dst="192.0.2.33", id=7) / UDP() / Raw(b"x" * 3000)
    code, got, said = offline.translate(capture([(9, 1, bytes(long))]))
    assert code == 0, said
    assert [second for second, _ in records(got)] == [9, 9, 9]
    assert all(len(packet) <= 1280 for _, packet in records(got))


def test_it_needs_no_privileges() -> None:
    """Nobody may do it."""
    with tempfile.TemporaryDirectory(prefix="dio-e2e-") as folder:
        Path(folder).chmod(0o777)
        code, got, said = Offline(Path(folder)).translate(GOOD, wrapper=NO_ROOT)
    assert code == 0, said
    assert len(records(got)) == 1


def test_errors_without_a_source(offline: Offline) -> None:
    """64:ff9b::/96 may not carry 192.0.0.8, so that ICMPv6 errors need an address; the operator is told."""
    offline.config('[translator]\nmode = "siit"\n')
    expiring = bytes(IPv6(src="64:ff9b::808:808", dst="64:ff9b::101:101", hlim=1) / UDP() / b"x")
    code, got, said = offline.translate(capture([(1, 0, expiring)]))
    assert (code, records(got)) == (0, [])
    assert "set icmp.address6" in said
    offline.config('[translator]\nmode = "siit"\n[icmp]\naddress6 = "2001:db8::1"\n')
    code, got, said = offline.translate(capture([(1, 0, expiring)]))
    assert [IPv6(packet).src for _, packet in records(got)] == ["2001:db8::1"]
    assert "set icmp.address6" not in said


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (b"", "is not a capture"),
        (b"\x0a\x0d\x0d\x0a" + bytes(60), "block 1 is malformed"),
        (b"diolkos!" * 8, "is not a capture"),
        (GOOD[:23], "is not a capture"),
        (GOOD[:30], "ends within packet 1"),
        (GOOD[:-1], "ends within packet 1"),
        (GOOD + GOOD[24:50], "ends within packet 2"),
        (GOOD[:32] + b"\xff\xff\xff\x7f" + GOOD[36:], "packet 1 claims 2147483647 bytes"),
        (GOOD[:28] + b"\xff\xff\xff\x7f" + GOOD[32:], "time stamp"),
        (capture([], 113), "link type is 113"),
    ],
)
def test_a_malformed_capture(offline: Offline, bad: bytes, words: str) -> None:
    """One sentence, exit code 1."""
    code, _, said = offline.translate(bad)
    assert code == RUN_TIME
    assert words in one_sentence(said)


def test_wrong_usage(offline: Offline) -> None:
    """A capture is not written over itself; a CLAT's address cannot be made without its uplink."""
    offline.out = "in.pcap"
    code, got, said = offline.translate(GOOD)
    assert (code, got) == (USAGE, GOOD)
    assert "--to-pcap is the file that --from-pcap reads" in one_sentence(said)
    offline.out = "out.pcap"
    offline.config('[translator]\ninterfaces = ["eth0"]\n')
    code, got, said = offline.translate(GOOD)
    assert (code, got) == (USAGE, b"")
    assert "clat.v6" in one_sentence(said)


def test_missing_files(offline: Offline) -> None:
    """Each is named."""
    for option, words in (("--from-pcap", "cannot be read"), ("--to-pcap", "cannot be written")):
        command = {"--from-pcap": offline.folder / "in.pcap", "--to-pcap": offline.folder / "out.pcap"}
        command["--from-pcap"].write_bytes(GOOD)
        command[option] = offline.folder / "no" / "such.pcap"
        arguments = [str(part) for pair in command.items() for part in pair]
        done = subprocess.run(
            [program(), "translate", "--config", offline.folder / "x.toml", *arguments],
            check=False,
            capture_output=True,
            text=True,
        )
        assert done.returncode == RUN_TIME
        assert "no/such.pcap" in one_sentence(done.stderr.strip()) and words in done.stderr
