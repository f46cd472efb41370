// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The route by which the kernel forwards what a CLAT without a fast path sends: through the uplink, whatever routes and
//! rules exist for the host's own traffic.
//!
//! It lies in the table `local`, into which the kernel looks before the rules of VPNs and network managers, and is valid for
//! the CLAT's own source address only (source-specific routing), so no other packet meets it. It expires unless it is
//! renewed: what is left after a kill is gone a minute later.

use std::io;
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

use super::{in_time, Net, Refusal, TABLE_LOCAL};
use diolkos_service::failure::Failure;

/// For so long it is valid after it was set or renewed.
const EXPIRES: Duration = Duration::from_secs(60);

/// The way of what a CLAT sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExitRoute {
    /// The translation prefix.
    pub to: Ipv6Net,
    /// The CLAT's address.
    pub from: Ipv6Addr,
    /// The uplink's index.
    pub uplink: u32,
    /// On the uplink; with none, destinations are neighbours.
    pub router: Option<Ipv6Addr>,
}

impl ExitRoute {
    /// Half of its validity is over after so long.
    pub const RENEWAL: Duration = Duration::from_secs(EXPIRES.as_secs() / 2);

    /// Of two, the kernel keeps only the one that was set last.
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
            // The kernel has named it as a neighbour on this link, and need not be convinced again.
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
    /// Adds the route, in the place of one with the same prefix and source.
    pub async fn set_exit(&self, route: &ExitRoute) -> Result<(), Failure> {
        let request = self.handle.route().add(route.expiring()).replace();
        in_time(request.execute()).await.map_err(|refusal| {
            refusal.to(format_args!(
                "set the way from {} to {}",
                route.from, route.to
            ))
        })
    }

    /// Makes the route valid for its whole time again. The kernel does that, and tells nobody, when it is told to add one
    /// that there is; without one it is added.
    pub async fn renew_exit(&self, route: &ExitRoute) -> Result<(), Failure> {
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
            Err(refusal) if !is_there(&refusal) => Err(refusal.to(format_args!(
                "renew the way from {} to {}",
                route.from, route.to
            ))),
            _ => Ok(()),
        }
    }

    /// Removes the route.
    pub async fn remove_exit(&self, route: &ExitRoute) -> Result<(), Failure> {
        in_time(self.handle.route().del(route.message()).execute())
            .await
            .map_err(|refusal| {
                refusal.to(format_args!(
                    "remove the way from {} to {}",
                    route.from, route.to
                ))
            })
    }
}

fn is_there(refusal: &Refusal) -> bool {
    let kind = refusal.errno().map(|error| error.kind());
    kind == Some(io::ErrorKind::AlreadyExists)
}
