# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Text of a P4 program, of the subset that `p4/` uses → its declarations. What lies outside of the subset is refused by name.

Expressions are tuples: ("num", value, width), ("path", names), ("call", names, arguments), ("cast", width, expression),
("struct", type, expressions), ("!", x), ("true",), and (operator, left, right).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

TOKEN = re.compile(
    r'\s*(@\w+(?:\("[^"]*"\))?|"[^"]*"|\d+w0x[0-9a-fA-F]+|\d+w\d+|0x[0-9a-fA-F]+|\d+|[A-Za-z_]\w*'
    r"|<<|>>|&&|\|\||==|!=|<=|>=|[-+&|^~!<>=(){}\[\];:,.])"
)
# From the loosest to the tightest (P4-16 section 8.3: comparisons bind looser than bit operations).
BINARY = (("||",), ("&&",), ("==", "!="), ("<", ">", "<=", ">="), ("|",), ("^",), ("&",), ("<<", ">>"), ("+", "-"))
NAMED_WIDTHS = {"ExpireTimeProfileId_t": 8, "PortId_t": 32}
Expression = tuple[Any, ...]


class Unsupported(Exception):
    """The program uses what this compiler does not know."""


@dataclass
class Table:
    """A table of a control."""

    name: str
    key: list[tuple[Expression, str]] = field(default_factory=list)
    actions: list[tuple[str, str]] = field(default_factory=list)
    default: str = ""
    size: int = 1024
    learns: bool = False


@dataclass
class Control:
    """A control with what it declares."""

    name: str
    parameters: list[tuple[str, Any]]
    actions: dict[str, tuple[list[tuple[str, int]], Any]] = field(default_factory=dict)
    tables: dict[str, Table] = field(default_factory=dict)
    instances: dict[str, str] = field(default_factory=dict)
    variables: dict[str, int] = field(default_factory=dict)
    arrays: dict[str, int] = field(default_factory=dict)
    apply: Any = None


@dataclass
class Program:
    """All declarations."""

    structs: dict[str, list[tuple[str, Any]]] = field(default_factory=dict)
    headers: set[str] = field(default_factory=set)
    states: dict[str, tuple[list[str], Any]] = field(default_factory=dict)
    controls: dict[str, Control] = field(default_factory=dict)


class Reader:
    """Recursive descent over the tokens."""

    def __init__(self, text: str) -> None:
        self.tokens: list[str] = []
        self.at = 0
        self.program = Program()
        text, position = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL).rstrip(), 0
        while position < len(text):
            found = TOKEN.match(text, position)
            if not found:
                raise Unsupported(f"text {text[position : position + 40]!r}")
            self.tokens.append(found[1])
            position = found.end()

    def peek(self, ahead: int = 0) -> str:
        """A token that stays; empty at the end."""
        return self.tokens[self.at + ahead] if self.at + ahead < len(self.tokens) else ""

    def next(self) -> str:
        """The next token."""
        self.at += 1
        return self.tokens[self.at - 1]

    def want(self, token: str) -> None:
        """It has to be this one."""
        if self.next() != token:
            raise Unsupported(f"expected {token!r} in {' '.join(self.tokens[self.at - 8 : self.at + 4])!r}")

    def until(self, token: str) -> list[str]:
        """Tokens up to one that is taken, too."""
        taken = []
        while self.peek() != token:
            taken.append(self.next())
        self.next()
        return taken

    def read(self) -> Program:
        """All of the text."""
        while self.peek():
            word = self.next()
            if word in ("header", "struct"):
                name = self.next()
                self.program.structs[name] = self.fields()
                if word == "header":
                    self.program.headers.add(name)
            elif word == "parser":
                self.parser()
            elif word == "control":
                self.control()
            else:
                self.until(";")
        return self.program

    def type(self) -> Any:
        """A width in bits, or the name of a struct."""
        word = self.next()
        if word != "bit":
            return NAMED_WIDTHS.get(word, word)
        self.want("<")
        width = int(self.next())
        self.want(">")
        return width

    def fields(self) -> list[tuple[str, Any]]:
        """Of a header or struct."""
        self.want("{")
        found = []
        while self.peek() != "}":
            kind = self.type()
            found.append((self.next(), kind))
            self.want(";")
        self.want("}")
        return found

    def parameters(self) -> list[tuple[str, Any]]:
        """Of a control or an action."""
        self.want("(")
        found = []
        while self.peek() != ")":
            if self.peek() in ("in", "out", "inout"):
                self.next()
            kind = self.type()
            found.append((self.next(), kind))
            if self.peek() == ",":
                self.next()
        self.want(")")
        return found

    def expression(self, level: int = 0) -> Expression:
        """With every operator from this level on."""
        if level == len(BINARY):
            return self.unary()
        left = self.expression(level + 1)
        while self.peek() in BINARY[level]:
            operator = self.next()
            left = (operator, left, self.expression(level + 1))
        return left

    def arguments(self, end: str) -> list[Expression]:
        """Up to the closing bracket."""
        found = []
        while self.peek() != end:
            found.append(self.expression())
            if self.peek() == ",":
                self.next()
        self.want(end)
        return found

    def unary(self) -> Expression:
        """A negation, a cast, or something that stands alone."""
        if self.peek() == "!":
            self.next()
            return ("!", self.unary())
        named = self.peek(2) == ")" and (self.peek(1) in NAMED_WIDTHS or self.peek(1) in self.program.structs)
        if self.peek() == "(" and (self.peek(1) == "bit" or named):
            self.next()
            kind = self.type()
            self.want(")")
            if isinstance(kind, int):
                return ("cast", kind, self.unary())
            self.want("{")
            return ("struct", kind, self.arguments("}"))
        return self.primary()

    def primary(self) -> Expression:
        """A number, a name with dots, a call, brackets."""
        word = self.next()
        if word == "(":
            inner = self.expression()
            self.want(")")
            return inner
        if word == "true":
            return ("true",)
        if word[0] == '"':
            return ("text", word.strip('"'))
        if word[0].isdigit():
            width, _, number = word.rpartition("w")
            return ("num", int(number, 0), int(width) if width else None)
        names = [word]
        while self.peek() == ".":
            self.next()
            names.append(self.next())
        if self.peek() != "(":
            return ("path", names)
        self.next()
        return ("call", names, self.arguments(")"))

    def block(self) -> Expression:
        """Statements in braces."""
        self.want("{")
        found = []
        while self.peek() != "}":
            found.append(self.statement())
        self.want("}")
        return ("block", found)

    def statement(self) -> Expression:
        """A block, a condition, an assignment or a call."""
        if self.peek() == "{":
            return self.block()
        if self.peek() == ";":
            self.next()
            return ("block", [])
        if self.peek() == "if":
            self.next()
            self.want("(")
            condition = self.expression()
            self.want(")")
            yes, no = self.statement(), None
            if self.peek() == "else":
                self.next()
                no = self.statement()
            return ("if", condition, yes, no)
        left = self.primary()
        if self.peek() != "=":
            self.want(";")
            return ("do", left)
        self.next()
        right = self.expression()
        self.want(";")
        return ("set", left, right)

    def parser(self) -> None:
        """States of the parser."""
        self.next()
        self.parameters()
        self.want("{")
        while self.peek() != "}":
            self.want("state")
            name, extracted = self.next(), []
            self.want("{")
            while self.peek() != "transition":
                extracted.append(self.expression()[2][0][1][1])
                self.want(";")
            self.next()
            self.program.states[name] = (extracted, self.transition())
            self.want("}")
        self.want("}")

    def transition(self) -> tuple[Any, list[tuple[Any, str]]]:
        """What is looked at, and the states for its values; None: always."""
        if self.peek() != "select":
            state = self.next()
            self.want(";")
            return None, [(None, state)]
        self.next()
        self.want("(")
        selected, cases = self.expression(), []
        self.want(")")
        self.want("{")
        while self.peek() != "}":
            value = None if self.peek() == "default" else self.expression()
            if value is None:
                self.next()
            self.want(":")
            cases.append((value, self.next()))
            self.want(";")
        self.want("}")
        return selected, cases

    def control(self) -> None:
        """A control and what it declares."""
        control = Control(self.next(), self.parameters())
        name = ""
        self.want("{")
        while self.peek() != "}":
            word = self.next()
            if word.startswith("@name"):
                name = word.split('"')[1].lstrip(".")
            elif word == "apply":
                control.apply = self.block()
            elif word == "action":
                action = self.next()
                control.actions[action] = (self.parameters(), self.block())
            elif word == "table":
                table = self.next()
                control.tables[table] = self.table(name or table)
                name = ""
            elif word in ("Counter", "Register"):
                self.until("(")
                size = self.expression()[1]
                self.until(")")
                control.arrays[self.next()] = size
                self.want(";")
            elif word == "bit" or word in NAMED_WIDTHS:
                self.at -= 1
                width = self.type()
                control.variables[self.next()] = width
                self.want(";")
            else:
                self.want("(")
                self.want(")")
                control.instances[self.next()] = word
                self.want(";")
        self.want("}")
        self.program.controls[control.name] = control

    def table(self, name: str) -> Table:
        """Its properties."""
        table = Table(name)
        self.want("{")
        while self.peek() != "}":
            word = self.next()
            if word == "const":
                word = self.next()
            self.want("=")
            if word == "key":
                self.want("{")
                while self.peek() != "}":
                    field_of = self.expression()
                    self.want(":")
                    table.key.append((field_of, self.next()))
                    self.want(";")
                self.want("}")
                continue
            if word == "actions":
                self.want("{")
                while self.peek() != "}":
                    role = self.next() if self.peek().startswith("@") else ""
                    table.actions.append((self.next(), role))
                    self.want(";")
                self.want("}")
                continue
            if word == "default_action":
                table.default = self.expression()[1][0]
            elif word == "size":
                table.size = self.expression()[1]
            elif word == "add_on_miss":
                table.learns = self.next() == "true"
            elif word == "idle_timeout_with_auto_delete":
                self.next()  # what is learnt always expires
            else:
                raise Unsupported(f"property {word} of table {name}")
            self.want(";")
        self.want("}")
        return table
