// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Entries of conntrack that contradict the rules of a shared address. Rules see only the first packet of a flow, and each
//! later one keeps its entry alive: a flow that began without the rules, or with another address, would never come to obey them.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::conntrack::{self, Flow, Tuple};
use super::{Share, ICMP, TCP, UDP};
use crate::error::KernelError;

/// Longest time for one search. A million entries take about a second.
const LONGEST: Duration = Duration::from_secs(10);

/// The entries that contradict the rules that were laid last.
pub struct Stale {
    share: Share,
    outside: Ipv4Addr,
    turn: u64,
    /// Another number means that other rules are in force.
    now: Arc<AtomicU64>,
}

impl Stale {
    pub(super) fn new(share: Share, outside: Ipv4Addr, turn: u64, now: Arc<AtomicU64>) -> Stale {
        Stale {
            share,
            outside,
            turn,
            now,
        }
    }

    /// Deletes them, and returns how many. It blocks: some microseconds for each entry of conntrack, at most 10 s. It stops
    /// when other rules are in force.
    ///
    /// # Errors
    ///
    /// The kernel cannot, or there was not enough time.
    pub fn delete(&self) -> Result<usize, KernelError> {
        let begun = Instant::now();
        let is_early = || begun.elapsed() < LONGEST;
        let goes_on = || self.is_current() && is_early();
        let deleted = conntrack::delete(|flow| self.has(flow), goes_on);
        let late = || std::io::Error::from(std::io::ErrorKind::TimedOut);
        let deleted = deleted.and_then(|deleted| match is_early() || !self.is_current() {
            true => Ok(deleted),
            false => Err(late()),
        });
        deleted.map_err(|source| KernelError::Stale {
            interface: self.share.interface.clone(),
            source,
        })
    }

    /// Returns true if no other rules have followed.
    pub fn is_current(&self) -> bool {
        self.now.load(Ordering::Relaxed) == self.turn
    }

    fn has(&self, flow: &Flow) -> bool {
        let Flow {
            original, reply, ..
        } = flow;
        let (inside, outside) = (self.share.inside, self.outside);
        // From a node, and to a node: all that is right has this address and its own port.
        let from = (original.source == inside).then_some((reply.destination, original.source_port));
        let to = (reply.source == inside).then_some((original.destination, reply.source_port));
        let mut of_nodes = from.into_iter().chain(to).peekable();
        if of_nodes.peek().is_some() || original.destination == inside {
            return original.destination == inside
                || of_nodes.any(|(address, port)| {
                    address != outside || !self.may_have(original.protocol, port)
                });
        }
        // To this host, where no socket answers, or one did not at that time. The rules let it through if it is there now.
        let is_to_host = original.destination == outside && reply.source == outside;
        is_to_host && !flow.has_reply && self.is_shared(original)
    }

    fn may_have(&self, protocol: u8, port: u16) -> bool {
        protocol == ICMP || self.has_port(protocol, port)
    }

    fn is_shared(&self, to: &Tuple) -> bool {
        matches!(to.protocol, TCP | UDP) && self.has_port(to.protocol, to.destination_port)
    }

    fn has_port(&self, protocol: u8, port: u16) -> bool {
        let mut ports = self.share.ports.iter();
        ports.any(|(its, ports)| *its == protocol && ports.contains(&port))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INSIDE: Ipv4Addr = Ipv4Addr::new(192, 168, 64, 1);
    const OUTSIDE: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 5);
    const OLD: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 4);
    const PEER: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 2);
    const LAN: Ipv4Addr = Ipv4Addr::new(192, 168, 1, 7);

    fn is_stale(
        original: [(Ipv4Addr, u16); 2],
        reply: [(Ipv4Addr, u16); 2],
        has_reply: bool,
    ) -> bool {
        is_stale_of(UDP, original, reply, has_reply)
    }

    fn is_stale_of(
        protocol: u8,
        original: [(Ipv4Addr, u16); 2],
        reply: [(Ipv4Addr, u16); 2],
        has_reply: bool,
    ) -> bool {
        let share = Share {
            interface: "wan0".to_owned(),
            device: "nat64".to_owned(),
            inside: INSIDE,
            ports: vec![(TCP, 40000..=49999), (UDP, 40000..=49999)],
        };
        let tuple = |[(source, source_port), (destination, destination_port)]: [_; 2]| Tuple {
            source,
            destination,
            protocol,
            source_port,
            destination_port,
        };
        let stale = Stale::new(share, OUTSIDE, 0, Arc::default());
        stale.has(&Flow::of(tuple(original), tuple(reply), has_reply))
    }

    #[test]
    fn flows_of_nodes_have_the_address_and_one_of_the_ports() {
        let peer = (PEER, 4000);
        for (address, port, expected) in [
            (OUTSIDE, 40443, false),
            (OLD, 40443, true),
            // Not replaced.
            (INSIDE, 40443, true),
            (OUTSIDE, 50000, true),
        ] {
            let (node, seen) = ((INSIDE, port), (address, port));
            for has_reply in [true, false] {
                let outward = is_stale([node, peer], [peer, seen], has_reply);
                let inward = is_stale([peer, seen], [node, peer], has_reply);
                assert_eq!((outward, inward), (expected, expected), "{address} {port}");
            }
        }
        let ping = |address| {
            is_stale_of(
                ICMP,
                [(INSIDE, 0), (PEER, 0)],
                [(PEER, 0), (address, 0)],
                true,
            )
        };
        assert_eq!((ping(OUTSIDE), ping(OLD)), (false, true));
        let between = |address| {
            let (one, two) = ((INSIDE, 40001), (INSIDE, 40002));
            let (seen_one, seen_two) = ((address, 40001), (address, 40002));
            is_stale([one, seen_two], [two, seen_one], true)
        };
        assert_eq!((between(OUTSIDE), between(OLD)), (false, true));
    }

    #[test]
    fn flows_to_the_address_inside_go() {
        assert!(is_stale(
            [(PEER, 4000), (INSIDE, 40443)],
            [(INSIDE, 40443), (PEER, 4000)],
            true
        ));
    }

    #[test]
    fn flows_from_before_the_rules_go_and_those_of_others_stay() {
        let (peer, port) = ((PEER, 4000), (OUTSIDE, 40443));
        let to_host = |has_reply| is_stale([peer, port], [port, peer], has_reply);
        assert_eq!((to_host(false), to_host(true)), (true, false));
        let others = [(OUTSIDE, 39999), (OLD, 40443)];
        for other in others {
            assert!(!is_stale([peer, other], [other, peer], false), "{other:?}");
        }
        // NAT44 with the port of a node, both ways, and a connection of the host itself.
        assert!(!is_stale([(LAN, 40443), peer], [peer, port], false));
        assert!(!is_stale([peer, port], [(LAN, 80), peer], false));
        assert!(!is_stale([port, peer], [peer, port], false));
        assert!(!is_stale_of(
            ICMP,
            [(PEER, 0), (OUTSIDE, 0)],
            [(OUTSIDE, 0), (PEER, 0)],
            false
        ));
    }
}
