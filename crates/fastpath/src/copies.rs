// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Until when programs use sessions made from copies of other gateways' bindings: memory that they and the controller share
//! (`bpf/copies.h`).

use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use diolkos_sys::mapped::Mapped;

/// Nodes of a cluster that the maps can name (`DIOLKOS_GATEWAYS`).
pub const NODES: u8 = 64;

/// Whose a binding and its sessions are: this gateway's own, or another node's, of which there is a copy here.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Owner(u8);

impl Owner {
    /// This gateway.
    pub const OURS: Owner = Owner(0);

    /// A node by its number; none from [`NODES`] on.
    pub const fn node(number: u8) -> Option<Owner> {
        match number < NODES {
            true => Some(Owner(number + 1)),
            false => None,
        }
    }

    /// The number of the other node; none: it is this gateway.
    pub const fn number(self) -> Option<u8> {
        self.0.checked_sub(1)
    }

    /// As the maps have it.
    pub(super) const fn byte(self) -> u8 {
        self.0
    }

    /// From the maps. None: the programs know no such owner.
    pub(super) const fn of_byte(byte: u8) -> Option<Owner> {
        match byte <= NODES {
            true => Some(Owner(byte)),
            false => None,
        }
    }
}

/// The map, as memory; dropped, it is no longer mapped.
pub(super) struct Copies(Mapped<AtomicU64>);

impl Copies {
    /// Of the array of numbers that the programs have.
    pub fn of(map: BorrowedFd<'_>) -> io::Result<Copies> {
        Mapped::of(map, usize::from(NODES) + 1).map(Copies)
    }

    /// A moment of CLOCK_BOOTTIME; one beyond 584 years is never.
    pub fn set(&self, owner: Owner, moment: Duration) {
        let nanoseconds = u64::try_from(moment.as_nanos()).unwrap_or(u64::MAX);
        self.0
            .at(owner.byte().into())
            .store(nanoseconds, Ordering::SeqCst);
    }
}

impl fmt::Debug for Copies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Copies").finish_non_exhaustive()
    }
}
