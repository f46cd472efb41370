// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What decides on the slices of a pool that several gateways share ([`crate::slice`]), and what contradicts it.

use super::{Filtering, Nat64Config, Protocol};
use crate::config::Problem;
use crate::slice::{Slices, Uncuttable, GRAIN, LARGEST};

/// The key of [`SliceRules::ports`].
const PORTS: &str = "cluster.ports_per_slice";

/// How the pool is cut into slices. It must be the same on all gateways that share the pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SliceRules {
    /// Ports of a slice, for each protocol: a multiple of 64, 64 512 at most.
    pub ports: u16,
    /// Bits of the prefix that is one source, as in [`super::Limits`].
    pub source_prefix_len: u8,
    /// Decides which source gets its ports from which slice. Secret.
    pub key: [u64; 2],
}

impl Default for SliceRules {
    /// One slice for each address. The key is not secret.
    fn default() -> Self {
        SliceRules {
            ports: LARGEST,
            source_prefix_len: 64,
            key: [0; 2],
        }
    }
}

impl Nat64Config {
    pub(super) fn check_slices(&self, add: &mut impl FnMut(String, String)) {
        let Some(rules) = &self.slices else { return };
        if self.blocks.is_some() {
            add(
                "nat64.ports_per_block".into(),
                "sources get slices of the pool in a cluster, and no blocks of ports: remove it"
                    .into(),
            );
        }
        if self.deterministic.is_some() {
            add(
                "nat64.deterministic".into(),
                "sources get slices of the pool in a cluster, and no fixed ports: remove it".into(),
            );
        }
        if self.filtering == Filtering::AddressDependent {
            add(
                "nat64.filtering".into(),
                "inherited bindings do not know their peers; a cluster needs \"endpoint-independent\"".into(),
            );
        }
        if !(1..=128).contains(&rules.source_prefix_len) {
            add(
                "nat64.source_prefix_len".into(),
                format!("{} is not between 1 and 128", rules.source_prefix_len),
            );
        }
        for (at, part) in self.pool4.iter().enumerate() {
            let lacks = |protocol: &&Protocol| !part.protocols.contains(protocol);
            if let Some(protocol) = Protocol::ALL.iter().find(lacks) {
                add(
                    format!("nat64.pool4[{at}].protocols"),
                    format!(
                        "a slice has the same ports for every protocol, and {protocol} is missing"
                    ),
                );
            }
        }
    }

    /// Why the pool, which has been checked otherwise, cannot be cut.
    pub(super) fn problem_of_cut(&self) -> Option<Problem> {
        let (key, message) = match Slices::of(self).err()? {
            Uncuttable::Size => {
                let ports = self.slices.map_or(0, |rules| rules.ports);
                let message =
                    format!("{ports} is not a multiple of {GRAIN} between {GRAIN} and {LARGEST}");
                (PORTS, message)
            }
            Uncuttable::TooMany => {
                let message = format!(
                    "there would be more than {} slices; write more ports",
                    Slices::MOST
                );
                (PORTS, message)
            }
            Uncuttable::TooFew => {
                let message = format!(
                    "no address has {GRAIN} ports above 1023, of which a slice could be made"
                );
                ("nat64.pool4", message)
            }
            Uncuttable::Overlap(addr) => {
                let message =
                    format!("two parts have the same ports of {addr}; slices need each port once");
                ("nat64.pool4", message)
            }
            Uncuttable::Uneven(addr) => {
                let message = format!(
                    "the slices of {addr} differ in size or have gaps between them; write one range of ports for each address of a cluster"
                );
                ("nat64.pool4", message)
            }
        };
        let key = key.into();
        Some(Problem { key, message })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::nat64::{Deterministic, Pool4, PortBlocks};
    use crate::config::Config;

    fn config() -> Nat64Config {
        Nat64Config {
            translator: Config {
                pref64: vec!["64:ff9b::/96".parse().unwrap()],
                ..Config::default()
            },
            pool4: vec![Pool4 {
                net: "192.0.2.0/28".parse().unwrap(),
                ports: 1024..=65535,
                protocols: Protocol::ALL.to_vec(),
            }],
            slices: Some(SliceRules::default()),
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

    fn ports(config: &mut Nat64Config, ports: u16) {
        config.slices = Some(SliceRules {
            ports,
            ..SliceRules::default()
        });
    }

    #[test]
    fn an_address_is_a_slice_by_default() {
        assert_eq!(keys(|_| ()), Vec::<String>::new());
        let slices = Slices::of(&config()).unwrap().unwrap();
        assert_eq!(slices.len(), 16);
        let lone = Nat64Config {
            slices: None,
            ..config()
        };
        assert_eq!(Slices::of(&lone), Ok(None));
    }

    #[test]
    fn what_slices_exclude_is_refused() {
        let excluded = keys(|config| {
            config.blocks = Some(PortBlocks {
                ports: 64,
                per_source: 1,
                source_prefix_len: 64,
            });
            config.deterministic = Some(Deterministic {
                sources: vec!["2001:db8::/56".parse().unwrap()],
                ports_per_source: None,
                overflow_share: 0,
            });
            config.filtering = Filtering::AddressDependent;
            config.pool4[0].protocols = vec![Protocol::Udp, Protocol::Tcp];
        });
        assert_eq!(
            excluded,
            [
                "nat64.ports_per_block",
                "nat64.deterministic",
                "nat64.filtering",
                "nat64.pool4[0].protocols"
            ]
        );
        // Without slices, each of them is possible.
        assert_eq!(
            keys(|config| {
                config.slices = None;
                config.filtering = Filtering::AddressDependent;
                config.pool4[0].protocols = vec![Protocol::Udp];
            }),
            Vec::<String>::new()
        );
    }

    #[test]
    fn a_pool_that_cannot_be_cut_is_refused() {
        assert_eq!(keys(|config| ports(config, 65)), [PORTS]);
        assert_eq!(keys(|config| ports(config, 64)), Vec::<String>::new());
        let many = keys(|config| {
            config.pool4[0].net = "198.18.0.0/20".parse().unwrap();
            ports(config, 64);
        });
        assert_eq!(many, [PORTS]);
        assert_eq!(
            keys(|config| config.pool4[0].ports = 1..=1023),
            ["nat64.pool4"]
        );
        assert_eq!(
            keys(|config| config.pool4.push(config.pool4[0].clone())),
            ["nat64.pool4[1].address"]
        );
        let wide = keys(|config| {
            config.slices = Some(SliceRules {
                source_prefix_len: 0,
                ..SliceRules::default()
            });
        });
        assert_eq!(wide, ["nat64.source_prefix_len"]);
    }
}
