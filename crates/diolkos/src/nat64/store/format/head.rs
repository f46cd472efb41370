// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is known of a state before any session.

use std::fmt;

use diolkos_core::config::nat64::Binding;
use ipnet::Ipv6Net;

use super::super::moment::Moment;
use diolkos_service::counted::{agreeing, counted};

/// Of a NAT64; other modes have no state.
pub const NAT64: u32 = 1;
/// Of a session.
pub const SESSION: usize = 36;

/// Where the seal is: the one byte that changes in place, and belongs to no checksum.
pub const SEAL_AT: u64 = 24;
/// The program ended in order: nothing has changed since. No flipped bit makes one seal of the other.
pub const CLEAN: u8 = 0xc3;
/// It went on.
pub const OUTDATED: u8 = 0x3c;

/// What is known before any entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Head {
    /// When it was so.
    pub moment: Moment,
    /// It was written by a run that ended in order: nothing has changed since.
    pub clean: bool,
    /// The pool's, so that a source keeps its address (RFC 4787 REQ-2).
    pub secret: [u64; 2],
    /// The translation prefixes that sessions name by their place.
    pub pref64: Vec<Ipv6Net>,
}

/// What can be kept of a file that is no state.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Salvage {
    /// The pool's.
    pub secret: Option<[u64; 2]>,
    /// Those of the operator.
    pub bindings: Vec<Binding>,
    /// It is known that these are all that there were.
    pub is_complete: bool,
}

impl fmt::Display for Salvage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.bindings.len();
        match self.is_complete {
            true if number == 1 => write!(f, "the only binding of the operator is kept")?,
            true => write!(f, "all {number} bindings of the operator are kept")?,
            false if number == 0 => write!(f, "the bindings of the operator are lost")?,
            false => write!(
                f,
                "{} of the operator {} kept, others may be lost",
                counted(number, "binding"),
                agreeing(number, "is", "are")
            )?,
        }
        match self.secret {
            Some(_) => Ok(()),
            None => write!(f, ", nodes get other addresses"),
        }
    }
}
