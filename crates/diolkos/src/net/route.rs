// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Routes through the TUN device. They go with it.

use std::fmt::Display;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};

use futures_util::TryStreamExt;
use ipnet::{Ipv4Net, Ipv6Net};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteMessage, RouteMetric, RouteProtocol,
};
use rtnetlink::RouteMessageBuilder;

use super::{errno, refused, Net};
use crate::failure::Failure;

/// An IPv4 route into the translator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route4 {
    /// Where it leads.
    pub to: Ipv4Net,
    /// The TUN device's index.
    pub index: u32,
    /// Its address, the source of what this host sends.
    pub source: Option<Ipv4Addr>,
    /// Preference among routes to the same place; the lower one wins.
    pub metric: u32,
    /// Largest packet, bytes: what still fits the IPv6 side after translation.
    pub mtu: Option<u32>,
}

/// An IPv6 route into the translator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route6 {
    /// Where it leads.
    pub to: Ipv6Net,
    /// The TUN device's index.
    pub index: u32,
    /// Preference among routes to the same place; the lower one wins.
    pub metric: Option<u32>,
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
        builder.build()
    }
}

impl Net {
    /// Adds the route; one that is there already is not replaced.
    pub async fn add_route4(&self, route: &Route4) -> Result<(), Failure> {
        let request = self.handle.route().add(route.message());
        let done = request.execute().await;
        done.map_err(|e| not_added(route.to, Some(route.metric), &e))
    }

    /// Adds the route; one that is there already is not replaced.
    pub async fn add_route6(&self, route: &Route6) -> Result<(), Failure> {
        let request = self.handle.route().add(route.message());
        let done = request.execute().await;
        done.map_err(|e| not_added(route.to, route.metric, &e))
    }

    /// The IPv4 routes through a device that were added.
    pub async fn routes4(&self, index: u32) -> Result<Vec<Route4>, Failure> {
        let all = RouteMessageBuilder::<Ipv4Addr>::new().build();
        let found = self.routes(all, index).await?;
        let routes = found.into_iter().filter_map(|(message, metric)| {
            let len = message.header.destination_prefix_length;
            let to = destination(&message).and_then(|to| match to {
                RouteAddress::Inet(to) => Some(*to),
                _ => None,
            });
            Some(Route4 {
                to: Ipv4Net::new(to.unwrap_or(Ipv4Addr::UNSPECIFIED), len).ok()?,
                index,
                source: None,
                metric,
                mtu: None,
            })
        });
        Ok(routes.collect())
    }

    /// The same of IPv6.
    pub async fn routes6(&self, index: u32) -> Result<Vec<Route6>, Failure> {
        let all = RouteMessageBuilder::<Ipv6Addr>::new().build();
        let found = self.routes(all, index).await?;
        let routes = found.into_iter().filter_map(|(message, metric)| {
            let len = message.header.destination_prefix_length;
            let to = destination(&message).and_then(|to| match to {
                RouteAddress::Inet6(to) => Some(*to),
                _ => None,
            });
            Some(Route6 {
                to: Ipv6Net::new(to.unwrap_or(Ipv6Addr::UNSPECIFIED), len).ok()?,
                index,
                metric: Some(metric),
            })
        });
        Ok(routes.collect())
    }

    /// Those of one family that are of our kind, with their metrics.
    async fn routes(
        &self,
        all: RouteMessage,
        index: u32,
    ) -> Result<Vec<(RouteMessage, u32)>, Failure> {
        let found: Vec<RouteMessage> = self
            .handle
            .route()
            .get(all)
            .execute()
            .try_collect()
            .await
            .map_err(|e| refused("list the routes", &e))?;
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

    /// Removes a route that was added.
    pub async fn remove_route4(&self, route: &Route4) -> Result<(), Failure> {
        let done = self.handle.route().del(route.message()).execute().await;
        done.map_err(|e| refused(format_args!("remove the route to {}", route.to), &e))
    }

    /// Removes a route that was added.
    pub async fn remove_route6(&self, route: &Route6) -> Result<(), Failure> {
        let done = self.handle.route().del(route.message()).execute().await;
        done.map_err(|e| refused(format_args!("remove the route to {}", route.to), &e))
    }
}

/// Where a route leads; that of a default route is not said.
fn destination(message: &RouteMessage) -> Option<&RouteAddress> {
    message
        .attributes
        .iter()
        .find_map(|attribute| match attribute {
            RouteAttribute::Destination(to) => Some(to),
            _ => None,
        })
}

fn not_added(to: impl Display, metric: Option<u32>, error: &rtnetlink::Error) -> Failure {
    match (errno(error), metric) {
        (Some(e), Some(metric)) if e.kind() == io::ErrorKind::AlreadyExists => Failure::run_time(
            format!("there is a route to {to} with metric {metric} already: choose another metric"),
        ),
        _ => refused(format_args!("add the route to {to}"), error),
    }
}
