#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Writes vectors for P4 pipelines, in the simple test framework of p4c: `packet PORT HEX`, `expect PORT HEX`.

vectors/*.json ─► vectors with one configuration ─► OUT/<number>.stf; frames that are too long for tools: OUT/<number>-long.stf

The tables of a pipeline have names of their own, so its set-up stands in comments, as the configuration. IPv4 enters and
leaves by one port, IPv6 by the other. `*` stands for a digit that RFCs leave open, `$` for the end of a packet. A vector whose
packet is dropped expects nothing; a control packet each way (stf_control.py) keeps a pipeline that translates nothing from
passing. Vectors that depend on earlier packets or on the time are left out, for they need state; so
are those of an empty packet, which STF cannot write.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from stf_control import control_packets
from to_pcap import HERE, groups

IPV4, IPV6 = 4, 6
ETHERTYPES = {IPV4: "0800", IPV6: "86dd"}
HEADER = {IPV4: 20, IPV6: 40}
ETHERNET = 14
LONGEST = 9216  # pcap files and switches of P4 tools take jumbo frames, and not those of 65 549 bytes
ICMP, ICMPV6, FRAGMENT = 1, 58, 44
ICMP_HEADER = 8
# RFC 792, RFC 4443: types that quote a packet.
ERRORS = {IPV4: {3, 11, 12}, IPV6: {1, 2, 3, 4}}
# IPv4: identification, header checksum. Of errors that a translator makes itself, also type of service, total length, flags,
# TTL and source; IPv6: traffic class, flow label, payload length, hop limit and source.
GENERATED = {IPV4: [(4, 6), (10, 12)], IPV6: []}
OWN = {IPV4: [(1, 8), (8, 9), (10, 16)], IPV6: [(1, 6), (7, 24)]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, metavar="OUT", help="a folder; one file in it for each configuration")
    parser.add_argument("files", type=Path, nargs="*", help="default: every file of vectors/")
    parser.add_argument("--port4", type=int, default=0, help="where IPv4 enters and leaves (default: 0)")
    parser.add_argument("--port6", type=int, default=1, help="where IPv6 enters and leaves (default: 1)")
    mac = {"metavar": "MAC", "help": "%(default)s by default"}
    parser.add_argument("--to", default="02:00:00:00:00:01", **mac)
    parser.add_argument("--from", dest="by", default="02:00:00:00:00:02", **mac)
    parser.add_argument("--raw", action="store_true", help="packets without Ethernet headers")
    parser.add_argument("--any-length", action="store_true", help="no `$`, which only the bmv2 runner of p4c knows")
    parser.add_argument("--exact", action="store_true", help="expect every digit as the vectors have it")
    parser.add_argument(
        "--each", choices=("config", "file", "vector"), default="config", help="what one .stf has (default: config)"
    )
    longest = "bytes of a frame above which it stands in a file of its own (default: %(default)s)"
    parser.add_argument("--longest", type=int, default=LONGEST, metavar="BYTES", help=longest)
    parser.add_argument("--no-control", action="store_true", help="no control packet each way")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    files = arguments.files or sorted(HERE.glob("*.json"))
    count = 0
    for name, vectors in parts(files, arguments.each):
        sent = [vector for vector in vectors if vector["input"]["hex"]]
        is_long = [longest_frame(vector) > arguments.longest for vector in sent]
        for mark, chosen in ("", False), ("-long", True):
            write(arguments, name + mark, [vector for vector, long in zip(sent, is_long, strict=True) if long == chosen])
        count += len(sent)
    print(f"{count} vectors in {arguments.out}.")
    return 0


def parts(files: list[Path], each: str) -> list[tuple[str, list[dict]]]:
    """Names of files, and vectors of one configuration for each."""
    if each == "file":
        return [(f"{file.stem}-{number:03}", group) for file in files for number, group in enumerate(groups([file]), 1)]
    if each == "vector":
        return [(vector["name"], [vector]) for group in groups(files) for vector in group]
    return [(f"{number:03}", group) for number, group in enumerate(groups(files), 1)]


def longest_frame(vector: dict) -> int:
    """Bytes of the longest frame that is sent or expected."""
    return ETHERNET + max(len(packet["hex"]) // 2 for packet in [vector["input"], *vector["output"]])


def write(arguments: argparse.Namespace, name: str, vectors: list[dict]) -> None:
    """One file, unless it has no vectors."""
    if not vectors:
        return
    lines = [f"# config {json.dumps(vectors[0]['config'])}"]
    if not arguments.no_control:
        for sent, wanted in control_packets(vectors[0]["config"]):
            lines += [
                "",
                "# control: a pipeline that translates nothing fails here",
                *pair(sent, [wanted], arguments, exact=False),
            ]
    for vector in vectors:
        lines += ["", *statements(vector, arguments)]
    (arguments.out / f"{name}.stf").write_text("\n".join(lines) + "\n")


def statements(vector: dict, arguments: argparse.Namespace) -> list[str]:
    """The lines of one vector."""
    sent = bytes.fromhex(vector["input"]["hex"])
    lines = [f"# {vector['name']}: {vector['demand']}", f"# {', '.join(vector['rfc'])}"]
    if "choice" in vector:
        lines.append(f"# choice: {vector['choice']}")
    outputs = [bytes.fromhex(output["hex"]) for output in vector["output"]]
    lines += pair(sent, outputs, arguments, exact=arguments.exact)
    if not outputs:
        lines.append("# dropped")
    return lines


def pair(sent: bytes, outputs: list[bytes], arguments: argparse.Namespace, *, exact: bool) -> list[str]:
    """A packet, and what is expected for it."""
    ports = {IPV4: arguments.port4, IPV6: arguments.port6}
    front = "" if arguments.raw else (arguments.to + arguments.by).replace(":", "") + ETHERTYPES[family(sent)]
    lines = [f"packet {ports[family(sent)]} {front}{sent.hex()}"]
    for packet in outputs:
        digits = packet.hex() + "$" if exact else open_digits(sent, packet)
        digits = digits.rstrip("$") if arguments.any_length else digits
        # Which link-layer addresses a pipeline has is its own affair.
        front = "" if arguments.raw else "*" * 24 + ETHERTYPES[family(packet)]
        lines.append(f"expect {ports[family(packet)]} {front}{digits}")
    return lines


def family(packet: bytes) -> int:
    """By the version in the header; what has another one comes as IPv4, and is dropped."""
    return IPV6 if packet[0] >> 4 == IPV6 else IPV4


def open_digits(sent: bytes, packet: bytes) -> str:
    """The packet's digits, with `*` for those that a translator may choose (see README.md)."""
    ip, header = family(packet), HEADER[family(packet)]
    is_error = transport(packet) == (ICMP if ip == IPV4 else ICMPV6) and packet[header] in ERRORS[ip]
    if is_error and family(sent) == ip and destination(packet) == source(sent):
        # It quotes as much as it likes: all demand the first eight bytes behind the quoted header.
        quote = header + ICMP_HEADER
        return masked(packet[: quote + HEADER[ip] + 8], [*OWN[ip], (header + 2, header + 4)])
    chosen = []
    if family(sent) == IPV6 and ip == IPV4:
        if transport(sent) != FRAGMENT:
            chosen += GENERATED[IPV4]
        if is_error:
            quote = header + ICMP_HEADER
            chosen += [(header + 2, header + 4), *((quote + at, quote + end) for at, end in GENERATED[IPV4])]
    return masked(packet, chosen) + "$"


def masked(packet: bytes, chosen: list[tuple[int, int]]) -> str:
    """The digits, without those of some bytes."""
    digits = list(packet.hex())
    for at, end in chosen:
        digits[2 * at : 2 * end] = "*" * (2 * (end - at))
    return "".join(digits)


def transport(packet: bytes) -> int:
    """Of a packet that is as long as its header."""
    return packet[9] if family(packet) == IPV4 else packet[6]


def source(packet: bytes) -> bytes:
    """Of such a packet."""
    return packet[12:16] if family(packet) == IPV4 else packet[8:24]


def destination(packet: bytes) -> bytes:
    """Of such a packet."""
    return packet[16:20] if family(packet) == IPV4 else packet[24:40]


if __name__ == "__main__":
    sys.exit(main())
