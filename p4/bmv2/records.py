# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Records of the control socket (p4/PROTOCOL.md, "Messages"): bytes to requests, replies to bytes."""

from __future__ import annotations

import struct
from dataclasses import dataclass

VERSION = 0x64703401
HELLO, INSERT, DELETE, DEFAULT, FLUSH, READ, USED, PORT, COUNT = range(1, 10)
CHANGES = (INSERT, DELETE, DEFAULT)
DONE, MALFORMED, ABSENT, NAME, ACTION, FULL, RANGE, MEMORY, REFUSED, NOT_TRIED = range(10)
REASONS = (
    "",
    "malformed record",
    "no such entry",
    "no such table, action or array",
    "the action does not belong to this table",
    "the table is full",
    "out of range",
    "out of memory",
    "refused by the switch",
    "not tried",
)
RECORD, REPLY, RECORDS, FIELD = 256, 64, 64, 48
REQUEST = struct.Struct("!IIHHI48s48s48s48s48s")


class Failed(Exception):
    """A request that is not done, and why."""

    def __init__(self, status: int) -> None:
        super().__init__(REASONS[status])
        self.status = status


@dataclass(frozen=True)
class Record:
    """One record of a request."""

    cookie: int
    op: int
    priority: int = 0
    table: str = ""
    action: str = ""
    key: bytes = bytes(FIELD)
    mask: bytes = bytes(FIELD)
    data: bytes = bytes(FIELD)
    is_sound: bool = True


def read(datagram: bytes) -> list[Record]:
    """Records of a request; none if it has no whole number of them, or too many."""
    count, rest = divmod(len(datagram), RECORD)
    if rest or not 0 < count <= RECORDS:
        return []
    return [record(*REQUEST.unpack_from(datagram, at * RECORD)) for at in range(count)]


def record(version: int, cookie: int, op: int, zero: int, priority: int, table: bytes, action: bytes, *fields: bytes) -> Record:
    """One, which may be malformed."""
    names = [name_of(table), name_of(action)]
    sound = version == VERSION and not zero and HELLO <= op <= COUNT and None not in names
    return Record(cookie, op, priority, names[0] or "", names[1] or "", *fields, is_sound=sound)


def name_of(padded: bytes) -> str | None:
    """A name, behind which there are zeros, and one at least."""
    name, zero, rest = padded.partition(b"\0")
    return name.decode() if zero and not any(rest) and name.isascii() else None


def reply(of: Record, status: int, payload: bytes = b"", text: str = "") -> bytes:
    """One record of a reply. With a status other than 0, it says why."""
    if status:
        payload = (text or REASONS[status]).encode()[: FIELD - 1]
    return struct.pack("!IIHHI48s", VERSION, of.cookie, of.op, status, 0, payload)
