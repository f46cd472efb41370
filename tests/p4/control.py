# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The control socket of `diolkos-switch` (p4/PROTOCOL.md), and the switch on a pipe: frames in, frames out."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SPEC = ROOT / "p4" / "swx" / "nat64.spec"
VERSION = 0x64703401
HELLO, INSERT, DELETE, DEFAULT, FLUSH, READ, USED, PORT, COUNT = range(1, 10)
DONE, MALFORMED, ABSENT, NAME, ACTION, FULL, RANGE, MEMORY, REFUSED, NOT_TRIED = range(10)
RECORD, REPLY, RECORDS = 256, 64, 64
END = 0xFFFF


def program() -> Path:
    """The switch under test: of `make switch`, or of the folder that DIOLKOS_PROGRAMS names."""
    return (Path(os.environ.get("DIOLKOS_PROGRAMS", ROOT / "bin")) / "diolkos-switch").absolute()


@dataclass
class Change:
    """One record of a request."""

    op: int
    table: str = ""
    action: str = ""
    key: bytes = b""
    mask: bytes = b""
    data: bytes = b""
    priority: int = 0

    def packed(self, cookie: int = 0) -> bytes:
        """As the socket takes it."""
        names = self.table.encode(), self.action.encode()
        return struct.pack(
            "!IIHHI48s48s48s48s48s", VERSION, cookie, self.op, 0, self.priority, *names, self.key, self.mask, self.data
        )


@dataclass
class Answer:
    """One record of a reply."""

    cookie: int
    op: int
    status: int
    payload: bytes
    rest: bytes = b""


@dataclass
class Control:
    """A connection to a switch."""

    path: Path
    socket: socket.socket = field(init=False)

    def __post_init__(self) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(60)
        self.socket.connect(str(self.path))

    def raw(self, datagram: bytes) -> bytes:
        """A reply to whatever bytes."""
        self.socket.send(datagram)
        return self.socket.recv(1 << 20)

    def ask(self, *changes: Change) -> list[Answer]:
        """Records of one datagram, and of its reply."""
        reply = self.raw(b"".join(change.packed(cookie) for cookie, change in enumerate(changes)))
        answers = []
        for at in range(0, REPLY * len(changes), REPLY):
            version, cookie, op, status, _ = struct.unpack_from("!IIHHI", reply, at)
            assert version == VERSION
            answers.append(Answer(cookie, op, status, reply[at + 16 : at + REPLY]))
        answers[-1].rest = reply[REPLY * len(changes) :]
        return answers

    def write(self, changes: list[Change]) -> None:
        """All of them, which have to succeed, in as many datagrams as that takes."""
        for at in range(0, len(changes), RECORDS):
            part = changes[at : at + RECORDS]
            for change, answer in zip(part, self.ask(*part), strict=True):
                assert answer.status == DONE, (change, answer)

    def flush(self, table: str = "") -> None:
        """Empty tables."""
        assert self.ask(Change(FLUSH, table))[0].status == DONE

    def read(self, array: str, first: int, count: int) -> list[int]:
        """Entries of an array."""
        answer = self.ask(Change(READ, array, key=struct.pack("!II", first, count)))[0]
        assert answer.status == DONE, answer
        return list(struct.unpack(f"!{count}Q", answer.rest))

    def used(self, first: int, count: int) -> set[int]:
        """Slots that were used since the last time."""
        answer = self.ask(Change(USED, "used", key=struct.pack("!II", first, count)))[0]
        assert answer.status == DONE, answer
        return {first + i for i in range(count) if answer.rest[i // 8] >> i % 8 & 1}


@dataclass
class Piped:
    """A switch with `--frames`."""

    process: subprocess.Popen
    control: Control
    longest: int = 1 << 17  # bytes of a frame that comes through the pipe

    def send(self, port: int, frame: bytes) -> list[tuple[int, bytes]]:
        """Port and bytes of each frame that comes out."""
        assert self.process.stdin
        self.process.stdin.write(struct.pack("!HHI", port, 0, len(frame)) + frame)
        self.process.stdin.flush()
        out = []
        while True:
            at, _, length = struct.unpack("!HHI", self.take(8))
            if at == END:
                return out
            out.append((at, self.take(length)))

    def take(self, count: int) -> bytes:
        """So many bytes; a switch that has died has fewer."""
        assert self.process.stdout
        taken = self.process.stdout.read(count)
        assert len(taken) == count, "the switch has died"
        return taken


@contextmanager
def piped(folder: Path, spec: Path = SPEC, pairs: int = 2) -> Iterator[Piped]:
    """A switch on a pipe."""
    socket_path = folder / "switch.sock"
    command = [program(), "--spec", spec, "--control", socket_path, "--frames", str(pairs)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stderr
        said = process.stderr.readline().decode()
        assert said == "diolkos-switch: ready\n", said + process.stderr.read().decode()
        control = Control(socket_path)
        try:
            yield Piped(process, control)
        finally:
            control.socket.close()
            process.terminate()
            process.communicate()
