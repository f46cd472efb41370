# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Changes of tables and readings of arrays, as the control socket asks for them, by commands of simple_switch_CLI."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from dataclasses import dataclass, field

from program import Action, Program, Table
from records import (
    ABSENT,
    CHANGES,
    DEFAULT,
    DELETE,
    FIELD,
    FULL,
    MALFORMED,
    NAME,
    RANGE,
    REFUSED,
    Failed,
    Record,
)
from runtime import Refused, Runtime

MOST_READ, MOST_USED, ONE_BY_ONE = 1024, 65536, 1024
ADDED = re.compile(r"Entry has been added with handle (\d+)")
COUNTED = re.compile(r".*\]= \(\d+ bytes, (\d+) packets\)")
HELD = re.compile(r"[^=]+= *\d+(, *\d+)*")
HIGHEST = (1 << 31) - 1  # Thrift has signed numbers

Undo = Callable[[], object]


@dataclass
class Entry:
    """What the switch has."""

    handle: int
    action: Action
    data: str
    priority: int


@dataclass
class Tables:
    """Of one switch, which nobody else writes."""

    program: Program
    runtime: Runtime
    entries: dict[str, dict[str, Entry]] = field(default_factory=dict)
    defaults: dict[str, tuple[str, str]] = field(default_factory=dict)

    def ask(self, *commands: str) -> list[str]:
        """Raises Failed, if one is refused."""
        try:
            return self.runtime.ask(*commands)
        except Refused as refused:
            raise Failed(FULL if "TABLE_FULL" in str(refused) else REFUSED) from refused

    def empty(self) -> None:
        """Everything is as at the start: entries, defaults, counters."""
        self.ask("reset_state")
        self.entries, self.defaults = {}, {}

    def change(self, of: Record) -> Undo:
        """INSERT, DELETE or DEFAULT; how to undo it."""
        assert of.op in CHANGES
        table = self.program.tables.get(of.table)
        if not table:
            raise Failed(NAME)
        if of.op == DELETE:
            if of.action or any(of.data):
                raise Failed(MALFORMED)
            return self.delete(table, key_of(table, of))
        action = table.actions.get(of.action)
        if not action:
            raise Failed(NAME)
        data = " ".join(numbers(of.data, action.widths))
        if of.op == DEFAULT:
            if any(of.key) or any(of.mask) or of.priority:
                raise Failed(MALFORMED)
            return self.default(table, action.name, data)
        if not table.widths:
            raise Failed(REFUSED)
        if of.priority > (HIGHEST if table.is_ternary else 0):
            raise Failed(MALFORMED)
        return self.insert(table, key_of(table, of), action, data, of.priority)

    def insert(self, table: Table, key: str, action: Action, data: str, priority: int) -> Undo:
        """A new entry, or another action of one."""
        known = self.entries.setdefault(table.name, {})
        old = known.get(key)
        if old and old.priority == priority and old.data and data:
            before = (old.action, old.data)
            self.modify(table, key, action, data)
            return lambda: self.modify(table, key, *before)
        if old:
            self.ask(f"table_delete {table.name} {old.handle}")
            del known[key]
        try:
            self.add(table, key, action, data, priority)
        except Failed:
            if old:
                self.add(table, key, old.action, old.data, old.priority)
            raise
        if old:
            return lambda: self.insert(table, key, old.action, old.data, old.priority)
        return lambda: self.delete(table, key)

    def modify(self, table: Table, key: str, action: Action, data: str) -> None:
        """An entry that is there, by an action with arguments (the CLI takes no other)."""
        entry = self.entries[table.name][key]
        self.ask(f"table_modify {table.name} {action.name} {entry.handle} {data}")
        entry.action, entry.data = action, data

    def add(self, table: Table, key: str, action: Action, data: str, priority: int) -> None:
        """An entry that is not there."""
        rank = str(priority) if table.is_ternary else ""
        said = self.ask(f"table_add {table.name} {action.name} {key} => {data} {rank}")
        found = [match for match in map(ADDED.fullmatch, said) if match]
        if not found:
            raise Failed(REFUSED)
        self.entries.setdefault(table.name, {})[key] = Entry(int(found[0][1]), action, data, priority)

    def delete(self, table: Table, key: str) -> Undo:
        """An entry that is there."""
        old = self.entries.get(table.name, {}).get(key)
        if not old:
            raise Failed(ABSENT)
        self.ask(f"table_delete {table.name} {old.handle}")
        del self.entries[table.name][key]
        return lambda: self.add(table, key, old.action, old.data, old.priority)

    def default(self, table: Table, name: str, data: str) -> Undo:
        """What is done on a miss."""
        old = self.defaults.get(table.name)
        self.ask(f"table_set_default {table.name} {name} {data}")
        self.defaults[table.name] = (name, data)

        def undo() -> None:
            if old:
                self.ask(f"table_set_default {table.name} {old[0]} {old[1]}")
                self.defaults[table.name] = old
            else:
                self.ask(f"table_reset_default {table.name}")
                del self.defaults[table.name]

        return undo

    def flush(self, name: str) -> None:
        """A table, or all. Counters go on."""
        if name and name not in self.program.tables:
            raise Failed(NAME)
        for table in [name] if name else self.program.tables:
            # What nothing was written into needs no command.
            if self.entries.pop(table, None):
                self.ask(f"table_clear {table}")
            if self.defaults.pop(table, None):
                self.ask(f"table_reset_default {table}")

    def count(self, name: str) -> bytes:
        """Entries, and room."""
        if name not in self.program.tables:
            raise Failed(NAME)
        return struct.pack("!QQ", len(self.entries.get(name, {})), self.program.tables[name].size)

    def read(self, of: Record) -> bytes:
        """Numbers of an array."""
        first, count = span(of, MOST_READ)
        sizes = {**self.program.counters, **self.program.registers}
        within(sizes, of.table, first, count)
        if of.table in self.program.registers:
            found = self.register(of.table, first, count)
        else:
            said = self.ask(*(f"counter_read {of.table} {index}" for index in range(first, first + count)))
            found = [int(match[1]) for match in map(COUNTED.fullmatch, said) if match]
        if len(found) != count:
            raise Failed(REFUSED)
        return struct.pack(f"!{count}Q", *found)

    def used(self, of: Record) -> bytes:
        """Which numbers are not 0; they become 0.

        A number is cleared only if it was seen: one that is set between reading and clearing is told next time.
        """
        first, count = span(of, MOST_USED)
        within(self.program.registers, of.table, first, count)
        if count % 8:
            raise Failed(RANGE)
        seen = [index for index, number in enumerate(self.register(of.table, first, count)) if number]
        bits = bytearray(count // 8)
        for index in seen:
            bits[index // 8] |= 1 << index % 8
        self.ask(*(f"register_write {of.table} {first + index} 0" for index in seen))
        return bytes(bits)

    def register(self, name: str, first: int, count: int) -> list[int]:
        """The CLI reads one number or all, which is as much work as a thousand times one."""
        if count > ONE_BY_ONE:
            said = self.ask(f"register_read {name}")
            found = [int(number) for line in said if HELD.fullmatch(line) for number in line.partition("=")[2].split(",")]
            found = found[first : first + count]
        else:
            said = self.ask(*(f"register_read {name} {index}" for index in range(first, first + count)))
            found = [int(line.partition("=")[2]) for line in said if HELD.fullmatch(line)]
        if len(found) != count:
            raise Failed(REFUSED)
        return found


def key_of(table: Table, of: Record) -> str:
    """As the CLI writes it."""
    if not table.is_ternary:
        if any(of.mask):
            raise Failed(MALFORMED)
        return " ".join(numbers(of.key, table.widths))
    keys, masks = numbers(of.key, table.widths), numbers(of.mask, table.widths)
    return " ".join(f"{hex(int(key, 0) & int(mask, 0))}&&&{mask}" for key, mask in zip(keys, masks, strict=True))


def numbers(padded: bytes, widths: tuple[int, ...]) -> list[str]:
    """Fields of so many bytes; zeros behind them."""
    found, at = [], 0
    for width in widths:
        found.append("0x" + padded[at : at + width].hex())
        at += width
    if at > FIELD or any(padded[at:]):
        raise Failed(MALFORMED)
    return found


def span(of: Record, most: int) -> tuple[int, int]:
    """First number, and how many."""
    first, count = struct.unpack_from("!II", of.key)
    if not 0 < count <= most:
        raise Failed(RANGE)
    return first, count


def within(sizes: dict[str, int], name: str, first: int, count: int) -> None:
    """Raises Failed, if there is no such array, or it is shorter."""
    if name not in sizes:
        raise Failed(NAME)
    if first + count > sizes[name]:
        raise Failed(RANGE)
