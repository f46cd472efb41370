// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The owners of addresses when several gateways serve the same nodes. Each address has one owner, and only the owner
//! allocates its ports.

use super::{Filtering, Gateway, Nat64Config, Pools};
use ipnet::Ipv4Net;
use std::net::Ipv4Addr;

/// Maximum number of gateways.
pub const MOST_GATEWAYS: u8 = 64;

/// All addresses of the cluster's pool, with their owners. [`Nat64Config::pool4`] holds only those of this gateway.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Owners {
    /// The index of this gateway.
    pub me: Gateway,
    /// Networks and their owners; no address is in two of them.
    pub addresses: Vec<(Ipv4Net, Gateway)>,
    /// The pools by source of all gateways: copies obey them too. A pool has addresses of each gateway.
    pub pools: Pools,
}

impl Owners {
    /// The owner of an address. None if it is not in the cluster's pool. Takes time proportional to the number of
    /// networks.
    pub fn of(&self, addr: Ipv4Addr) -> Option<Gateway> {
        let mut all = self.addresses.iter();
        all.find(|(net, _)| net.contains(&addr))
            .map(|(_, owner)| *owner)
    }

    /// Returns true if each address has the same owner, and this is the same gateway.
    pub(crate) fn has_same_owners(&self, other: &Owners) -> bool {
        (self.me, &self.addresses) == (other.me, &other.addresses)
    }

    /// Returns true if all addresses of this network belong to this gateway.
    fn has(&self, net: Ipv4Net) -> bool {
        let mine = self.addresses.iter().filter(|(_, owner)| *owner == self.me);
        let mine: Vec<Ipv4Net> = mine.map(|(net, _)| *net).collect();
        let all = Ipv4Net::aggregate(&mine);
        all.iter().any(|its| its.contains(&net))
    }
}

impl Nat64Config {
    pub(super) fn check_owners(&self, add: &mut impl FnMut(String, String)) {
        let Some(owners) = &self.owners else { return };
        if self.filtering == Filtering::AddressDependent {
            add(
                "nat64.filtering".into(),
                "copies of bindings do not know their peers; a cluster needs \"endpoint-independent\""
                    .into(),
            );
        }
        let most = owners.addresses.iter().map(|(_, owner)| *owner).max();
        if owners.me.max(most.unwrap_or(0)) >= MOST_GATEWAYS {
            add(
                "cluster".into(),
                format!("more than {MOST_GATEWAYS} gateways"),
            );
        }
        let mut sorted: Vec<Ipv4Net> = owners.addresses.iter().map(|(net, _)| *net).collect();
        sorted.sort_unstable();
        for pair in sorted.windows(2) {
            if pair[0].contains(&pair[1]) {
                let message = format!("{} has two owners; write each address once", pair[1]);
                add("cluster".into(), message);
            }
        }
        for (at, part) in self.pool4.iter().enumerate() {
            if !owners.has(part.net) {
                let message = format!("{} has addresses of another gateway", part.net);
                add(format!("nat64.pool4[{at}].address"), message);
            }
        }
        for (at, binding) in self.bindings.iter().enumerate() {
            if let Some(why) = owners.refuses(binding.v4.addr) {
                add(format!("nat64.bindings[{at}].v4"), why);
            }
        }
    }
}

impl Owners {
    /// Returns the reason for which this gateway must not bind the address, as the rest of a sentence, or None.
    pub(crate) fn refuses(&self, addr: Ipv4Addr) -> Option<String> {
        let is_mine = self.of(addr) == Some(self.me);
        (!is_mine).then(|| format!("{addr} is no address of this gateway"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{
        Binding, Deterministic, Endpoint4, Endpoint6, Pool4, PortBlocks, Protocol,
    };
    use diolkos_xlat::config::Config;

    fn net(text: &str) -> Ipv4Net {
        text.parse().expect("a network")
    }

    fn config() -> Nat64Config {
        Nat64Config {
            translator: Config {
                pref64: vec!["64:ff9b::/96".parse().unwrap()],
                ..Config::default()
            },
            pool4: vec![Pool4 {
                interface: None,
                net: net("192.0.2.0/31"),
                ports: 1024..=65535,
                protocols: Protocol::ALL.to_vec(),
                sources: vec![],
            }],
            owners: Some(Owners {
                me: 1,
                addresses: vec![
                    (net("192.0.2.4/30"), 0),
                    (net("192.0.2.0/32"), 1),
                    (net("192.0.2.1/32"), 1),
                ],
                pools: Pools::default(),
            }),
            ..Nat64Config::default()
        }
    }

    fn keys(change: impl FnOnce(&mut Nat64Config)) -> Vec<String> {
        let mut config = config();
        change(&mut config);
        match config.check() {
            Ok(()) => vec![],
            Err(error) => error.problems.into_iter().map(|p| p.key).collect(),
        }
    }

    #[test]
    fn blocks_and_fixed_ports_are_possible() {
        assert_eq!(keys(|_| {}), [""; 0]);
        assert_eq!(
            keys(|config| config.blocks = Some(PortBlocks {
                ports: 64,
                per_source: 4,
                source_prefix_len: 64,
            })),
            [""; 0]
        );
        assert_eq!(
            keys(|config| config.deterministic = Some(Deterministic {
                sources: vec!["2001:db8::/60".parse().unwrap()],
                ports_per_source: None,
                overflow_share: 0,
            })),
            [""; 0]
        );
    }

    #[test]
    fn each_address_has_one_owner_and_the_pool_is_this_gateways() {
        let owners = config().owners.expect("there are");
        let of = |text: &str| owners.of(text.parse().expect("an address"));
        assert_eq!(
            ["192.0.2.1", "192.0.2.7", "192.0.2.8"].map(of),
            [Some(1), Some(0), None]
        );
        let foreign = |config: &mut Nat64Config| config.pool4[0].net = net("192.0.2.0/30");
        assert_eq!(keys(foreign), ["nat64.pool4[0].address"]);
        let twice = |config: &mut Nat64Config| {
            let owners = config.owners.as_mut().expect("there are");
            owners.addresses.push((net("192.0.2.0/24"), 2));
        };
        assert_eq!(keys(twice), ["cluster"]);
        let many = |config: &mut Nat64Config| {
            let owners = config.owners.as_mut().expect("there are");
            owners.addresses.push((net("192.0.3.0/24"), 64));
        };
        assert_eq!(keys(many), ["cluster"]);
        let bound = |config: &mut Nat64Config| {
            config.bindings = vec![Binding {
                protocol: Protocol::Udp,
                v4: Endpoint4 {
                    addr: "192.0.2.5".parse().unwrap(),
                    port: 53,
                },
                v6: Endpoint6 {
                    addr: "2001:db8::1".parse().unwrap(),
                    port: 53,
                },
            }];
        };
        assert_eq!(keys(bound), ["nat64.bindings[0].v4"]);
        assert_eq!(
            keys(|config| config.filtering = Filtering::AddressDependent),
            ["nat64.filtering"]
        );
    }
}
