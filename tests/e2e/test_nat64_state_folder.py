# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The folder of the state file: somebody else's, read-only, or gone while the program runs."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from nat64 import BOUND, Nat64Network, with_keys
from siit import V6
from stateful import end, left, start, state, stop_for_good
from test_clat_faults import RUN_TIME, USAGE, one_sentence


@pytest.mark.parametrize(
    ("mode", "owner", "words"),
    [
        (0o755, 65534, "belongs to user 65534, who is neither root nor you and could replace the file"),
        (0o1777, 65534, "belongs to user 65534"),
        (0o777, 0, "other users can write to its folder"),
        (0o775, 0, "other users can write to its folder"),
    ],
    ids=["owner", "owner-sticky", "open", "group"],
)
def test_a_folder_that_is_not_ours(nat64: Nat64Network, mode: int, owner: int, words: str) -> None:
    """Who can write to it can put another file in the place of ours: it is refused, and nothing is put there."""
    folder = nat64.scratch / "theirs"
    folder.mkdir()
    folder.chmod(mode)
    os.chown(folder, owner, owner)
    running = nat64.siit("--state", str(folder / "x"), command="nat64", ready=False)
    assert running.wait() == USAGE
    assert words in one_sentence(running.log().strip().splitlines()[-1])
    assert list(folder.iterdir()) == []
    assert left(nat64) == []


@pytest.fixture
def mounted(nat64: Nat64Network) -> Iterator[Path]:
    """A file system of its own, open to all as /tmp is."""
    folder = nat64.scratch / "mounted"
    folder.mkdir()
    nat64.host("mount", "-t", "tmpfs", "-o", "mode=1777", "none", str(folder))
    yield folder
    nat64.host("umount", "-l", str(folder))


@pytest.mark.parametrize("nat64", ["tun"], indirect=True)
@pytest.mark.parametrize("how", ["removed", "read-only"])
def test_a_folder_that_takes_no_file_any_more(nat64: Nat64Network, mounted: Path, how: str) -> None:
    """The log, `bind`, a counter and `stop` say so; `stop` ends the program all the same, and leaves nothing."""
    path = mounted / "folder" / "x"
    running = nat64.siit("--state", str(path), command="nat64")
    if how == "removed":
        shutil.rmtree(path.parent)
        why = f"the state file {path} cannot be written: No such file or directory"
    else:
        nat64.host("mount", "-o", "remount,ro", str(mounted))
        why = f"the state file {path} cannot be written: Read-only file system"
    assert nat64.counters()["state.write_failed"] == 0
    code, message = nat64.diolkos("bind", "add", "udp", f"{BOUND}:99", f"[{V6}]:99")
    assert code == RUN_TIME
    assert f"does not survive a restart yet: {why}" in one_sentence(message)
    assert f"{why} (os error" in running.log()
    assert nat64.counters()["state.write_failed"] == 1
    code, message = nat64.diolkos("stop")
    assert code == RUN_TIME
    assert f"process {running.process.pid} has ended with an error: {why}" in one_sentence(message)
    assert running.wait() == RUN_TIME
    assert left(nat64) == []


@pytest.mark.parametrize("nat64", ["tun"], indirect=True)
def test_a_file_that_somebody_removes(nat64: Nat64Network) -> None:
    """It is written anew, though nothing else has changed: a kill would lose the operator's bindings."""
    running = start(nat64, with_keys("state_interval = 1"))
    nat64.bind("add", "udp", f"{BOUND}:99", f"[{V6}]:99")
    state(nat64).unlink()
    nat64.until(state(nat64).exists)
    assert f"the state file {state(nat64)} was removed" in running.log()
    end(running, signal.SIGKILL)
    start(nat64)
    assert [b["v4"] for b in nat64.shown("bindings")] == [f"{BOUND}:99"]
    stop_for_good(nat64)
