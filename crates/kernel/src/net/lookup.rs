// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Route lookup: how the kernel would route a packet of this host, as `ip route get` tells it.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv6Addr};

use diolkos_sys::namespace::interface_name;
use futures_util::TryStreamExt;
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteMessage, RouteType,
};
use rtnetlink::RouteMessageBuilder;

use super::route::exits;
use super::{in_time, Net, Refusal};
use crate::error::{is_unreachable, refusing_route, KernelError};

/// The result of a route lookup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leads {
    /// The address is one of this host.
    Here,
    /// Through an interface, to a router or to the address itself.
    Through(String, Option<IpAddr>),
    /// Nowhere: the kernel drops the packet or answers it with an error.
    Nowhere,
}

impl Leads {
    /// Returns true if the route leads through this interface.
    pub fn is_through(&self, name: &str) -> bool {
        matches!(self, Leads::Through(interface, _) if interface == name)
    }
}

impl fmt::Display for Leads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Leads::Here => f.write_str("to this host"),
            Leads::Through(interface, None) => write!(f, "through {interface}"),
            Leads::Through(interface, Some(router)) => {
                write!(f, "through {interface}, by the router {router}")
            }
            Leads::Nowhere => f.write_str("nowhere: the route refuses packets"),
        }
    }
}

impl Net {
    /// Looks up the route for packets to an address.
    pub async fn leads(&self, to: IpAddr) -> Result<Leads, KernelError> {
        let len = if to.is_ipv4() { 32 } else { 128 };
        let question = RouteMessageBuilder::<IpAddr>::new().destination_prefix(to, len);
        let question = question.map_err(|e| KernelError::Question(io::Error::other(e)))?;
        let request = self.handle.route().get(question.build()).execute();
        let found: Vec<RouteMessage> = in_time(request.try_collect())
            .await
            .map_err(|refusal| refusal.read("look up the route"))?;
        let Some(route) = found.first() else {
            return Ok(Leads::Nowhere);
        };
        Ok(match route.header.kind {
            RouteType::Local => Leads::Here,
            RouteType::Unicast => match exits(route).next() {
                Some(index) => Leads::Through(name_of(index), router(route)),
                None => Leads::Nowhere,
            },
            _ => Leads::Nowhere,
        })
    }
}

impl Net {
    /// The interface and the next hop by which packets to an address leave. `None`: there is no route to the address, or only a
    /// default route, or the address is one of this host.
    pub async fn next_hop6(&self, to: Ipv6Addr) -> Result<Option<(u32, Ipv6Addr)>, KernelError> {
        let mut question = RouteMessageBuilder::<Ipv6Addr>::new()
            .destination_prefix(to, 128)
            .build();
        // With FIB_MATCH the kernel returns the matching route itself, so that its prefix length is known.
        question.header.flags |= RouteFlags::FibMatch;
        let request = self.handle.route().get(question).execute();
        let found: Vec<RouteMessage> = match in_time(request.try_collect()).await {
            Ok(found) => found,
            Err(refusal) if refusal.is_unreachable() => return Ok(None),
            Err(refusal) => return Err(refusal.read("look up the next hop")),
        };
        let Some(route) = found.first() else {
            return Ok(None);
        };
        let header = &route.header;
        if header.kind != RouteType::Unicast || header.destination_prefix_length == 0 {
            return Ok(None);
        }
        let next = match router(route) {
            Some(IpAddr::V6(router)) => router,
            _ => to,
        };
        let exit = exits(route).next();
        Ok(exit.map(|index| (index, next)))
    }
}

/// A route lookup for an IPv6 packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question {
    pub to: Ipv6Addr,
    /// The packet's source. Without a source but with an exit, the kernel considers routes through that exit only.
    pub from: Option<Ipv6Addr>,
    /// The interface by which the packet came in, if it is forwarded.
    pub came_by: Option<u32>,
    /// The interface by which the packet is to leave, as for a socket bound to that interface.
    pub exit: Option<u32>,
}

/// The kernel's reply to a [`Question`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// Through the interface with this index, to a router or to the address itself.
    Through(u32, Option<Ipv6Addr>),
    /// The address is one of this host.
    Here,
    /// A route or rule refuses such packets; the value is its type.
    Refused(&'static str),
    /// No route leads there.
    Nowhere,
}

impl Net {
    /// Asks the kernel how it would route an IPv6 packet, by all its rules and routes.
    pub(super) async fn ask6(&self, question: Question) -> Result<Reply, KernelError> {
        let mut asked = RouteMessageBuilder::<Ipv6Addr>::new().destination_prefix(question.to, 128);
        if let Some(from) = question.from {
            asked = asked.source_prefix(from, 128);
        }
        if let Some(index) = question.came_by {
            asked = asked.input_interface(index);
        }
        if let Some(index) = question.exit {
            asked = asked.output_interface(index);
        }
        let replied = self.reply_to(asked.build()).await?;
        Ok(replied.unwrap_or_else(|error| of_error(&error)))
    }

    /// Asks the kernel how it would forward a packet that comes in by the interface `came_by`, by all rules and routes. `None`:
    /// the kernel does not accept such a packet, for example because of `rp_filter`.
    pub(super) async fn ask_forwarded(
        &self,
        from: IpAddr,
        to: IpAddr,
        came_by: u32,
    ) -> Result<Option<Reply>, KernelError> {
        let len = if to.is_ipv4() { 32 } else { 128 };
        let asked = RouteMessageBuilder::<IpAddr>::new()
            .destination_prefix(to, len)
            .and_then(|asked| asked.source_prefix(from, len));
        let asked = asked
            .map_err(|e| KernelError::Question(io::Error::other(e)))?
            .input_interface(came_by)
            .build();
        Ok(match self.reply_to(asked).await? {
            Ok(reply) => Some(reply),
            Err(error) => is_unreachable(&error).then(|| of_error(&error)),
        })
    }

    /// The kernel's reply, or the error number that it returned instead.
    async fn reply_to(&self, asked: RouteMessage) -> Result<Result<Reply, io::Error>, KernelError> {
        let request = self.handle.route().get(asked).execute();
        let found: Result<Vec<RouteMessage>, Refusal> = in_time(request.try_collect()).await;
        let found = match found {
            Ok(found) => found,
            Err(refusal) => match refusal.errno() {
                Some(error) => return Ok(Err(error)),
                None => return Err(refusal.read("look up the route")),
            },
        };
        let Some(route) = found.first() else {
            return Ok(Ok(Reply::Nowhere));
        };
        let router = match router(route) {
            Some(IpAddr::V6(router)) => Some(router),
            _ => None,
        };
        Ok(Ok(match route.header.kind {
            RouteType::Local => Reply::Here,
            RouteType::Unicast => match exits(route).next() {
                Some(index) => Reply::Through(index, router),
                None => Reply::Nowhere,
            },
            RouteType::BlackHole => Reply::Refused("blackhole"),
            RouteType::Unreachable => Reply::Refused("unreachable"),
            RouteType::Prohibit => Reply::Refused("prohibit"),
            _ => Reply::Nowhere,
        }))
    }
}

/// The kernel's reply that is an error number.
fn of_error(error: &io::Error) -> Reply {
    refusing_route(error).map_or(Reply::Nowhere, Reply::Refused)
}

pub(super) fn name_of(index: u32) -> String {
    interface_name(index).unwrap_or_else(|| format!("interface {index}"))
}

fn router(route: &RouteMessage) -> Option<IpAddr> {
    route
        .attributes
        .iter()
        .find_map(|attribute| match attribute {
            RouteAttribute::Gateway(RouteAddress::Inet(router)) => Some(IpAddr::V4(*router)),
            RouteAttribute::Gateway(RouteAddress::Inet6(router)) => Some(IpAddr::V6(*router)),
            _ => None,
        })
}
