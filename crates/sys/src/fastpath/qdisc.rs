// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The clsact queueing discipline that filters hang on. Whoever takes the last filter off takes it away.

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use libbpf_sys as bpf;

/// linux/pkt_sched.h: TC_H_CLSACT with TC_H_MIN_INGRESS and TC_H_MIN_EGRESS.
const PARENTS: [u32; 2] = [0xffff_fff2, 0xffff_fff3];
/// linux/rtnetlink.h. libc has it, but not for every target.
const RTM_NEWTFILTER: u16 = 44;
const RTM_GETTFILTER: u16 = 46;
/// What is read at once; the kernel's own answers to dumps are not longer.
const BUFFER: usize = 32 * 1024;

/// struct tcmsg of linux/rtnetlink.h.
#[repr(C)]
#[derive(Default)]
struct TcMessage {
    family: u8,
    pad: [u8; 3],
    ifindex: i32,
    handle: u32,
    parent: u32,
    info: u32,
}

#[repr(C)]
struct Request {
    header: libc::nlmsghdr,
    tc: TcMessage,
}

/// An interface as libbpf names it.
pub(super) fn tc_hook(ifindex: i32, attach_point: bpf::bpf_tc_attach_point) -> bpf::bpf_tc_hook {
    bpf::bpf_tc_hook {
        sz: size_of::<bpf::bpf_tc_hook>() as _,
        ifindex,
        attach_point,
        ..Default::default()
    }
}

/// Removes clsact from an interface when no filter of anybody's hangs on it. Where that cannot be told, it stays.
pub(super) fn remove_unused_clsact(ifindex: u32) {
    let is_unused = PARENTS
        .iter()
        .all(|parent| has_filters(ifindex as i32, *parent).is_ok_and(|has| !has));
    if is_unused {
        let mut both = tc_hook(ifindex as i32, bpf::BPF_TC_INGRESS | bpf::BPF_TC_EGRESS);
        // SAFETY: `both` is valid for the call. Nothing to remove is no failure.
        unsafe { bpf::bpf_tc_hook_destroy(&mut both) };
    }
}

fn has_filters(ifindex: i32, parent: u32) -> io::Result<bool> {
    let socket = socket()?;
    // SAFETY: all bytes zero are a valid value of a struct of integers.
    let mut header: libc::nlmsghdr = unsafe { zeroed() };
    header.nlmsg_len = size_of::<Request>() as u32;
    header.nlmsg_type = RTM_GETTFILTER;
    header.nlmsg_flags = (libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16;
    let tc = TcMessage {
        ifindex,
        parent,
        ..TcMessage::default()
    };
    let request = Request { header, tc };
    // SAFETY: the request is valid for its size until the call returns.
    let sent = unsafe {
        libc::send(
            socket.as_raw_fd(),
            (&raw const request).cast(),
            size_of::<Request>(),
            0,
        )
    };
    if sent < 0 {
        return Err(io::Error::last_os_error());
    }
    let mut buffer = vec![0u8; BUFFER];
    // SAFETY: the buffer is valid for its length until the call returns.
    let read = unsafe { libc::recv(socket.as_raw_fd(), buffer.as_mut_ptr().cast(), BUFFER, 0) };
    if read < 0 {
        return Err(io::Error::last_os_error());
    }
    buffer.truncate(read as usize);
    match first_answer(&buffer) {
        Some(RTM_NEWTFILTER) => Ok(true),
        Some(kind) if kind == libc::NLMSG_DONE as u16 => Ok(false),
        _ => Err(io::Error::other("the kernel does not list filters")),
    }
}

/// The type of the first message: a filter, the end, or an error.
fn first_answer(messages: &[u8]) -> Option<u16> {
    let kind = messages.get(4..6)?.try_into().ok()?;
    Some(u16::from_ne_bytes(kind))
}

/// It waits a second at most: the kernel answers at once.
fn socket() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
    // SAFETY: no pointers.
    let fd = unsafe { libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_ROUTE) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the new descriptor is ours alone.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    let patience = libc::timeval {
        tv_sec: 1,
        tv_usec: 0,
    };
    // SAFETY: the value is valid for its size until the call returns.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVTIMEO,
            (&raw const patience).cast(),
            size_of::<libc::timeval>() as libc::socklen_t,
        )
    };
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(socket)
}
