# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Which circles the check of circles sees, and what is none."""

from __future__ import annotations

from pathlib import Path

import pytest
from circles import PROJECT, circles, sources, spread


def found(tmp_path: Path, **files: str) -> list[set[str]]:
    """The circles of a crate with these files; `__` in a name is a folder."""
    for name, text in files.items():
        path = tmp_path / f"{name.replace('__', '/')}.rs"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return [set(circle) for _, circle in circles(tmp_path)]


@pytest.mark.parametrize(
    "back",
    [
        "use crate::one::A;",
        "use super::one::{self, A};",
        "use super::{two::B, one};",
        "use crate::{\n    one::A as C,\n    two,\n};",
        "fn f() -> super::one::A {}",
        "pub(crate) use super::one::A;",
        # What the crate imports from it.
        "use super::A;",
    ],
)
def test_a_circle(tmp_path: Path, back: str) -> None:
    """However it is written."""
    lib = "mod one;\nmod two;\npub use one::A;\n"
    assert found(tmp_path, lib=lib, one="use crate::two::B;\npub struct A;", two=back) == [{"one", "two"}]


@pytest.mark.parametrize(
    "back",
    [
        "use crate::three::A;",
        "// use crate::one::A;",
        'const TEXT: &str = "use crate::one::A;";',
        "#[cfg(test)]\nmod tests {\n    use crate::one::A;\n}\n",
        "use one::A;",
        "use other::{one::A, two};",
        "fn one() {}",
    ],
)
def test_no_circle(tmp_path: Path, back: str) -> None:
    """Comments, texts, tests, and the modules of other crates."""
    assert found(tmp_path, lib="mod one;", one="use crate::two::B;", two=back, three="") == []


def test_a_folder_is_one_module_outside_and_several_inside(tmp_path: Path) -> None:
    """Its files may use each other in one direction; what they use outside, the folder uses."""
    outside = {"a__mod": "mod b;\nmod c;", "a__b": "use super::c::C;", "a__c": "use crate::d::D;", "d": "use crate::a::A;"}
    assert found(tmp_path / "one", **outside) == [{"a", "d"}]
    inside = {"a__mod": "", "a__b": "use super::c::C;", "a__c": "use crate::a::b::B;"}
    assert found(tmp_path / "two", **inside) == [{"b", "c"}]


def test_paths_of_a_use() -> None:
    """At any depth."""
    paths = [("a", "b"), ("a", "c", "d"), ("a", "c", "self")]
    assert list(spread("a::{b as x, c::{d, self},}")) == paths


def test_every_crate_is_looked_at() -> None:
    """Also that of the lab."""
    assert {PROJECT / "crates/node/src", PROJECT / "lab/pktgen/src"} < set(sources())
