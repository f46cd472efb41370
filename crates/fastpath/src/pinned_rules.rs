// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the rules of a NAT64 program that an earlier run has left, as far as its maps depend on them.

use std::mem::offset_of;
use std::net::Ipv6Addr;

use super::pinned_program::PinnedProgram;
use crate::skel::nat64::types;

/// Maximum number of translation prefixes of the program.
const PREF64S: usize = 4;

const _: () = {
    let bytes = offset_of!(types::diolkos_nat64, own) - offset_of!(types::diolkos_nat64, pref64);
    assert!(bytes == PREF64S * size_of::<types::diolkos_pref64>());
};

/// What the content of the maps depends on.
pub(super) struct PinnedRules {
    /// The translation prefixes, to which sessions refer by index.
    pub pref64: Vec<(Ipv6Addr, u8)>,
    /// The key that selects places of leases and of known sessions.
    pub lease_key: u64,
}

/// The rules of a program of this version.
pub(super) fn pinned_rules(pinned: &PinnedProgram) -> Option<PinnedRules> {
    let data = pinned.rodata(size_of::<types::rodata>(), align_of::<types::rodata>())?;
    let key = offset_of!(types::rodata, nat64) + offset_of!(types::diolkos_nat64, lease_key);
    Some(PinnedRules {
        pref64: pref64(&data)?,
        lease_key: u64::from_ne_bytes(*data.get(key..)?.first_chunk()?),
    })
}

fn pref64(data: &[u8]) -> Option<Vec<(Ipv6Addr, u8)>> {
    let number = |at: usize| {
        data.get(at..)?
            .first_chunk()
            .copied()
            .map(u32::from_ne_bytes)
    };
    let nat64 = offset_of!(types::rodata, nat64);
    let count = number(nat64 + offset_of!(types::diolkos_nat64, pref64s))? as usize;
    let first = nat64 + offset_of!(types::diolkos_nat64, pref64);
    let places = (0..count.min(PREF64S)).map(|i| first + i * size_of::<types::diolkos_pref64>());
    places
        .map(|at| {
            let prefix = at + offset_of!(types::diolkos_pref64, prefix);
            let prefix: [u8; 16] = *data.get(prefix..)?.first_chunk()?;
            let bits = number(at + offset_of!(types::diolkos_pref64, bits))?;
            Some((prefix.into(), bits as u8))
        })
        .collect()
}
