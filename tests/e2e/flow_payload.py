# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What flows of the witness carry: every byte says whose it is.

    request: magic, subscriber, flow, sequence number, length, then the byte of the subscriber up to the length
    answer:  the request, then the external address and port that it came from

An answer over TCP has the same form, so that both ends know how long it is.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

HEADER = struct.Struct("!4sHIIH")
MAGIC = b"DkWi"
SEEN = struct.Struct("!4sH")
SHORT = 64
# Longer than the MTU: it comes in fragments.
LONG = 2000


class Payload(NamedTuple):
    """A request that is whole."""

    subscriber: int
    flow: int
    sequence: int
    length: int


def request(subscriber: int, flow: int, sequence: int, length: int = SHORT) -> bytes:
    """Bytes of a request."""
    return HEADER.pack(MAGIC, subscriber, flow, sequence, length) + bytes([subscriber]) * (length - HEADER.size)


def read(data: bytes) -> Payload | None:
    """The request at the beginning of these bytes; None if they are no such thing, or not one subscriber's alone."""
    if len(data) < HEADER.size:
        return None
    magic, subscriber, flow, sequence, length = HEADER.unpack_from(data)
    if magic != MAGIC or len(data) < length or data[HEADER.size : length] != bytes([subscriber]) * (length - HEADER.size):
        return None
    return Payload(subscriber, flow, sequence, length)
