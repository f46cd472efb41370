# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The sessions of a system that keeps state: how many there are, how many there can be, and the end of all of them."""

import json
import time

from pyroute2 import NFCTSocket
from pyroute2.netlink.exceptions import NetlinkError

from diolkos_lab.sut.definition import SessionTable
from diolkos_lab.sut.program import RunningProgram, SutFault
from diolkos_lab.topology import namespace

PATIENCE_S = 60.0  # for the end of millions


class Sessions:
    """Asks the running program. Each question raises SutFault when there is no answer to it."""

    def __init__(self, program: RunningProgram) -> None:
        assert program.datapath.sessions
        self._program = program
        self._table: SessionTable = program.datapath.sessions

    def count(self) -> int:
        """Sessions that the table holds now."""
        text = self._program.answer(self._table.count)
        try:
            return int(json.loads(text)["counters"][self._table.counter]) if self._table.counter else int(text)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise SutFault("it does not tell how many sessions it has", [text.strip()[:200]]) from error

    def limit(self) -> int | None:
        """Sessions that it can hold; None when it does not tell."""
        if self._table.limit is None:
            return None
        text = self._program.answer(self._table.limit)
        try:
            return int(text)
        except ValueError as error:
            raise SutFault("it does not tell how many sessions it can have", [text.strip()[:200]]) from error

    def clear(self) -> float:
        """End all; returns the seconds from the order to its answer (RFC 9693 §4.8)."""
        if self._table.clear == "conntrack":
            try:
                if not self._program.is_here:
                    begin = time.monotonic()
                    self._program.empty_conntrack()
                    return time.monotonic() - begin
                with namespace.entered(self._program.place), NFCTSocket() as table:
                    begin = time.monotonic()
                    table.flush()
                    return time.monotonic() - begin
            except (NetlinkError, OSError) as error:
                raise SutFault(f"the connections that the kernel tracks could not be ended: {error}", []) from error
        begin = time.monotonic()
        self._program.answer(self._table.clear, PATIENCE_S)
        return time.monotonic() - begin
