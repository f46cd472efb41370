# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Definitions of the user's own: which folders hold systems, studies and published figures, and which files root may read.

The order is: the folder of `--systems` → the current folder → the user's folder → the package. The first file of a name hides
the others. A system runs commands as root, so root reads no file that anybody else can change.
"""

import grp
import os
import pwd
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from diolkos_lab.experiment.document import LARGEST
from diolkos_lab.faults import UsageFault

Kind = Literal["systems", "studies", "published"]
# A line tells which kind a file is of: other TOML files lie in the current folder, too.
TABLE = re.compile(rb"^\s*\[", re.MULTILINE)
KEYS: dict[Kind, re.Pattern[bytes]] = {  # before the first table
    "systems": re.compile(rb"^system\s*=", re.MULTILINE),
    "studies": re.compile(rb"^format\s*=", re.MULTILINE),
    "published": re.compile(rb"^study\s*=", re.MULTILINE),
}
STUDY = re.compile(rb"^\[\[\s*system\s*\]\]", re.MULTILINE)
NO_STUDY = re.compile(rb"^\[resolved", re.MULTILINE)  # of a result folder

_named: list[Path] = []  # by --systems


@dataclass(frozen=True)
class Definition:
    """A file that defines something. `own` tells one of the user's from one of the package."""

    file: Path
    own: bool


def use(folder: Path | None) -> None:
    """Look into this folder first, for systems; None: into no such folder. For the whole program. Raises UsageFault."""
    if folder is not None and not folder.is_dir():
        raise UsageFault(f"--systems {folder}: is not a folder")
    _named[:] = [folder] if folder else []


def user_folder() -> Path:
    """`~/.config/diolkos-lab` of the user, under sudo of the one who called it."""
    if (caller := _caller()) is not None:
        return Path(caller.pw_dir, ".config", "diolkos-lab")
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config", "diolkos-lab")


def definitions(kind: Kind, package: Path) -> Iterator[Definition]:
    """All files of a kind, those that hide others first. `package` is the folder of the shipped ones."""
    shipped = sorted(package.glob("*.toml"))
    seen = {file.resolve() for file in shipped}
    for folder, mixed in _folders(kind):
        try:
            files = sorted(folder.glob("*.toml"))
        except OSError:
            continue
        for file in files:
            if (resolved := file.resolve()) not in seen and (not mixed or _is(kind, file)):
                seen.add(resolved)
                yield Definition(file, own=True)
    yield from (Definition(file, own=False) for file in shipped)


def require_safe(file: Path) -> None:
    """Raises UsageFault where this program is root and somebody else than root and its caller could change the file."""
    if os.geteuid() != 0:
        return
    caller = _caller()
    trusted = {0} | ({caller.pw_uid} if caller else set())
    absolute = file.absolute()
    # Both the path as it is written and what it leads to: a link on the way belongs to somebody as well.
    for path in dict.fromkeys((*_chain(absolute), *_chain(absolute.resolve()))):
        try:
            status = path.lstat()
        except OSError as error:
            raise UsageFault(f"{file}: cannot be read: {error.strerror}") from error
        if why := _open_to_others(status, trusted, caller):
            who = f"root and {caller.pw_name}" if caller else "root"
            raise UsageFault(
                f"{file}: root does not read it, since {path} {why}; only {who} may be able to change it and its folders"
            )


def _folders(kind: Kind) -> Iterator[tuple[Path, bool]]:
    """Each with whether it may hold files of other kinds as well."""
    if kind == "systems":
        yield from ((folder, False) for folder in _named)
    yield Path(), True
    try:
        yield user_folder() / kind, False
    except (RuntimeError, KeyError):  # a user without a home
        return


def _is(kind: Kind, file: Path) -> bool:
    try:
        if not file.is_file():
            return False
        with file.open("rb") as stream:
            text = stream.read(LARGEST)
    except OSError:
        return False
    head = TABLE.split(text, 1)[0]
    others = [other for other in KEYS if other not in {kind, "studies"}]
    if not KEYS[kind].search(head) or any(KEYS[other].search(head) for other in others):
        return False
    return kind != "studies" or bool(STUDY.search(text) and not NO_STUDY.search(text))


def _caller() -> pwd.struct_passwd | None:
    """Who called sudo; None where nobody did."""
    uid = os.environ.get("SUDO_UID", "")
    if os.geteuid() != 0 or not uid.isdecimal() or uid == "0":
        return None
    try:
        return pwd.getpwuid(int(uid))
    except (KeyError, OverflowError):
        return None


def called_by_sudo() -> bool:
    return _caller() is not None


def _chain(path: Path) -> list[Path]:
    return [path, *path.parents]


def _open_to_others(status: os.stat_result, trusted: set[int], caller: pwd.struct_passwd | None) -> str | None:
    """Why others can change what has this status, half a sentence; None where they cannot."""
    if status.st_uid not in trusted:
        return f"belongs to {_user(status.st_uid)}"
    # Nobody can write a link, and in a sticky folder (/tmp) everybody changes only what is theirs.
    if stat.S_ISLNK(status.st_mode) or (stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX):
        return None
    if status.st_mode & stat.S_IWOTH:
        return "can be written by everybody"
    if status.st_mode & stat.S_IWGRP and not _is_private(status.st_gid, caller):
        return f"can be written by the group {_group(status.st_gid)}"
    return None


def _is_private(gid: int, caller: pwd.struct_passwd | None) -> bool:
    """Is nobody but root, or but the caller, in this group? Many distributions give each user one and a umask of 002."""
    names = {"root"} | ({caller.pw_name} if caller else set())
    try:
        members = set(grp.getgrgid(gid).gr_mem)
    except KeyError:
        members = set()
    members |= {each.pw_name for each in pwd.getpwall() if each.pw_gid == gid}
    return members <= names


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"the user {uid}"


def _group(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)
