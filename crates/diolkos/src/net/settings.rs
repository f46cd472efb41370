// SPDX-License-Identifier: Apache-2.0 OR MIT
//! That settings of interfaces changed, forwarding among them. `rtnetlink` does not know these messages, so they have a
//! socket of their own. Nobody reads what a message says: whoever needs a setting looks at it.

use std::io;

use futures_util::stream::{self, Stream};
use rtnetlink::sys::protocols::NETLINK_ROUTE;
use rtnetlink::sys::{AsyncSocket, AsyncSocketExt, SocketAddr, TokioSocket};
use rtnetlink::MulticastGroup;

/// More than a message has: the kernel cuts off what does not fit, and nobody misses it.
const LARGEST: usize = 512;

/// One item for each message. It ends with an error.
///
/// When the socket is full the kernel throws messages away. Those that are in it are read after that, so that a look after
/// the last of them sees what the lost ones told.
pub fn changes() -> io::Result<impl Stream<Item = io::Result<()>> + Unpin + Send + 'static> {
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
                Ok(()) => Some((Ok(()), Some(socket))),
                Err(error) => Some((Err(error), None)),
            }
        },
    )))
}
