// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One program at one hook: a link (tcx, XDP), or a filter on clsact. Both can be kept after the process ends.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use libbpf_sys as bpf;

use super::pin::{self, Pins};
use super::qdisc::remove_unused_clsact;
use super::side::Side;
use super::{xdp, Attach};
use diolkos_sys::bpf::pinned;
use diolkos_sys::kernel;
use diolkos_sys::tc::{self, ClsactFilter, Direction};

/// Priority of the filters on clsact. Priority and handle are the same at every start of an instance, so that the next
/// start finds the filters of a killed process.
const CLSACT_PRIORITY: u32 = 0xd101;

/// Filters with a lower priority number come first.
const CLSACT_PRIORITY_IN_FRONT: u32 = CLSACT_PRIORITY - 1;
const CLSACT_PRIORITY_BETWEEN: u32 = CLSACT_PRIORITY + 1;
const CLSACT_PRIORITY_BEHIND: u32 = CLSACT_PRIORITY + 2;

/// Returns true if an instance of this program attaches its filters with that priority.
pub(super) fn is_our_priority(priority: u32) -> bool {
    (CLSACT_PRIORITY_IN_FRONT..=CLSACT_PRIORITY_BEHIND).contains(&priority)
}

/// An attached program. It is detached on drop.
#[derive(Debug)]
pub enum Hook {
    /// The link ends when its descriptor is closed, unless it is pinned.
    Link {
        /// Keeps the program attached.
        link: OwnedFd,
        /// Index of the interface.
        ifindex: u32,
        /// tcx on ingress or egress, XDP in the driver.
        side: Side,
    },
    /// The filter stays until it is removed.
    Clsact {
        /// Index of the interface.
        ifindex: i32,
        /// Ingress or egress.
        side: Side,
        /// Distinguishes the filters of this instance from those of others.
        handle: u32,
        /// True if the queueing discipline was created for this filter.
        made_qdisc: bool,
        /// True if the filter stays on drop.
        kept: bool,
    },
}

impl Hook {
    /// Attaches a program behind all others, or in front of them. `handle` must not be 0 and must be the same at every
    /// start of an instance.
    pub fn attach(
        program: BorrowedFd<'_>,
        ifindex: u32,
        side: Side,
        attach: Attach,
        handle: u32,
    ) -> io::Result<Hook> {
        if side == Side::Driver {
            let link = xdp::attach(program, ifindex)?;
            return Ok(Hook::Link {
                link,
                ifindex,
                side,
            });
        }
        if attach != Attach::Clsact {
            match tcx(program, ifindex, side) {
                Ok(link) => {
                    return Ok(Hook::Link {
                        link,
                        ifindex,
                        side,
                    });
                }
                Err(error) if attach == Attach::Tcx => return Err(without_tcx(error)),
                Err(_) => {}
            }
        }
        clsact(program, ifindex as i32, side, handle)
    }

    /// Takes over the hook of an ended run, with its program still attached.
    pub(super) fn inherit(
        pins: &Pins,
        ifindex: u32,
        side: Side,
        attach: Attach,
        handle: u32,
    ) -> Option<Hook> {
        if attach != Attach::Clsact || side == Side::Driver {
            let link = pinned(&pins.path(ifindex, side)).ok();
            let link = link
                .filter(|link| pin::link(link.as_fd()).is_ok_and(|link| link.ifindex == ifindex));
            if let Some(link) = link {
                return Some(Hook::Link {
                    link,
                    ifindex,
                    side,
                });
            }
        }
        if attach != Attach::Tcx
            && side != Side::Driver
            && filter(ifindex as i32, side, handle).is_some()
        {
            return Some(Hook::Clsact {
                ifindex: ifindex as i32,
                side,
                handle,
                // The queueing discipline is removed with the last filter, regardless of its creator.
                made_qdisc: true,
                kept: true,
            });
        }
        None
    }

    /// The ID of the attached program.
    pub(super) fn program(&self) -> io::Result<u32> {
        match self {
            Hook::Link { link, .. } => pin::link(link.as_fd()).map(|link| link.program),
            Hook::Clsact {
                ifindex,
                side,
                handle,
                ..
            } => filter(*ifindex, *side, *handle).ok_or_else(|| io::ErrorKind::NotFound.into()),
        }
    }

    /// Keeps the program attached after the process ends.
    pub(super) fn keep(&mut self, pins: &Pins) -> io::Result<()> {
        match self {
            Hook::Link {
                link,
                ifindex,
                side,
            } => pins.pin(link.as_fd(), *ifindex, *side),
            Hook::Clsact { kept, .. } => {
                *kept = true;
                Ok(())
            }
        }
    }

    /// Undoes [`Hook::keep`].
    pub(super) fn release(&mut self, pins: &Pins) {
        match self {
            Hook::Link { ifindex, side, .. } => pins.unpin(*ifindex, *side),
            Hook::Clsact { kept, .. } => *kept = false,
        }
    }

    /// The interface and the side of the hook.
    pub(super) fn place(&self) -> (u32, Side) {
        match self {
            Hook::Link { ifindex, side, .. } => (*ifindex, *side),
            Hook::Clsact { ifindex, side, .. } => (*ifindex as u32, *side),
        }
    }

    /// Returns true if a link holds the program.
    pub(super) fn is_link(&self) -> bool {
        matches!(self, Hook::Link { .. })
    }

    /// Replaces the program. Each packet is processed by exactly one of the two.
    pub fn replace(&mut self, program: BorrowedFd<'_>) -> io::Result<()> {
        match self {
            Hook::Link { link, .. } => diolkos_sys::bpf::update(link.as_fd(), program),
            Hook::Clsact {
                ifindex,
                side,
                handle,
                ..
            } => put_filter(program, *ifindex, *side, *handle),
        }
    }

    /// The interface on which this hook created its queueing discipline, unless that is kept.
    pub(super) fn made_qdisc_on(&self) -> Option<u32> {
        match *self {
            Hook::Clsact {
                ifindex,
                made_qdisc: true,
                kept: false,
                ..
            } => Some(ifindex as u32),
            _ => None,
        }
    }

    /// `tcx`, `clsact` or `xdp`.
    pub fn name(&self) -> &'static str {
        match self {
            Hook::Link {
                side: Side::Driver, ..
            } => "xdp",
            Hook::Link { .. } => "tcx",
            Hook::Clsact { .. } => "clsact",
        }
    }
}

impl Drop for Hook {
    fn drop(&mut self) {
        if let Hook::Clsact {
            ifindex,
            side,
            handle,
            kept: false,
            ..
        } = *self
        {
            detach(ifindex, side, handle);
        }
    }
}

/// The places of those hooks that are links.
pub(super) fn links(hooks: &[Hook]) -> Vec<(u32, Side)> {
    let links = hooks.iter().filter(|hook| hook.is_link());
    links.map(Hook::place).collect()
}

/// Replaces "Invalid argument", the error of a kernel without tcx, by a clearer message.
fn without_tcx(error: io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(libc::EINVAL) => io::Error::new(
            io::ErrorKind::Unsupported,
            format!(
                "{error}; tcx came with Linux 6.6, and this is {}: leave `hook` out, or set it to \"clsact\"",
                kernel::release()
            ),
        ),
        _ => error,
    }
}

fn tcx(program: BorrowedFd<'_>, ifindex: u32, side: Side) -> io::Result<OwnedFd> {
    // Without flags the program is attached behind all others, which keep their order; with BEFORE and no reference
    // program, in front of all.
    let (attach_type, flags) = match side {
        Side::Ingress => (bpf::BPF_TCX_INGRESS, 0),
        Side::Front => (bpf::BPF_TCX_INGRESS, bpf::BPF_F_BEFORE),
        Side::Egress | Side::BetweenEgress | Side::BehindEgress => (bpf::BPF_TCX_EGRESS, 0),
        Side::FrontEgress => (bpf::BPF_TCX_EGRESS, bpf::BPF_F_BEFORE),
        Side::Driver => return Err(io::ErrorKind::InvalidInput.into()),
    };
    diolkos_sys::bpf::attach(program, ifindex, attach_type, flags)
}

fn clsact(program: BorrowedFd<'_>, ifindex: i32, side: Side, handle: u32) -> io::Result<Hook> {
    let made_qdisc = tc::add_clsact(ifindex)?;
    if let Err(error) = put_filter(program, ifindex, side, handle) {
        if made_qdisc {
            remove_unused_clsact(ifindex as u32);
        }
        return Err(error);
    }
    Ok(Hook::Clsact {
        ifindex,
        side,
        handle,
        made_qdisc,
        kept: false,
    })
}

/// Attaches the filter, or replaces its program.
fn put_filter(program: BorrowedFd<'_>, ifindex: i32, side: Side, handle: u32) -> io::Result<()> {
    let filter = place(ifindex, side, handle).ok_or(io::ErrorKind::InvalidInput)?;
    filter.attach(program)
}

/// Removes filters that an earlier run of the same instance left on an interface, except those in `hooks`. Returns true
/// if there were any.
pub(super) fn take_off_leftovers<'a>(
    ifindex: u32,
    handle: u32,
    hooks: impl Iterator<Item = &'a Hook> + Clone,
) -> bool {
    let mut found = false;
    for side in [
        Side::Ingress,
        Side::Egress,
        Side::Front,
        Side::FrontEgress,
        Side::BetweenEgress,
        Side::BehindEgress,
    ] {
        let here = |hook: &Hook| !hook.is_link() && hook.place() == (ifindex, side);
        if hooks.clone().any(here) {
            continue;
        }
        if filter(ifindex as i32, side, handle).is_some() {
            detach(ifindex as i32, side, handle);
            found = true;
        }
    }
    if found {
        remove_unused_clsact(ifindex);
    }
    found
}

/// The ID of the program in the filter, if it exists.
fn filter(ifindex: i32, side: Side, handle: u32) -> Option<u32> {
    place(ifindex, side, handle)?.program()
}

fn detach(ifindex: i32, side: Side, handle: u32) {
    if let Some(filter) = place(ifindex, side, handle) {
        filter.detach();
    }
}

/// The position of the filter. None for a driver, which has no queueing discipline.
fn place(ifindex: i32, side: Side, handle: u32) -> Option<ClsactFilter> {
    let (direction, priority) = match side {
        Side::Ingress => (Direction::Ingress, CLSACT_PRIORITY),
        Side::Front => (Direction::Ingress, CLSACT_PRIORITY_IN_FRONT),
        Side::Egress => (Direction::Egress, CLSACT_PRIORITY),
        Side::FrontEgress => (Direction::Egress, CLSACT_PRIORITY_IN_FRONT),
        Side::BetweenEgress => (Direction::Egress, CLSACT_PRIORITY_BETWEEN),
        Side::BehindEgress => (Direction::Egress, CLSACT_PRIORITY_BEHIND),
        Side::Driver => return None,
    };
    Some(ClsactFilter {
        ifindex,
        direction,
        handle,
        priority,
    })
}
