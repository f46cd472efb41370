# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The counts at the head of CONFORMANCE.md, and README's copy of them."""

import conformance

HEAD = "## In short\n\n| | | ✓ | ◐ | ✗ | – | |\n|---|---|---|---|---|---|---|\n"
SECTION = "\n## RFC 1234: Things\n\n| § | | | | |\n|---|---|---|---|---|\n| 1 | a | ✓ | | |\n| 2 | b | ◐ | why | |\n"


def table(two: str) -> str:
    return f"{HEAD}| RFC 1234, 9999 | things | 1 | {two} | | | none |\n"


def test_right_counts_have_no_fault():
    assert conformance.faults(table("1") + SECTION, table("1")) == []


def test_wrong_counts_are_named():
    said = conformance.faults(table("2") + SECTION, table("2"))
    assert said == ["CONFORMANCE.md: the row 'RFC 1234, 9999' should have ✓ 1 ◐ 1 ✗ 0 – 0"]


def test_a_section_without_row_is_named():
    other = SECTION.replace("1234", "draft-new-things")
    said = conformance.faults(table("1") + SECTION + other, table("1"))
    assert said == ["CONFORMANCE.md: no row counts the section about draft-new-things"]


def test_a_copy_that_differs_is_named():
    said = conformance.faults(table("1") + SECTION, table(""))
    assert said == ["README.md: the row 'RFC 1234, 9999' differs from that of CONFORMANCE.md"]
