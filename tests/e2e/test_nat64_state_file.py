# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The state file itself: somebody else's, damaged, without room, and what time does to it."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from nat64 import BOUND, CONFIG, Nat64Network, ask, with_keys
from network import Running
from siit import CONFIG as SIIT_CONFIG
from siit import V4, V4_IN_IPV6, V6
from stateful import end, goes_on, left, start, state, stop_for_good
from stream import Stream
from test_clat_faults import RUN_TIME, USAGE, one_sentence


def make(path: Path, mode: int, data: bytes = b"") -> None:
    """A file with a mode, whatever the umask is."""
    path.write_bytes(data)
    path.chmod(mode)


FAULTS = {
    "folder": (lambda path: path.mkdir(), USAGE, "it is not a regular file"),
    "link": (lambda path: path.symlink_to("/etc/hostname"), USAGE, "it is a symbolic link"),
    "foreign": (lambda path: make(path, 0o600, b"root:x:0:0:root:/root:/bin/sh\n"), USAGE, "it is no state file of diolkos"),
    "writable": (lambda path: make(path, 0o666), USAGE, "other users can write to it"),
    "group": (lambda path: make(path, 0o640), USAGE, "other users can read it"),
    "readable": (lambda path: make(path, 0o604), USAGE, "other users can read it"),
    "owner": (lambda path: (make(path, 0o600), os.chown(path, 65534, 65534)), USAGE, "it belongs to user 65534"),
    "pipe": (lambda path: os.mkfifo(path, 0o600), USAGE, "it is not a regular file"),
}


def untouched(path: Path) -> tuple[int, ...]:
    """What stays as long as nobody writes to a file or changes it: not when it was read."""
    found = path.lstat()
    return found.st_ino, found.st_mode, found.st_uid, found.st_size, found.st_mtime_ns, found.st_ctime_ns


@pytest.mark.parametrize("fault", FAULTS)
def test_a_file_that_is_not_ours(nat64: Nat64Network, fault: str) -> None:
    """It is refused in one sentence, and not touched; nothing is left."""
    put, code, words = FAULTS[fault]
    path = state(nat64)
    put(path)
    before = untouched(path)
    running = start(nat64, ready=False)
    assert running.wait() == code
    assert words in one_sentence(running.log().strip().splitlines()[-1])
    assert untouched(path) == before
    assert left(nat64) == []


def test_a_folder_that_cannot_be_made(nat64: Nat64Network) -> None:
    """Only the last one is made."""
    running = nat64.siit("--state", str(nat64.scratch / "a" / "b" / "c"), command="nat64", ready=False)
    assert running.wait() == USAGE
    assert "cannot be created: No such file" in one_sentence(running.log().strip())
    running = nat64.siit("--state", str(nat64.scratch / "a" / "c"), command="nat64")
    assert (nat64.scratch / "a" / "c").stat().st_mode & 0o777 == 0o600
    stop_for_good(nat64)


KEPT, LOST = "the only binding of the operator is kept", "the bindings of the operator are lost, nodes get other addresses"


@pytest.mark.parametrize(
    ("change", "words", "bindings"),
    [
        (lambda data: data[:-1], "it is truncated", "1 binding of the operator is kept, others may be lost"),
        (lambda data: data[:20], "it is truncated", LOST),
        (lambda data: data + b"x", "it is corrupted: something follows its end", KEPT),
        (lambda data: data[:90] + bytes([data[90] ^ 1]) + data[91:], "it is corrupted: a section has a wrong checksum", KEPT),
        (lambda data: b"", "it is empty", LOST),
        (lambda data: of_version(3, data), "its format has version 3, and this diolkos knows version 2", KEPT),
    ],
    ids=["byte", "head", "longer", "bit", "empty", "version"],
)
@pytest.mark.parametrize("nat64", ["tc", "tun"], indirect=True)
def test_a_damaged_file(nat64: Nat64Network, change, words: str, bindings: str) -> None:
    """It is put aside under a new name each time, which is said; the operator's bindings are kept as far as they are whole.

    What the kernel knows comes back from there, and nothing else is made up.
    """
    running = start(nat64)
    nat64.bind("add", "udp", f"{BOUND}:99", f"[{V6}]:99")
    stream = Stream.through(nat64)
    stream.flow()
    path = state(nat64)
    for name in (".bad", ".bad-2"):
        end(running, signal.SIGTERM)
        damaged = change(path.read_bytes())
        path.write_bytes(damaged)
        running = start(nat64)
        assert f"{words}; its sessions are lost, {bindings}" in running.log()
        aside = path.with_name(path.name + name)
        assert f"{path} is now {aside}" in running.log()
        assert aside.read_bytes() == damaged
        assert aside.stat().st_mode & 0o777 == 0o600
        operators = [b["v4"] for b in nat64.shown("bindings") if b["origin"] == "operator"]
        assert operators == ([] if bindings == LOST else [f"{BOUND}:99"])
        if goes_on(nat64):
            stream.flow()
        else:
            assert nat64.shown("sessions") == []
        if bindings == LOST:
            nat64.bind("add", "udp", f"{BOUND}:99", f"[{V6}]:99")
    stop_for_good(nat64)


@pytest.fixture
def small(nat64: Nat64Network) -> Iterator[Path]:
    """A disk of 128 KiB."""
    folder = nat64.scratch / "small"
    folder.mkdir()
    nat64.host("mount", "-t", "tmpfs", "-o", "size=128k", "none", str(folder))
    yield folder
    nat64.host("umount", "-l", str(folder))


def fill(disk: Path) -> Path:
    """Leave no room on it; the file that takes it."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(512))
    return filler


NOT_YET = "is bound, but the binding does not survive a restart yet: the state file"
NO_SPACE = "cannot be written: No space left on device (os error 28)"


def test_a_full_disk_before_the_first_start(nat64: Nat64Network, small: Path) -> None:
    """There is nothing to lose, and the operator is there to be told."""
    fill(small)
    running = nat64.siit("--state", str(small / "x"), command="nat64", ready=False)
    assert running.wait() == RUN_TIME
    assert f"the state file {small}/x {NO_SPACE}" in one_sentence(running.log().strip().splitlines()[-1])
    assert left(nat64) == []


@pytest.mark.parametrize("nat64", ["tun"], indirect=True)
def test_a_disk_that_fills_up(nat64: Nat64Network, small: Path) -> None:
    """That is said to whoever binds, in the log, and at the end; the file of before is whole."""
    running = nat64.siit("--state", str(small / "x"), command="nat64")
    nat64.bind("add", "udp", f"{BOUND}:98", f"[{V6}]:98")
    before = (small / "x").read_bytes()
    fill(small)
    code, message = nat64.diolkos("bind", "add", "udp", f"{BOUND}:99", f"[{V6}]:99")
    assert code == RUN_TIME
    assert f"{BOUND}:99 {NOT_YET} {small}/x {NO_SPACE}; retrying" in one_sentence(message)
    assert f"{NO_SPACE}; retrying" in running.log()
    code, message = nat64.diolkos("bind", "del", "udp", f"{BOUND}:98")
    assert code == RUN_TIME
    assert f"the binding of {BOUND}:98 is removed, but a restart would restore it for now" in one_sentence(message)
    assert nat64.counters()["state.write_failed"] >= 2
    code, message = nat64.diolkos("stop")
    assert code == RUN_TIME
    assert f"has ended with an error: the state file {small}/x {NO_SPACE}" in one_sentence(message)
    assert running.wait() == RUN_TIME
    assert (small / "x").read_bytes() == before
    assert left(nat64) == []


@pytest.mark.parametrize("nat64", ["tc", "clsact"], indirect=True)
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_full_disk_at_the_next_start(nat64: Nat64Network, small: Path, how: signal.Signals) -> None:
    """The start goes on with what there is. Later kills find what is newer than the file in the kernel."""
    path = small / "x"

    def start_on_small() -> Running:
        return nat64.siit("--state", str(path), command="nat64")

    running = start_on_small()
    nat64.bind("add", "udp", f"{BOUND}:98", f"[{V6}]:98")
    first, second = Stream.through(nat64), None
    first.flow()
    if how == signal.SIGTERM:
        # Of what an end in order has written, all is believed, unless something has changed since.
        end(running, how)
        filler = fill(small)
    else:
        filler = fill(small)
        end(running, how)
    for _ in range(2):
        running = start_on_small()
        assert f"{NO_SPACE}; sessions and bindings continue" in running.log()
        assert "cannot take over" not in running.log()
        first.flow()
        assert [b["v4"] for b in nat64.shown("bindings") if b["origin"] == "operator"] == [f"{BOUND}:98"]
        second = second or Stream.through(nat64, port=4001)
        second.flow()
        assert len(nat64.states("tcp")) == 2
        code, message = nat64.diolkos("bind", "add", "udp", f"{BOUND}:99", f"[{V6}]:99")
        assert code == RUN_TIME
        assert NOT_YET in message
        end(running, signal.SIGKILL)
        first.flow()
        second.flow()
    # The seal says that the kernel's maps are newer.
    assert path.read_bytes()[24] == 0x3C
    filler.unlink()
    running = start_on_small()
    assert NO_SPACE not in running.log()
    nat64.bind("add", "udp", f"{BOUND}:99", f"[{V6}]:99")
    end(running, signal.SIGKILL)
    running = start_on_small()
    assert len([b for b in nat64.shown("bindings") if b["origin"] == "operator"]) == 2
    first.flow()
    second.flow()
    assert running.stop() == 0
    stop_for_good(nat64)


@pytest.mark.parametrize("nat64", ["tc", "clsact", "tun"], indirect=True)
def test_a_kill_right_after_a_binding(nat64: Nat64Network) -> None:
    """Once `bind` has succeeded, the binding is there after a kill, and one that was ended is not."""
    running = start(nat64)
    inside = nat64.socket(V6)

    # The more there is to write, the longer it takes.
    def filled() -> bool:
        # Again if need be: the TUN device's queue drops what a busy machine does not read in time.
        for port in range(1, 3000):
            inside.sendto(b"x", (V4_IN_IPV6, 10000 + port))
        return len(nat64.shown("sessions")) > 2000

    nat64.until(filled)
    expected = []
    for port in range(80, 84):
        # The second begins while the first is written.
        for protocol in ("udp", "tcp"):
            nat64.bind("add", protocol, f"{BOUND}:{port}", f"[{V6}]:{port}")
            expected.append((protocol, f"{BOUND}:{port}"))
        end(running, signal.SIGKILL)
        running = start(nat64)
        there = [(b["protocol"], b["v4"]) for b in nat64.shown("bindings") if b["origin"] == "operator"]
        assert sorted(there) == sorted(expected)
        protocol, v4 = expected.pop()
        nat64.bind("del", protocol, v4)
        end(running, signal.SIGKILL)
        running = start(nat64)
        there = [(b["protocol"], b["v4"]) for b in nat64.shown("bindings") if b["origin"] == "operator"]
        assert sorted(there) == sorted(expected)
    stop_for_good(nat64)


def test_the_key_of_the_configuration(nat64: Nat64Network) -> None:
    """The file can say where the state is; it cannot change at a reload, and other modes have none."""
    text = with_keys(f'state = "{state(nat64)}"')
    nat64.configure(text)
    running = nat64.siit(command="run")
    assert state(nat64).stat().st_mode & 0o777 == 0o600
    code, message = nat64.reload(CONFIG)
    assert code == RUN_TIME
    assert "nat64.state cannot change" in message
    code, message = nat64.reload(with_keys(f'state = "{state(nat64)}"', "state_interval = 5"))
    assert code == RUN_TIME
    assert "nat64.state_interval cannot change" in message
    end(running, signal.SIGTERM)
    stop_for_good(nat64)
    nat64.configure(SIIT_CONFIG)
    running = nat64.siit("--state", str(state(nat64)), ready=False)
    assert running.wait() == USAGE
    assert "nat64.state: only a NAT64 keeps sessions" in running.log()


@pytest.mark.parametrize("nat64", ["tun"], indirect=True)
def test_the_interval(nat64: Nat64Network) -> None:
    """It says how often the state is written; by default that would take a minute."""
    running = start(nat64, with_keys("state_interval = 1"))
    inside, outside = nat64.socket(V6), nat64.socket(V4, 4000)
    mapped = ask(inside, (V4_IN_IPV6, 4000), outside)
    # The first writing may have begun before the session did.
    for _ in range(2):
        before = state(nat64).stat().st_mtime_ns
        nat64.until(lambda before=before: state(nat64).stat().st_mtime_ns != before)
    end(running, signal.SIGKILL)
    start(nat64)
    assert [session["v4"] for session in nat64.shown("sessions")] == ["{}:{}".format(*mapped)]
    stop_for_good(nat64)


@pytest.mark.parametrize("nat64", ["tc", "clsact"], indirect=True)
def test_a_file_that_cannot_be_read_at_the_next_start(nat64: Nat64Network) -> None:
    """What goes on in the kernel goes on: nothing is removed that cannot be replaced."""
    folder = nat64.scratch / "folder"
    running = nat64.siit("--state", str(folder / "x"), command="nat64")
    stream = Stream.through(nat64)
    stream.flow()
    end(running, signal.SIGTERM)
    moved = folder.rename(nat64.scratch / "moved")
    folder.write_bytes(b"no folder")
    running = nat64.siit("--state", str(folder / "x"), command="nat64", ready=False)
    assert running.wait() == RUN_TIME
    assert f"the state file {folder}/x cannot be read: Not a directory" in running.log()
    stream.flow()
    folder.unlink()
    moved.rename(folder)
    (folder / "x").chmod(0o644)
    running = nat64.siit("--state", str(folder / "x"), command="nat64", ready=False)
    assert running.wait() == USAGE
    stream.flow()
    (folder / "x").chmod(0o600)
    running = nat64.siit("--state", str(folder / "x"), command="nat64")
    assert "1 session and 0 bindings of the operator restored" in running.log()
    stream.finish()
    assert running.stop() == 0
    stop_for_good(nat64)


def test_time_that_has_passed(nat64: Nat64Network) -> None:
    """It counts: what has expired meanwhile is gone, with the port."""
    running = start(nat64, with_keys() + "[nat64.timeouts]\nicmp = 60\nudp = 120\n", "--datapath", "tun")
    assert "1 received" in nat64.run(nat64.v6, "ping", "-c1", "-W2", V4_IN_IPV6).stdout
    inside, outside = nat64.socket(V6), nat64.socket(V4, 4000)
    mapped = ask(inside, (V4_IN_IPV6, 4000), outside)
    end(running, signal.SIGTERM)
    make_older(state(nat64), 100)
    running = start(nat64, "", "--datapath", "tun")
    assert "1 session and 0 bindings of the operator restored, 1 had expired" in running.log()
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


def of_version(version: int, data: bytes) -> bytes:
    """The file as another version would have it: its beginning says so, with a checksum that is right."""
    beginning = data[:8] + version.to_bytes(4, "little") + data[12:16]
    return beginning + siphash13(beginning) + data[24:]


def make_older(file: Path, seconds: int) -> None:
    """Its moment, as it would have been earlier, by the clock that counts here."""
    data = bytearray(file.read_bytes())
    at = data.index(b"when")
    end = at + 8 + int.from_bytes(data[at + 4 : at + 8], "little")
    time = slice(at + 24, at + 32)
    data[time] = (int.from_bytes(data[time], "little") - seconds * 10**9).to_bytes(8, "little")
    data[end : end + 8] = siphash13(bytes(data[at:end]))
    file.write_bytes(data)


def siphash13(data: bytes) -> bytes:
    """SipHash-1-3 with key 0, as the file has it behind each section."""
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
