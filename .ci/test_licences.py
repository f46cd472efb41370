# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Which licence a dependency has by its metadata, and who is refused."""

from email.message import Message

import pytest
from licences import FOR_TEST_TOOLS, PERMISSIVE, Dependency, closure, crates, licence_of


def package_metadata(*fields: tuple[str, str]) -> Message:
    message = Message()
    for name, value in fields:
        message[name] = value
    return message


def dependency(licence: str, allowed: set[str] = PERMISSIVE) -> Dependency:
    return Dependency("crate", "anchor", "1.2.3", licence, frozenset(allowed))


@pytest.mark.parametrize(
    ("fields", "licence"),
    [
        ([("License-Expression", "MIT AND 0BSD"), ("Classifier", "License :: OSI Approved :: BSD License")], "MIT AND 0BSD"),
        ([("License", "MIT License")], "MIT"),
        ([("License", "long text\nof many lines"), ("Classifier", "License :: OSI Approved :: MIT License")], "MIT"),
        ([("Classifier", "License :: OSI Approved"), ("License", "Apache-2.0")], "Apache-2.0"),
        (
            [("Classifier", f"License :: OSI Approved :: {name}") for name in ("MIT License", "Apache Software License")],
            "MIT AND Apache-2.0",
        ),
        ([], ""),
    ],
)
def test_licence_of_a_python_package(fields, licence):
    assert licence_of(package_metadata(*fields)) == licence


@pytest.mark.parametrize("licence", ["", "proprietary", "Nonesuch-1.0", '"Other License"', "GPL-3.0-only AND MIT"])
def test_what_is_unknown_or_not_allowed_is_refused_by_name(licence):
    assert "anchor 1.2.3" in dependency(licence).complaint()


def workspace(**members):
    """What cargo says of a workspace: its members, and for each the crates that it needs with their licences."""
    needs = {f"path+file:///clone/{name}#0.1.0": needed for name, needed in members.items()}
    foreign = {name: licence for needed in needs.values() for name, licence in needed.items()}
    nodes = [{"id": own, "dependencies": [f"registry#{name}@1.2.3" for name in needed]} for own, needed in needs.items()]
    return {
        "workspace_members": list(needs),
        "packages": [{"id": own, "name": own, "version": "0.1.0", "license": None} for own in needs]
        + [{"id": f"registry#{n}@1.2.3", "name": n, "version": "1.2.3", "license": lic} for n, lic in foreign.items()],
        "resolve": {"nodes": nodes + [{"id": f"registry#{name}@1.2.3", "dependencies": []} for name in foreign]},
    }


def test_copyleft_is_for_test_tools_only():
    assert dependency("GPL-2.0-only").complaint()
    assert dependency("GPL-2.0-only", FOR_TEST_TOOLS).complaint() is None


def test_sources_inside_a_crate_count():
    [found] = crates(workspace(diolkos={"libbpf-sys": "BSD-2-Clause"}))
    assert (found.name, found.licence) == ("libbpf-sys", "(BSD-2-Clause) AND (LGPL-2.1-only OR BSD-2-Clause)")


def test_what_only_fuzz_needs_is_a_test_tool():
    found = crates(workspace(diolkos={"anchor": "NCSA"}, fuzz={"anchor": "NCSA", "libfuzzer-sys": "NCSA"}))
    assert {crate.name: bool(crate.complaint()) for crate in found} == {"anchor": True, "libfuzzer-sys": False}


def test_a_crate_without_a_licence_is_refused():
    [found] = crates(workspace(diolkos={"anchor": None}))
    assert "unknown" in found.complaint()


def test_closure_follows_requirements_but_not_extras():
    found = closure(["pytest"])
    assert {"pytest", "pluggy", "iniconfig"} <= found
    assert "hypothesis" not in found  # asked for by pytest's extra "dev" only
