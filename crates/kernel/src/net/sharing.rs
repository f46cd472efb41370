// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Shares the IPv4 address of an interface: a NAT64 has some of its ports, and this host all others. The NAT64 has an address
//! in its place that only this host knows (`inside`). The kernel replaces one by the other, and conntrack keeps every
//! connection of the host's own. The rules end with the process ([`super::nft`]). Rules see new flows; [`Stale`] is for those
//! from before.
//!
//! | chain | what it is for |
//! |---|---|
//! | `inward` | a new packet to one of the ports goes to the NAT64, unless a socket of this host is there for it |
//! | `outward` | a packet of the NAT64 leaves with the shared address and its own port, or not at all |
//! | `guard` | nothing leaves with or to the address inside, but for the TUN device; nor with an address that the interface has not, or that is not expected yet |
//! | `ours` | what conntrack cannot assign does not reach this host's TCP, which would reset connections of nodes |

use std::net::Ipv4Addr;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use super::nft::expressions::{
    accepts, came_from, come_from, drops, goes, has_foreign_source, has_socket, is_invalid, meta,
    named, network, redirect, transport_range, went_to, Direction, Is, Meta,
};
use super::nft::{chain, rule, Family, Hook, Message, OwnTable};
use crate::error::KernelError;

mod stale;

pub use stale::Stale;

// linux/netfilter.h, linux/netfilter_ipv4.h
const NF_INET_PRE_ROUTING: u32 = 0;
const NF_INET_LOCAL_IN: u32 = 1;
const NF_INET_POST_ROUTING: u32 = 4;
const NF_IP_PRI_NAT_DST: i32 = -100;
const NF_IP_PRI_NAT_SRC: i32 = 100;
// RFC 791 section 3.1: offsets in the header, bytes; and numbers of protocols.
const SOURCE: u32 = 12;
const DESTINATION: u32 = 16;
const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
// RFC 9293, RFC 768, RFC 792: offsets of ports and of the identifier of queries.
const SOURCE_PORT: u32 = 0;
const DESTINATION_PORT: u32 = 2;
const IDENTIFIER: u32 = 4;

const TABLES: &str =
    "nf_tables of IPv4 with tables that have an owner (CONFIG_NF_TABLES_IPV4, Linux 5.12)";
const NAT: &str = "address translation (CONFIG_NFT_NAT, CONFIG_NF_CONNTRACK)";
const SOCKET: &str = "the search for sockets (CONFIG_NFT_SOCKET)";
const GUARDS: &str = "conntrack and routes in filters (CONFIG_NFT_CT, CONFIG_NFT_FIB_IPV4)";

/// Behind the host's own rules: a port that it forwards stays forwarded.
const INWARD: Hook = Hook {
    name: "inward",
    kind: "nat",
    hook: NF_INET_PRE_ROUTING,
    priority: NF_IP_PRI_NAT_DST + 10,
    needs: NAT,
};
/// In front of the host's own rules, which may choose other ports.
const OUTWARD: Hook = Hook {
    name: "outward",
    kind: "nat",
    hook: NF_INET_POST_ROUTING,
    priority: NF_IP_PRI_NAT_SRC - 10,
    needs: NAT,
};
const GUARD: Hook = Hook {
    name: "guard",
    kind: "filter",
    hook: NF_INET_POST_ROUTING,
    priority: NF_IP_PRI_NAT_SRC + 10,
    needs: GUARDS,
};
const OURS: Hook = Hook {
    name: "ours",
    kind: "filter",
    hook: NF_INET_LOCAL_IN,
    priority: -10,
    needs: GUARDS,
};

/// What is shared.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Share {
    /// The interface, which may come and go.
    pub interface: String,
    /// The TUN device of the NAT64.
    pub device: String,
    /// The address in place of the interface's own.
    pub inside: Ipv4Addr,
    /// Ports of TCP (6) and UDP (17) that belong to the NAT64.
    pub ports: Vec<(u8, RangeInclusive<u16>)>,
}

/// The rules. They end when this is dropped.
pub struct Sharing {
    table: OwnTable,
    /// Counts the tables that were laid, and their end.
    turn: Arc<AtomicU64>,
}

impl Sharing {
    /// Begins to share an address. No packet passes until [`Sharing::follow`] names it. `name` is the name of the table.
    pub fn begin(name: &str, share: &Share) -> Result<Sharing, KernelError> {
        let table = OwnTable::new(Family::Ipv4, name);
        let table = table.map_err(|refused| refusal(share, refused))?;
        let mut sharing = Sharing {
            table,
            turn: Arc::default(),
        };
        sharing.follow(share, None)?;
        Ok(sharing)
    }

    /// Shares another address, or other ports, from one packet to the next. Entries of conntrack from before still have
    /// their way: the caller deletes those that are returned, which takes time. None without an address: entries are right
    /// again if the same one comes back.
    ///
    /// # Errors
    ///
    /// The kernel refuses the rules; those of before stay.
    pub fn follow(
        &mut self,
        share: &Share,
        outside: Option<Ipv4Addr>,
    ) -> Result<Option<Stale>, KernelError> {
        let rules = rules(self.table.name(), share, outside);
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) + 1;
        let laid = self.table.lay(TABLES, rules);
        laid.map_err(|refused| refusal(share, refused))?;
        let all = self.turn.clone();
        Ok(outside.map(|outside| Stale::new(share.clone(), outside, turn, all)))
    }
}

impl Drop for Sharing {
    fn drop(&mut self) {
        self.turn.fetch_add(1, Ordering::Relaxed);
    }
}

fn refusal(share: &Share, (needs, source): (&'static str, std::io::Error)) -> KernelError {
    let interface = share.interface.clone();
    KernelError::Sharing {
        interface,
        needs,
        source,
    }
}

fn rules(table: &str, share: &Share, outside: Option<Ipv4Addr>) -> Vec<Message> {
    let mut rules = vec![chain(table, &INWARD), chain(table, &OURS)];
    for (protocol, ports) in &share.ports {
        let Some(outside) = outside else {
            continue;
        };
        let is_to = |list: &mut Vec<u8>| {
            network(list, DESTINATION, Is::Equal, &outside.octets());
            meta(list, Meta::Protocol, Is::Equal, &[*protocol]);
            transport_range(list, DESTINATION_PORT, *ports.start(), *ports.end());
        };
        for hook in [&INWARD, &OURS] {
            rules.push(rule(table, hook, SOCKET, |list| {
                is_to(list);
                has_socket(list);
                accepts(list);
            }));
        }
        rules.push(rule(table, &INWARD, NAT, |list| {
            is_to(list);
            redirect(list, share.inside.octets());
        }));
        rules.push(rule(table, &OURS, GUARDS, |list| {
            is_to(list);
            is_invalid(list);
            drops(list);
        }));
    }
    rules.push(chain(table, &OUTWARD));
    let is_from_inside =
        |list: &mut Vec<u8>| network(list, SOURCE, Is::Equal, &share.inside.octets());
    let is_of_node = |list: &mut Vec<u8>, protocol| {
        named(list, Meta::InName, Is::Equal, &share.device);
        is_from_inside(list);
        meta(list, Meta::Protocol, Is::Equal, &[protocol]);
    };
    // Exactly this address: masquerading chooses one by the next hop. To another node, or to a host of the LAN, too, which see
    // the sender as everybody does.
    for (protocol, port) in [(TCP, SOURCE_PORT), (UDP, SOURCE_PORT), (ICMP, IDENTIFIER)] {
        rules.extend(outside.map(|outside| {
            rule(table, &OUTWARD, NAT, |list| {
                is_of_node(list, protocol);
                come_from(list, outside.octets(), port);
            })
        }));
    }
    rules.push(chain(table, &GUARD));
    rules.push(rule(table, &GUARD, GUARDS, |list| {
        is_from_inside(list);
        drops(list);
    }));
    // Without the device, a packet for a node would follow the default route.
    rules.push(rule(table, &GUARD, GUARDS, |list| {
        network(list, DESTINATION, Is::Equal, &share.inside.octets());
        named(list, Meta::OutName, Is::Different, &share.device);
        drops(list);
    }));
    // A sender that uses the address inside itself did not come by `inward`. Its entry would take the place of a node's flow.
    rules.push(rule(table, &GUARD, GUARDS, |list| {
        goes(list, Direction::Original);
        went_to(list, Direction::Original, share.inside.octets());
        drops(list);
    }));
    // If another host uses the address inside, the rules of this host must not translate it.
    rules.push(rule(table, &GUARD, GUARDS, |list| {
        named(list, Meta::InName, Is::Different, &share.device);
        goes(list, Direction::Original);
        came_from(list, Direction::Original, share.inside.octets());
        drops(list);
    }));
    for direction in [Direction::Original, Direction::Reply] {
        let is_ours = |list: &mut Vec<u8>| {
            named(list, Meta::InName, Is::Equal, &share.device);
            came_from(list, direction, share.inside.octets());
        };
        rules.push(rule(table, &GUARD, GUARDS, |list| {
            is_ours(list);
            if let Some(outside) = outside {
                network(list, SOURCE, Is::Different, &outside.octets());
            }
            drops(list);
        }));
        rules.push(rule(table, &GUARD, GUARDS, |list| {
            is_ours(list);
            has_foreign_source(list);
            drops(list);
        }));
    }
    rules
}

#[cfg(test)]
mod tests {
    use std::io;

    use diolkos_service::failure::Classified;

    use super::super::nft::kinds;
    use super::*;

    fn share() -> Share {
        Share {
            interface: "wan0".to_owned(),
            device: "nat64".to_owned(),
            inside: Ipv4Addr::new(192, 168, 64, 1),
            ports: vec![(TCP, 40000..=59999), (UDP, 40000..=59999)],
        }
    }

    #[test]
    fn without_an_address_nothing_goes_in_and_nothing_out() {
        let with = rules("t", &share(), Some(Ipv4Addr::new(203, 0, 113, 5)));
        let without = rules("t", &share(), None);
        // Two rules of `inward` and of `ours` for each protocol, and three of `outward`.
        assert_eq!(with.len() - without.len(), 2 * 4 + 3);
        let kinds = kinds(Family::Ipv4, &without);
        let chains = kinds.iter().filter(|kind| **kind == 0xa03);
        assert_eq!(chains.count(), 4);
    }

    #[test]
    fn a_refusal_names_what_the_kernel_lacks() {
        let error = refusal(&share(), (SOCKET, io::Error::from_raw_os_error(2)));
        assert_eq!(error.exit() as u8, 3);
        let said = error.to_string();
        assert!(
            said.contains("wan0") && said.contains("CONFIG_NFT_SOCKET"),
            "{said}"
        );
    }
}
