// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Routes through the TUN device. They go with it.

use std::fmt::Display;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};

use ipnet::{Ipv4Net, Ipv6Net};
use netlink_packet_route::route::{RouteAttribute, RouteMessage, RouteMetric, RouteProtocol};
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

fn not_added(to: impl Display, metric: Option<u32>, error: &rtnetlink::Error) -> Failure {
    match (errno(error), metric) {
        (Some(e), Some(metric)) if e.kind() == io::ErrorKind::AlreadyExists => Failure::run_time(
            format!("there is a route to {to} with metric {metric} already: choose another metric"),
        ),
        _ => refused(format_args!("add the route to {to}"), error),
    }
}
