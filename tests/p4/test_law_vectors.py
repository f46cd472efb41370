# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The fast-path law for the switch: each vector becomes the bytes that the RFCs demand, or leaves unchanged to the kernel."""

from __future__ import annotations

import json
import sys

from control import ROOT, Piped
from packets import ETHERNET, checksum_is_right, framed, is_ipv4, without_id
from tables import stateless

VECTORS = ROOT / "vectors"


def every_vector() -> dict[str, list[dict]]:
    """Those without a past, by their configuration."""
    groups: dict[str, list[dict]] = {}
    for file in sorted(VECTORS.glob("*.json")):
        for vector in json.loads(file.read_text())["vectors"]:
            if "earlier" not in vector["environment"]:
                groups.setdefault(json.dumps(vector["config"], sort_keys=True), []).append(vector)
    return groups


def fates(switch: Piped) -> tuple[set[str], set[str], list[tuple[str, list[tuple[int, str]]]]]:
    """Names of the vectors that a switch translates as they demand, of those that it declines, and what it makes of others."""
    translated, declined, wrong = set(), set(), []
    for config, vectors in every_vector().items():
        switch.control.flush()
        switch.control.write(stateless(json.loads(config)))
        for vector in vectors:
            sent = bytes.fromhex(vector["input"]["hex"])
            port, frame = framed(sent)
            if len(frame) > switch.longest:
                continue
            out = switch.send(port, frame)
            if not out and len(sent) < 20:
                declined.add(vector["name"])  # refused by the port: shorter than its headers
            elif [at for at, _ in out] == [port ^ 1] and frame.startswith(out[0][1]):
                declined.add(vector["name"])
            elif is_right(vector, [frame[ETHERNET:] for _, frame in out]):
                translated.add(vector["name"])
            elif out or vector["verdict"] == "forward":
                wrong.append((vector["name"], [(at, frame.hex()) for at, frame in out]))
    return translated, declined, wrong


def test_each_vector_is_translated_or_declined(switch: Piped) -> None:
    """And of those that are plain, none is declined."""
    translated, declined, wrong = fates(switch)
    assert not wrong
    assert {"udp-6to4", "tcp-6to4", "echo-request-4to6", "echo-reply-6to4", "df-clear-at-1260"} <= translated
    assert len(translated) > 100, sorted(declined)


def is_right(vector: dict, packets: list[bytes]) -> bool:
    """The packet of the vector; an identification that the translator chose may be another."""
    if vector["verdict"] != "forward" or len(packets) != 1:
        return False
    wanted = bytes.fromhex(vector["output"][0]["hex"])
    if packets[0] == wanted:
        return True
    chosen = is_ipv4(wanted) and not wanted[6] & 0x40
    return chosen and checksum_is_right(packets[0]) and without_id(packets[0]) == without_id(wanted)


def test_control_packets_of_stf_files(switch: Piped) -> None:
    """In each configuration, a packet each way that a translator must translate: else no pipeline passes a file."""
    sys.path.append(str(VECTORS))
    from stf_control import control_packets  # noqa: PLC0415

    for config in map(json.loads, every_vector()):
        switch.control.flush()
        switch.control.write(stateless(config))
        for sent, wanted in control_packets(config):
            port, frame = framed(sent)
            ((at, out),) = switch.send(port, frame)
            assert at == 2 - port, config
            assert is_right({"verdict": "forward", "output": [{"hex": wanted.hex()}]}, [out[ETHERNET:]]), config
