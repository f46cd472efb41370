# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What a program mounts is its own, whether `/` is a mount or, in a chroot, is none."""

import shlex
import subprocess
from pathlib import Path

import pytest

from diolkos_lab.topology import mounts

pytestmark = pytest.mark.root

# A tree in which `/` is not the root of a mount, and from which one can run what the machine has.
CHROOT = """
set -e
mkdir tree && cd tree
for part in bin sbin lib lib32 lib64 libx32; do [ ! -L "/$part" ] || cp -a "/$part" .; done
for part in usr etc dev; do mkdir "$part" && mount --rbind "/$part" "$part"; done
for part in bin sbin lib lib64; do
    [ -e "$part" ] || [ ! -d "/$part" ] || { mkdir "$part" && mount --rbind "/$part" "$part"; }
done
mkdir proc work && mount -t proc proc proc && echo before >work/file && echo after >work/other
"""
HIDE = mounts.own(["sh", "-c", "mount --bind work/other work/file && cat work/file && pwd"])


def _lines(script: str, folder: Path) -> list[str]:
    """What a script prints where mounts are shared, as on most hosts, but with this test alone."""
    command = mounts.own(["sh", "-c", f"mount --make-rshared / && {script}"])
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=folder)
    return done.stdout.split()


def test_nobody_else_sees_them(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "file").write_text("before\n")
    (tmp_path / "work" / "other").write_text("after\n")
    assert _lines(f"{shlex.join(HIDE)}; cat work/file", tmp_path) == ["after", str(tmp_path), "before"]


def test_in_a_chroot_neither(tmp_path: Path) -> None:
    inside = f"{shlex.join(HIDE)}; cat work/file"
    seen = _lines(f"{{ {CHROOT} }} && chroot . sh -c {shlex.quote(inside)}; cat work/file", tmp_path)
    assert seen == ["after", "/", "before", "before"]
    listed = subprocess.run(["findmnt", "--list", "--noheadings"], check=True, capture_output=True, text=True).stdout
    assert str(tmp_path) not in listed


def test_what_cannot_be_had_is_said(tmp_path: Path) -> None:
    """Without the right to mount the program does not run with the mounts of everybody."""
    command = ["setpriv", "--bounding-set", "-sys_admin", "--inh-caps", "-sys_admin", *mounts.own(["echo", "ran"])]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode != 0 and "ran" not in done.stdout and "Operation not permitted" in done.stderr
