// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Detects addresses that lead to the translator and lie in a connected network: nodes there do not send to this
//! router, but ask their neighbours, and without an answer no packet comes.
//!
//! connected networks, destinations → suspects → (packets that came nevertheless) → findings
//!
//! One thing cannot be found out on this host: a router on that link may have a route to the addresses through this
//! one. Then the first packet from there is the proof, and ends the obstacle.

use std::collections::BTreeSet;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use diolkos_config::Settings;
use diolkos_control::translator::{Finding, Reason};
use diolkos_kernel::net::{answers_arp, Connected, Net, Proxy};
use diolkos_service::counted::counted;
use diolkos_service::failure::Failure;

/// Maximum number of networks that are named.
const SHOWN: usize = 3;

/// Destinations that no node answers for, as far as this host can tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unannounced {
    suspects: BTreeSet<Suspect>,
    /// True if there are no suspects only because of entries whose changes the kernel does not report.
    may_change: bool,
    /// True if all IPv4 destinations lie in one such network: every packet from IPv4 has passed it.
    is_all_of_v4: bool,
    /// Packets that had arrived from either side when there were no suspects yet: IPv4, IPv6.
    before: [u64; 2],
}

/// Destinations of one family, and the network in which they lie.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Suspect {
    interface: String,
    connected: IpNet,
    nets: Vec<IpNet>,
}

impl Unannounced {
    /// Examines the networks. `came` is the number of packets that have arrived from IPv4 and from IPv6 until now.
    pub async fn look(
        &self,
        net: &Net,
        settings: &Settings,
        own: u32,
        came: [u64; 2],
    ) -> Result<Unannounced, Failure> {
        let led4 = Ipv4Net::aggregate(&settings.led4());
        let led: Vec<IpNet> = led4.iter().copied().map(IpNet::V4).collect();
        let led6 = Ipv6Net::aggregate(&settings.led6());
        let led = led.into_iter().chain(led6.into_iter().map(IpNet::V6));
        let led: Vec<IpNet> = led.collect();
        let connected = net.connected(own).await?;
        let mut suspects = suspects(&led, &connected, settings);
        let may_change = !suspects.is_empty();
        if may_change {
            let proxies = net.proxies().await?;
            suspects = suspects
                .into_iter()
                .filter_map(|suspect| suspect.unanswered(&proxies))
                .collect();
        }
        let of_v4 = suspects.iter().filter(|suspect| suspect.is_v4());
        let of_v4: Vec<&IpNet> = of_v4.flat_map(|suspect| &suspect.nets).collect();
        let is_all_of_v4 = of_v4.len() == 1 && led4.len() == 1;
        let before = match self.suspects == suspects {
            true => self.before,
            false => came,
        };
        Ok(Unannounced {
            suspects,
            may_change,
            is_all_of_v4,
            before,
        })
    }

    /// Returns true if another check is needed although no notification will come.
    pub fn may_change(&self) -> bool {
        self.may_change
    }

    /// Returns the findings. `came` is as above, by now.
    pub fn findings(&self, came: [u64; 2]) -> Vec<Finding> {
        let suspects = self.suspects.iter();
        suspects
            .filter_map(|suspect| suspect.finding(self, came))
            .collect()
    }
}

impl Suspect {
    fn is_v4(&self) -> bool {
        matches!(self.connected, IpNet::V4(_))
    }

    /// Removes what the kernel answers for.
    fn unanswered(mut self, proxies: &[Proxy]) -> Option<Suspect> {
        if self.is_v4() && answers_arp(&self.interface) {
            return None;
        }
        let proxies = proxies
            .iter()
            .filter(|proxy| proxy.interface == self.interface);
        let proxies: Vec<&Proxy> = proxies.collect();
        let is_answered = |net: &IpNet| proxies.iter().any(|proxy| net.contains(&proxy.address));
        self.nets.retain(|net| !is_answered(net));
        (!self.nets.is_empty()).then_some(self)
    }

    /// Describes the networks, of which there may be many.
    fn shown(&self) -> String {
        let first: Vec<String> = self
            .nets
            .iter()
            .take(SHOWN)
            .map(ToString::to_string)
            .collect();
        match self.nets.len().saturating_sub(SHOWN) {
            0 => first.join(", "),
            more => format!(
                "{} and {}",
                first.join(", "),
                counted(more as u64, "other network")
            ),
        }
    }

    fn finding(&self, all: &Unannounced, came: [u64; 2]) -> Option<Finding> {
        let Suspect {
            interface,
            connected,
            ..
        } = self;
        let nets = self.shown();
        let (side, text) = match self.is_v4() {
            true => (
                0,
                format!(
                    "nobody answers ARP for {nets} on {interface}, which is in {connected}: add an [[announce]] with \
                     interface = \"{interface}\", or have the router there route {nets} to this host"
                ),
            ),
            false => (
                1,
                format!(
                    "{nets} lies in {connected}, the network of {interface}, so nodes there ask their neighbours for its \
                     addresses instead of sending to this router: choose a prefix outside of {connected}"
                ),
            ),
        };
        match (came[side] > all.before[side], side) {
            (false, _) => Some(Finding::obstacle(Reason::Unannounced, text)),
            // It is routed here.
            (true, 0) if all.is_all_of_v4 => None,
            // From there, or from elsewhere: this cannot be told.
            (true, _) => Some(Finding::trouble(Reason::Unannounced, text)),
        }
    }
}

/// Returns those that no section of the configuration answers for.
fn suspects(led: &[IpNet], connected: &[Connected], settings: &Settings) -> BTreeSet<Suspect> {
    let mut found = BTreeSet::new();
    for there in connected {
        let sections = settings.announce.iter();
        let sections = sections.filter(|section| section.interface == there.interface);
        let announced = sections.flat_map(|section| settings.announced(section));
        let announced = IpNet::aggregate(&announced.collect());
        let is_announced = |net: &IpNet| announced.iter().any(|its| its.contains(net));
        let inside = led.iter().filter(|net| there.net.contains(*net));
        let nets: Vec<IpNet> = inside.filter(|net| !is_announced(net)).copied().collect();
        if !nets.is_empty() {
            found.insert(Suspect {
                interface: there.interface.clone(),
                connected: there.net,
                nets,
            });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use diolkos_config::{Announce, Networks};

    fn connected(networks: &[(&str, &str)]) -> Vec<Connected> {
        let networks = networks.iter().map(|(interface, net)| Connected {
            interface: (*interface).to_owned(),
            net: net.parse().expect("a network"),
        });
        networks.collect()
    }

    fn found(led: &[&str], at: &[(&str, &str)], settings: &Settings) -> Vec<String> {
        let led: Vec<IpNet> = led
            .iter()
            .map(|net| net.parse().expect("a network"))
            .collect();
        let found = suspects(&led, &connected(at), settings);
        let found = found
            .iter()
            .map(|its| format!("{} {}", its.interface, its.shown()));
        found.collect()
    }

    const WAN: (&str, &str) = ("wan0", "198.51.100.0/24");
    const LAN: (&str, &str) = ("lan0", "2001:db8:6::/64");

    #[test]
    fn only_what_lies_inside_a_connected_network_is_suspect() {
        let at = [WAN, LAN];
        let none = Settings::default();
        assert_eq!(
            found(&["198.51.100.8/29"], &at, &none),
            ["wan0 198.51.100.8/29"]
        );
        assert_eq!(
            found(&["2001:db8:6::/96"], &at, &none),
            ["lan0 2001:db8:6::/96"]
        );
        for routed in [
            "192.0.2.0/24",
            "0.0.0.0/0",
            "198.51.0.0/16",
            "64:ff9b::/96",
            "2001:db8::/32",
        ] {
            assert_eq!(found(&[routed], &at, &none), [""; 0], "{routed}");
        }
    }

    #[test]
    fn what_a_section_answers_for_is_not() {
        let mut settings = Settings::default();
        settings.announce.push(Announce {
            interface: "wan0".to_owned(),
            addresses: Networks::These(vec!["198.51.100.8/30".parse().expect("a network")]),
            echo: Vec::new(),
            duplicate_detection: true,
        });
        assert_eq!(found(&["198.51.100.8/30"], &[WAN], &settings), [""; 0]);
        assert_eq!(
            found(&["198.51.100.8/29"], &[WAN], &settings).len(),
            1,
            "half of it"
        );
        let other = [("wan1", WAN.1)];
        assert_eq!(found(&["198.51.100.8/30"], &other, &settings).len(), 1);
    }

    #[test]
    fn of_many_only_some_are_named() {
        let led: Vec<String> = (0..9).map(|n| format!("198.51.100.{}/32", 2 * n)).collect();
        let led: Vec<&str> = led.iter().map(String::as_str).collect();
        assert_eq!(
            found(&led, &[WAN], &Settings::default()),
            ["wan0 198.51.100.0/32, 198.51.100.2/32, 198.51.100.4/32 and 6 other networks"]
        );
    }

    #[test]
    fn the_first_packet_from_there_is_proof() {
        let of = |net: &str, is_all_of_v4| Unannounced {
            suspects: suspects(
                &[net.parse().expect("a network")],
                &connected(&[WAN, LAN]),
                &Settings::default(),
            ),
            may_change: true,
            is_all_of_v4,
            before: [7, 7],
        };
        let kinds = |its: &Unannounced, came| -> Vec<_> {
            its.findings(came)
                .iter()
                .map(|finding| finding.kind)
                .collect()
        };
        use diolkos_control::translator::FindingKind::{Obstacle, Trouble};
        let pool = of("198.51.100.8/29", true);
        assert_eq!(kinds(&pool, [7, 9]), [Obstacle]);
        assert_eq!(kinds(&pool, [8, 7]), []);
        assert_eq!(kinds(&of("198.51.100.8/29", false), [8, 7]), [Trouble]);
        let prefix = of("2001:db8:6::/96", false);
        assert_eq!(kinds(&prefix, [8, 7]), [Obstacle]);
        assert_eq!(kinds(&prefix, [7, 8]), [Trouble], "other links may send");
    }
}
