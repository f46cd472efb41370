// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The clsact queueing discipline to which filters are attached. The owner of the last filter removes it. Filters of others, here or
//! at the older `ingress`, are only looked at.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use super::hook::is_our_priority;
use diolkos_sys::tc::{self, Direction};
use rustix::net::sockopt::{set_socket_timeout, Timeout};
use rustix::net::{
    recv, send, socket_with, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType,
};

/// linux/pkt_sched.h: TC_H_CLSACT with TC_H_MIN_INGRESS and TC_H_MIN_EGRESS.
const INGRESS: u32 = 0xffff_fff2;
const EGRESS: u32 = 0xffff_fff3;
/// From linux/rtnetlink.h. libc does not have it for every target.
const RTM_NEWTFILTER: u16 = 44;
const RTM_GETTFILTER: u16 = 46;
/// Bytes read at once; the kernel's dump messages are not longer.
const BUFFER: usize = 32 * 1024;

/// Builds a request for the filters of an interface below a parent: struct nlmsghdr, and struct tcmsg of
/// linux/rtnetlink.h.
fn list_filters(ifindex: i32, parent: u32) -> [u8; 36] {
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

/// Returns true if other programs have filters at one side of an interface. Those of other instances of this program do not count.
/// Filters run behind programs that are attached by links (tcx).
pub fn has_others_filters(ifindex: u32, direction: Direction) -> io::Result<bool> {
    let socket = socket()?;
    let parent = match direction {
        Direction::Ingress => INGRESS,
        Direction::Egress => EGRESS,
    };
    let request = list_filters(ifindex as i32, parent);
    send(&socket, &request, SendFlags::empty())?;
    let mut buffer = vec![0u8; BUFFER];
    loop {
        let (read, _) = recv(&socket, &mut buffer[..], RecvFlags::empty())?;
        match others(&buffer[..read])? {
            Found::More => {}
            Found::Filter => return Ok(true),
            Found::End => return Ok(false),
        }
    }
}

/// What a datagram of a list of filters says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    /// A filter of somebody else.
    Filter,
    /// The list goes on.
    More,
    /// The list is over.
    End,
}

fn others(mut messages: &[u8]) -> io::Result<Found> {
    const HEADER: usize = 16;
    // Of struct tcmsg, `tcm_info`: the priority, and the protocol.
    const PRIORITY: std::ops::Range<usize> = 32..36;
    let number =
        |bytes: Option<&[u8]>| -> Option<u32> { Some(u32::from_ne_bytes(bytes?.try_into().ok()?)) };
    while let (Some(length), Some(kind)) = (number(messages.get(..4)), first_answer(messages)) {
        if kind == libc::NLMSG_DONE as u16 {
            return Ok(Found::End);
        }
        if kind == libc::NLMSG_ERROR as u16 {
            let code = number(messages.get(HEADER..HEADER + 4)).unwrap_or_default();
            return Err(io::Error::from_raw_os_error((code as i32).wrapping_neg()));
        }
        let priority = number(messages.get(PRIORITY)).map(|info| info >> 16);
        if kind == RTM_NEWTFILTER && !priority.is_some_and(is_our_priority) {
            return Ok(Found::Filter);
        }
        let length = (length as usize).max(HEADER).next_multiple_of(4);
        messages = messages.get(length..).unwrap_or_default();
    }
    Ok(Found::More)
}

/// The type of the first message: a filter, the end, or an error.
fn first_answer(messages: &[u8]) -> Option<u16> {
    let kind = messages.get(4..6)?.try_into().ok()?;
    Some(u16::from_ne_bytes(kind))
}

/// Opens a socket with a timeout of a second, although the kernel answers at once.
fn socket() -> io::Result<OwnedFd> {
    // Protocol 0 is NETLINK_ROUTE.
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
    set_socket_timeout(&socket, Timeout::Recv, Some(Duration::from_secs(1)))?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A filter in the kernel's format, with an attribute behind struct tcmsg.
    fn filter(priority: u32) -> Vec<u8> {
        let mut message = vec![0; 44];
        message[..4].copy_from_slice(&44u32.to_ne_bytes());
        message[4..6].copy_from_slice(&RTM_NEWTFILTER.to_ne_bytes());
        message[32..36].copy_from_slice(&(priority << 16 | 0x0300).to_ne_bytes());
        message
    }

    fn end(kind: i32, code: i32) -> Vec<u8> {
        let mut message = vec![0; 20];
        message[..4].copy_from_slice(&20u32.to_ne_bytes());
        message[4..6].copy_from_slice(&(kind as u16).to_ne_bytes());
        message[16..].copy_from_slice(&code.to_ne_bytes());
        message
    }

    #[test]
    fn only_filters_of_others_count() {
        let said = |messages: &[Vec<u8>]| others(&messages.concat()).expect("a list");
        let done = end(libc::NLMSG_DONE, 0);
        assert_eq!(said(&[]), Found::More);
        assert_eq!(said(std::slice::from_ref(&done)), Found::End);
        assert_eq!(said(&[filter(0xd101), filter(0xd103)]), Found::More);
        assert_eq!(said(&[filter(0xd100), done.clone()]), Found::End);
        assert_eq!(said(&[filter(0xd101), filter(7), done]), Found::Filter);
        let refused = others(&end(libc::NLMSG_ERROR, -libc::EPERM)).expect_err("a refusal");
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        let whole = [filter(0xd101), filter(7)].concat();
        for length in 0..whole.len() {
            assert!(others(&whole[..length]).is_ok(), "{length}");
        }
    }
}
