# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Licence expressions of SPDX (annex D of the specification): read them, and say whether a set of licences satisfies one.

    tokens ─► expression (recursive descent; OR binds loosest, then AND, then WITH) ─► satisfied

An expression is read into nested tuples: ``("OR", left, right)``, ``("AND", left, right)`` or ``("LICENCE", name)``,
where name includes its exception: ``"GPL-3.0-only WITH GCC-exception-3.1"``.
"""

from __future__ import annotations

import re

Expression = tuple[str, str] | tuple[str, "Expression", "Expression"]

TOKEN = re.compile(r"\s*([()]|[A-Za-z0-9.+:-]+)")
KEYWORDS = {"AND", "OR", "WITH", "(", ")"}


class NotSpdx(ValueError):
    """The text is no licence expression."""


def parse(text: str) -> Expression:
    """Read a licence expression. A slash, as old crates write it, is OR. Raises NotSpdx."""
    tokens = _tokens(text.replace("/", " OR "))
    expression, rest = _either(tokens)
    if rest:
        raise NotSpdx(f"{text!r}: nothing is expected before {rest[0]!r}")
    return expression


def satisfied(expression: Expression, allowed: set[str]) -> bool:
    """Whether someone who accepts exactly the allowed licences may use what is under this expression."""
    match expression:
        case ("OR", left, right):
            return satisfied(left, allowed) or satisfied(right, allowed)
        case ("AND", left, right):
            return satisfied(left, allowed) and satisfied(right, allowed)
        case ("LICENCE", name):
            return name in allowed
    raise NotSpdx(f"not an expression: {expression!r}")


def _tokens(text: str) -> list[str]:
    tokens, at = [], 0
    text = text.rstrip()
    while at < len(text):
        found = TOKEN.match(text, at)
        if not found:
            raise NotSpdx(f"{text!r}: unexpected character at {at}")
        tokens.append(found[1])
        at = found.end()
    return tokens


def _either(tokens: list[str]) -> tuple[Expression, list[str]]:
    left, rest = _both(tokens)
    while rest[:1] == ["OR"]:
        right, rest = _both(rest[1:])
        left = ("OR", left, right)
    return left, rest


def _both(tokens: list[str]) -> tuple[Expression, list[str]]:
    left, rest = _one(tokens)
    while rest[:1] == ["AND"]:
        right, rest = _one(rest[1:])
        left = ("AND", left, right)
    return left, rest


def _one(tokens: list[str]) -> tuple[Expression, list[str]]:
    if not tokens:
        raise NotSpdx("the expression ends where a licence is expected")
    head, *rest = tokens
    if head == "(":
        inside, rest = _either(rest)
        if rest[:1] != [")"]:
            raise NotSpdx("a parenthesis is not closed")
        return inside, rest[1:]
    if head in KEYWORDS:
        raise NotSpdx(f"a licence is expected before {head!r}")
    if rest[:1] == ["WITH"]:
        if len(rest) < 2 or rest[1] in KEYWORDS:
            raise NotSpdx("an exception is expected after WITH")
        return ("LICENCE", f"{head} WITH {rest[1]}"), rest[2:]
    return ("LICENCE", head), rest
