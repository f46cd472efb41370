# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The state file itself: somebody else's, damaged, without room, and what time does to it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from diolkos_lab.topology import mounts
from nat64 import BOUND, CONFIG, Nat64Network, ask, with_keys
from network import Running
from siit import CONFIG as SIIT_CONFIG
from siit import V4, V4_IN_IPV6, V6
from stateful import end, goes_on, left, start, state, stop_for_good
from stream import Stream
from test_clat_faults import RUN_TIME, USAGE, one_sentence

FAULTS = {
    "folder": (lambda path: path.mkdir(), USAGE, "it is not a regular file"),
    "link": (lambda path: path.symlink_to("/etc/hostname"), USAGE, "it is a symbolic link"),
    "foreign": (lambda path: path.write_text("root:x:0:0:root:/root:/bin/sh\n"), USAGE, "it is no state file of diolkos"),
    "writable": (lambda path: (path.write_bytes(b""), path.chmod(0o666)), USAGE, "others may write it"),
    "owner": (lambda path: (path.write_bytes(b""), os.chown(path, 65534, 65534)), USAGE, "it belongs to user 65534"),
    "pipe": (lambda path: os.mkfifo(path, 0o600), USAGE, "it is not a regular file"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_file_that_is_not_ours(nat64: Nat64Network, fault: str) -> None:
    """It is refused in one sentence, and not touched; nothing is left."""
    make, code, words = FAULTS[fault]
    path = state(nat64)
    make(path)
    before = path.lstat()
    running = start(nat64, ready=False)
    assert running.wait() == code
    assert words in one_sentence(running.log().strip().splitlines()[-1])
    assert path.lstat() == before
    assert left(nat64) == []


def test_a_folder_that_cannot_be_made(nat64: Nat64Network) -> None:
    """Only the last one is made."""
    running = nat64.siit("--state", str(nat64.scratch / "a" / "b" / "c"), command="nat64", ready=False)
    assert running.wait() == USAGE
    assert "cannot be made: No such file" in one_sentence(running.log().strip())
    running = nat64.siit("--state", str(nat64.scratch / "a" / "c"), command="nat64")
    assert (nat64.scratch / "a" / "c").stat().st_mode & 0o777 == 0o600
    stop_for_good(nat64)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda data: data[:-1], "it is truncated"),
        (lambda data: data[:20], "it is truncated"),
        (lambda data: data + b"x", "it is corrupted: something follows its end"),
        (lambda data: data[:90] + bytes([data[90] ^ 1]) + data[91:], "it is corrupted"),
        (lambda data: data[:8] + b"\x02" + data[9:], "its format has version 2, and this diolkos knows version 1"),
    ],
    ids=["byte", "head", "longer", "bit", "version"],
)
@pytest.mark.parametrize("nat64", ["tc", "tun"], indirect=True)
def test_a_damaged_file(nat64: Nat64Network, change, words: str) -> None:
    """It is put aside, which is said; what the kernel knows comes back from there, and nothing else is made up."""
    running = start(nat64)
    stream = Stream.through(nat64)
    stream.flow()
    end(running, signal.SIGTERM)
    path = state(nat64)
    damaged = change(path.read_bytes())
    path.write_bytes(damaged)
    running = start(nat64)
    assert words in running.log()
    aside = path.with_name(path.name + ".bad")
    assert f"it is {aside} now" in running.log()
    assert aside.read_bytes() == damaged
    if goes_on(nat64):
        stream.finish()
    else:
        assert nat64.shown("sessions") == []
    stop_for_good(nat64)


def test_a_full_disk(nat64: Nat64Network) -> None:
    """At the start it is refused; later it is said, at the end too, and the file of before is whole."""
    small = nat64.scratch / "small"
    small.mkdir()
    mount = f"mount -t tmpfs -o size=64k none {small}"
    run_there = f'"$0" "$@"; code=$?; cp -r {small} {small}.copy; exit $code'

    def run(before: str) -> Running:
        log = nat64.scratch / f"log-{len(nat64.running)}"
        arguments = [str(nat64.program), "nat64", "--datapath", "tun", "--config", str(nat64.config), "--state", f"{small}/x"]
        there = mounts.own(["sh", "-c", f"{mount} && {before} && {run_there}", *arguments])
        with log.open("w") as sink:
            process = nat64.start(nat64.translator, *there, stderr=sink, stdout=sink)
        return Running(process, log)

    running = run(f"head -c 65536 /dev/zero > {small}/filler")
    assert running.wait() == RUN_TIME
    assert f"the state file {small}/x cannot be written: No space left" in one_sentence(running.log().strip().splitlines()[-1])
    running = run("true")
    nat64.until(lambda: "ready" in running.log())
    inside = nat64.socket(V6)
    for port in range(1, 3000):
        inside.sendto(b"x", (V4_IN_IPV6, 10000 + port))
    nat64.until(lambda: len(nat64.shown("sessions")) > 2000)
    nat64.bind("add", "udp", f"{BOUND}:99", f"[{V6}]:99")
    nat64.until(lambda: "cannot be written: No space left on device (os error 28); it is tried again" in running.log())
    assert nat64.diolkos("stop")[0] == 0
    assert running.wait() == RUN_TIME
    [copy] = Path(f"{small}.copy").rglob("x")
    assert copy.read_bytes().startswith(b"diolkos\n\x01\0\0\0")
    assert left(nat64) == []


def test_the_key_of_the_configuration(nat64: Nat64Network) -> None:
    """The file can say where the state is; it cannot change at a reload, and other modes have none."""
    text = with_keys(f'state = "{state(nat64)}"')
    nat64.configure(text)
    running = nat64.siit(command="run")
    assert state(nat64).stat().st_mode & 0o777 == 0o600
    code, message = nat64.reload(CONFIG)
    assert code == RUN_TIME
    assert "nat64.state cannot change" in message
    end(running, signal.SIGTERM)
    stop_for_good(nat64)
    nat64.configure(SIIT_CONFIG)
    running = nat64.siit("--state", str(state(nat64)), ready=False)
    assert running.wait() == USAGE
    assert "nat64: the mode is" in running.log()


def test_time_that_has_passed(nat64: Nat64Network) -> None:
    """It counts: what has expired meanwhile is gone, with the port."""
    running = start(nat64, with_keys() + "[nat64.timeouts]\nicmp = 60\nudp = 120\n", "--datapath", "tun")
    assert "1 received" in nat64.run(nat64.v6, "ping", "-c1", "-W2", V4_IN_IPV6).stdout
    inside, outside = nat64.socket(V6), nat64.socket(V4, 4000)
    mapped = ask(inside, (V4_IN_IPV6, 4000), outside)
    end(running, signal.SIGTERM)
    make_older(state(nat64), 100)
    running = start(nat64, "", "--datapath", "tun")
    assert "1 sessions and 0 bindings of the operator came back, 1 had expired" in running.log()
    [session] = nat64.shown("sessions")
    assert session["protocol"] == "udp"
    assert 10 <= session["expires_in_s"] <= 20
    assert ask(inside, (V4_IN_IPV6, 4000), outside) == mapped
    stop_for_good(nat64)


def test_time_that_has_passed_before_a_kill(nat64: Nat64Network) -> None:
    """The kernel's maps have a session that they never used, and the file knows how old it is."""
    running = start(nat64, with_keys() + "[nat64.timeouts]\nudp = 120\n")
    inside, outside = nat64.socket(V6), nat64.socket(V4, 4000)
    inside.sendto(b"no answer, please", (V4_IN_IPV6, 4000))
    assert outside.recv(100) == b"no answer, please"
    end(running, signal.SIGTERM)
    # What comes back is written at once, and not as at an end.
    end(start(nat64), signal.SIGKILL)
    make_older(state(nat64), 100)
    start(nat64)
    [session] = nat64.shown("sessions")
    assert 10 <= session["expires_in_s"] <= 20
    stop_for_good(nat64)


def make_older(file: Path, seconds: int) -> None:
    """Its moment, as it would have been earlier, by the clock that counts here."""
    data = bytearray(file.read_bytes())
    earlier = int.from_bytes(data[32:40], "little") - seconds * 10**9
    data[32:40] = earlier.to_bytes(8, "little")
    data[-8:] = siphash13(bytes(data[:-8]))
    file.write_bytes(data)


def siphash13(data: bytes) -> bytes:
    """SipHash-1-3 with key 0, as the file has it at its end."""
    mask = (1 << 64) - 1
    a, b, c, d = 0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573

    def rotate(x: int, n: int) -> int:
        return (x << n | x >> (64 - n)) & mask

    def mix(rounds: int) -> None:
        nonlocal a, b, c, d
        for _ in range(rounds):
            a, c = (a + b) & mask, (c + d) & mask
            b, d = rotate(b, 13) ^ a, rotate(d, 16) ^ c
            a = rotate(a, 32)
            c, a = (c + b) & mask, (a + d) & mask
            b, d = rotate(b, 17) ^ c, rotate(d, 21) ^ a
            c = rotate(c, 32)

    whole = len(data) // 8 * 8
    words = [int.from_bytes(data[at : at + 8], "little") for at in range(0, whole, 8)]
    words.append(int.from_bytes(data[whole:], "little") | (len(data) & 0xFF) << 56)
    for word in words:
        d ^= word
        mix(1)
        a ^= word
    c ^= 0xFF
    mix(3)
    return (a ^ b ^ c ^ d).to_bytes(8, "little")
