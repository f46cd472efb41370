# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A folder that is held open, so that nobody can lead a read or a write elsewhere.

The owner of a folder can put links, pipes and other folders into it at any moment. Everything here is relative to the open
folder, follows no symbolic link, and replaces a name instead of writing through it. Root writes into folders of its own and
of the user for whom it works (sudo), not into those of others.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import pwd
import secrets
import shlex
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TextIO

from diolkos_lab.faults import UsageFault

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_DRAFT = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_LONGER = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
# Opening a pipe would wait for a writer without O_NONBLOCK.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class OpenFolder:
    """An open folder. `path` is its name for messages alone."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    def __enter__(self) -> OpenFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        os.close(self._descriptor)

    def read(self, name: str, most: int | None = None) -> bytes | None:
        """The content of a file; None when there is none. Raises UsageFault for a link, a pipe, what cannot be read, and a
        file of more than `most` bytes."""
        with self._stream(name) as stream:
            if stream is None:
                return None
            size = os.fstat(stream.fileno()).st_size
            if most is not None and size > most:
                raise UsageFault(f"{self.path / name}: has {size} bytes; {most} are read at most")
            try:
                return stream.read() if most is None else stream.read(most)
            except OSError as error:
                raise UsageFault(f"{self.path / name}: {_unreadable(error)}") from error

    def first_line(self, name: str, most: int) -> bytes | None:
        """The first line of a file, or as many bytes of it as `most`. None and faults as of `read`."""
        with self._stream(name) as stream:
            if stream is None:
                return None
            try:
                return stream.readline(most)
            except OSError as error:
                raise UsageFault(f"{self.path / name}: {_unreadable(error)}") from error

    @contextmanager
    def _stream(self, name: str) -> Iterator[BinaryIO | None]:
        """None where there is no such file."""
        file = self.path / name
        try:
            descriptor = os.open(name, _FILE, dir_fd=self._descriptor)
        except FileNotFoundError:
            yield None
            return
        except OSError as error:
            raise UsageFault(f"{file}: {_unreadable(error)}") from error
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise UsageFault(f"{file}: is not a regular file; put the file itself in its place")
        with open(descriptor, "rb") as stream:
            yield stream

    def entries(self) -> list[os.DirEntry[str]]:
        """What stands in it, by name. Raises UsageFault when it cannot be listed."""
        try:
            with os.scandir(self._descriptor) as found:
                return sorted(found, key=lambda entry: entry.name)
        except OSError as error:
            raise UsageFault(f"{self.path}: {_unreadable(error)}") from error

    def within(self, name: str) -> OpenFolder:
        """A folder in this one, to read. Raises UsageFault for a link and where there is no folder."""
        try:
            descriptor = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=self._descriptor)
        except OSError as error:
            raise UsageFault(f"{self.path / name}: {_unreadable(error)}") from error
        return OpenFolder(self.path / name, descriptor)

    def text(self, name: str, most: int | None = None) -> str | None:
        """The same as text. Raises UsageFault with the line that is not UTF-8."""
        content = self.read(name, most)
        try:
            return None if content is None else content.decode("utf-8")
        except UnicodeDecodeError as error:
            before = error.object[: error.start]
            line, column = before.count(b"\n") + 1, error.start - before.rfind(b"\n")
            raise UsageFault(f"{self.path / name}:{line}:{column}: not UTF-8 text") from error

    def write(self, name: str, content: str | bytes) -> Path:
        """Write a whole file or nothing: a reader never sees half of it. What had the name before is replaced."""
        with self.draft(name) as stream:
            stream.write(content.encode("utf-8") if isinstance(content, str) else content)
        return self.path / name

    @contextmanager
    def draft(self, name: str) -> Iterator[BinaryIO]:
        """A file that gets its name at the end, and is removed when the end is not reached."""
        draft = f".{secrets.token_hex(8)}.part"
        with _named(self.path / name):
            descriptor = os.open(draft, _DRAFT, 0o666, dir_fd=self._descriptor)
        try:
            with open(descriptor, "wb") as stream:
                yield stream
            with _named(self.path / name):
                os.rename(draft, name, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(draft, dir_fd=self._descriptor)
            raise

    def remove(self, name: str) -> None:
        """Remove a file, or a link itself. Raises UsageFault when it cannot be removed."""
        try:
            os.unlink(name, dir_fd=self._descriptor)
        except OSError as error:
            raise UsageFault(f"{self.path / name}: cannot be removed: {error.strerror}") from error

    def create(self, name: str) -> TextIO:
        """A new file that grows while it is written. Raises OSError when the name is taken."""
        with _named(self.path / name):
            return open(os.open(name, _DRAFT, 0o666, dir_fd=self._descriptor), "w", encoding="utf-8")

    def append(self, name: str) -> TextIO:
        """A file that is there already, to write on behind its end. Raises OSError when there is none."""
        with _named(self.path / name):
            return open(os.open(name, _LONGER, dir_fd=self._descriptor), "a", encoding="utf-8")

    def lock(self) -> None:
        """Until it is closed nobody else can. Raises UsageFault where somebody has."""
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageFault(f"{self.path}: a run still writes into it; wait for its end, or stop it") from None

    @contextmanager
    def inside(self, name: str) -> Iterator[OpenFolder]:
        """A folder in this one, to write into; it is made where there is none."""
        with _named(self.path / name):
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, dir_fd=self._descriptor)
            descriptor = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=self._descriptor)
        with _ours(self.path / name, descriptor) as folder:
            yield folder


def to_read(path: Path) -> OpenFolder:
    """Open a folder whose name may be a link. Raises UsageFault when there is none."""
    return OpenFolder(path, _opened(path, _FOLDER))


def to_write(path: Path) -> OpenFolder:
    """Open a folder to write into. Root follows no link to it, and leaves folders of other users alone. Raises UsageFault."""
    return _ours(path, _opened(path, _FOLDER | (os.O_NOFOLLOW if os.geteuid() == 0 else 0)))


def user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"#{number}"


def _opened(path: Path, flags: int) -> int:
    try:
        return os.open(path, flags)
    except OSError as error:
        if path.is_symlink() and flags & os.O_NOFOLLOW:
            raise UsageFault(f"{path}: is a symbolic link, which root does not follow; name the folder itself") from error
        if error.errno == errno.ENOTDIR:
            raise UsageFault(f"{path} is not a folder.") from error
        if error.errno == errno.ENOENT:
            raise UsageFault(f"{path} is not a folder: there is nothing of that name.") from error
        raise UsageFault(f"{path}: {_unreadable(error)}") from error


def _ours(path: Path, descriptor: int) -> OpenFolder:
    """As root: only folders of root and of whoever called sudo, since another owner could change what is in the way."""
    owner = os.fstat(descriptor).st_uid
    if os.geteuid() == 0 and owner not in (0, _caller()):
        os.close(descriptor)
        again = shlex.join(["sudo", "-u", user(owner)])
        raise UsageFault(
            f"{path}: belongs to the user {user(owner)}, and root writes only into folders of its own and of who calls sudo: "
            f"run the command as that user (`{again} diolkos-lab …`), or give the folder to root (`chown root`)"
        )
    return OpenFolder(path, descriptor)


def _caller() -> int:
    """The user for whom root works, as sudo(8) says it; 0 without."""
    number = os.environ.get("SUDO_UID", "")
    return int(number) if number.isdecimal() else 0


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """What is in the way is a fault of the folder; all else stays an OSError, with the whole name."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise UsageFault(f"{path}: is a symbolic link or a file where a result has a folder; remove it") from error
        if error.errno == errno.EISDIR:
            raise UsageFault(f"{path}: is a folder where a result has a file; remove it") from error
        raise OSError(error.errno, error.strerror, str(path)) from error


def _unreadable(error: OSError) -> str:
    if error.errno == errno.ELOOP:
        return "is a symbolic link, which is not followed; put the file itself in its place"
    return f"cannot be read: {error.strerror}"
