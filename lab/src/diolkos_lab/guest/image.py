# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What a guest boots: the kernel without its own unpacker, and an archive of its first files, the initramfs."""

from __future__ import annotations

import lzma
import re
import shlex
import struct
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from diolkos_lab.guest.archive import Archive, Unavailable
from diolkos_lab.guest.package import Kernel

Entry = tuple[int, bytes]  # of an archive: mode and content

# What mounts the host's root file system.
NEEDED = ("virtio_mmio", "9pnet_virtio", "9p", "overlay", "virtio_rng")
FOLDERS = ("bin", "proc", "sys", "dev", "mnt", "mnt/host", "mnt/memory", "mnt/root", "modules")
# Of a bzImage (Documentation/arch/x86/boot.rst): sectors of the set-up code, where the payload begins, its length.
SETUP_SECTORS, PAYLOAD_OFFSET, PAYLOAD_LENGTH = 0x1F1, 0x248, 0x24C
UNPACKERS = {
    b"\x28\xb5\x2f\xfd": ("zstd", "-dcq"),
    b"\x1f\x8b": ("gzip", "-dc"),
    b"\x02!L\x18": ("lz4", "-dcq"),
}


def busybox(archive: Archive) -> Path:
    """The first programs of a guest, in one file without libraries."""
    return archive.unpacked(*archive.newest(["busybox-static"])) / "bin/busybox"


def vmlinux(image: Path) -> bytes:
    """The kernel itself. An emulated processor takes long to unpack it."""
    data = image.read_bytes()
    if data.startswith(b"\x7fELF"):
        return data
    start = ((data[SETUP_SECTORS] or 4) + 1) * 512 + struct.unpack_from("<I", data, PAYLOAD_OFFSET)[0]
    # The last four bytes are the length of what is packed.
    payload = data[start : start + struct.unpack_from("<I", data, PAYLOAD_LENGTH)[0] - 4]
    return unpack(payload)


def unpack(data: bytes) -> bytes:
    """A kernel's or a module's bytes, whatever packed them."""
    if data.startswith(b"\xfd7zXZ\0"):
        return lzma.decompress(data, lzma.FORMAT_XZ)
    for magic, command in UNPACKERS.items():
        if data.startswith(magic):
            return subprocess.run(command, input=data, check=True, capture_output=True).stdout
    return data


def initramfs(kernel: Kernel, busybox: Path, init: Path, settings: dict[str, str]) -> bytes:
    """The archive of the guest's first files."""
    files: dict[str, Entry] = dict.fromkeys(FOLDERS, (0o40755, b""))
    files["bin/busybox"] = (0o100755, busybox.read_bytes())
    files["init"] = (0o100755, init.read_bytes())
    files["settings"] = (0o100644, "".join(f"{key}={shlex.quote(value)}\n" for key, value in settings.items()).encode())
    files |= in_order(modules(kernel, NEEDED))
    return b"".join(archived(files))


def in_order(found: Iterable[Path]) -> dict[str, Entry]:
    """Modules unpacked, and a list of them."""
    files: dict[str, Entry] = {}
    for module in found:
        files[f"modules/{module.name.split('.ko')[0]}.ko"] = (0o100644, unpack(module.read_bytes()))
    names = "".join(f"{Path(name).name}\n" for name in files)
    return {**files, "modules/order": (0o100644, names.encode())}


def modules(kernel: Kernel, names: Iterable[str]) -> Iterator[Path]:
    """The modules that are needed, each behind those that it needs."""
    if not kernel.modules:
        return
    tree = kernel.modules / kernel.release
    needs: dict[str, list[str]] = {}
    for line in (tree / "modules.dep").read_text().splitlines():
        path, _, others = line.partition(":")
        needs[path] = others.split()
    by_name = {module_name(path): path for path in needs}
    built_in = {module_name(path) for path in (tree / "modules.builtin").read_text().split()}
    seen: set[str] = set()
    for name in names:
        found = by_name.get(module_name(name))
        if not found:
            if module_name(name) not in built_in:
                raise Unavailable(f"Linux {kernel.release} has no module {name}, which a guest needs")
            continue
        # modules.dep names the nearest last.
        for one in [*reversed(needs[found]), found]:
            if one not in seen:
                seen.add(one)
                yield tree / one


def module_name(path: str) -> str:
    """As the kernel calls it."""
    return re.sub(r"\.ko(\.\w+)?$", "", Path(path).name).replace("-", "_")


def archived(files: Mapping[str, Entry]) -> Iterator[bytes]:
    """A cpio archive of the format "newc"."""
    for number, (name, (mode, data)) in enumerate([*files.items(), ("TRAILER!!!", (0, b""))], 1):
        encoded = name.encode() + b"\0"
        fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(encoded), 0)
        header = b"070701" + b"".join(b"%08X" % field for field in fields) + encoded
        yield header + bytes(-len(header) % 4) + data + bytes(-len(data) % 4)
