// SPDX-License-Identifier: Apache-2.0 OR MIT
//! BPF programs as filters on the clsact queueing discipline of an interface. Errors carry the kernel's number.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use libbpf_sys as bpf;

/// The packets of the interface that a filter sees.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// Received packets.
    Ingress,
    /// Sent packets.
    Egress,
}

/// The place of one filter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClsactFilter {
    /// Index of the interface.
    pub ifindex: i32,
    /// The hook at the interface.
    pub direction: Direction,
    /// Distinguishes it from other filters of the same priority.
    pub handle: u32,
    /// Filters with a lower priority number run first.
    pub priority: u32,
}

impl ClsactFilter {
    /// Attaches a program at this place, or replaces the program that is there.
    pub fn attach(&self, program: BorrowedFd<'_>) -> io::Result<()> {
        let mut options = self.options();
        options.prog_fd = program.as_raw_fd();
        options.flags = bpf::BPF_TC_F_REPLACE;
        // SAFETY: hook and options are valid for the call, the descriptor is open.
        let attached = unsafe { bpf::bpf_tc_attach(&self.hook(), &mut options) };
        done(attached)
    }

    /// The number of the program at this place.
    pub fn program(&self) -> Option<u32> {
        let mut found = self.options();
        // SAFETY: hook and options are valid for the call.
        let done = unsafe { bpf::bpf_tc_query(&self.hook(), &mut found) };
        (done == 0).then_some(found.prog_id)
    }

    /// Detaches the program. It is no error if there is none.
    pub fn detach(&self) {
        // SAFETY: hook and options are valid for the call.
        unsafe { bpf::bpf_tc_detach(&self.hook(), &self.options()) };
    }

    fn hook(&self) -> bpf::bpf_tc_hook {
        hook(
            self.ifindex,
            match self.direction {
                Direction::Ingress => bpf::BPF_TC_INGRESS,
                Direction::Egress => bpf::BPF_TC_EGRESS,
            },
        )
    }

    fn options(&self) -> bpf::bpf_tc_opts {
        bpf::bpf_tc_opts {
            sz: size_of::<bpf::bpf_tc_opts>() as _,
            handle: self.handle,
            priority: self.priority,
            ..Default::default()
        }
    }
}

/// Adds clsact to an interface. Returns false if it existed already.
pub fn add_clsact(ifindex: i32) -> io::Result<bool> {
    let mut both = hook(ifindex, bpf::BPF_TC_INGRESS | bpf::BPF_TC_EGRESS);
    // SAFETY: `both` is valid for the call.
    match unsafe { bpf::bpf_tc_hook_create(&mut both) } {
        error if error == -libc::EEXIST => Ok(false),
        created => done(created).map(|()| true),
    }
}

/// Removes clsact and all its filters from an interface. It is no error if there is none.
pub fn remove_clsact(ifindex: i32) {
    let mut both = hook(ifindex, bpf::BPF_TC_INGRESS | bpf::BPF_TC_EGRESS);
    // SAFETY: `both` is valid for the call.
    unsafe { bpf::bpf_tc_hook_destroy(&mut both) };
}

/// A hook in libbpf's format.
fn hook(ifindex: i32, attach_point: bpf::bpf_tc_attach_point) -> bpf::bpf_tc_hook {
    bpf::bpf_tc_hook {
        sz: size_of::<bpf::bpf_tc_hook>() as _,
        ifindex,
        attach_point,
        ..Default::default()
    }
}

/// Turns a result of libbpf into an error: libbpf returns negative error numbers.
fn done(result: libc::c_int) -> io::Result<()> {
    match result {
        0.. => Ok(()),
        error => Err(io::Error::from_raw_os_error(-error)),
    }
}
