// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The hash by which programs and this crate select places in the tables that they share.

/// `mix` in `bpf/session.h`.
pub(super) fn mix(hash: u64, word: u64) -> u64 {
    let hash = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash ^ hash >> 32
}
