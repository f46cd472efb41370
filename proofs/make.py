# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Writes vectors/arithmetic.txt: the proven descriptions at many inputs, for tests that cannot run Python.

    make.py           writes it
    make.py --check   fails if it would change

Lines are `function argument... = result`, in hexadecimal. Inputs are corners (zeros, ones, carries) and seeded numbers.
"""

from __future__ import annotations

import itertools
import random
import sys
from collections.abc import Iterator
from pathlib import Path

import arithmetic as a
from terms import MASK

TABLE = Path(__file__).resolve().parent.parent / "vectors/arithmetic.txt"
HEAD = "# Written by proofs/make.py. function argument... = result; hexadecimal.\n"
SEED = 6052
WORDS = (0, 1, 0x00FF, 0xFF00, 0x7FFF, 0x8000, 0xFFFE, 0xFFFF)
WIDE = (0, 0xFFFF, 0x1_0000, 0xFFFF_FFFF, 0x1_0000_0000, 0xFFFF_FFFF_FFFF, (1 << 63) - 1)
MTUS = (68, 576, 1259, 1260, 1261, 1280, 1400, 1480, 1500, 9000, 65535)


def sums(dice: random.Random, count: int) -> Iterator[int]:
    """Sums as they come: of a few words, of addresses, and up to 63 bits."""
    for _ in range(count):
        yield dice.getrandbits(dice.choice((16, 17, 32, 34, 63)))


def checksums(dice: random.Random) -> Iterator[tuple[str, tuple[int, ...], int]]:
    """Of every function over three words, each in the corners and elsewhere."""
    for total in (*WIDE, *sums(dice, 100)):
        yield "fold", (total,), a.fold_rust(total)
    triples = [*itertools.product(WORDS, repeat=3)]
    triples += [(dice.getrandbits(16), old, new) for old, new in zip(sums(dice, 400), sums(dice, 400), strict=True)]
    for field, old, new in triples:
        yield "update", (field, old, new), a.update_rust(field, old, new)
        yield "seed", (field, old, new), a.carry_seed_rust(field, old, new)
        yield "carry", (field, old, new), a.carry_over_rust(field, old, new, False)
        if field:
            yield "carry_udp", (field, old, new), a.carry_over_rust(field, old, new, True)


def addresses(dice: random.Random) -> Iterator[tuple[str, tuple[int, ...], int]]:
    """Embedded and extracted, for every length."""
    for length in a.LENGTHS:
        octets = a.U_OCTET if length < 96 else 0
        for v4 in (0, 0xFFFFFFFF, 0xC0000221, 0x01020304, *(dice.getrandbits(32) for _ in range(20))):
            prefix = dice.getrandbits(128) & a.mask(length) & ~octets & MASK
            yield "embed", (length, prefix, v4), a.embed_rust(prefix, length, v4)
            inside = prefix | dice.getrandbits(128 - length)
            yield "extract", (length, prefix, inside), a.extract_rust(length, inside)


def mtus(dice: random.Random) -> Iterator[tuple[str, tuple[int, ...], int]]:
    """As ICMP errors tell them."""
    lengths = [value + one for value in a.PLATEAUS for one in (0, 1) if value + one <= 0xFFFF]
    for mtu4, mtu6 in itertools.product(MTUS, [mtu for mtu in MTUS if mtu >= a.MIN_MTU_6]):
        for told in (0, 20, *MTUS, 0xFFFF):
            quoted = dice.choice(lengths)
            yield "mtu_to_ipv6", (told, quoted, mtu4, mtu6), a.mtu_to_ipv6(told, quoted, mtu4, mtu6)
            for fragment in (0, 1):
                yield "mtu_to_ipv4", (told, fragment, mtu4, mtu6), a.mtu_to_ipv4(told, bool(fragment), mtu4, mtu6)
        yield "mtu_to_ipv4", (0xFFFFFFFF, 0, mtu4, mtu6), a.mtu_to_ipv4(0xFFFFFFFF, False, mtu4, mtu6)
    for quoted in lengths:
        yield "mtu_to_ipv6", (0, quoted, 9000, 9000), a.mtu_to_ipv6(0, quoted, 9000, 9000)


def rows() -> list[tuple[str, tuple[int, ...], int]]:
    """All of them, the same at every call."""
    dice = random.Random(SEED)
    return [*checksums(dice), *addresses(dice), *mtus(dice)]


def table() -> str:
    """As text."""
    return HEAD + "".join(f"{name} {' '.join(f'{n:x}' for n in numbers)} = {result:x}\n" for name, numbers, result in rows())


def main() -> int:
    """Write, or compare."""
    if "--check" in sys.argv[1:]:
        if not TABLE.exists() or TABLE.read_text() != table():
            print(f"{TABLE.name} is not what proofs/make.py writes: run it")
            return 1
        return 0
    TABLE.write_text(table())
    return 0


if __name__ == "__main__":
    sys.exit(main())
