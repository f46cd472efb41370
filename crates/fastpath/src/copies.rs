// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The deadlines of sessions made from copies of other gateways' bindings, in memory shared by the programs and the
//! controller (`bpf/copies.h`).

use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use diolkos_sys::mapped::Mapped;

/// Maximum number of nodes of a cluster that the maps can name (`DIOLKOS_GATEWAYS`).
pub const NODES: u8 = 64;

/// The owner of a binding and its sessions: this gateway, or another node whose binding is copied here.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Owner(u8);

impl Owner {
    /// This gateway.
    pub const OURS: Owner = Owner(0);

    /// The node with this number; None from [`NODES`] on.
    pub const fn node(number: u8) -> Option<Owner> {
        match number < NODES {
            true => Some(Owner(number + 1)),
            false => None,
        }
    }

    /// The number of the other node; None for this gateway.
    pub const fn number(self) -> Option<u8> {
        self.0.checked_sub(1)
    }

    /// The value in the maps.
    pub(super) const fn byte(self) -> u8 {
        self.0
    }

    /// The owner for a value in the maps. None if the programs know no such owner.
    pub(super) const fn of_byte(byte: u8) -> Option<Owner> {
        match byte <= NODES {
            true => Some(Owner(byte)),
            false => None,
        }
    }
}

/// The map as memory. It is unmapped on drop.
pub(super) struct Copies(Mapped<AtomicU64>);

impl Copies {
    /// Maps the array of deadlines that the programs read.
    pub fn of(map: BorrowedFd<'_>) -> io::Result<Copies> {
        Mapped::of(map, usize::from(NODES) + 1).map(Copies)
    }

    /// Sets a deadline of an owner in time of CLOCK_BOOTTIME. A time beyond 584 years means never.
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
