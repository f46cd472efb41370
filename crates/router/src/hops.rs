// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where a P4 switch sends what it has translated, from the kernel's routes and neighbours.
//!
//! The switch forwards without the kernel: as the kernel would by its main table, or not at all. Where the kernel's choice is
//! not certain, the switch declines, and the kernel forwards what the slow path has translated.

use diolkos_p4::entry::{hop, local_mac, Entry, Exit};
use ipnet::IpNet;

use super::gateway::Gateway;
use diolkos_kernel::net::{Hop, Link, Net};
use diolkos_service::failure::Failure;

/// The most routes of a family, and the most next hops. Beyond it, the kernel forwards.
const MOST_HOPS: usize = 4096;

impl Gateway {
    /// Tells the switch where packets leave now, and the kernel which neighbours the switch sends to.
    pub(super) async fn look_at_hops(&mut self, net: &Net) {
        let Some(switch) = self.translation.switch() else {
            return;
        };
        match self.hops(net).await {
            Ok(rules) => switch.set_hops(rules),
            Err(failure) => {
                tracing::debug!("the next hops are not known: {failure}");
                switch.set_hops(Vec::new());
            }
        }
    }

    async fn hops(&self, net: &Net) -> Result<Vec<Entry>, Failure> {
        let links = net.links().await?;
        let names = &self.settings.translator.switch_ports;
        let ports: Vec<Option<&Link>> = names
            .iter()
            .map(|name| links.iter().find(|link| link.name == *name && link.running))
            .collect();
        let exits: Vec<u32> = ports.iter().flatten().map(|link| link.index).collect();
        let hops = net.hops(&exits, MOST_HOPS).await?;
        let config = self.settings.translation(self.found);
        let mut rules = rules_of(&ports, &hops, [config.mtu4, config.mtu6]);
        if self.forwarding.has_off() {
            rules.clear();
        }
        for next in hops
            .iter()
            .filter_map(|hop| hop.next)
            .filter(|next| next.is_stale)
        {
            // Otherwise the kernel would forget a neighbour that only the switch sends to.
            if let Err(failure) = net.use_neighbour(next.index, next.address).await {
                tracing::debug!("{failure}");
            }
        }
        Ok(rules)
    }
}

/// The rules of these ports, in the order of the switch.
fn rules_of(ports: &[Option<&Link>], hops: &[Hop], [mtu4, mtu6]: [u32; 2]) -> Vec<Entry> {
    let mac = |link: &Link| <[u8; 6]>::try_from(link.address.as_slice()).ok();
    let macs = ports.iter().flatten().filter_map(|link| mac(link));
    let mut rules: Vec<Entry> = macs.map(local_mac).collect();
    rules.sort_by_key(|entry| entry.place);
    rules.dedup_by_key(|entry| entry.place);
    for Hop { to, next } in hops {
        let exit = next.and_then(|next| {
            let is_it = |link: &Option<&Link>| link.is_some_and(|link| link.index == next.index);
            let at = ports.iter().position(is_it)?;
            let link = ports[at]?;
            let of_link = match to {
                IpNet::V4(_) => link.mtu.min(mtu4),
                IpNet::V6(_) => link.mtu6.min(mtu6),
            };
            let mtu = next.mtu.map_or(of_link, |mtu| mtu.min(of_link));
            Some(Exit {
                // The n-th pair has the numbers 2n (the device) and 2n + 1 (its shadow, which is the interface here).
                port: 2 * at as u32,
                to: next.mac,
                from: mac(link)?,
                mtu: u16::try_from(mtu).unwrap_or(u16::MAX),
            })
        });
        rules.push(hop(*to, exit, false));
    }
    rules
}

#[cfg(test)]
mod tests {
    use super::*;
    use diolkos_kernel::net::Next;

    #[test]
    fn packets_leave_by_the_device_of_a_pair_and_fit_every_link() {
        let mut lan = Link::ethernet(7, 1400);
        lan.address = vec![2, 0, 0, 0, 0, 7];
        let net: IpNet = "2001:db8::/32".parse().expect("a network");
        let next = Next {
            index: 7,
            address: "fe80::1".parse().expect("an address"),
            mac: [2, 0, 0, 0, 0, 9],
            mtu: None,
            is_stale: false,
        };
        let exit = |mtu| {
            let exit = Exit {
                port: 2,
                to: next.mac,
                from: [2, 0, 0, 0, 0, 7],
                mtu,
            };
            hop(net, Some(exit), false)
        };
        let rules = |mtu, of_all| {
            let hops = [Hop {
                to: net,
                next: Some(Next { mtu, ..next }),
            }];
            rules_of(&[None, Some(&lan)], &hops, [1500, of_all])
        };
        let mac = local_mac([2, 0, 0, 0, 0, 7]);
        assert_eq!(rules(None, 1500), [mac, exit(1400)]);
        assert_eq!(rules(Some(1300), 1500), [mac, exit(1300)]);
        assert_eq!(rules(None, 1280), [mac, exit(1280)]);
        let hops = [Hop {
            to: net,
            next: Some(Next { index: 8, ..next }),
        }];
        let left = rules_of(&[None, Some(&lan)], &hops, [1500, 1500]);
        assert_eq!(left, [mac, hop(net, None, false)], "the port is not there");
    }
}
