# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The packet generator through a translator: frames in the other family, and sessions of a stateful one."""

from __future__ import annotations

import json
import subprocess
import time

import pytest
from conftest import program
from nat64 import POOL, Nat64Network
from pktgen import FRAMES, LEFT, RIGHT, SLOW, PktgenNetwork, interrupted
from siit import V4, V4_IN_IPV6, V6, V6_MAPPED, SiitNetwork

pytestmark = pytest.mark.alone


@pytest.mark.parametrize("siit", ["tc", "tun"], indirect=True)
@pytest.mark.parametrize("transport", ["--udp", "--tcp", "--icmp"])
def test_frames_are_known_in_the_other_family(siit: SiitNetwork, transport: str) -> None:
    """What leaves as IPv4 is counted as IPv6, and the other way round; every checksum is right."""
    siit.siit()
    ends = ("--from", f"{siit.v4}:a0", "--to", f"{siit.v6}:a0")
    addresses = ("--src", V4, "--dst", V6_MAPPED, "--back-src", V6, "--back-dst", V4_IN_IPV6)
    pktgen = program().with_name("diolkos-pktgen")
    done = subprocess.run([pktgen, "measure", *ends, *addresses, transport, "--flows", "50", *SLOW],
                          check=False, capture_output=True, text=True, timeout=60)  # fmt: skip
    assert done.returncode == 0, done.stderr
    for direction in json.loads(done.stdout)["directions"]:
        assert direction["sent"]["sent"] == FRAMES
        received = direction["received"]
        # Flows may overtake each other: they are on different queues of the TUN device.
        assert (received["received"], received["lost"], received["corrupted"]) == (FRAMES, 0, 0)
        assert direction["corrupted_unattributed"] == 0


def test_each_packet_is_a_new_session(nat64: Nat64Network) -> None:
    """RFC 9693: unique 4-tuples through a stateful NAT64; as many sessions as packets, and every one arrives."""
    nat64.nat64()
    ends = ("--from", f"{nat64.v6}:a0", "--to", f"{nat64.v4}:a0", "--src", V6, "--dst", V4_IN_IPV6)
    pktgen = program().with_name("diolkos-pktgen")
    done = subprocess.run([pktgen, "measure", *ends, "--flows", "unique", "--rate", "2k", "--count", "1000"],
                          check=False, capture_output=True, text=True, timeout=60)  # fmt: skip
    assert done.returncode == 0, done.stderr
    (direction,) = json.loads(done.stdout)["directions"]
    assert (direction["sent"]["sent"], direction["received"]["received"]) == (1000, 1000)
    assert len(nat64.shown("sessions")) == 1000


def connected(ends: tuple[str, ...]) -> dict:
    """What `diolkos-pktgen connect` says."""
    pktgen = program().with_name("diolkos-pktgen")
    done = subprocess.run([pktgen, "connect", *ends, "--sessions", "1000", "--rate", "2k", "--answer-rate", "2k"],
                          check=False, capture_output=True, text=True, timeout=60)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_each_session_is_answered(nat64: Nat64Network) -> None:
    """RFC 9693 section 4.6: an answer to each 4-tuple that came out of the translator gets back; then both at once."""
    nat64.nat64()
    nat64.run(nat64.translator, "ethtool", "-K", "b4", "gro", "on")
    ends = ("--from", f"{nat64.v6}:a0", "--to", f"{nat64.v4}:a0", "--src", V6, "--dst", V4_IN_IPV6, "--size", "84")
    pool = POOL.partition("/")[0]
    back = ("--back-src", V4, "--back-dst", pool, "--back-size", "64", "--seconds", "0.3", "--both-rate", "5k")
    report = connected((*ends, *back))
    assert report["all"] and report["sessions"] == 1000
    for phase in (report["opened"], report["answered"]):
        assert (phase["received"]["received"], phase["received"]["corrupted"], phase["astray"]) == (1000, 0, 0)
    for direction in report["carried"]:
        assert (direction["received"]["received"], direction["astray"]) == (1500, 0)
    assert len(nat64.shown("sessions")) == 1000, "answers and what came after opened none"
    (direction,) = connected((*ends, *back, "--back-only"))["carried"]
    assert (direction["direction"], direction["received"]["received"], direction["astray"]) == ("back", 1500, 0)


def test_each_connection_is_opened_and_closed(nat64: Nat64Network) -> None:
    """Six segments of each, each of which only comes if the one before has got through; and the tables know that all are over.

    Until the node has a lease, the fast path leaves the first segment of each to the slow path, and no other.
    """
    nat64.nat64()
    for link in ("b4", "b6"):  # what an XDP program sends back needs it
        nat64.run(nat64.translator, "ethtool", "-K", link, "gro", "on")
    ends = ("--from", f"{nat64.v6}:a0", "--to", f"{nat64.v4}:a0", "--src", V6, "--dst", V4_IN_IPV6)
    pktgen = program().with_name("diolkos-pktgen")
    done = subprocess.run([pktgen, "converse", *ends, "--connections", "500", "--rate", "500"],
                          check=False, capture_output=True, text=True, timeout=60)  # fmt: skip
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["all"], report["completed"]) == (True, 500), [each["received"] for each in report["segments"]]
    assert [(each["received"], each["corrupted"]) for each in report["segments"]] == [(500, 0)] * 6
    assert nat64.states("tcp") == ["v4-fin-v6-fin-rcv"] * 500
    counters = nat64.counters()
    if nat64.datapath != "tun":
        assert 0 < counters["slow.translated_6to4"] <= 50 and counters["slow.translated_4to6"] == 0, counters
    assert nat64.drops() == {}


def test_what_was_lost_is_not_answered(wire: PktgenNetwork) -> None:
    """Each tenth packet that would open a session is lost: the next phase does not take place."""
    ends = ("--from", f"{wire.left}:a0", "--to", f"{wire.right}:a0", "--src", LEFT, "--dst", RIGHT)
    with wire.relaying(lambda seq, frame: [] if seq % 10 == 3 else [frame]):
        report = connected((*ends, "--back-src", RIGHT, "--back-dst", LEFT, "--seconds", "0.3"))
    assert report["opened"]["received"]["lost"] == 100
    assert (report["all"], report["answered"], report["carried"]) == (False, None, None)


def test_what_was_lost_is_sent_again_if_wanted(wire: PktgenNetwork) -> None:
    """The same: each tenth is lost, but only once."""
    lost: set[int] = set()

    def treat(seq: int, frame: bytes) -> list[bytes]:
        if seq % 10 == 3 and seq not in lost:
            lost.add(seq)
            return []
        return [frame]

    ends = ("--from", f"{wire.left}:a0", "--to", f"{wire.right}:a0", "--src", LEFT, "--dst", RIGHT)
    with wire.relaying(treat):
        report = connected((*ends, "--back-src", RIGHT, "--back-dst", LEFT, "--rounds", "3"))
    assert (report["all"], report["rounds"], len(lost)) == (True, 2, 100)
    received = report["opened"]["received"]
    assert (received["received"], received["lost"], received["duplicate"]) == (1000, 0, 900)


def test_an_interrupted_round_is_the_last_one(wire: PktgenNetwork) -> None:
    """Nothing ever arrives: without the signal it would go on for minutes."""
    ends = ("--from", f"{wire.left}:a0", "--to", f"{wire.right}:a0", "--src", LEFT, "--dst", RIGHT)
    back = ("--back-src", RIGHT, "--back-dst", LEFT, "--rounds", "100")
    command = [program().with_name("diolkos-pktgen"), "connect", *ends, *back, "--sessions", "1000", "--rate", "1k"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    time.sleep(1.5)
    begin = time.monotonic()
    report = interrupted(process)
    assert time.monotonic() - begin < 5
    assert (report["all"], report["answered"]) == (False, None) and report["rounds"] < 5
