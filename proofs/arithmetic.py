# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The arithmetic that both paths share, described once: step by step as the code does it.

    checksums     bpf/csum.h, bpf/change.h          crates/xlat/src/csum.rs, xlat/payload.rs
    addresses     bpf/addr.h                        crates/xlat/src/addr/rfc6052.rs
    MTUs          (slow path alone)                 crates/xlat/src/icmp/table.rs

`test_checksums`, `test_addresses` and `test_mtus` prove of these descriptions what the RFCs demand, for all inputs.
`test_c` and `crates/xlat/src/proven.rs` hold the code against them.
"""

from __future__ import annotations

from terms import Term, Truth, below, choose, either, least, left, most, right

# --- checksums


def fold_c(total: Term) -> Term:
    """csum_fold16 of bpf/csum.h: a sum of up to 64 bits in 16."""
    total = (total & 0xFFFFFFFF) + right(total, 32)
    total = (total & 0xFFFF) + right(total, 16)
    total = (total & 0xFFFF) + right(total, 16)
    return ((total & 0xFFFF) + right(total, 16)) & 0xFFFF


def fold_rust(total: Term) -> Term:
    """Sum::fold of xlat::csum: the same in one step less."""
    total = right(total, 32) + (total & 0xFFFFFFFF)
    total = right(total, 32) + (total & 0xFFFFFFFF)
    total = right(total, 16) + (total & 0xFFFF)
    total = right(total, 16) + (total & 0xFFFF)
    return total & 0xFFFF


def complement(word: Term) -> Term:
    """Of 16 bits."""
    return word ^ 0xFFFF


CSUM_ZERO = (1 << 48) - 1  # a multiple of 0xFFFF


def delta_c(old: Term, new: Term) -> Term:
    """csum_delta of bpf/csum.h: new - old, of sums below 2^48."""
    return fold_c(new + (CSUM_ZERO - old))


def difference_rust(old: Term, new: Term) -> Term:
    """new.minus(old).fold() of xlat::csum."""
    return fold_rust(new + complement(fold_rust(old)))


def is_neutral(folded_difference: Term) -> Truth:
    """csum_delta_is_zero of bpf/csum.h, are_neutral of xlat::csum: neither changes a checksum (RFC 6052 section 4.1)."""
    return either(folded_difference == 0, folded_difference == 0xFFFF)


def update_rust(checksum: Term, old: Term, new: Term) -> Term:
    """xlat::csum::update (RFC 1624 equation 3)."""
    return complement(fold_rust(complement(checksum) + new + complement(fold_rust(old))))


def update_seed_rust(seed: Term, old: Term, new: Term) -> Term:
    """xlat::csum::update_seed: of a field that holds the folded pseudo-header sum alone."""
    return fold_rust(seed + new + complement(fold_rust(old)))


def never_zero(checksum: Term) -> Term:
    """xlat::csum::never_zero (RFC 768)."""
    return choose(checksum == 0, 0xFFFF, checksum)


def carry_over_rust(checksum: Term, old: Term, new: Term, is_udp: bool) -> Term:
    """xlat::payload::carry_over of a packet with a whole checksum."""
    updated = update_rust(checksum, old, new)
    updated = never_zero(updated) if is_udp else updated
    return choose(is_neutral(difference_rust(old, new)), checksum, updated)


def carry_seed_rust(seed: Term, old: Term, new: Term) -> Term:
    """The same of a packet whose checksum the device is to finish."""
    return choose(is_neutral(difference_rust(old, new)), seed, update_seed_rust(seed, old, new))


def kernel_fold(total: Term) -> Term:
    """csum_fold of the kernel: complemented."""
    total = (total & 0xFFFF) + right(total, 16)
    total = (total & 0xFFFF) + right(total, 16)
    return complement(total & 0xFFFF)


def kernel_add(a: Term, b: Term) -> Term:
    """csum_add of the kernel: 32 bits, end-around carry."""
    total = a + b
    return ((total & 0xFFFFFFFF) + right(total, 32)) & 0xFFFFFFFF


def replace_whole(checksum: Term, delta: Term, is_udp: bool) -> Term:
    """bpf_l4_csum_replace with from = 0, of a whole checksum; with BPF_F_MARK_MANGLED_0 for UDP."""
    updated = kernel_fold(kernel_add(delta, checksum ^ 0xFFFFFFFF))
    if not is_udp:
        return updated
    return choose(checksum == 0, 0, never_zero(updated))


def replace_seed(seed: Term, delta: Term) -> Term:
    """The same of CHECKSUM_PARTIAL and BPF_F_PSEUDO_HDR."""
    return complement(kernel_fold(kernel_add(delta, seed)))


def carry_over_c(checksum: Term, old: Term, new: Term, is_udp: bool) -> Term:
    """checksum_behind of bpf/change.h, of a whole checksum."""
    delta = delta_c(old, new)
    return choose(is_neutral(delta), checksum, replace_whole(checksum, delta, is_udp))


def carry_seed_c(seed: Term, old: Term, new: Term) -> Term:
    """The same with CHECKSUM_PARTIAL."""
    delta = delta_c(old, new)
    return choose(is_neutral(delta), seed, replace_seed(seed, delta))


def swap16(word: Term) -> Term:
    """The octets of 16 bits the other way round."""
    return left(word & 0xFF, 8) | right(word & 0xFF00, 8)


def swap32(word: Term) -> Term:
    """The octets of 32 bits the other way round."""
    return left(swap16(word & 0xFFFF), 16) | swap16(right(word, 16))


def halves(long: Term) -> Term:
    """Sum::long of xlat::csum: 32 bits as two words."""
    return right(long, 16) + (long & 0xFFFF)


# --- addresses (RFC 6052 section 2.2)

LENGTHS = (32, 40, 48, 56, 64, 96)
UPPER_HALF = ((1 << 64) - 1) << 64
BELOW_U_OCTET = (1 << 56) - 1
U_OCTET = 0xFF << 56


def mask(length: int) -> int:
    """The bits of a prefix."""
    return ((1 << length) - 1) << (128 - length)


def embed_rust(prefix: Term, length: int, v4: Term) -> Term:
    """Pref64::embed."""
    if length == 96:
        return prefix | v4
    unsplit = left(v4, 96 - length)
    return prefix | (unsplit & UPPER_HALF) | right(unsplit & ((1 << 64) - 1), 8)


def extract_rust(length: int, address: Term) -> Term:
    """Pref64::extract, of an address inside the prefix."""
    if length == 96:
        return address & 0xFFFFFFFF
    return right((address & UPPER_HALF) | left(address & BELOW_U_OCTET, 8), 96 - length) & 0xFFFFFFFF


def words(address: Term) -> list[Term]:
    """Four of 32 bits, in the order of the wire."""
    return [right(address, at) & 0xFFFFFFFF for at in (96, 64, 32, 0)]


def joined(parts: list[Term]) -> Term:
    """And back."""
    return left(parts[0], 96) | left(parts[1], 64) | left(parts[2], 32) | parts[3]


def embed_c(prefix: Term, length: int, v4: Term) -> Term:
    """addr_embed of bpf/addr.h."""
    out = [*words(prefix)[:3], 0]
    match length:
        case 32:
            out[1] = v4
        case 40:
            out[1] |= right(v4, 8)
            out[2] = left(v4 & 0xFF, 16)
        case 48:
            out[1] |= right(v4, 16)
            out[2] = left(v4 & 0xFFFF, 8)
        case 56:
            out[1] |= right(v4, 24)
            out[2] = v4 & 0xFFFFFF
        case 64:
            out[2] = right(v4, 8)
            out[3] = left(v4 & 0xFF, 24)
        case 96:
            out[3] = v4
    return joined(out)


def extract_c(length: int, address: Term) -> Term:
    """addr_extract of bpf/addr.h, of an address inside the prefix."""
    _, w1, w2, w3 = words(address)
    match length:
        case 32:
            return w1
        case 40:
            return (left(w1, 8) | (right(w2, 16) & 0xFF)) & 0xFFFFFFFF
        case 48:
            return (left(w1, 16) | (right(w2, 8) & 0xFFFF)) & 0xFFFFFFFF
        case 56:
            return (left(w1, 24) | (w2 & 0xFFFFFF)) & 0xFFFFFFFF
        case 64:
            return (left(w2, 8) | right(w3, 24)) & 0xFFFFFFFF
        case _:
            return w3


def is_inside_rust(prefix: Term, length: int, address: Term) -> Truth:
    """The test with which Pref64::extract begins."""
    return address & mask(length) == prefix


def is_inside_c(prefix: Term, length: int, address: Term) -> Truth:
    """The tests of addr_extract: the first word, and the bits of each length behind it."""
    (p0, p1, p2, _), (w0, w1, w2, _) = words(prefix), words(address)
    second = {32: 0, 40: 0xFF000000, 48: 0xFFFF0000, 56: 0xFFFFFF00}.get(length, 0xFFFFFFFF)
    differs = (w0 ^ p0) | ((w1 ^ p1) & second) | ((w2 ^ p2) if length == 96 else 0)
    return differs == 0


# --- MTUs (RFC 7915 sections 4.2 and 5.2)

MIN_MTU_6, MIN_MTU_4, DIFFERENCE, FRAGMENT = 1280, 68, 20, 8
# RFC 1191 section 7.1.
PLATEAUS = (65535, 32000, 17914, 8166, 4352, 2002, 1492, 1006, 508, 296, 68)


def plateau(quoted_len: Term) -> Term:
    """The greatest one below a length; 0 if there is none."""
    found: Term = 0
    for value in reversed(PLATEAUS):
        found = choose(below(value, quoted_len), value, found)
    return found


def mtu_to_ipv6(told: Term, quoted_len: Term, mtu4: Term, mtu6: Term) -> Term:
    """icmp::table::mtu_to_ipv6: Fragmentation Needed to Packet Too Big."""
    told = choose(told == 0, plateau(quoted_len), told)
    return most(least(least(told + DIFFERENCE, mtu6), mtu4 + DIFFERENCE), MIN_MTU_6)


def mtu_to_ipv4(told: Term, quoted_fragment: bool, mtu4: Term, mtu6: Term) -> Term:
    """icmp::table::mtu_to_ipv4: Packet Too Big to Fragmentation Needed."""
    difference = DIFFERENCE + (FRAGMENT if quoted_fragment else 0)
    told = least(told, mtu6)
    return most(least(most(told, difference) - difference, mtu4), MIN_MTU_4)
