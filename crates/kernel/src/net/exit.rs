// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The route by which the kernel forwards the packets of a CLAT without a fast path: through the uplink, whatever routes and
//! rules exist for the host's own traffic.
//!
//! The route is in the table `local`, which the kernel looks up before the rules of VPNs and network managers. It applies to
//! the CLAT's own source address only (source-specific routing), so it does not affect other packets. It expires unless it is
//! renewed: after the process was killed, it is gone within a minute.

use std::net::Ipv6Addr;
use std::time::Duration;

use futures_util::StreamExt;
use ipnet::Ipv6Net;
use netlink_packet_route::route::{RouteFlags, RouteMessage, RouteProtocol};
use netlink_packet_route::RouteNetlinkMessage;
use rtnetlink::packet_core::{
    NetlinkMessage, NetlinkPayload, NLM_F_ACK, NLM_F_CREATE, NLM_F_REQUEST,
};
use rtnetlink::RouteMessageBuilder;

use super::{in_time, Net, TABLE_LOCAL};
use crate::error::KernelError;

/// The lifetime of the route after it was set or renewed.
const EXPIRES: Duration = Duration::from_secs(60);

/// The exit route of a CLAT: the route that its translated packets take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExitRoute {
    /// The translation prefix.
    pub to: Ipv6Net,
    /// The CLAT's address.
    pub from: Ipv6Addr,
    /// The uplink's index.
    pub uplink: u32,
    /// The router on the uplink. `None`: destinations are neighbours on the link.
    pub router: Option<Ipv6Addr>,
}

impl ExitRoute {
    /// Interval between renewals: half of the route's lifetime.
    pub const RENEWAL: Duration = Duration::from_secs(EXPIRES.as_secs() / 2);

    /// Returns true if the kernel keeps only one of the two routes, the one that was set last: they have the same destination
    /// and source.
    pub fn takes_place_of(&self, other: &ExitRoute) -> bool {
        (self.to, self.from) == (other.to, other.from)
    }

    fn message(&self) -> RouteMessage {
        let mut builder = RouteMessageBuilder::<Ipv6Addr>::new()
            .destination_prefix(self.to.network(), self.to.prefix_len())
            .source_prefix(self.from, 128)
            .output_interface(self.uplink)
            .table_id(TABLE_LOCAL.into())
            .protocol(RouteProtocol::Static);
        if let Some(router) = self.router {
            builder = builder.gateway(router);
        }
        let mut message = builder.build();
        if self.router.is_some() {
            // The kernel itself has named the router as a neighbour on this link, so it need not check that again.
            message.header.flags |= RouteFlags::Onlink;
        }
        message
    }

    fn expiring(&self) -> RouteMessage {
        let mut message = self.message();
        let expires =
            netlink_packet_route::route::RouteAttribute::Expires(EXPIRES.as_secs() as u32);
        message.attributes.push(expires);
        message
    }
}

impl Net {
    /// Sets the route; it replaces one with the same prefix and source.
    pub async fn set_exit(&self, route: &ExitRoute) -> Result<(), KernelError> {
        let request = self.handle.route().add(route.expiring()).replace();
        in_time(request.execute()).await.map_err(|refusal| {
            refusal.change(format_args!(
                "set the way from {} to {}",
                route.from, route.to
            ))
        })
    }

    /// Restores the route's full lifetime, or adds the route if it is gone. The kernel sends no notification when a request
    /// adds a route that exists already.
    pub async fn renew_exit(&self, route: &ExitRoute) -> Result<(), KernelError> {
        let message = RouteNetlinkMessage::NewRoute(route.expiring());
        let mut request = NetlinkMessage::from(message);
        request.header.flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE;
        let mut handle = self.handle.clone();
        let done = async {
            let mut answers = handle.request(request)?;
            while let Some(answer) = answers.next().await {
                if let NetlinkPayload::Error(error) = answer.payload {
                    return Err(rtnetlink::Error::NetlinkError(error));
                }
            }
            Ok(())
        };
        match in_time(done).await {
            Err(refusal) if !refusal.is_there() => Err(refusal.change(format_args!(
                "renew the way from {} to {}",
                route.from, route.to
            ))),
            _ => Ok(()),
        }
    }

    /// Removes the route.
    pub async fn remove_exit(&self, route: &ExitRoute) -> Result<(), KernelError> {
        in_time(self.handle.route().del(route.message()).execute())
            .await
            .map_err(|refusal| {
                refusal.change(format_args!(
                    "remove the way from {} to {}",
                    route.from, route.to
                ))
            })
    }
}
