// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The key `udp_zero_checksum` and its meaning in each mode.

use diolkos_xlat::UdpZeroChecksum;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Mode, Settings};

/// What becomes of UDP over IPv4 without a checksum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ZeroChecksum {
    /// What the RFC of the mode says.
    #[default]
    Auto,
    /// It is dropped.
    Drop,
    /// Its checksum is computed, which costs a look at every byte. A NAT64 reassembles fragments for it; a CLAT and a SIIT
    /// drop them all the same.
    Compute,
}

impl ZeroChecksum {
    /// The value for the translator; `None`: as the RFC of the mode says.
    pub fn fixed(self) -> Option<UdpZeroChecksum> {
        match self {
            ZeroChecksum::Auto => None,
            ZeroChecksum::Drop => Some(UdpZeroChecksum::Drop),
            ZeroChecksum::Compute => Some(UdpZeroChecksum::Compute),
        }
    }
}

impl Settings {
    /// Replaces `auto` by the value in force, so that it is printed.
    pub fn settle_zero_checksum(&mut self) {
        let translator = &mut self.translator;
        let in_force = match (translator.udp_zero_checksum, translator.mode) {
            (ZeroChecksum::Auto, Mode::Nat64) => ZeroChecksum::Compute,
            (ZeroChecksum::Auto, Mode::Clat | Mode::Siit) => ZeroChecksum::Drop,
            (fixed, _) => fixed,
        };
        translator.udp_zero_checksum = in_force;
    }
}
