// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The destinations that lead to the translator, and their routes in the kernel.
//!
//! A mapping does not say on which side its node is. Unless the operator says otherwise, it is on the IPv6 side: its
//! IPv4 address leads here, and its IPv6 address leads to the node. The addresses of a NAT64's pool lead here.

use std::collections::BTreeSet;
use std::future::ready;

use diolkos_fastpath::Destinations;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use diolkos_config::{Mode, Networks, Settings};
use diolkos_kernel::net::{DeviceConfig, Net, Route4, Route6};
use diolkos_service::failure::Failure;

/// Added to the metric of routes that should not attract packets. A routing daemon that uses the metric announces them
/// as worse ones, or not at all.
const YIELDS: u32 = 2;

/// The kernel's metric of an IPv6 route that has none.
const METRIC6: u32 = 1024;

/// Destinations, none inside another, with neighbours merged where they form a prefix.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Routes {
    /// IPv4 destinations.
    pub v4: BTreeSet<Ipv4Net>,
    /// IPv6 destinations.
    pub v6: BTreeSet<Ipv6Net>,
    /// Addresses of this gateway of a cluster, beside the pool of all gateways, which contains them.
    pub owned: BTreeSet<Ipv4Net>,
    /// True if other gateways of the cluster should get the packets, if routers have a choice.
    pub yields: bool,
}

impl Routes {
    /// Returns the routes of a configuration.
    pub fn of(settings: &Settings) -> Routes {
        let led = Ipv4Net::aggregate(&settings.led4());
        let (v4, owned) = match &settings.cluster {
            Some(cluster) if settings.nat64.routes4 == Networks::Auto => {
                let all = cluster.node.iter().flat_map(|node| &node.pool4);
                let all = all.map(|part| part.net).chain(led.iter().copied());
                (Ipv4Net::aggregate(&all.collect()), led)
            }
            _ => (led, Vec::new()),
        };
        Routes {
            v4: v4.into_iter().collect(),
            v6: Ipv6Net::aggregate(&settings.led6()).into_iter().collect(),
            owned: owned.into_iter().collect(),
            // Until it is known that packets can be translated.
            yields: settings.cluster.is_some(),
        }
    }

    /// Returns their metric.
    pub fn metric(settings: &Settings) -> u32 {
        match settings.translator.mode {
            Mode::Nat64 => settings.nat64.metric,
            Mode::Clat | Mode::Siit => settings.siit.metric,
        }
    }

    /// Returns true if another route takes packets away from one of these: it is longer, or the same with a lower metric. `own` is
    /// the metric of these.
    pub fn lose_to(&self, to: &IpNet, metric: u32, own: u32) -> bool {
        let own = match self.yields {
            true => own.saturating_add(YIELDS),
            false => own,
        };
        match to {
            IpNet::V4(to) => self
                .v4
                .iter()
                .any(|led| led.contains(to) && (led != to || metric < own)),
            IpNet::V6(to) => {
                let own = if own == 0 { METRIC6 } else { own };
                self.v6
                    .iter()
                    .any(|led| led.contains(to) && (led != to || metric < own))
            }
        }
    }

    /// Returns the section of the configuration that sets them.
    pub fn section(settings: &Settings) -> &'static str {
        match settings.translator.mode {
            Mode::Nat64 => "nat64",
            Mode::Clat | Mode::Siit => "siit",
        }
    }

    /// Converts them for the fast path.
    pub fn destinations(&self) -> Destinations {
        let v4 = self.v4.iter().map(|net| (net.network(), net.prefix_len()));
        let v6 = self.v6.iter().map(|net| (net.network(), net.prefix_len()));
        Destinations {
            v4: v4.collect(),
            v6: v6.collect(),
        }
    }

    /// Sets exactly these routes to a device: an earlier run may have left others there.
    pub async fn lead(&self, net: &Net, index: u32, metric: u32) -> Result<(), Failure> {
        let there = DeviceConfig {
            index,
            routes4: net.routes4(index).await?,
            routes6: net.routes6(index).await?,
            ..DeviceConfig::default()
        };
        let there = as_asked(there, metric);
        let nothing = ready(Ok(()));
        net.change(&there, &self.own(index, metric), nothing).await
    }

    /// Returns all of them, as routes of a device.
    pub fn own(&self, index: u32, metric: u32) -> DeviceConfig {
        let metric = match self.yields {
            true => metric.saturating_add(YIELDS),
            false => metric,
        };
        DeviceConfig {
            index,
            routes4: self
                .v4
                .union(&self.owned)
                .map(|to| route4(*to, index, metric))
                .collect(),
            routes6: self
                .v6
                .iter()
                .map(|to| route6(*to, index, metric))
                .collect(),
            ..DeviceConfig::default()
        }
    }
}

/// Converts routes to the form of a configuration with this metric: with 0, IPv6 routes have none.
fn as_asked(mut there: DeviceConfig, metric: u32) -> DeviceConfig {
    for route in &mut there.routes6 {
        route.metric = route.metric.filter(|_| metric != 0);
    }
    there
}

fn route4(to: Ipv4Net, index: u32, metric: u32) -> Route4 {
    Route4 {
        to,
        index,
        source: None,
        metric,
        mtu: None,
    }
}

fn route6(to: Ipv6Net, index: u32, metric: u32) -> Route6 {
    Route6 {
        to,
        index,
        // The kernel replaces the metric 0 of an IPv6 route by its default.
        metric: Some(metric).filter(|metric| *metric != 0),
        is_first: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use diolkos_config::{Eam, Mode, Networks};

    fn settings(eam: &[(&str, &str)]) -> Settings {
        let eam = eam.iter().map(|(v4, v6)| Eam {
            v4: v4.parse().expect("a network"),
            v6: v6.parse().expect("a network"),
        });
        let mut settings = Settings {
            eam: eam.collect(),
            ..Settings::default()
        };
        settings.translator.mode = Mode::Siit;
        settings.settle_prefix_of_router(|| false);
        settings
    }

    fn shown(routes: &Routes) -> (Vec<String>, Vec<String>) {
        (
            routes.v4.iter().map(ToString::to_string).collect(),
            routes.v6.iter().map(ToString::to_string).collect(),
        )
    }

    #[test]
    fn prefixes_and_mapped_ipv4_networks_lead_here() {
        let settings = settings(&[
            ("192.0.2.0/25", "2001:db8::/121"),
            ("192.0.2.7/32", "2001:db8::7/128"),
            ("192.0.2.128/25", "2001:db8:1::/121"),
        ]);
        let routes = shown(&Routes::of(&settings));
        assert_eq!(
            routes,
            (vec!["192.0.2.0/24".into()], vec!["64:ff9b::/96".into()])
        );
    }

    #[test]
    fn longer_routes_and_those_of_a_lower_metric_take_packets_away() {
        let routes = Routes::of(&settings(&[("192.0.2.0/25", "2001:db8::/121")]));
        let lose =
            |to: &str, metric, own| routes.lose_to(&to.parse().expect("a network"), metric, own);
        assert!(lose("64:ff9b::a00:0/104", 4096, 0) && lose("192.0.2.1/32", 0, 0));
        assert!(lose("64:ff9b::/96", 1023, 0) && !lose("64:ff9b::/96", 1024, 0));
        assert!(lose("192.0.2.0/25", 4, 5) && !lose("192.0.2.0/25", 0, 0));
        for other in ["64:ff9b::/64", "::/0", "192.0.2.0/24", "198.51.100.0/24"] {
            assert!(!lose(other, 0, 7), "{other}");
        }
    }

    #[test]
    fn given_routes_are_all() {
        let mut settings = settings(&[("192.0.2.0/25", "2001:db8::/121")]);
        settings.siit.routes4 = Networks::These(vec!["0.0.0.0/0".parse().expect("a network")]);
        settings.siit.routes6 = Networks::These(vec!["2001:db8::/121".parse().expect("a network")]);
        let routes = Routes::of(&settings);
        assert_eq!(
            shown(&routes),
            (vec!["0.0.0.0/0".into()], vec!["2001:db8::/121".into()])
        );
    }
}
