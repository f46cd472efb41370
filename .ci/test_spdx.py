# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Precedence, exceptions and errors of licence expressions (SPDX specification, annex D)."""

import pytest
from spdx import NotSpdx, parse, satisfied


@pytest.mark.parametrize(
    ("text", "allowed", "verdict"),
    [
        ("MIT", {"MIT"}, True),
        ("MIT", {"Apache-2.0"}, False),
        ("MIT OR Apache-2.0", {"Apache-2.0"}, True),
        ("MIT/Apache-2.0", {"MIT"}, True),
        ("MIT AND Zlib", {"MIT"}, False),
        ("MIT AND Zlib", {"MIT", "Zlib"}, True),
        # AND binds tighter than OR, on either side.
        ("MIT OR Zlib AND GPL-2.0-only", {"MIT"}, True),
        ("GPL-2.0-only AND Zlib OR MIT", {"MIT"}, True),
        ("(MIT OR Zlib) AND GPL-2.0-only", {"MIT"}, False),
        ("((MIT))", {"MIT"}, True),
        # A licence with an exception is another licence than the one without, both ways.
        ("GPL-3.0-only WITH GCC-exception-3.1", {"GPL-3.0-only"}, False),
        ("GPL-3.0-only WITH GCC-exception-3.1", {"GPL-3.0-only WITH GCC-exception-3.1"}, True),
        ("Apache-2.0", {"Apache-2.0 WITH LLVM-exception"}, False),
        ("Apache-2.0 WITH LLVM-exception OR MIT AND Zlib", {"MIT", "Zlib"}, True),
        # "Or later" is part of the name; nothing is inferred from it.
        ("GPL-2.0+", {"GPL-2.0"}, False),
        ("LGPL-2.1-only OR BSD-2-Clause", {"BSD-2-Clause"}, True),
    ],
)
def test_satisfied(text, allowed, verdict):
    assert satisfied(parse(text), allowed) is verdict


@pytest.mark.parametrize(
    "text",
    [
        "",
        "OR MIT",
        "MIT OR",
        "MIT AND AND Zlib",
        "(MIT",
        "MIT)",
        "MIT Zlib",
        "MIT WITH",
        "MIT WITH AND Zlib",
        "MIT, Zlib",
        "see LICENSE file",
    ],
)
def test_what_is_no_expression_is_refused(text):
    with pytest.raises(NotSpdx):
        parse(text)


def test_an_empty_list_allows_nothing():
    assert not satisfied(parse("MIT OR 0BSD"), set())
