# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The control socket: peers, their datagrams, and replies."""

from __future__ import annotations

import secrets
import select
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass, field

from links import Pair, counters
from records import (
    CHANGES,
    COUNT,
    FLUSH,
    HELLO,
    MALFORMED,
    NOT_TRIED,
    PORT,
    RANGE,
    READ,
    RECORD,
    RECORDS,
    Failed,
    Record,
    read,
    reply,
)
from tables import Tables, Undo

CONNECTIONS = 4
LOOK = 0.5  # seconds between two looks at whether the switch still runs


@dataclass
class Server:
    """The control socket."""

    tables: Tables
    pairs: list[Pair]
    listener: socket.socket
    boot: int = field(default_factory=lambda: secrets.randbits(64))
    peers: list[socket.socket] = field(default_factory=list)

    def serve(self, goes_on: Callable[[], bool]) -> None:
        """Until the switch ends."""
        while goes_on():
            for ready in select.select([self.listener, *self.peers], [], [], LOOK)[0]:
                if ready is self.listener:
                    self.accept()
                else:
                    self.receive(ready)

    def accept(self) -> None:
        """A peer, if there is room."""
        peer, _ = self.listener.accept()
        if len(self.peers) == CONNECTIONS:
            peer.close()
        else:
            peer.setblocking(False)
            self.peers.append(peer)

    def receive(self, peer: socket.socket) -> None:
        """One datagram. Who has gone, or does not read its replies, is disconnected."""
        try:
            datagram = peer.recv(RECORD * RECORDS + 1)
            if datagram or not has_gone(peer):
                peer.send(self.answer(datagram))
                return
        except OSError:
            pass
        self.peers.remove(peer)
        peer.close()

    def answer(self, datagram: bytes) -> bytes:
        """The reply to a request."""
        records = read(datagram)
        if not records:
            return reply(Record(0, 0), MALFORMED)
        if len(records) == 1 and records[0].is_sound and records[0].op not in CHANGES:
            return self.one(records[0])
        if all(each.is_sound and each.op in CHANGES for each in records):
            return self.change(records)
        wrong = [not each.is_sound or each.op not in CHANGES for each in records]
        return b"".join(reply(each, MALFORMED if bad else NOT_TRIED) for each, bad in zip(records, wrong, strict=True))

    def one(self, of: Record) -> bytes:
        """What stands alone in its datagram."""
        try:
            return self.done(of)
        except Failed as failed:
            return reply(of, failed.status)

    def done(self, of: Record) -> bytes:
        """Its reply. Raises Failed."""
        tables = self.tables
        if of.op == HELLO:
            slots = tables.program.registers.get("used", 0)
            return reply(of, 0, struct.pack("!QII", self.boot, len(self.pairs), slots))
        if of.op == PORT:
            (port,) = struct.unpack_from("!I", of.key)
            if port >= 2 * len(self.pairs):
                raise Failed(RANGE)
            return reply(of, 0, struct.pack("!6Q", *counters(self.pairs[port // 2], port)))
        if of.op == COUNT:
            return reply(of, 0, tables.count(of.table))
        if of.op == FLUSH:
            tables.flush(of.table)
            return reply(of, 0)
        return reply(of, 0) + (tables.read(of) if of.op == READ else tables.used(of))

    def change(self, records: list[Record]) -> bytes:
        """All of them, or none."""
        undo: list[Undo] = []
        for at, each in enumerate(records):
            try:
                undo.append(self.tables.change(each))
            except Failed as failed:
                for step in reversed(undo):
                    step()
                statuses = [failed.status if other == at else NOT_TRIED for other in range(len(records))]
                return b"".join(reply(of, status) for of, status in zip(records, statuses, strict=True))
        return b"".join(reply(each, 0) for each in records)


def has_gone(peer: socket.socket) -> bool:
    """Nothing was received: a datagram may be empty, too."""
    state = select.poll()
    state.register(peer, select.POLLRDHUP)
    return bool(state.poll(0))
