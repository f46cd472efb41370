# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Which version an advisory is about, and what is complained of."""

import pytest
from advisories import ACCEPTED, KNOWN, Advisory, complaints, locked, read

LINE = "RUSTSEC-2099-0001 anchor | >= 1.2.3; ^0.9.4 | < 0.9\n"
LOCK = """
[[package]]
name = "ours"
version = "0.1.0"

[[package]]
name = "anchor"
version = "1.2.0"
source = "registry+somewhere"
"""


@pytest.mark.parametrize(
    ("version", "is_affected"),
    [("1.2.3", False), ("1.2.2", True), ("2.0.0", False), ("0.9.4", False), ("0.9.3", True), ("0.8.9", False), ("1.0.0", True)],
)
def test_patched_and_unaffected_versions(version: str, is_affected: bool):
    (advisory,) = read(LINE)
    assert advisory.concerns("anchor", version) == is_affected
    assert not advisory.concerns("buoy", version)


def test_a_line_is_read_as_it_was_written():
    (advisory,) = read(LINE)
    assert advisory.line() == LINE
    assert list(read("# a comment\n\n")) == []


def test_an_affected_crate_is_named_unless_it_is_accepted():
    known = list(read(LINE))
    crates = list(locked(LOCK))
    assert crates == [("anchor", "1.2.0")]
    (complaint,) = complaints(crates, known, {})
    assert "anchor 1.2.0: RUSTSEC-2099-0001" in complaint
    assert list(complaints(crates, known, {"RUSTSEC-2099-0001": "a reason"})) == []


def test_what_is_accepted_in_vain_is_named():
    (complaint,) = complaints([], list(read(LINE)), {"RUSTSEC-2099-0001": "a reason"})
    assert "concerns no crate" in complaint


def test_an_advisory_without_a_patch_concerns_every_version():
    assert Advisory("RUSTSEC-2099-0002", "anchor", (), ()).concerns("anchor", "9.9.9")


def test_each_line_of_the_list_can_be_evaluated():
    known = list(read(KNOWN.read_text()))
    assert len(known) > 400
    for advisory in known:
        advisory.concerns(advisory.crate, "1.0.0")
    assert ACCEPTED.keys() <= {advisory.name for advisory in known}
