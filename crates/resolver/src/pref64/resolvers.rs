// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The resolvers that are asked for ipv4only.arpa: those of the configuration, otherwise those of the host (resolv.conf(5)).

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use diolkos_config::Resolver;
use diolkos_kernel::net::Link;

const RESOLV_CONF: &str = "/etc/resolv.conf";
const DNS: u16 = 53;
/// The most resolvers that are asked; resolv.conf(5) takes three.
const MOST: usize = 8;

/// The current resolvers; those of the host may change at any time.
pub fn now(given: &[Resolver], uplink: &Link) -> Vec<SocketAddr> {
    let mut resolvers: Vec<SocketAddr> = match given {
        [] => read(&fs::read_to_string(RESOLV_CONF).unwrap_or_default(), uplink),
        given => given.iter().map(|resolver| resolver.0).collect(),
    };
    for resolver in &mut resolvers {
        if let SocketAddr::V6(v6) = resolver {
            if v6.ip().is_unicast_link_local() && v6.scope_id() == 0 {
                v6.set_scope_id(uplink.index);
            }
        }
    }
    resolvers.truncate(MOST);
    resolvers
}

/// The nameservers in such a file. Without any, the host itself is the resolver.
fn read(text: &str, uplink: &Link) -> Vec<SocketAddr> {
    let mut found: Vec<SocketAddr> = text
        .lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let is_nameserver = words.next() == Some("nameserver");
            words.next().filter(|_| is_nameserver)
        })
        .filter_map(|address| nameserver(address, uplink))
        .collect();
    if found.is_empty() {
        found.push(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), DNS));
    }
    found
}

/// Parses an address; a link-local one may name its interface, which must be the uplink.
fn nameserver(text: &str, uplink: &Link) -> Option<SocketAddr> {
    let Some((address, zone)) = text.split_once('%') else {
        return text.parse().ok().map(|ip| SocketAddr::new(ip, DNS));
    };
    let address: Ipv6Addr = address.parse().ok()?;
    let is_uplink = zone == uplink.name || zone.parse() == Ok(uplink.index);
    is_uplink.then(|| SocketAddrV6::new(address, DNS, 0, uplink.index).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let found = read(text, &Link::ethernet(7, 1500));
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn nameservers_of_both_families_in_order() {
        let text = "# nameserver 192.0.2.9\nsearch example\nnameserver 2001:db8::53\n  nameserver\t192.0.2.53 # x\n";
        assert_eq!(found(text), ["[2001:db8::53]:53", "192.0.2.53:53"]);
    }

    #[test]
    fn link_local_ones_are_on_the_uplink() {
        let text = "nameserver fe80::1%eth0\nnameserver fe80::2%eth1\nnameserver fe80::3%7\n";
        assert_eq!(found(text), ["[fe80::1%7]:53", "[fe80::3%7]:53"]);
        let given = ["fe80::1".parse().expect("an address")];
        assert_eq!(
            now(&given, &Link::ethernet(7, 1500))[0].to_string(),
            "[fe80::1%7]:53"
        );
    }

    #[test]
    fn without_any_it_is_the_host_itself() {
        for text in ["", "nameserver\n", "nameserver nobody\n", "options edns0\n"] {
            assert_eq!(found(text), ["127.0.0.1:53"]);
        }
    }
}
