# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What the check of the tree complains about, and what it lets pass. The samples are put together here, so that this
file passes the check itself.
"""

from pathlib import PurePosixPath

import pytest
from tree import complaints

PERMISSIVE = "SPDX-License-Identifier: Apache-2.0 OR MIT"
FAST_PATH = "SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)"


def found(path: str, text: str) -> list[str]:
    return list(complaints(PurePosixPath(path), text))


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("crates/xlat/src/lib.rs", f"// {PERMISSIVE}\n//! Words."),
        ("packaging/setup.sh", f"#!/bin/sh\n# {PERMISSIVE}\n"),
        ("bpf/change.h", f"/* {FAST_PATH} */\n"),
        ("lab/pktgen/bpf/flow.h", f"/* {FAST_PATH} */\n"),
        ("README.md", "No licence line is needed here.\n"),
        ("lab/studies/clat.toml", "hops = 2\n"),
        ("a.md", "/net/work/root and ~/home/ and ../work/x and root/x"),
        ("Cargo.lock", 'source = "registry+https://github.com/rust-lang/crates.' + 'io-index"'),
    ],
)
def test_passes(path, text):
    assert found(path, text) == []


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("crates/xlat/src/lib.rs", "//! Words.\n"),
        ("lab/src/x.py", ""),
        ("lab/src/x.py", f"\n\n\n# {PERMISSIVE}\n"),
        ("bpf/change.h", f"/* {PERMISSIVE} */\n"),
        ("lab/pktgen/bpf/flow.h", f"/* {PERMISSIVE} */\n"),
        ("crates/xlat/src/lib.rs", f"// {FAST_PATH}\n"),
        (".ci/run", "#!/usr/bin/env bash\n"),
        ("Makefile", "all:\n"),
    ],
)
def test_a_source_without_its_licence_line(path, text):
    [complaint] = found(path, text)
    assert complaint.startswith(f"{path}:1: ")


@pytest.mark.parametrize(
    "line",
    [
        "# TO" + "DO: later",
        "x = 1  # FIX" + "ME",
        "<" * 7 + " HEAD",
        "see /" + "work/main",
        "cd '/" + "root/.cargo'",
        "path=/" + "home/ann/x",
        "--index-" + "url=https://example.org/simple",
        "https://files.pythonhosted." + "org/packages/x",
        "https://crates." + "io/crates/x",
        "deb http://deb.debian." + "org/debian bookworm main",
    ],
)
def test_what_may_not_stand_in_any_file(line):
    [complaint] = found("notes.md", f"first\n{line}\n")
    assert complaint.startswith("notes.md:2: ")
