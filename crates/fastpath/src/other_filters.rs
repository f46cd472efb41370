// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Filters that other programs have at an interface, on clsact or on the older `ingress`.

use std::io;

use rustix::net::{recv, send, RecvFlags, SendFlags};

use super::hook::is_our_priority;
use super::qdisc::{first_answer, list_filters, socket, BUFFER, EGRESS, INGRESS, RTM_NEWTFILTER};
use diolkos_sys::tc::Direction;

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
