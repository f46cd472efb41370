// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where the kernel would send a packet of this host to an address, as `ip route get` tells it.

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
use diolkos_service::failure::Failure;

/// Where a route leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leads {
    /// The address is one of this host.
    Here,
    /// Through an interface, to a router or to the address itself.
    Through(String, Option<IpAddr>),
    /// Nowhere: the kernel drops the packet or answers it.
    Nowhere,
}

impl Leads {
    /// Does it lead to this interface?
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
    /// Where packets to an address go.
    pub async fn leads(&self, to: IpAddr) -> Result<Leads, Failure> {
        let len = if to.is_ipv4() { 32 } else { 128 };
        let question = RouteMessageBuilder::<IpAddr>::new().destination_prefix(to, len);
        let failed = |what: String| Failure::run_time(what);
        let question = question.map_err(|e| failed(format!("cannot look up the route: {e}")))?;
        let request = self.handle.route().get(question.build()).execute();
        let found: Vec<RouteMessage> = in_time(request.try_collect())
            .await
            .map_err(|refusal| refusal.to("look up the route"))?;
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
    /// The interface and the next hop by which packets to an address leave. `None`: no route leads there, or only one that
    /// leads everywhere, or the address is one of this host.
    pub async fn next_hop6(&self, to: Ipv6Addr) -> Result<Option<(u32, Ipv6Addr)>, Failure> {
        let mut question = RouteMessageBuilder::<Ipv6Addr>::new()
            .destination_prefix(to, 128)
            .build();
        // The answer is the route itself, whose length says how much it leads to.
        question.header.flags |= RouteFlags::FibMatch;
        let request = self.handle.route().get(question).execute();
        let found: Vec<RouteMessage> = match in_time(request.try_collect()).await {
            Ok(found) => found,
            Err(refusal) if says_unreachable(&refusal) => return Ok(None),
            Err(refusal) => return Err(refusal.to("look up the next hop")),
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

/// What the kernel is asked: which way a packet would take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question {
    pub to: Ipv6Addr,
    /// Its source. With none and an exit, the kernel answers strictly for that exit.
    pub from: Option<Ipv6Addr>,
    /// The interface that it came in by; it is forwarded, then.
    pub came_by: Option<u32>,
    /// The interface that it is to leave by, as of a socket that is bound to it.
    pub exit: Option<u32>,
}

/// What it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// Through the interface with this index, to a router or to the address itself.
    Through(u32, Option<Ipv6Addr>),
    /// The address is one of this host.
    Here,
    /// A route or rule refuses such packets; its type.
    Refused(&'static str),
    /// No route leads there.
    Nowhere,
}

impl Net {
    /// Asks the kernel which way an IPv6 packet would take, by all its rules and routes.
    pub(super) async fn ask6(&self, question: Question) -> Result<Reply, Failure> {
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

    /// Asks which way a packet that comes in by the interface `came_by` would be forwarded, by all rules and routes. None:
    /// the kernel does not take such a packet at all, for example because of `rp_filter`.
    pub(super) async fn ask_forwarded(
        &self,
        from: IpAddr,
        to: IpAddr,
        came_by: u32,
    ) -> Result<Option<Reply>, Failure> {
        let len = if to.is_ipv4() { 32 } else { 128 };
        let asked = RouteMessageBuilder::<IpAddr>::new()
            .destination_prefix(to, len)
            .and_then(|asked| asked.source_prefix(from, len));
        let asked = asked
            .map_err(|e| Failure::run_time(format!("cannot look up the route: {e}")))?
            .input_interface(came_by)
            .build();
        use io::ErrorKind::{HostUnreachable, InvalidInput, NetworkUnreachable, PermissionDenied};
        Ok(match self.reply_to(asked).await? {
            Ok(reply) => Some(reply),
            Err(error) => match error.kind() {
                HostUnreachable | InvalidInput | NetworkUnreachable | PermissionDenied => {
                    Some(of_error(&error))
                }
                _ => None,
            },
        })
    }

    /// What the kernel answers, or the error by which it does.
    async fn reply_to(&self, asked: RouteMessage) -> Result<Result<Reply, io::Error>, Failure> {
        let request = self.handle.route().get(asked).execute();
        let found: Result<Vec<RouteMessage>, Refusal> = in_time(request.try_collect()).await;
        let found = match found {
            Ok(found) => found,
            Err(refusal) => match refusal.errno() {
                Some(error) => return Ok(Err(error)),
                None => return Err(refusal.to("look up the route").or_transient()),
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

/// The kernel answers with the error that the sender of such a packet would get.
fn of_error(error: &io::Error) -> Reply {
    match error.kind() {
        io::ErrorKind::InvalidInput => Reply::Refused("blackhole"),
        io::ErrorKind::HostUnreachable => Reply::Refused("unreachable"),
        io::ErrorKind::PermissionDenied => Reply::Refused("prohibit"),
        _ => Reply::Nowhere,
    }
}

/// The kernel answers the question by an error where no route leads, or one that refuses.
fn says_unreachable(refusal: &Refusal) -> bool {
    use std::io::ErrorKind::{HostUnreachable, InvalidInput, NetworkUnreachable, PermissionDenied};
    let kind = refusal.errno().map(|error| error.kind());
    matches!(
        kind,
        Some(HostUnreachable | NetworkUnreachable | InvalidInput | PermissionDenied)
    )
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
