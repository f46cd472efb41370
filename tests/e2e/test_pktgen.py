# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The packet generator and sink: what happens to frames on their way is told exactly."""

from __future__ import annotations

import json
import os
import socket
import struct
import subprocess
import sys
import time

import pytest
from network import PATIENCE, create_socket
from pktgen import FRAMES, LEFT, LEFT6, RIGHT, RIGHT6, SIGNATURE_AT, SLOW, PktgenNetwork, begun, interrupted

SPORTS, DPORTS = range(1024, 65536), range(1, 49152)  # RFC 4814 section 4.5


pytestmark = pytest.mark.alone


def counts(received: dict) -> dict[str, int]:
    """What is not zero of what can go wrong."""
    names = ("lost", "duplicate", "reordered", "corrupted", "corrupted_unattributed", "forgotten", "foreign")
    return {name: received[name] for name in names if received[name]}


# --- truth


def test_nothing_happens(wire: PktgenNetwork) -> None:
    """A relay that only passes frames on: all arrive, in order, unharmed."""
    with wire.relaying(lambda _, frame: [frame]):
        sent, received = wire.one_way(*SLOW)
    assert (sent["path"], sent["written"], sent["sent"], sent["refused"]) == ("live-frames", FRAMES, FRAMES, 0)
    assert (received["received"], counts(received)) == (FRAMES, {})
    assert received["bytes"] == FRAMES * 60
    assert received["delay_ns"]["count"] == FRAMES
    assert received["ipdv_ns"]["count"] == FRAMES - 1
    assert sent["gap_ns"]["count"] == FRAMES - 1


def test_loss(wire: PktgenNetwork) -> None:
    """Each tenth is lost."""
    with wire.relaying(lambda seq, frame: [] if seq % 10 == 3 else [frame]):
        _, received = wire.one_way(*SLOW)
    assert (received["received"], counts(received)) == (FRAMES * 9 // 10, {"lost": FRAMES // 10})
    assert received["loss_ratio"] == pytest.approx(0.1)


def test_duplication(wire: PktgenNetwork) -> None:
    """Each fifth comes twice, each twentieth once more: none of them is counted as received again."""

    def treat(seq: int, frame: bytes) -> list[bytes]:
        return [frame] * (1 + (seq % 5 == 0) + (seq % 20 == 0))

    with wire.relaying(treat):
        _, received = wire.one_way(*SLOW)
    assert (received["received"], counts(received)) == (FRAMES, {"duplicate": FRAMES // 5 + FRAMES // 20})


def test_reordering(wire: PktgenNetwork) -> None:
    """Each twentieth is overtaken by three others (RFC 4737): it is reordered, with an extent of 4, and they are not."""
    held: list[bytes] = []

    def treat(seq: int, frame: bytes) -> list[bytes]:
        if seq % 20 == 5:
            held.append(frame)
            return []
        return [frame, held.pop()] if held and seq % 20 == 8 else [frame]

    with wire.relaying(treat):
        _, received = wire.one_way(*SLOW)
    assert (received["received"], counts(received)) == (FRAMES, {"reordered": FRAMES // 20})
    assert received["reordering_extent"] == 4


def test_delay(wire: PktgenNetwork) -> None:
    """All are held back until the last one is written: no delay is told that is shorter than what a frame has waited."""
    held: list[bytes] = []
    waited: list[int] = []

    def treat(_: int, frame: bytes) -> list[bytes]:
        held.append(frame)
        if len(held) < FRAMES:
            return []
        now = time.monotonic_ns() % 2**48
        waited.extend(now - int.from_bytes(one[SIGNATURE_AT + 10 : SIGNATURE_AT + 16]) for one in held)
        return held

    with wire.relaying(treat):
        sent, received = wire.one_way(*SLOW, "--late-ms", "0.0001")
    assert (received["received"], received["late"], counts(received)) == (FRAMES, FRAMES, {})
    delay, waited = received["delay_ns"], sorted(waited)
    # A bucket's middle is at most 1/2048 off.
    assert delay["min"] >= waited[0] * 0.9995
    assert delay["p50"] >= waited[FRAMES // 2 - 1] * 0.9995
    assert delay["max"] >= waited[-1] * 0.9995 >= sent["duration_s"] * 1e9 * 0.999


def test_damage(wire: PktgenNetwork) -> None:
    """A flipped bit of the signature, or of the bytes behind it, is damage; other packets are foreign."""

    def treat(seq: int, frame: bytes) -> list[bytes]:
        at = {1: SIGNATURE_AT + 17, 2: SIGNATURE_AT + 30}.get(seq % 8)
        if at is not None:
            frame = frame[:at] + bytes([frame[at] ^ 0x10]) + frame[at + 1 :]
        if seq % 8 == 3:
            return [frame, frame[:SIGNATURE_AT] + b"somebody else's words" + frame[SIGNATURE_AT + 21 :]]
        return [frame]

    with wire.relaying(treat):
        _, received = wire.one_way(*SLOW, "--size", "128")
    each = FRAMES // 8
    expected = {"lost": 2 * each, "corrupted": each, "corrupted_unattributed": each, "foreign": each}
    assert (received["received"], counts(received)) == (FRAMES - 2 * each, expected)


def test_both_directions_at_once(wire: PktgenNetwork) -> None:
    """Loss in one direction is not told of the other."""
    back = ("--back-src", RIGHT, "--back-dst", LEFT)
    with wire.relaying(lambda seq, frame: [] if seq % 4 == 0 else [frame]):
        forth, back = wire.measure(*SLOW, *back)["directions"]
    assert (forth["direction"], forth["received"]["lost"]) == ("forth", FRAMES // 4)
    assert (back["direction"], back["received"]["lost"], back["received"]["received"]) == ("back", 0, FRAMES)
    assert (forth["astray"], back["astray"]) == (0, 0)


@pytest.mark.parametrize("is_idle", [True, False], ids=["idle", "busy"])
def test_a_cpu_is_watched(wire: PktgenNetwork, is_idle: bool) -> None:
    """A timer looks at the clock twice in a millisecond, whoever has the CPU, or nobody."""
    first, *_, last = sorted(os.sched_getaffinity(0)) * 2
    # Before all other programs, for longer than frames are sent.
    busy = "import time; end = time.monotonic() + 3\nwhile time.monotonic() < end: pass"
    hog = ["taskset", "--cpu-list", str(last), "chrt", "--fifo", "50", sys.executable, "-c", "" if is_idle else busy]
    with wire.relaying(lambda _, frame: [frame]), subprocess.Popen(hog) as process:
        report = wire.measure("--rate", "1k", "--seconds", "1", "--cpu", str(first), "--watch-cpu", str(last))
        assert process.wait(PATIENCE) == 0
    (watched,) = report["watched"]
    assert watched["cpu"] == last
    begun, elapsed = report["directions"][0]["sent"]["begun_ns"], watched["last_ns"] - watched["first_ns"]
    assert watched["first_ns"] < begun and elapsed > 1e9
    stood_still = sum(stall["stood_still_ns"] for stall in watched["stalls"])
    # What the looks do not fill was spent standing still; a little of it too short to be told, or before the first frame.
    assert watched["looks"] * 500_000 + stood_still > 0.6 * elapsed
    # However busy or idle a CPU is: that is not standing still.
    assert stood_still < 0.4 * elapsed


def test_no_cpu_is_watched(wire: PktgenNetwork) -> None:
    """Unless it was asked for, and is there; frames are counted all the same."""
    with wire.relaying(lambda _, frame: [frame]):
        assert wire.measure(*SLOW)["watched"] is None
        report = wire.measure(*SLOW, "--watch-cpu", "100000")
    assert report["watched"] is None and report["watched_because"]
    assert report["directions"][0]["received"]["received"] == FRAMES


# --- what is sent


def captured(wire: PktgenNetwork, *options: str) -> list[bytes]:
    """Frames that the relay gets from the left host."""
    tap = create_socket(wire.relay, socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    tap.bind(("m0", 3))
    tap.setsockopt(socket.SOL_SOCKET, 33, 1 << 26)
    wire.run(wire.left, str(wire.pktgen), "send", "--interface", "a0", *options)
    tap.setblocking(False)
    frames = []
    while True:
        try:
            frames.append(tap.recv(9000))
        except BlockingIOError:
            tap.close()
            return frames


@pytest.mark.parametrize("path", ["live", "packet"])
def test_4_tuples_are_all_different(wire: PktgenNetwork, path: str) -> None:
    """--flows unique: no 4-tuple occurs twice, and ports are those of RFC 4814."""
    options = (
        "--src",
        "2001:2::1:0/120",
        "--dst",
        RIGHT6,
        "--path",
        path,
        "--rate",
        "5k",
        "--count",
        "2000",
        "--flows",
        "unique",
    )
    tuples = set()
    for frame in captured(wire, *options):
        if frame[12:14] == b"\x86\xdd" and frame[20] == 17:
            sport, dport = struct.unpack("!HH", frame[54:58])
            assert sport in SPORTS
            assert dport in DPORTS
            tuples.add((frame[22:38], sport, dport))
    assert len(tuples) == 2000
    assert len({source for source, _, _ in tuples}) > 200


def test_flows_come_in_turn(wire: PktgenNetwork) -> None:
    """--flows 10: each is used as often as the others."""
    frames = captured(wire, "--src", LEFT, "--dst", RIGHT, "--rate", "5k", "--count", "1000", "--flows", "10")
    ports = [frame[34:38] for frame in frames if frame[23:24] == b"\x11"]
    assert len(ports) == 1000
    assert len(set(ports)) == 10
    assert ports[:10] * 100 == ports


def test_an_interface_without_xdp_gets_its_frames_by_a_packet_socket(wire: PktgenNetwork) -> None:
    """And the report says so."""
    wire.run(wire.relay, "ethtool", "-K", "m0", "gro", "off")
    with wire.relaying(lambda _, frame: [frame]):
        sent, received = wire.one_way(*SLOW, "--xdp", "generic")
        assert wire.run(wire.relay, "ethtool", "-k", "m0").stdout.count("generic-receive-offload: off") == 1
        code, words = wire.refused(
            "send", "--netns", wire.left, "--interface", "a0", "--src", LEFT, "--dst", RIGHT, "--path", "live", *SLOW
        )
    assert (sent["path"], received["received"]) == ("packet-socket", FRAMES)
    assert "GRO" in sent["path_because"]
    assert (code, "GRO" in words) == (3, True)


def test_a_rate_that_nobody_reaches_is_marked(wire: PktgenNetwork) -> None:
    """The report says what was really sent, and that it is not what was asked for."""
    wire.run(wire.relay, "ip", "link", "set", "m1", "down")
    done = wire.run(
        wire.left,
        str(wire.pktgen),
        "send",
        "--interface",
        "a0",
        "--src",
        LEFT,
        "--dst",
        RIGHT,
        "--rate",
        "500M",
        "--count",
        "100k",
    )
    sent = json.loads(done.stdout.splitlines()[-1])
    assert not sent["kept_up"]
    assert any("mean rate" in reason for reason in sent["not_kept_up"])
    assert sent["rate_pps"] < sent["rate_wanted_pps"] / 2


# --- a program among others


def test_sigint_ends_both_with_their_reports(wire: PktgenNetwork) -> None:
    """Two programs, the one that counts without knowing how much will come; nothing stays behind."""
    pipe = {"stdout": subprocess.PIPE, "text": True}
    with wire.relaying(lambda _, frame: [frame]):
        sink = wire.start(wire.right, str(wire.pktgen), "sink", "--interface", "a0", **pipe)
        begun(sink, "ready")
        options = ("--src", LEFT, "--dst", RIGHT, "--rate", "2k", "--seconds", "1000")
        generator = wire.start(wire.left, str(wire.pktgen), "send", "--interface", "a0", *options, **pipe)
        begun(generator, "begun")
        xdp = wire.ip_json(wire.right, "link", "show", "a0")[0]["xdp"]["prog"]
        wire.until(lambda: passed(wire) > 100)
        sent = interrupted(generator)
        wire.until(lambda: passed(wire) >= sent["sent"])
        second = wire.refused("sink", "--netns", wire.right, "--interface", "a0")
    arrived = interrupted(sink)
    assert xdp["name"] == "pktgen_sink"
    assert second[0] == 1
    assert "XDP program" in second[1]
    assert (sent["event"], arrived["event"], arrived["format"]) == ("sent", "received", 1)
    assert 100 < arrived["streams"][0]["received"] <= sent["sent"]
    assert "xdp" not in wire.ip_json(wire.right, "link", "show", "a0")[0]


def passed(wire: PktgenNetwork) -> int:
    """Packets that the relay has got from the left host."""
    return wire.ip_json(wire.relay, "-s", "link", "show", "m0")[0]["stats64"]["rx"]["packets"]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--interface", "none0", "--src", LEFT, "--dst", RIGHT), 2, "no interface none0"),
        (("--interface", "a0", "--src", LEFT, "--dst", RIGHT6), 2, "different families"),
        (("--interface", "lo", "--src", LEFT, "--dst", RIGHT), 2, "Ethernet"),
        (("--interface", "a0", "--src", LEFT6, "--dst", RIGHT6, "--size", "64"), 2, "84"),
        (("--interface", "a0", "--src", LEFT, "--dst", RIGHT, "--size", "2000"), 2, "MTU"),
        (
            ("--interface", "a0", "--src", LEFT, "--dst", RIGHT, "--flows", "unique", "--sport", "1-10", "--dport", "7"),
            2,
            "4-tuples",
        ),
        (("--interface", "a0", "--src", LEFT, "--dst", "198.18.0.99"), 1, "198.18.0.99"),
        (("--interface", "a0", "--src", LEFT, "--dst", RIGHT, "--cpu", "9999"), 2, "CPU"),
    ],
)
def test_errors_are_sentences(wire: PktgenNetwork, arguments: tuple[str, ...], code: int, words: str) -> None:
    """Each with the exit code that says whose turn it is."""
    refused = wire.refused("send", "--netns", wire.left, *arguments, *SLOW)
    assert refused[0] == code, refused
    assert words in refused[1]
    assert len(refused[1].splitlines()) == 1


def test_privileges_are_asked_for(wire: PktgenNetwork) -> None:
    """Exit code 3."""
    # Still root by name, so that the program can be read wherever it lies.
    nobody = ("nsenter", f"--net=/run/netns/{wire.left}", "setpriv", "--bounding-set=-all", "--inh-caps=-all")
    for arguments in (("sink", "--interface", "a0"), ("send", "--interface", "a0", "--src", LEFT, "--dst", RIGHT, *SLOW)):
        code, words = wire.refused(*arguments, wrapper=nobody)
        assert (code, "root" in words) == (3, True), words
