// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The clsact queueing discipline to which filters are attached. The owner of the last filter removes it.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use diolkos_sys::tc;
use rustix::net::sockopt::{set_socket_timeout, Timeout};
use rustix::net::{
    recv, send, socket_with, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType,
};

/// linux/pkt_sched.h: TC_H_CLSACT with TC_H_MIN_INGRESS and TC_H_MIN_EGRESS.
pub(super) const INGRESS: u32 = 0xffff_fff2;
pub(super) const EGRESS: u32 = 0xffff_fff3;
/// From linux/rtnetlink.h. libc does not have it for every target.
pub(super) const RTM_NEWTFILTER: u16 = 44;
const RTM_GETTFILTER: u16 = 46;
/// Bytes read at once; the kernel's dump messages are not longer.
pub(super) const BUFFER: usize = 32 * 1024;

/// Builds a request for the filters of an interface below a parent: struct nlmsghdr, and struct tcmsg of
/// linux/rtnetlink.h.
pub(super) fn list_filters(ifindex: i32, parent: u32) -> [u8; 36] {
    let mut request = [0; 36];
    let flags = (libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16;
    request[..4].copy_from_slice(&36u32.to_ne_bytes());
    request[4..6].copy_from_slice(&RTM_GETTFILTER.to_ne_bytes());
    request[6..8].copy_from_slice(&flags.to_ne_bytes());
    request[20..24].copy_from_slice(&ifindex.to_ne_bytes());
    request[28..32].copy_from_slice(&parent.to_ne_bytes());
    request
}

/// Removes clsact from an interface if it has no filter of any owner. If this cannot be determined, it stays.
pub(super) fn remove_unused_clsact(ifindex: u32) {
    let is_unused = [INGRESS, EGRESS]
        .iter()
        .all(|parent| has_filters(ifindex as i32, *parent).is_ok_and(|has| !has));
    if is_unused {
        tc::remove_clsact(ifindex as i32);
    }
}

fn has_filters(ifindex: i32, parent: u32) -> io::Result<bool> {
    let socket = socket()?;
    send(&socket, &list_filters(ifindex, parent), SendFlags::empty())?;
    let mut buffer = vec![0u8; BUFFER];
    let (read, _) = recv(&socket, &mut buffer[..], RecvFlags::empty())?;
    buffer.truncate(read);
    match first_answer(&buffer) {
        Some(RTM_NEWTFILTER) => Ok(true),
        Some(kind) if kind == libc::NLMSG_DONE as u16 => Ok(false),
        _ => Err(io::Error::other("the kernel does not list filters")),
    }
}

/// The type of the first message: a filter, the end, or an error.
pub(super) fn first_answer(messages: &[u8]) -> Option<u16> {
    let kind = messages.get(4..6)?.try_into().ok()?;
    Some(u16::from_ne_bytes(kind))
}

/// Opens a socket with a timeout of a second, although the kernel answers at once.
pub(super) fn socket() -> io::Result<OwnedFd> {
    // Protocol 0 is NETLINK_ROUTE.
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
    set_socket_timeout(&socket, Timeout::Recv, Some(Duration::from_secs(1)))?;
    Ok(socket)
}
