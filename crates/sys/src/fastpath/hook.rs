// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One program at one hook: a tcx link, or a filter on clsact.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use libbpf_sys as bpf;

use super::Attach;

/// Priority of our filters on clsact. It and the handle are the same at every start of an instance, so that the
/// next start finds what a killed one left.
const CLSACT_PRIORITY: u32 = 0xd101;

/// Which way packets go at the hook.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// Received by the interface.
    Ingress,
    /// Sent by the interface.
    Egress,
}

/// An attached program; dropped, it is off.
#[derive(Debug)]
pub enum Hook {
    /// The link goes with its descriptor.
    Tcx(OwnedFd),
    /// The filter stays until it is taken off.
    Clsact {
        /// Of the interface.
        ifindex: i32,
        /// Ingress or egress.
        side: Side,
        /// Tells our filters from those of another instance.
        handle: u32,
        /// The queueing discipline was not there before.
        made_qdisc: bool,
    },
}

impl Hook {
    /// Attaches behind the programs that are there. `handle` is not 0 and the same at every start of an instance.
    pub fn attach(
        program: BorrowedFd<'_>,
        ifindex: u32,
        side: Side,
        attach: Attach,
        handle: u32,
    ) -> io::Result<Hook> {
        let ifindex = ifindex as i32;
        if attach != Attach::Clsact {
            match tcx(program, ifindex, side) {
                Ok(link) => {
                    return Ok(Hook::Tcx(link));
                }
                Err(error) if attach == Attach::Tcx => return Err(error),
                Err(_) => {}
            }
        }
        clsact(program, ifindex, side, handle)
    }

    /// Puts another program in the place of the one that is here. Each packet meets one of them.
    pub fn replace(&mut self, program: BorrowedFd<'_>) -> io::Result<()> {
        match self {
            Hook::Tcx(link) => {
                // SAFETY: both descriptors are open; a null options pointer is allowed.
                let error = unsafe {
                    bpf::bpf_link_update(link.as_raw_fd(), program.as_raw_fd(), std::ptr::null())
                };
                match error {
                    0 => Ok(()),
                    error => Err(io::Error::from_raw_os_error(-error)),
                }
            }
            Hook::Clsact {
                ifindex,
                side,
                handle,
                ..
            } => put_filter(program, *ifindex, *side, *handle),
        }
    }

    /// The interface on which this hook made the queueing discipline that the program hangs on.
    pub fn made_qdisc_on(&self) -> Option<u32> {
        match *self {
            Hook::Clsact {
                ifindex,
                made_qdisc: true,
                ..
            } => Some(ifindex as u32),
            _ => None,
        }
    }

    /// `tcx` or `clsact`.
    pub fn name(&self) -> &'static str {
        match self {
            Hook::Tcx(_) => "tcx",
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
            ..
        } = *self
        {
            detach(ifindex, side, handle);
        }
    }
}

fn tcx(program: BorrowedFd<'_>, ifindex: i32, side: Side) -> io::Result<OwnedFd> {
    let attach_type = match side {
        Side::Ingress => bpf::BPF_TCX_INGRESS,
        Side::Egress => bpf::BPF_TCX_EGRESS,
    };
    // Without options the program goes behind all others, and none of them is moved.
    // SAFETY: the descriptor is open; a null options pointer is allowed.
    let fd = unsafe {
        bpf::bpf_link_create(program.as_raw_fd(), ifindex, attach_type, std::ptr::null())
    };
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(-fd));
    }
    // SAFETY: the new descriptor is ours alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn clsact(program: BorrowedFd<'_>, ifindex: i32, side: Side, handle: u32) -> io::Result<Hook> {
    let mut both = tc_hook(ifindex, bpf::BPF_TC_INGRESS | bpf::BPF_TC_EGRESS);
    // SAFETY: `both` is valid for the call.
    let created = unsafe { bpf::bpf_tc_hook_create(&mut both) };
    if created < 0 && created != -libc::EEXIST {
        return Err(io::Error::from_raw_os_error(-created));
    }
    put_filter(program, ifindex, side, handle)?;
    Ok(Hook::Clsact {
        ifindex,
        side,
        handle,
        made_qdisc: created == 0,
    })
}

/// Puts our filter there, or another program into it.
fn put_filter(program: BorrowedFd<'_>, ifindex: i32, side: Side, handle: u32) -> io::Result<()> {
    let hook = tc_hook(ifindex, point(side));
    let mut options = tc_options(handle);
    options.prog_fd = program.as_raw_fd();
    options.flags = bpf::BPF_TC_F_REPLACE;
    // SAFETY: hook and options are valid for the call, the descriptor is open.
    let attached = unsafe { bpf::bpf_tc_attach(&hook, &mut options) };
    if attached < 0 {
        return Err(io::Error::from_raw_os_error(-attached));
    }
    Ok(())
}

/// Takes off the filters that a killed run of the same instance left on an interface. True if there were any.
pub(super) fn take_off_leftovers(ifindex: u32, handle: u32) -> bool {
    let ifindex = ifindex as i32;
    let mut found = false;
    for side in [Side::Ingress, Side::Egress] {
        let mut leftover = tc_options(handle);
        // SAFETY: hook and options are valid for the call.
        if unsafe { bpf::bpf_tc_query(&tc_hook(ifindex, point(side)), &mut leftover) } == 0 {
            detach(ifindex, side, handle);
            found = true;
        }
    }
    found
}

fn detach(ifindex: i32, side: Side, handle: u32) {
    let hook = tc_hook(ifindex, point(side));
    let options = tc_options(handle);
    // SAFETY: hook and options are valid for the call. Nothing to take off is no failure.
    unsafe { bpf::bpf_tc_detach(&hook, &options) };
}

fn point(side: Side) -> bpf::bpf_tc_attach_point {
    match side {
        Side::Ingress => bpf::BPF_TC_INGRESS,
        Side::Egress => bpf::BPF_TC_EGRESS,
    }
}

fn tc_hook(ifindex: i32, attach_point: bpf::bpf_tc_attach_point) -> bpf::bpf_tc_hook {
    bpf::bpf_tc_hook {
        sz: size_of::<bpf::bpf_tc_hook>() as _,
        ifindex,
        attach_point,
        ..Default::default()
    }
}

fn tc_options(handle: u32) -> bpf::bpf_tc_opts {
    bpf::bpf_tc_opts {
        sz: size_of::<bpf::bpf_tc_opts>() as _,
        handle,
        priority: CLSACT_PRIORITY,
        ..Default::default()
    }
}
