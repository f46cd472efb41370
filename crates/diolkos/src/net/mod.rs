// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The network as the kernel tells of it, and the few things we ask it for:
//! links, addresses, routes. Everything by netlink, in the network namespace
//! of the process.

mod address;
mod link;
mod nexthop;
mod route;
mod tun;

use std::io;

use futures_util::stream::{BoxStream, StreamExt};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use rtnetlink::packet_core::NetlinkPayload;
use rtnetlink::MulticastGroup;

use crate::failure::Failure;

pub use link::{Link, Medium};
pub use route::{Route4, Route6};

/// News from the kernel.
#[derive(Clone, Debug)]
pub enum Event {
    /// A link appeared or changed.
    LinkChanged(Link),
    /// A link is gone, or went to another network namespace.
    LinkGone(u32),
    /// IPv6 routes or rules changed, or news were lost.
    RoutesChanged,
    /// IPv6 addresses came or went.
    AddressesChanged,
}

/// A connection to the kernel. The task that serves it ends with the runtime.
pub struct Net {
    handle: rtnetlink::Handle,
}

impl Net {
    /// Connects; the stream tells of links, IPv6 routes and IPv6 addresses that change or go.
    pub fn connect() -> Result<(Net, BoxStream<'static, Event>), Failure> {
        let (connection, handle, messages) = rtnetlink::new_multicast_connection(&[
            MulticastGroup::Link,
            MulticastGroup::Ipv6Route,
            MulticastGroup::Ipv6Rule,
            MulticastGroup::Ipv6Ifaddr,
        ])
        .map_err(|e| Failure::run_time(format!("no netlink connection to the kernel: {e}")))?;
        tokio::spawn(connection);
        let events = messages.filter_map(|(message, _)| async {
            match message.payload {
                NetlinkPayload::InnerMessage(RouteNetlinkMessage::DelLink(link)) => {
                    // A bridge port that leaves its bridge is told of in the same way, with the bridge's family.
                    let gone = link.header.interface_family == AddressFamily::Unspec;
                    gone.then_some(Event::LinkGone(link.header.index))
                }
                NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(link)) => {
                    Some(Event::LinkChanged(Link::from_message(&link)))
                }
                NetlinkPayload::InnerMessage(
                    RouteNetlinkMessage::NewRoute(_)
                    | RouteNetlinkMessage::DelRoute(_)
                    | RouteNetlinkMessage::NewRule(_)
                    | RouteNetlinkMessage::DelRule(_),
                )
                | NetlinkPayload::Overrun(_) => Some(Event::RoutesChanged),
                NetlinkPayload::InnerMessage(
                    RouteNetlinkMessage::NewAddress(_) | RouteNetlinkMessage::DelAddress(_),
                ) => Some(Event::AddressesChanged),
                _ => None,
            }
        });
        Ok((Net { handle }, events.boxed()))
    }
}

/// The kernel's refusal as an error number, where it is one.
fn errno(error: &rtnetlink::Error) -> Option<io::Error> {
    match error {
        rtnetlink::Error::NetlinkError(message) => Some(message.to_io()),
        _ => None,
    }
}

/// A sentence about a refused request, with exit code 3 when it was a privilege that was missing.
fn refused(what: impl std::fmt::Display, error: &rtnetlink::Error) -> Failure {
    match errno(error) {
        Some(e) if e.kind() == io::ErrorKind::PermissionDenied => Failure::missing(format!(
            "no permission to {what}: run as root or with CAP_NET_ADMIN"
        )),
        Some(e) => Failure::run_time(format!("cannot {what}: {e}")),
        None => Failure::run_time(format!("cannot {what}: {error}")),
    }
}
