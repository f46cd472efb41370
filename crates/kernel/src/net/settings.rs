// SPDX-License-Identifier: Apache-2.0 OR MIT
//! That settings of interfaces changed, forwarding among them. `rtnetlink` does not know these messages, so they have a
//! socket of their own. Whoever needs a setting looks at it. Of the messages themselves one thing is read: that the kernel
//! has forgotten an interface's settings, as it does in IPv6 when the MTU falls below 1280 bytes.

use std::io;

use futures_util::stream::{self, Stream};
use rtnetlink::sys::protocols::NETLINK_ROUTE;
use rtnetlink::sys::{AsyncSocket, AsyncSocketExt, SocketAddr, TokioSocket};
use rtnetlink::MulticastGroup;

/// More than a message has: the kernel cuts off what does not fit, and nobody misses it.
const LARGEST: usize = 512;

/// Of linux/rtnetlink.h.
const RTM_DELNETCONF: u16 = 81;
/// Of linux/netconf.h.
const NETCONFA_IFINDEX: u16 = 1;
/// Of a message: the headers of netlink and of netconf, padded.
const HEADERS: usize = 20;

/// What a message says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// A setting has another value, or there are new ones.
    Value,
    /// The settings of the interface with this index are gone. If they come again, they have their defaults.
    Forgotten(u32),
}

impl Change {
    fn of(message: &[u8]) -> Change {
        let word = |at: usize| {
            Some(u16::from_ne_bytes(
                message.get(at..at + 2)?.try_into().ok()?,
            ))
        };
        // The index comes first, and is all that there is of what is gone.
        let index = message.get(HEADERS + 4..HEADERS + 8);
        let index = index.and_then(|bytes| bytes.try_into().ok());
        match (word(4), word(HEADERS + 2), index) {
            (Some(RTM_DELNETCONF), Some(NETCONFA_IFINDEX), Some(index)) => {
                Change::Forgotten(u32::from_ne_bytes(index))
            }
            _ => Change::Value,
        }
    }
}

/// One item for each message. It ends with an error.
///
/// When the socket is full the kernel throws messages away. Those that are in it are read after that, so that a look after
/// the last of them sees what the lost ones told.
pub fn changes() -> io::Result<impl Stream<Item = io::Result<Change>> + Unpin + Send + 'static> {
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
                Ok(()) => Some((Ok(Change::of(&message)), Some(socket))),
                Err(error) => Some((Err(error), None)),
            }
        },
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// netlink(7): length, type, flags, sequence number, port; struct netconfmsg: the family, padded; attributes.
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
        assert_eq!(Change::of(&gone), Change::Forgotten(7));
        for cut in 0..gone.len() {
            assert_eq!(Change::of(&gone[..cut]), Change::Value, "{cut} bytes");
        }
    }

    #[test]
    fn a_setting_that_somebody_has_changed() {
        const RTM_NEWNETCONF: u16 = 80;
        const NETCONFA_FORWARDING: u16 = 2;
        let attributes = [(NETCONFA_IFINDEX, 7), (NETCONFA_FORWARDING, 0)];
        assert_eq!(
            Change::of(&message(RTM_NEWNETCONF, &attributes)),
            Change::Value
        );
    }
}
