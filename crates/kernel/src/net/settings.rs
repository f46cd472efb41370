// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reports changed settings of interfaces, forwarding among them. `rtnetlink` does not know these messages, so they have a
//! socket of their own. A message only tells that something changed; its reader looks up the setting that it needs. The one
//! exception is read from the message itself: the kernel has forgotten an interface's settings, as it does for IPv6 when the
//! MTU falls below 1280 bytes.

use std::io;

use futures_util::stream::{self, Stream};
use rtnetlink::sys::protocols::NETLINK_ROUTE;
use rtnetlink::sys::{AsyncSocket, AsyncSocketExt, SocketAddr, TokioSocket};
use rtnetlink::MulticastGroup;

/// Buffer size, bytes, larger than any message; the kernel would cut off the rest, which the program does not need.
const LARGEST: usize = 512;

/// From linux/rtnetlink.h.
const RTM_DELNETCONF: u16 = 81;
/// From linux/netconf.h.
const NETCONFA_IFINDEX: u16 = 1;
/// Size of the headers of netlink and of netconf, padded, bytes.
const HEADERS: usize = 20;

/// The content of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NetconfChange {
    /// A setting has another value, or new settings appeared.
    Value,
    /// The settings of the interface with this index are gone. If they appear again, they have their default values.
    Forgotten(u32),
}

impl NetconfChange {
    fn of(message: &[u8]) -> NetconfChange {
        let word = |at: usize| {
            Some(u16::from_ne_bytes(
                message.get(at..at + 2)?.try_into().ok()?,
            ))
        };
        // The index is the first attribute, and the only one of removed settings.
        let index = message.get(HEADERS + 4..HEADERS + 8);
        let index = index.and_then(|bytes| bytes.try_into().ok());
        match (word(4), word(HEADERS + 2), index) {
            (Some(RTM_DELNETCONF), Some(NETCONFA_IFINDEX), Some(index)) => {
                NetconfChange::Forgotten(u32::from_ne_bytes(index))
            }
            _ => NetconfChange::Value,
        }
    }
}

/// A stream with one item for each message. It ends with an error.
///
/// When the socket buffer is full, the kernel discards messages. The reader looks up its settings after the messages that are
/// still in the buffer, and so also sees the changes that the lost ones reported.
pub fn changes(
) -> io::Result<impl Stream<Item = io::Result<NetconfChange>> + Unpin + Send + 'static> {
    let mut socket = TokioSocket::new(NETLINK_ROUTE)?;
    socket.socket_mut().bind(&SocketAddr::new(0, 0))?;
    socket.socket_mut().set_no_enobufs(true)?;
    for group in [MulticastGroup::Ipv4Netconf, MulticastGroup::Ipv6Netconf] {
        socket.socket_mut().add_membership(group as u32)?;
    }
    Ok(Box::pin(stream::unfold(
        Some(socket),
        |socket| async move {
            let socket = socket?;
            let mut message = Vec::with_capacity(LARGEST);
            match socket.recv(&mut message).await {
                Ok(()) => Some((Ok(NetconfChange::of(&message)), Some(socket))),
                Err(error) => Some((Err(error), None)),
            }
        },
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// netlink(7): length, type, flags, sequence number, port; then struct netconfmsg: the family, padded; then attributes.
    fn message(kind: u16, attributes: &[(u16, u32)]) -> Vec<u8> {
        let length = u32::try_from(HEADERS + 8 * attributes.len()).expect("a short message");
        let mut message = length.to_ne_bytes().to_vec();
        message.extend(kind.to_ne_bytes());
        message.extend([0; 10]);
        message.extend([10, 0, 0, 0]);
        for (of, value) in attributes {
            message.extend(8u16.to_ne_bytes());
            message.extend(of.to_ne_bytes());
            message.extend(value.to_ne_bytes());
        }
        message
    }

    #[test]
    fn settings_that_are_gone() {
        let gone = message(RTM_DELNETCONF, &[(NETCONFA_IFINDEX, 7)]);
        assert_eq!(NetconfChange::of(&gone), NetconfChange::Forgotten(7));
        for cut in 0..gone.len() {
            assert_eq!(
                NetconfChange::of(&gone[..cut]),
                NetconfChange::Value,
                "{cut} bytes"
            );
        }
    }

    #[test]
    fn a_setting_that_somebody_has_changed() {
        const RTM_NEWNETCONF: u16 = 80;
        const NETCONFA_FORWARDING: u16 = 2;
        let attributes = [(NETCONFA_IFINDEX, 7), (NETCONFA_FORWARDING, 0)];
        assert_eq!(
            NetconfChange::of(&message(RTM_NEWNETCONF, &attributes)),
            NetconfChange::Value
        );
    }
}
