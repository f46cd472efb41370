# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Declarations of a program → instructions of SWX.

Controls are inlined. Each statement has its temporaries anew, so that few fields of metadata serve all of them: SWX of
DPDK 22.11 addresses 256 bytes.
"""

from __future__ import annotations

import operator
import re
from dataclasses import dataclass, field
from typing import Any

from syntax import Control, Expression, Program, Table, Unsupported

OPERATIONS = {"+": "add", "-": "sub", "&": "and", "|": "or", "^": "xor", "<<": "shl", ">>": "shr"}
JUMPS = {"==": "jmpeq", "!=": "jmpneq", "<": "jmplt", ">": "jmpgt"}
FOLDS = {"+": operator.add, "-": operator.sub, "&": operator.and_, "|": operator.or_, "^": operator.xor}
FOLDS |= {"<<": operator.lshift, ">>": operator.rshift}
COMPARES = {"==": operator.eq, "!=": operator.ne, "<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge}
TURNED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
IN_PORT, OUT_PORT = "pna_input_port", "pna_output_port"
Operand = tuple[str, Any]  # as SWX names it, and its width


@dataclass
class Scope:
    """Names that a control knows."""

    control: Control
    arguments: dict[str, Operand]


@dataclass
class Code:
    """Instructions, and a label that waits for the next one."""

    lines: list[str] = field(default_factory=list)
    label: str = ""


class Generator:
    """Of one program."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.headers: dict[str, str] = dict(program.structs["headers_t"])
        self.metadata: dict[str, int] = {IN_PORT: 32, OUT_PORT: 32, **dict(program.structs["meta_t"])}
        self.actions: dict[str, list[str]] = {}
        self.parameters: dict[str, list[tuple[str, int]]] = {}
        self.tables: dict[str, tuple[Table, list[tuple[str, str]]]] = {}
        self.code = Code()
        self.labels = 0
        self.taken: list[int] = []

    def emit(self, line: str) -> None:
        """One instruction."""
        self.code.lines.append(f"{self.code.label} : {line}" if self.code.label else line)
        self.code.label = ""

    def place(self, label: str) -> None:
        """A label in front of the next instruction."""
        if self.code.label:
            self.emit(f"jmp {label}")
        self.code.label = label

    def new_label(self) -> str:
        """One of its own."""
        self.labels += 1
        return f"L{self.labels}"

    def meta(self, name: str, width: int) -> str:
        """A field of metadata."""
        self.metadata.setdefault(name, width)
        return f"m.{name}"

    def temporary(self, width: int) -> str:
        """Until the next statement."""
        width = max(8, (width + 7) // 8 * 8)
        number = self.taken.count(width)
        self.taken.append(width)
        return self.meta(f"temporary{width}_{number}", width)

    def resolve(self, names: list[str], scope: Scope) -> Operand:
        """What a name stands for."""
        first = names[0]
        if first in scope.control.variables:
            width = scope.control.variables[first]
            return self.meta(f"{scope.control.name}_{first}", width), width
        if first not in scope.arguments:
            raise Unsupported(f"name {'.'.join(names)} in {scope.control.name}")
        what, width = scope.arguments[first]
        if what == "headers" and len(names) > 1:
            fields = dict(self.program.structs[self.headers[names[1]]])
            return f"h.{'.'.join(names[1:])}", fields[names[2]] if len(names) == 3 else None
        if what == "metadata" and len(names) > 1:
            return f"m.{names[1]}", self.metadata[names[1]]
        return (f"m.{IN_PORT}", 32) if what == "input" else (what, width)

    def value(self, e: Expression, scope: Scope) -> Operand:
        """Where the value of an expression stands."""
        kind = e[0]
        if kind == "num":
            return hex(e[1]), e[2]
        if kind == "path":
            return self.resolve(e[1], scope)
        if kind == "cast":
            found, width = self.value(e[2], scope)
            if found.startswith("0x"):
                found = hex(int(found, 0) & ((1 << e[1]) - 1))
            elif width != e[1]:
                to = self.temporary(e[1])
                self.emit(f"mov {to} {found}")
                found = to
            return found, e[1]
        if kind == "call" and e[1][-1] == "read":
            to, (index, _) = self.temporary(32), self.value(e[2][0], scope)
            self.emit(f"regrd {to} {e[1][0]}_0 {index}")
            return to, 32
        return self.operation(e, scope)

    def operation(self, e: Expression, scope: Scope) -> Operand:
        """Of two values; numbers are computed here."""
        kind = e[0]
        if kind not in OPERATIONS:
            raise Unsupported(f"expression {e}")
        (left, width), (right, other) = self.value(e[1], scope), self.value(e[2], scope)
        if left.startswith("0x") and right.startswith("0x"):
            return hex(FOLDS[kind](int(left, 0), int(right, 0))), width or other
        width = width if kind in ("<<", ">>") else width or other
        to = self.temporary(width)
        self.emit(f"mov {to} {left}")
        self.emit(f"{OPERATIONS[kind]} {to} {right}")
        return to, width

    def condition(self, e: Expression, scope: Scope, yes: str, no: str) -> None:
        """Jumps to one of both."""
        kind = e[0]
        if kind == "true":
            self.emit(f"jmp {yes}")
        elif kind == "!":
            self.condition(e[1], scope, no, yes)
        elif kind in ("&&", "||"):
            on = self.new_label()
            self.condition(e[1], scope, *((on, no) if kind == "&&" else (yes, on)))
            self.place(on)
            self.condition(e[2], scope, yes, no)
        elif kind == "call" and e[1][-1] == "isValid":
            self.emit(f"jmpv {yes} {self.resolve(e[1][:-1], scope)[0]}")
            self.emit(f"jmp {no}")
        else:
            self.compare(kind, self.value(e[1], scope)[0], self.value(e[2], scope)[0], yes, no)

    def compare(self, kind: str, left: str, right: str, yes: str, no: str) -> None:
        """SWX wants a number on the right, and knows no "or equal"."""
        if left.startswith("0x") and right.startswith("0x"):
            self.emit(f"jmp {yes if COMPARES[kind](int(left, 0), int(right, 0)) else no}")
            return
        if left.startswith("0x"):
            left, right, kind = right, left, TURNED.get(kind, kind)
        if kind in (">=", "<="):
            self.emit(f"{JUMPS['<' if kind == '>=' else '>']} {no} {left} {right}")
            self.emit(f"jmp {yes}")
        else:
            self.emit(f"{JUMPS[kind]} {yes} {left} {right}")
            self.emit(f"jmp {no}")

    def statement(self, s: Expression, scope: Scope) -> None:
        """Instructions of one."""
        if s[0] == "block":
            for inner in s[1]:
                self.statement(inner, scope)
            return
        self.taken.clear()
        if s[0] == "set":
            self.assign(s[1], s[2], scope)
        elif s[0] == "if":
            yes, no, end = self.new_label(), self.new_label(), self.new_label()
            self.condition(s[1], scope, yes, no)
            self.place(yes)
            self.statement(s[2], scope)
            if s[3]:
                self.emit(f"jmp {end}")
                self.place(no)
                self.statement(s[3], scope)
                self.place(end)
            else:
                self.place(no)
        else:
            self.call(s[1][1], s[1][2], scope)

    def assign(self, left: Expression, right: Expression, scope: Scope) -> None:
        """`x = x + y` in one instruction."""
        to = self.value(left, scope)[0]
        if right[0] in OPERATIONS and right[1] == left:
            self.emit(f"{OPERATIONS[right[0]]} {to} {self.value(right[2], scope)[0]}")
        else:
            self.emit(f"mov {to} {self.value(right, scope)[0]}")

    def call(self, names: list[str], arguments: list[Expression], scope: Scope) -> None:
        """A method, an extern, a table or another control."""
        method, of = names[-1], names[0]
        if method == "apply":
            if of in scope.control.tables:
                self.table(scope.control.tables[of], scope)
            else:
                self.inline(self.program.controls[scope.control.instances[of]], arguments, scope)
        elif method == "add_entry":
            self.learn(arguments, scope)
        elif method in ("setValid", "setInvalid"):
            self.emit(f"{'validate' if method == 'setValid' else 'invalidate'} {self.resolve(names[:-1], scope)[0]}")
        elif method == "drop_packet":
            self.emit("drop")
        else:
            values = [self.value(argument, scope)[0] for argument in arguments]
            lines = {
                "count": "regadd {of}_0 {0} 0x1",
                "write": "regwr {of}_0 {0} {1}",
                "send_to_port": "mov m." + OUT_PORT + " {0}",
                "set_entry_expire_time": "rearm {0}",
            }
            if method not in lines:
                raise Unsupported(f"call of {'.'.join(names)}")
            self.emit(lines[method].format(*values, of=of))

    def learn(self, arguments: list[Expression], scope: Scope) -> None:
        """Arguments of the learnt action stand in a row in the metadata."""
        (_, action), (_, struct, values), life = arguments
        first = ""
        for (name, width), value in zip(self.program.structs[struct], values, strict=True):
            found = self.value(value, scope)[0]
            to = self.meta(f"{struct}_{name}", width)
            first = first or to
            self.emit(f"mov {to} {found}")
        self.emit(f"learn {action} {first} {self.value(life, scope)[0]}")

    def inline(self, control: Control, arguments: list[Expression], scope: Scope) -> None:
        """The body of another control."""
        known: dict[str, Operand] = {}
        for (name, kind), argument in zip(control.parameters, arguments, strict=True):
            if kind == "headers_t":
                known[name] = ("headers", None)
                continue
            found = self.value(argument, scope)[0]
            if not found.startswith("0x"):
                kept = self.meta(f"{control.name}_{name}", kind)
                self.emit(f"mov {kept} {found}")
                found = kept
            known[name] = (found, kind)
        self.statement(control.apply, Scope(control, known))

    def table(self, table: Table, scope: Scope) -> None:
        """A look-up; and its actions, if they are new."""
        for name, _ in table.actions:
            self.action(name, scope)
        self.tables[table.name] = (table, [(self.value(e, scope)[0], kind) for e, kind in table.key])
        self.emit(f"table {table.name}")

    def action(self, name: str, scope: Scope) -> None:
        """Names of actions are one set in SWX: those of two controls with one name have to do the same."""
        parameters, body = scope.control.actions[name]
        outside, self.code = self.code, Code()
        taken = list(self.taken)
        self.statement(body, Scope(scope.control, scope.arguments | {p: (f"t.{p}", width) for p, width in parameters}))
        self.emit("return")
        lines, self.code, self.taken = tidy(self.code.lines), outside, taken
        if bare(self.actions.get(name, lines)) != bare(lines):
            raise Unsupported(f"two actions {name} that differ")
        self.actions.setdefault(name, lines)
        self.parameters[name] = parameters

    def whole(self) -> list[str]:
        """Parser, main control and deparser, and the packet is sent."""
        self.emit(f"rx m.{IN_PORT}")
        parsing = Scope(Control("parser", []), {"hdr": ("headers", None)})
        for state in ["start", *(name for name in self.program.states if name != "start")]:
            self.place(f"PARSE_{state.upper()}")
            extracted, (selected, cases) = self.program.states[state]
            for header in extracted:
                self.emit(f"extract h.{header}")
            for value, to in cases:
                if value is None:
                    self.emit(f"jmp PARSE_{to.upper()}")
                else:
                    self.emit(f"jmpeq PARSE_{to.upper()} {self.value(selected, parsing)[0]} {hex(value[1])}")
        self.place("PARSE_ACCEPT")
        main = self.program.controls["main_control"]
        self.statement(main.apply, Scope(main, {"hdr": ("headers", None), "m": ("metadata", None), "istd": ("input", None)}))
        for statement in self.program.controls["main_deparser"].apply[1]:
            self.emit(f"emit h.{statement[1][2][0][1][1]}")
        self.emit(f"tx m.{OUT_PORT}")
        return tidy(self.code.lines)


def bare(lines: list[str]) -> list[str]:
    """Without the numbers of labels."""
    return [re.sub(r"\bL\d+\b", "L", line) for line in lines]


def tidy(lines: list[str]) -> list[str]:
    """No jump to the next instruction, no jump over a jump, no label that nobody jumps to."""
    opposite = {"jmpeq": "jmpneq", "jmpneq": "jmpeq", "jmpv": "jmpnv", "jmpnv": "jmpv"}
    for _ in range(4):
        turned: list[str] = []
        at = 0
        while at < len(lines):
            over = re.fullmatch(r"((?:\w+ : )?)(jmpn?(?:eq|v)) (\w+) (.*)", lines[at])
            jump = re.fullmatch(r"jmp (\w+)", lines[at + 1]) if over and at + 2 < len(lines) else None
            if over and jump and lines[at + 2].startswith(f"{over[3]} : "):
                turned.append(f"{over[1]}{opposite[over[2]]} {jump[1]} {over[4]}")
                at += 2
                continue
            to_next = re.fullmatch(r"jmp (\w+)", lines[at])
            if not (to_next and at + 1 < len(lines) and lines[at + 1].startswith(f"{to_next[1]} : ")):
                turned.append(lines[at])
            at += 1
        used = {word for line in turned for word in re.findall(r"(?:^| )jmp\w* (\w+)", line)}
        lines = [line if line.split(" : ")[0] in used else re.sub(r"^\w+ : ", "", line) for line in turned]
    return lines
