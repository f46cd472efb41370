# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The control socket: who may use it, what it refuses, and that a datagram is applied as a whole or not at all."""

from __future__ import annotations

import os
import random
import re
import socket
import struct
import subprocess
from pathlib import Path

import pytest
from control import (
    ABSENT,
    COUNT,
    DEFAULT,
    DELETE,
    DONE,
    FULL,
    HELLO,
    INSERT,
    MALFORMED,
    NAME,
    NOT_TRIED,
    PORT,
    RANGE,
    READ,
    RECORD,
    REFUSED,
    REPLY,
    ROOT,
    SPEC,
    USED,
    Change,
    Control,
    Piped,
    piped,
    program,
)
from tables import settings

MAC = bytes.fromhex("020000000007")


def entries(control: Control, table: str) -> int:
    """How many a table has."""
    answer = control.ask(Change(COUNT, table))[0]
    assert answer.status == DONE
    return int.from_bytes(answer.payload[:8], "big")


def statuses(control: Control, *changes: Change) -> list[int]:
    """Of each record."""
    return [answer.status for answer in control.ask(*changes)]


def test_only_its_owner_may_use_the_socket(switch: Piped) -> None:
    """Mode 0600."""
    assert os.stat(switch.control.path).st_mode & 0o777 == 0o600


@pytest.mark.parametrize("what", ["file", "link"])
def test_what_is_no_socket_stays(tmp_path: Path, what: str) -> None:
    """A slip of the pen in --control costs nobody a file: one sentence, and no start."""
    path = tmp_path / "valuable"
    (tmp_path / "file").write_text("mine")
    (path.symlink_to if what == "link" else path.hardlink_to)(tmp_path / "file")
    command = [program(), "--spec", SPEC, "--control", path, "--frames", "1"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert path.read_text() == "mine" and path.is_symlink() == (what == "link")
    assert done.returncode == 1
    assert done.stderr == f"diolkos-switch: {path}: there is something else than a socket, which stays\n"


def test_what_a_killed_switch_left_is_replaced(tmp_path: Path) -> None:
    """A socket that nobody serves."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as left:
        left.bind(str(tmp_path / "switch.sock"))
    with piped(tmp_path) as running:
        assert running.control.ask(Change(HELLO))[0].status == DONE


def test_it_says_who_it_is(switch: Piped) -> None:
    """Pairs of ports, and slots of sessions."""
    boot, pairs, slots = struct.unpack_from("!QII", switch.control.ask(Change(HELLO))[0].payload)
    assert boot and pairs == 2 and slots == 131072


def test_entries_come_and_go(switch: Piped) -> None:
    """An entry is replaced by another with the same key, and is gone when it is deleted."""
    control = switch.control
    assert statuses(control, Change(INSERT, "own4", "own", b"\1\2\3\4", data=MAC)) == [DONE]
    assert statuses(control, Change(INSERT, "own4", "own", b"\1\2\3\4", data=MAC[::-1])) == [DONE]
    assert entries(control, "own4") == 1
    assert statuses(control, Change(DELETE, "own4", key=b"\1\2\3\4")) == [DONE]
    assert statuses(control, Change(DELETE, "own4", key=b"\1\2\3\4")) == [ABSENT]
    assert entries(control, "own4") == 0


@pytest.mark.parametrize(
    ("change", "status"),
    [
        (Change(INSERT, "nothing", "own"), NAME),
        (Change(INSERT, "own4", "nothing"), NAME),
        (Change(INSERT, "own4", "mine"), NAME),
        (Change(DEFAULT, "nothing", "own"), NAME),
        (Change(INSERT, "settings", "set"), REFUSED),
        (Change(INSERT, "own4", "own", b"\1\2\3\4\5"), MALFORMED),
        (Change(INSERT, "own4", "own", data=MAC + b"\1"), MALFORMED),
        (Change(INSERT, "own4", "own", mask=b"\1"), MALFORMED),
        (Change(INSERT, "own4", "own", priority=1), MALFORMED),
        (Change(DELETE, "own4", "own"), MALFORMED),
        (Change(DELETE, "own4", data=b"\1"), MALFORMED),
        (Change(DEFAULT, "settings", "set", key=b"\1"), MALFORMED),
        (Change(READ, "nothing", key=struct.pack("!II", 0, 1)), NAME),
        (Change(READ, "counts", key=struct.pack("!II", 0, 33)), RANGE),
        (Change(READ, "counts", key=struct.pack("!II", 0, 0)), RANGE),
        (Change(READ, "counts", key=struct.pack("!II", 0xFFFFFFFF, 1)), RANGE),
        (Change(USED, "used", key=struct.pack("!II", 0, 7)), RANGE),
        (Change(USED, "used", key=struct.pack("!II", 131072, 8)), RANGE),
        (Change(PORT, key=struct.pack("!I", 4)), RANGE),
        (Change(COUNT, "nothing"), NAME),
        (Change(0), MALFORMED),
        (Change(10), MALFORMED),
    ],
)
def test_what_makes_no_sense_is_refused(switch: Piped, change: Change, status: int) -> None:
    """With a status and a text; nothing has changed."""
    answer = switch.control.ask(change)[0]
    assert answer.status == status
    assert answer.payload.rstrip(b"\0")
    assert entries(switch.control, "own4") == 0


def test_a_learned_action_is_no_entry(switch: Piped) -> None:
    """Tables that the pipeline fills are not the controller's."""
    assert statuses(switch.control, Change(INSERT, "learnt_out", "learnt4")) == [NAME]


def test_a_datagram_is_applied_as_a_whole_or_not_at_all(switch: Piped) -> None:
    """What stood before stands again, in the order in which it was changed."""
    control = switch.control
    control.write([Change(INSERT, "own4", "own", b"\1\1\1\1", data=MAC)])
    changes = [
        Change(DELETE, "own4", key=b"\1\1\1\1"),
        Change(INSERT, "own4", "own", b"\2\2\2\2", data=MAC),
        Change(INSERT, "own4", "own", b"\1\1\1\1", data=MAC[::-1]),
        Change(DELETE, "own4", key=b"\3\3\3\3"),
        settings(1),
    ]
    assert statuses(control, *changes) == [NOT_TRIED, NOT_TRIED, NOT_TRIED, ABSENT, NOT_TRIED]
    assert entries(control, "own4") == 1
    assert statuses(control, Change(DELETE, "own4", key=b"\2\2\2\2")) == [ABSENT]


def test_a_full_table_says_so_and_keeps_what_it_has(switch: Piped) -> None:
    """`local_mac` has 64 entries. One of 64 in a datagram is too much: none of them is added."""
    control = switch.control
    control.write([macs(number) for number in range(60)])
    answers = statuses(control, *[macs(number) for number in range(60, 65)])
    assert answers == [NOT_TRIED] * 4 + [FULL]
    assert entries(control, "local_mac") == 60
    control.write([macs(number) for number in range(60, 64)])
    assert statuses(control, macs(0)) == [DONE], "an entry that is there needs no room"


def macs(number: int) -> Change:
    """One of many."""
    return Change(INSERT, "local_mac", "mine", bytes([2, 0, 0, 0, 0, number]))


def test_flush_makes_it_as_it_began(switch: Piped) -> None:
    """Entries and default actions."""
    control = switch.control
    control.write([settings(1), Change(INSERT, "own4", "own", b"\1\1\1\1", data=MAC)])
    frame = bytes(12) + b"\x12\x34" + bytes(46)
    assert switch.send(0, frame) == [(1, frame)]
    assert control.read("counts", 7, 3) == [0, 1, 0]
    control.flush()
    assert switch.send(0, frame) == [(1, frame)]
    assert control.read("counts", 7, 3) == [1, 1, 0]
    assert entries(control, "own4") == 0


def test_sizes_that_are_no_records(switch: Piped) -> None:
    """One record of a reply, and the connection goes on."""
    for size in (0, 1, RECORD - 1, RECORD + 1, 65 * RECORD):
        reply = switch.control.raw(bytes(size))
        assert len(reply) == REPLY and reply[11] == MALFORMED
    assert switch.control.ask(Change(HELLO))[0].status == DONE


def test_random_records_change_nothing(switch: Piped) -> None:
    """Bytes of chance, most of them almost right, and frames between them: it lives, and the kernel has every frame."""
    seed = int(os.environ.get("DIOLKOS_LAW_SEED", random.randrange(1 << 32)))
    print(f"seed {seed}")
    chance = random.Random(seed)
    frame = bytes(12) + b"\x12\x34" + bytes(46)
    for _ in range(3000):
        tables = ["own4", "own6", "hop4", "session6", "settings", "learnt_out", "used", "counts", "", "x"]
        change = Change(
            chance.randrange(11),
            chance.choice(tables),
            chance.choice(["own", "forward", "to4", "set", "off", "", "x"]),
            chance.randbytes(chance.choice([0, 4, 8, 16, 37, 48])),
            chance.randbytes(chance.choice([0, 0, 4, 16, 48])),
            chance.randbytes(chance.choice([0, 6, 12, 14, 48])),
            chance.choice([0, 0, 1, 0xFFFFFFFF]),
        )
        record = bytearray(change.packed())
        if chance.random() < 0.3:
            record[chance.randrange(RECORD)] ^= 1 << chance.randrange(8)
        assert len(switch.control.raw(bytes(record) * chance.choice([1, 1, 2, 64]))) >= REPLY
        if change.op == DEFAULT:
            switch.control.flush("settings")
    assert switch.send(0, frame) == [(1, frame)]


def test_a_fifth_connection_is_closed(switch: Piped) -> None:
    """And the others go on."""
    others = [Control(switch.control.path) for _ in range(3)]
    assert all(other.ask(Change(HELLO))[0].status == DONE for other in others)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as fifth:
        fifth.settimeout(60)
        fifth.connect(str(switch.control.path))
        assert fifth.recv(1) == b""
    others[0].socket.close()
    assert switch.control.ask(Change(HELLO))[0].status == DONE


def test_the_page_lists_the_counters_of_the_program() -> None:
    """By name and number."""
    program = re.findall(r"#define (\w+) +32w(\d+)", (ROOT / "p4/core/reasons.p4").read_text())
    page = re.findall(
        r"\| (\d+) \| ((?:declined|dropped|translated|answered|from|learnt)\w*) ", (ROOT / "p4/PROTOCOL.md").read_text()
    )
    assert {(name.lower(), number) for name, number in program if number != "255"} == {(name, number) for number, name in page}


def test_the_page_lists_the_tables_of_the_program(spec: Path = ROOT / "p4/swx/nat64.spec") -> None:
    """Each table that a controller writes."""
    tables = set(re.findall(r"^table (\w+) \{", spec.read_text(), re.M))
    text = (ROOT / "p4/PROTOCOL.md").read_text()
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \| (?:none|dst MAC|address|src)", text, re.M)
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == tables
