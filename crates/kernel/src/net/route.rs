// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Routes through the TUN device. They disappear with the device.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use diolkos_sys::namespace::interface_name;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteMetric, RouteProtocol,
};
use netlink_packet_route::AddressFamily;
use rtnetlink::RouteMessageBuilder;

use super::link::is_disabled6;
use super::{in_time, Net, Refusal, TABLE_LOCAL};
use crate::error::KernelError;

/// An IPv4 route into the translator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route4 {
    /// Its destination.
    pub to: Ipv4Net,
    /// The TUN device's index.
    pub index: u32,
    /// The device's address: the source of packets that this host sends by the route.
    pub source: Option<Ipv4Addr>,
    /// Preference among routes to the same destination; the lower one wins.
    pub metric: u32,
    /// Largest packet, bytes, that still fits the IPv6 side after translation.
    pub mtu: Option<u32>,
}

/// An IPv6 route into the translator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route6 {
    /// Its destination.
    pub to: Ipv6Net,
    /// The TUN device's index.
    pub index: u32,
    /// Preference among routes to the same destination; the lower one wins.
    pub metric: Option<u32>,
    /// It is in the table `local`, which the kernel looks up before any rule that others add.
    pub is_first: bool,
}

/// The result of adding a route.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Added {
    /// The route is in place.
    Done,
    /// The device is down, so it cannot hold routes. Once it is up again, [`Net::restore`] adds them.
    DeviceIsDown,
}

impl Route4 {
    fn message(&self) -> RouteMessage {
        let mut builder = RouteMessageBuilder::<Ipv4Addr>::new()
            .destination_prefix(self.to.network(), self.to.prefix_len())
            .output_interface(self.index)
            .priority(self.metric)
            .protocol(RouteProtocol::Static);
        if let Some(source) = self.source {
            builder = builder.pref_source(source);
        }
        if let Some(mtu) = self.mtu {
            let metrics = RouteAttribute::Metrics(vec![RouteMetric::Mtu(mtu)]);
            builder.get_mut().attributes.push(metrics);
        }
        builder.build()
    }
}

impl Route6 {
    fn message(&self) -> RouteMessage {
        let mut builder = RouteMessageBuilder::<Ipv6Addr>::new()
            .destination_prefix(self.to.network(), self.to.prefix_len())
            .output_interface(self.index)
            .protocol(RouteProtocol::Static);
        if let Some(metric) = self.metric {
            builder = builder.priority(metric);
        }
        if self.is_first {
            builder = builder.table_id(TABLE_LOCAL.into());
        }
        builder.build()
    }
}

impl Net {
    /// Adds the route; an existing one is not replaced.
    pub async fn add_route4(&self, route: &Route4) -> Result<Added, KernelError> {
        let request = self.handle.route().add(route.message());
        let done = in_time(request.execute()).await;
        added(done, |refusal| {
            refusal.route(route.to, Some(route.metric), None)
        })
    }

    /// Adds the route; it replaces one with the same destination and metric.
    pub async fn replace_route4(&self, route: &Route4) -> Result<Added, KernelError> {
        let request = self.handle.route().add(route.message()).replace();
        let done = in_time(request.execute()).await;
        added(done, |refusal| {
            refusal.change(format_args!("replace the route to {}", route.to))
        })
    }

    /// Adds the route; an existing one is not replaced.
    pub async fn add_route6(&self, route: &Route6) -> Result<Added, KernelError> {
        let request = self.handle.route().add(route.message());
        let done = in_time(request.execute()).await;
        added(done, |refusal| {
            let name = interface_name(route.index).filter(|name| is_disabled6(name));
            refusal.route(route.to, route.metric, name)
        })
    }

    /// The IPv4 routes through a device that this program added.
    pub async fn routes4(&self, index: u32) -> Result<Vec<Route4>, KernelError> {
        let found = self.routes(AddressFamily::Inet, index).await?;
        let routes = found.into_iter().filter_map(|(message, metric)| {
            let Some(IpNet::V4(to)) = destination(&message) else {
                return None;
            };
            Some(Route4 {
                to,
                index,
                source: None,
                metric,
                mtu: None,
            })
        });
        Ok(routes.collect())
    }

    /// The IPv6 routes through a device that this program added.
    pub async fn routes6(&self, index: u32) -> Result<Vec<Route6>, KernelError> {
        let found = self.routes(AddressFamily::Inet6, index).await?;
        let routes = found.into_iter().filter_map(|(message, metric)| {
            let Some(IpNet::V6(to)) = destination(&message) else {
                return None;
            };
            Some(Route6 {
                to,
                index,
                metric: Some(metric),
                is_first: message.header.table == TABLE_LOCAL,
            })
        });
        Ok(routes.collect())
    }

    /// The metrics of the IPv4 routes in the main table whose destination is one of `to`.
    pub async fn metrics4(&self, to: &[Ipv4Net]) -> Result<BTreeSet<u32>, KernelError> {
        let all = self.list_routes(AddressFamily::Inet, None).await?;
        let same = all.iter().filter(|message| {
            let leads = |to: &Ipv4Net| destination(message) == Some(IpNet::V4(to.trunc()));
            message.header.table == RouteHeader::RT_TABLE_MAIN && to.iter().any(leads)
        });
        let metric = |attribute: &RouteAttribute| match attribute {
            RouteAttribute::Priority(metric) => Some(*metric),
            _ => None,
        };
        let metrics = same.map(|message| message.attributes.iter().find_map(metric).unwrap_or(0));
        Ok(metrics.collect())
    }

    /// The static routes of one family through the device, with their metrics.
    async fn routes(
        &self,
        family: AddressFamily,
        index: u32,
    ) -> Result<Vec<(RouteMessage, u32)>, KernelError> {
        // The kernel omits routes through other interfaces, of which there may be a million.
        let found = self.list_routes(family, Some(index)).await?;
        let ours = found.into_iter().filter(|message| {
            message.header.protocol == RouteProtocol::Static
                && message.attributes.contains(&RouteAttribute::Oif(index))
        });
        let with_metric = ours.map(|message| {
            let metric = message
                .attributes
                .iter()
                .find_map(|attribute| match attribute {
                    RouteAttribute::Priority(metric) => Some(*metric),
                    _ => None,
                });
            (message, metric.unwrap_or(0))
        });
        Ok(with_metric.collect())
    }

    /// The destinations of all routes, in whatever table, that do not lead through this device.
    pub async fn destinations_besides(&self, index: u32) -> Result<Vec<IpNet>, KernelError> {
        let mut all = Vec::new();
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let found = self.list_routes(family, None).await?;
            let others = found
                .iter()
                .filter(|message| !exits(message).any(|exit| exit == index));
            all.extend(others.filter_map(destination));
        }
        Ok(all)
    }

    /// All routes of a family, in whatever table; or only those through one interface.
    pub(super) async fn list_routes(
        &self,
        family: AddressFamily,
        through: Option<u32>,
    ) -> Result<Vec<RouteMessage>, KernelError> {
        let mut filter = RouteMessage::default();
        filter.header.address_family = family;
        filter.attributes.extend(through.map(RouteAttribute::Oif));
        let ask = |handle: &rtnetlink::Handle| handle.route().get(filter).execute();
        self.list("list the routes", ask).await
    }

    /// Removes a route that was added.
    pub async fn remove_route4(&self, route: &Route4) -> Result<(), KernelError> {
        in_time(self.handle.route().del(route.message()).execute())
            .await
            .map_err(|refusal| refusal.change(format_args!("remove the route to {}", route.to)))
    }

    /// Removes a route that was added.
    pub async fn remove_route6(&self, route: &Route6) -> Result<(), KernelError> {
        in_time(self.handle.route().del(route.message()).execute())
            .await
            .map_err(|refusal| refusal.change(format_args!("remove the route to {}", route.to)))
    }
}

/// The destination of a route.
pub(super) fn destination(message: &RouteMessage) -> Option<IpNet> {
    let len = message.header.destination_prefix_length;
    let said = message
        .attributes
        .iter()
        .find_map(|attribute| match attribute {
            RouteAttribute::Destination(RouteAddress::Inet(to)) => Some(IpAddr::V4(*to)),
            RouteAttribute::Destination(RouteAddress::Inet6(to)) => Some(IpAddr::V6(*to)),
            _ => None,
        });
    // A default route has no destination attribute.
    let any = match message.header.address_family {
        AddressFamily::Inet => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        _ => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    IpNet::new(said.unwrap_or(any), len).ok()
}

/// The interfaces through which a route leads.
pub(super) fn exits(message: &RouteMessage) -> impl Iterator<Item = u32> + '_ {
    message.attributes.iter().flat_map(|attribute| {
        let (one, several) = match attribute {
            RouteAttribute::Oif(index) => (Some(*index), &[][..]),
            RouteAttribute::MultiPath(hops) => (None, &hops[..]),
            _ => (None, &[][..]),
        };
        let several = several.iter().map(|hop| hop.interface_index);
        one.into_iter().chain(several)
    })
}

fn added(
    done: Result<(), Refusal>,
    error: impl FnOnce(Refusal) -> KernelError,
) -> Result<Added, KernelError> {
    match done {
        Ok(()) => Ok(Added::Done),
        Err(refusal) if refusal.is_down() => Ok(Added::DeviceIsDown),
        Err(refusal) => Err(error(refusal)),
    }
}
