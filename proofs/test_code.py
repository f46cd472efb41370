# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The C code of the fast path against the proven descriptions. `crates/xlat/src/proven.rs` does it for the Rust code."""

from __future__ import annotations

import ctypes
import itertools
import random
import subprocess
from pathlib import Path

import arithmetic as a
import make
import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """bpf/csum.h and bpf/addr.h, compiled for this machine."""
    library = tmp_path_factory.mktemp("code") / "code.so"
    source = ROOT / "proofs/code.c"
    subprocess.run(["clang", "-O2", "-Werror", "-shared", "-fPIC", "-I", ROOT / "bpf", "-o", library, source], check=True)
    loaded = ctypes.CDLL(str(library))
    loaded.c_fold.argtypes, loaded.c_fold.restype = [ctypes.c_uint64], ctypes.c_uint16
    loaded.c_delta.argtypes, loaded.c_delta.restype = [ctypes.c_uint64] * 2, ctypes.c_uint16
    loaded.c_is_neutral.argtypes = [ctypes.c_uint16]
    loaded.c_embed.argtypes = [ctypes.c_char_p, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_char_p]
    loaded.c_extract.argtypes, loaded.c_extract.restype = [ctypes.c_char_p, ctypes.c_uint32, ctypes.c_char_p], ctypes.c_long
    return loaded


def test_checksums(code: ctypes.CDLL):
    dice = random.Random(make.SEED)
    corners = [*make.WIDE, *make.WORDS, (1 << 64) - 1]
    for total in (*corners, *make.sums(dice, 2000)):
        assert code.c_fold(total) == a.fold_c(total)
    # Sums of a packet's words are below 2^48, which is what csum_delta relies on.
    some = [total & a.CSUM_ZERO for total in (*corners, *make.sums(dice, 5000))]
    pairs = [*itertools.product(some[: len(corners)], repeat=2), *itertools.pairwise(some)]
    for old, new in pairs:
        assert code.c_delta(old, new) == a.delta_c(old, new)
    for word in range(0x10000):
        assert bool(code.c_is_neutral(word)) == a.is_neutral(word)


def test_addresses(code: ctypes.CDLL):
    checked = set()
    for name, numbers, result in make.rows():
        if name == "embed":
            length, prefix, v4 = numbers
            out = ctypes.create_string_buffer(16)
            code.c_embed(prefix.to_bytes(16), length, v4, out)
            assert int.from_bytes(out.raw) == result == a.embed_c(prefix, length, v4)
        elif name == "extract":
            length, prefix, address = numbers
            assert code.c_extract(prefix.to_bytes(16), length, address.to_bytes(16)) == result == a.extract_c(length, address)
            for bit in range(128 - length, 128):  # one bit of the prefix is another
                other = address ^ (1 << bit)
                assert code.c_extract(prefix.to_bytes(16), length, other.to_bytes(16)) == -1
                assert not a.is_inside_c(prefix, length, other)
        else:
            continue
        checked.add((name, numbers[0]))
    assert checked == {(name, length) for name in ("embed", "extract") for length in a.LENGTHS}


def test_the_table_for_rust_is_up_to_date():
    assert make.table() == make.TABLE.read_text()
