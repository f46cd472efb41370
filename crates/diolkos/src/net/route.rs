// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Routes through the TUN device. They go with it.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};

use ipnet::Ipv4Net;
use netlink_packet_route::route::{RouteAttribute, RouteMetric, RouteProtocol};
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
    pub source: Ipv4Addr,
    /// Preference among routes to the same place; the lower one wins.
    pub metric: u32,
    /// Largest packet, bytes: what still fits the IPv6 side after translation.
    pub mtu: u32,
}

impl Net {
    /// Adds the route; one that is there already is not replaced.
    pub async fn add_route4(&self, route: &Route4) -> Result<(), Failure> {
        let mut builder = RouteMessageBuilder::<Ipv4Addr>::new()
            .destination_prefix(route.to.network(), route.to.prefix_len())
            .output_interface(route.index)
            .pref_source(route.source)
            .priority(route.metric)
            .protocol(RouteProtocol::Static);
        let metrics = RouteAttribute::Metrics(vec![RouteMetric::Mtu(route.mtu)]);
        builder.get_mut().attributes.push(metrics);
        let request = self.handle.route().add(builder.build());
        request.execute().await.map_err(|e| match errno(&e) {
            Some(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Failure::run_time(format!(
                    "there is a route to {} with metric {} already: choose another with --metric",
                    route.to, route.metric
                ))
            }
            _ => refused(format_args!("add the route to {}", route.to), &e),
        })
    }

    /// Leads one IPv6 address to the TUN device.
    pub async fn add_route6(&self, to: Ipv6Addr, index: u32) -> Result<(), Failure> {
        let message = RouteMessageBuilder::<Ipv6Addr>::new()
            .destination_prefix(to, 128)
            .output_interface(index)
            .protocol(RouteProtocol::Static)
            .build();
        self.handle
            .route()
            .add(message)
            .execute()
            .await
            .map_err(|e| refused(format_args!("add the route to {to}"), &e))
    }
}
