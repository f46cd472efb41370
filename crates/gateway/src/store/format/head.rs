// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The head of a state, which precedes all sessions.

use std::fmt;

use diolkos_nat64::config::Binding;
use ipnet::Ipv6Net;

use super::super::moment::Moment;
use diolkos_service::counted::{agreeing, counted};

/// The kind of a NAT64 state; other modes have no state.
pub const NAT64: u32 = 1;
/// Size of a session in bytes.
pub const SESSION: usize = 36;

/// Offset of the seal: the one byte that changes in place, and that no checksum covers.
pub const SEAL_AT: u64 = 24;
/// The program ended in order, and nothing has changed since. A single flipped bit cannot turn one
/// seal into the other.
pub const CLEAN: u8 = 0xc3;
/// The program continued after the file was written.
pub const OUTDATED: u8 = 0x3c;

/// The head of a state, which precedes all entries.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Head {
    /// The time of the state.
    pub moment: Moment,
    /// True if a run that ended in order wrote it: nothing has changed since.
    pub clean: bool,
    /// The pool's secret, so that a source keeps its address (RFC 4787 REQ-2).
    pub secret: [u64; 2],
    /// The translation prefixes, to which sessions refer by position.
    pub pref64: Vec<Ipv6Net>,
}

/// The part that can be kept of a file that is not a valid state.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Salvage {
    /// The pool's secret.
    pub secret: Option<[u64; 2]>,
    /// The operator's bindings.
    pub bindings: Vec<Binding>,
    /// True if these are known to be all bindings of the file.
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
