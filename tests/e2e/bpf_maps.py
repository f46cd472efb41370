# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Reads maps of BPF programs by bpf(2), for what no command of diolkos shows."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterator
from pathlib import Path

NR_BPF = 321  # x86_64
LOOKUP, NEXT_ID, FD_OF_ID, INFO = 1, 12, 14, 15
INFO_BYTES = 128

_LIBC = ctypes.CDLL(None, use_errno=True)


def values(name: str) -> Iterator[tuple[int, bytes]]:
    """Keys and values, of each CPU, of all arrays with a name, whoever made them: first the whole of one, then the next."""
    cpus = int(Path("/sys/devices/system/cpu/possible").read_text().strip().rpartition("-")[2]) + 1
    for fd in _opened():
        try:
            info = ctypes.create_string_buffer(INFO_BYTES)
            _bpf(INFO, struct.pack("=IIQ", fd, INFO_BYTES, ctypes.addressof(info)))
            _, _, _, size, entries, _ = struct.unpack_from("=6I", info.raw)
            if info.raw[24:40].rstrip(b"\0").decode() != name:
                continue
            size = -(-size // 8) * 8
            key, found = ctypes.c_uint32(), ctypes.create_string_buffer(size * cpus)
            for key.value in range(entries):
                words = (ctypes.addressof(key), ctypes.addressof(found), 0)
                if _bpf(LOOKUP, struct.pack("=IxxxxQQQ", fd, *words)) == 0:
                    yield from ((key.value, found.raw[size * cpu : size * (cpu + 1)]) for cpu in range(cpus))
        finally:
            os.close(fd)


def _opened() -> Iterator[int]:
    """A descriptor of each map."""
    asked = ctypes.create_string_buffer(struct.pack("=II", 0, 0), 128)
    while _call(NEXT_ID, asked) == 0:
        _, number = struct.unpack_from("=II", asked.raw)
        fd = _bpf(FD_OF_ID, struct.pack("=I", number))
        if fd >= 0:
            yield fd
        struct.pack_into("=II", asked, 0, number, 0)


def _bpf(command: int, attributes: bytes) -> int:
    return _call(command, ctypes.create_string_buffer(attributes, 128))


def _call(command: int, attributes: ctypes.Array[ctypes.c_char]) -> int:
    return int(_LIBC.syscall(NR_BPF, command, attributes, 128))
