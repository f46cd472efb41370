// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A pool that has ports of the address of an interface, which this router has, too. The tables have an address in its
//! place that only this router knows; the kernel replaces one by the other, and leaves the port.

use super::{Endpoint4, Nat64Config, Pool4, Protocol};
use std::net::Ipv4Addr;
use std::ops::RangeInclusive;

/// The parts of a pool that share the address of an interface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wan {
    /// The interface.
    pub interface: String,
    /// The address in the tables.
    pub inside: Ipv4Addr,
    /// The ports, with the protocols that may use them.
    pub ports: Vec<(RangeInclusive<u16>, Vec<Protocol>)>,
}

impl Wan {
    /// The parts with an interface. None if there is none; with several interfaces, those of the first one.
    pub fn of(parts: &[Pool4]) -> Option<Wan> {
        let mut its = parts.iter().filter(|part| part.interface.is_some());
        let first = its.next()?;
        let same = its.filter(|part| part.interface == first.interface);
        let same = [first].into_iter().chain(same);
        Some(Wan {
            interface: first.interface.clone()?,
            inside: first.net.addr(),
            ports: same
                .map(|part| (part.ports.clone(), part.protocols.clone()))
                .collect(),
        })
    }

    /// Returns true if this is a port of the pool.
    pub fn has(&self, protocol: Protocol, port: u16) -> bool {
        let has = |(ports, protocols): &(RangeInclusive<u16>, Vec<Protocol>)| {
            ports.contains(&port) && protocols.contains(&protocol)
        };
        self.ports.iter().any(has)
    }

    /// Returns why no packet could reach a binding, as the rest of a sentence, or None.
    pub fn refuses(&self, protocol: Protocol, v4: Endpoint4) -> Option<String> {
        let is_lost = v4.addr == self.inside && !self.has(protocol, v4.port);
        is_lost.then(|| {
            format!(
                "{v4} is not in the `ports` that nodes have of the address of {}",
                self.interface
            )
        })
    }
}

impl Nat64Config {
    /// An address of the tables that the kernel replaces, and the one that IPv4 hosts see, once it is known.
    pub fn replaced(&self) -> Option<(Ipv4Addr, Ipv4Addr)> {
        Some(Wan::of(&self.pool4)?.inside).zip(self.outside)
    }

    pub(super) fn check_wan(&self, add: &mut impl FnMut(String, String)) {
        let Some(wan) = Wan::of(&self.pool4) else {
            return;
        };
        let (interface, inside) = (&wan.interface, wan.inside);
        for (at, part) in self.pool4.iter().enumerate() {
            let mut object = |key: &str, message| add(format!("nat64.pool4[{at}].{key}"), message);
            let is_of_it = part.interface.as_ref() == Some(interface);
            if part.interface.is_some() && !is_of_it {
                let message =
                    format!("one interface can share its address, and that is {interface} already");
                object("interface", message);
            } else if is_of_it && part.net.prefix_len() != 32 {
                let message = "an interface shares one address: write one, without a prefix length, that only this router knows";
                object("address", message.into());
            } else if !is_of_it && part.net.contains(&inside) {
                object("address", format!("{inside} is for {interface} alone"));
            } else if is_of_it && part.net.addr() != inside {
                let message = format!("{interface} has {inside} already: write the same address");
                object("address", message);
            }
            if is_of_it && part.ports.contains(&1024) && part.ports.contains(&65535) {
                let message = format!(
                    "the router needs ports of {interface} as well: write those of the nodes, such as \"40000-59999\""
                );
                object("ports", message);
            }
        }
        if self.deterministic.is_some() {
            let message =
                format!("fixed ports need an address that stays, and that of {interface} may not");
            add("nat64.deterministic".into(), message);
        }
        if self.blocks.is_some() {
            let message = format!(
                "{interface} may get another address, whose blocks would need records: set it to 0"
            );
            add("nat64.ports_per_block".into(), message);
        }
        for (at, binding) in self.bindings.iter().enumerate() {
            if let Some(message) = wan.refuses(binding.protocol, binding.v4) {
                add(format!("nat64.static[{at}].v4"), message);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Binding, Deterministic, Endpoint6};

    fn part(address: &str, interface: Option<&str>, ports: RangeInclusive<u16>) -> Pool4 {
        Pool4 {
            net: address.parse().expect("a network"),
            ports,
            protocols: vec![Protocol::Udp, Protocol::Icmp],
            sources: Vec::new(),
            interface: interface.map(str::to_owned),
        }
    }

    fn config(pool4: Vec<Pool4>) -> Nat64Config {
        let mut config = Nat64Config {
            pool4,
            ..Nat64Config::default()
        };
        config.translator.pref64 = vec!["64:ff9b::/96".parse().expect("a prefix")];
        config.translator.mtu4 = 1500;
        config.translator.mtu6 = 1500;
        config
    }

    fn keys(config: &Nat64Config) -> Vec<String> {
        let mut keys = Vec::new();
        config.check_wan(&mut |key, _| keys.push(key));
        keys
    }

    #[test]
    fn an_interface_shares_one_address_and_not_all_ports() {
        let some = 40000..=49999;
        let wan = |address, ports| part(address, Some("wan0"), ports);
        let right = vec![
            wan("192.168.64.1/32", some.clone()),
            wan("192.168.64.1/32", 50000..=50999),
            part("192.0.2.1/32", None, 1024..=65535),
        ];
        assert_eq!(keys(&config(right.clone())), Vec::<String>::new());
        for (wrong, key) in [
            (wan("192.168.64.1/32", 1024..=65535), "ports"),
            (wan("192.168.64.0/31", 1..=9), "address"),
            (wan("192.168.64.2/32", 1..=9), "address"),
            (part("192.168.64.1/32", None, 1..=9), "address"),
            (part("192.168.64.0/24", None, 1..=9), "address"),
            (part("192.168.64.1/32", Some("wan1"), 1..=9), "interface"),
        ] {
            let mut pool = right.clone();
            pool.push(wrong);
            assert_eq!(keys(&config(pool)), [format!("nat64.pool4[3].{key}")]);
        }
    }

    #[test]
    fn bindings_have_ports_that_lead_to_nodes() {
        let mut config = config(vec![part("192.168.64.1/32", Some("wan0"), 40000..=49999)]);
        let bound = |addr: &str, port| Binding {
            protocol: Protocol::Udp,
            v4: Endpoint4 {
                addr: addr.parse().expect("an address"),
                port,
            },
            v6: Endpoint6 {
                addr: "2001:db8::5".parse().expect("an address"),
                port,
            },
        };
        let at = |addr, port| bound(addr, port);
        config.bindings = vec![
            at("192.168.64.1", 40001),
            at("192.168.64.1", 443),
            at("192.0.2.1", 443),
        ];
        assert_eq!(keys(&config), ["nat64.static[1].v4"]);
        config.bindings[1].protocol = Protocol::Tcp;
        config.bindings[1].v4.port = 40001;
        assert_eq!(keys(&config), ["nat64.static[1].v4"], "of another protocol");
        config.bindings.clear();
        config.deterministic = Some(Deterministic {
            sources: Vec::new(),
            ports_per_source: None,
            overflow_share: 0,
        });
        assert_eq!(keys(&config), ["nat64.deterministic"]);
    }

    #[test]
    fn ipv4_hosts_see_the_address_of_the_interface() {
        let mut config = config(vec![part("192.168.64.1/32", Some("wan0"), 40000..=49999)]);
        let inside = Ipv4Addr::new(192, 168, 64, 1);
        assert_eq!(config.replaced(), None);
        let outside = Ipv4Addr::new(203, 0, 113, 7);
        config.outside = Some(outside);
        assert_eq!(config.replaced(), Some((inside, outside)));
        config.pool4[0].interface = None;
        assert_eq!(config.replaced(), None);
    }
}
