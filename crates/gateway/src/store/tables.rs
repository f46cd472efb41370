// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tables and maps that a restore fills.

use diolkos_nat64::Nat64;

use super::super::mirror::Restoring;

/// The tables, and the mirror that copies them into the maps of the fast path. Their owner lends
/// both.
pub struct Tables<'a> {
    pub nat64: &'a mut Nat64,
    pub mirror: Restoring<'a>,
}
