// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The pool of IPv4 transport addresses (pool4), from which sources get addresses and ports.
//!
//! Stages of an allocation:
//!
//! 1. An address of the pool of the source ([`Pools`]). A source always starts at the same one (RFC 4787 REQ-2,
//!    "paired"), by a keyed hash of its address; the next one is used only if it has no free port.
//! 2. `allocate`: a port of that address.
//! 3. `block`: the port is taken until it is released.
//!
//! The time does not depend on how full the pool is. `rest` reserves ports for a while after their bindings end, if
//! several gateways serve the same nodes. `lease` lends ports; `parts` has the pools by source, and `divide` the port
//! blocks that are given to sources.

mod allocate;
mod block;
mod divide;
mod lease;
mod parts;
mod rest;

use crate::config::{Endpoint4, Pool4, PoolId, Pools, Protocol};
use allocate::Wish;
use block::{Block, PortSet};
pub use divide::{BlockCount, BlockId};
use parts::Part;
pub use parts::PortCount;
pub use rest::Subscriber;
use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;
use std::sync::Arc;

/// The result of a claim to a given address and port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Claim {
    /// The claimant has it and must release it.
    Taken,
    /// It is already taken, or of a pool for other sources.
    Occupied,
    /// The pool does not contain it.
    Elsewhere,
}

/// The requester of a binding.
#[derive(Clone, Copy, Debug)]
pub struct Applicant {
    /// The binding table.
    pub protocol: Protocol,
    /// The address of the node.
    pub source: Ipv6Addr,
    /// The port or query identifier that the node uses.
    pub port: u16,
    /// The binding of the preceding port (RTP, if this port is RTCP), if there is one: the port after it is tried first
    /// (RFC 4787 section 4.2.3, contiguity).
    pub neighbour: Option<Endpoint4>,
}

/// The ports of one address.
#[derive(Debug)]
struct Address {
    addr: Ipv4Addr,
    /// Index of the kind that lists its ports.
    kind: u32,
    /// Created when the first port of a protocol is requested.
    blocks: [Option<Box<Block>>; 3],
}

/// A set of ports for each protocol. A large pool has few kinds of address.
#[derive(Debug)]
struct Kind {
    ranges: Ranges,
    /// Created when the first port of a protocol is requested.
    ports: [Option<Arc<PortSet>>; 3],
}

/// The configured port ranges of an address for each protocol; they may overlap.
type Ranges = [Vec<RangeInclusive<u16>>; 3];

/// The pool, which consists of [`Pools`].
#[derive(Debug)]
pub struct Pool {
    kinds: Vec<Kind>,
    pools: Arc<Pools>,
    /// One for each of the pools.
    parts: Vec<Part>,
    /// Sorted by pool, then in ascending order.
    addresses: Vec<Address>,
    /// The position of each address, in ascending order.
    by_addr: Vec<(Ipv4Addr, u32)>,
    /// For each protocol, one bit for each address with a free port.
    with_free: [Vec<u64>; 3],
    preserve_ports: bool,
    key: [u64; 2],
    /// Set if sources get port blocks.
    division: Option<divide::Division>,
    /// Set if ports rest.
    rests: Option<rest::Rests>,
}

impl Pool {
    /// Creates a pool in which all ports are free. `key` must be secret and random.
    pub fn new(parts: &[Pool4], preserve_ports: bool, key: [u64; 2]) -> Pool {
        // Each address with its parts, which may come from one network or from 65 536 single addresses.
        let pools = Arc::new(Pools::of(parts));
        let mut given: Vec<(PoolId, Ipv4Addr, &Pool4)> = Vec::new();
        for (at, part) in parts.iter().enumerate() {
            let first = part.net.network().to_bits();
            let all = (first..=part.net.broadcast().to_bits()).map(Ipv4Addr::from_bits);
            given.extend(all.map(|addr| (pools.of_part(at), addr, part)));
        }
        given.sort_by_key(|(pool, addr, _)| (*pool, *addr));
        let mut pool = Pool {
            kinds: Vec::new(),
            parts: vec![Part::default(); pools.count()],
            pools,
            addresses: Vec::new(),
            by_addr: Vec::new(),
            with_free: [(); 3].map(|()| Vec::new()),
            preserve_ports,
            key,
            division: None,
            rests: None,
        };
        let mut kinds: HashMap<Ranges, u32> = HashMap::new();
        for of_pool in given.chunk_by(|(a, ..), (b, ..)| a == b) {
            let (id, first) = (of_pool[0].0, pool.addresses.len());
            pool.parts[id as usize].addresses.start = first;
            for its_parts in of_pool.chunk_by(|(_, a, _), (_, b, _)| a == b) {
                let ranges = Protocol::ALL.map(|protocol| ranges(its_parts, protocol));
                pool.add(id, its_parts[0].1, ranges, &mut kinds);
            }
            let part = &mut pool.parts[id as usize];
            part.addresses.end = pool.addresses.len();
            part.ports = part.free;
        }
        let all = (0..).zip(&pool.addresses);
        pool.by_addr = all.map(|(at, address)| (address.addr, at)).collect();
        pool.by_addr.sort_unstable();
        pool
    }

    fn add(
        &mut self,
        pool: PoolId,
        addr: Ipv4Addr,
        ranges: Ranges,
        kinds: &mut HashMap<Ranges, u32>,
    ) {
        let at = self.addresses.len();
        for (protocol, ranges) in ranges.iter().enumerate() {
            let ports = count(ranges.clone());
            self.with_free[protocol].resize(at / 64 + 1, 0);
            self.with_free[protocol][at / 64] |= u64::from(ports > 0) << (at % 64);
            self.parts[pool as usize].free[protocol] += ports;
        }
        let kind = *kinds.entry(ranges).or_insert_with_key(|ranges| {
            self.kinds.push(Kind {
                ranges: ranges.clone(),
                ports: [None, None, None],
            });
            self.kinds.len() as u32 - 1
        });
        self.addresses.push(Address {
            addr,
            kind,
            blocks: [None, None, None],
        });
    }

    /// The secret key of this pool.
    pub(crate) fn key(&self) -> [u64; 2] {
        self.key
    }

    /// All addresses in ascending order.
    pub fn addresses(&self) -> impl Iterator<Item = Ipv4Addr> + '_ {
        self.by_addr.iter().map(|(addr, _)| *addr)
    }

    /// Returns true if the address is in the pool.
    pub fn contains(&self, addr: Ipv4Addr) -> bool {
        self.position(addr).is_some()
    }

    /// Returns true if the address and port are in the pool, free or not.
    pub fn covers(&self, protocol: Protocol, v4: Endpoint4) -> bool {
        let Some(at) = self.position(v4.addr) else {
            return false;
        };
        match &self.addresses[at as usize].blocks[protocol.index()] {
            Some(block) => block.is_pooled(v4.port),
            None => self.gives(protocol, at, v4.port),
        }
    }

    /// Returns true if a port of an address is free.
    fn is_free(&self, protocol: Protocol, at: u32, port: u16) -> bool {
        match &self.addresses[at as usize].blocks[protocol.index()] {
            Some(block) => block.is_free(port),
            None => self.gives(protocol, at, port),
        }
    }

    /// Returns true if the configuration gives this port to the address.
    fn gives(&self, protocol: Protocol, at: u32, port: u16) -> bool {
        let kind = self.addresses[at as usize].kind as usize;
        let mut ranges = self.kinds[kind].ranges[protocol.index()].iter();
        ranges.any(|ports| ports.contains(&port))
    }

    /// The address at which a source starts.
    pub fn address_of(&self, source: Ipv6Addr) -> Option<Ipv4Addr> {
        let at = self.begin(source)?;
        Some(self.addresses[at].addr)
    }

    /// Takes a free address and port for the applicant. None if there is none.
    pub fn allocate(
        &mut self,
        applicant: Applicant,
        mut random: impl FnMut() -> u64,
    ) -> Option<Endpoint4> {
        let Applicant {
            protocol,
            port: own,
            ..
        } = applicant;
        let (at, best) = self.wish_of(&applicant)?;
        let resting = best.filter(|&port| {
            self.rests.is_some() && self.may_take(protocol, at, port, applicant.source)
        });
        if let Some(port) = resting {
            self.take_for(protocol, at, port);
            let addr = self.addresses[at as usize].addr;
            return Some(Endpoint4 { addr, port });
        }
        let wish = Wish {
            protocol,
            port: own,
            best,
        };
        let block = self.block(protocol, at);
        let port = allocate::choose(block, wish, &mut random)?;
        block.take(port);
        self.note_taken(protocol, at);
        let addr = self.addresses[at as usize].addr;
        Some(Endpoint4 { addr, port })
    }

    /// The result that [`Pool::allocate`] would give: the address, and the port unless it would be random.
    pub fn would_allocate(&self, applicant: &Applicant) -> Option<(Ipv4Addr, Option<u16>)> {
        let (at, best) = self.wish_of(applicant)?;
        let may_take = |port: &u16| self.may_take(applicant.protocol, at, *port, applicant.source);
        Some((self.addresses[at as usize].addr, best.filter(may_take)))
    }

    /// The address for an applicant, and its most preferred port.
    fn wish_of(&self, applicant: &Applicant) -> Option<(u32, Option<u16>)> {
        let &Applicant {
            protocol,
            source,
            port,
            neighbour,
        } = applicant;
        let at = self.next_with_free(protocol, self.begin(source)?)?;
        let beside = neighbour.and_then(|neighbour| {
            let port = neighbour.port.checked_add(1)?;
            let at = self.position(neighbour.addr)?;
            self.may_take(protocol, at, port, source)
                .then_some((at, Some(port)))
        });
        Some(beside.unwrap_or((at, self.preserve_ports.then_some(port))))
    }

    /// Claims this address and port for a static or restored binding of a host.
    pub fn claim(&mut self, protocol: Protocol, v4: Endpoint4, host: Ipv6Addr) -> Claim {
        let position = self.position(v4.addr);
        let at = position.filter(|&at| self.block(protocol, at).is_pooled(v4.port));
        let Some(at) = at else {
            let rests = self.rests_for(protocol, v4);
            if rests.is_some_and(|of| of != self.subscriber(host)) {
                return Claim::Occupied;
            }
            self.free(protocol, v4);
            return Claim::Elsewhere;
        };
        if !self.may_take(protocol, at, v4.port, host) {
            return Claim::Occupied;
        }
        self.take_for(protocol, at, v4.port);
        Claim::Taken
    }

    /// Releases a port from [`Pool::allocate`], [`Pool::claim`] or [`Pool::take_leased`].
    pub fn release(&mut self, protocol: Protocol, v4: Endpoint4) {
        if let Some(at) = self.position(v4.addr) {
            self.block(protocol, at).put_back(v4.port);
            self.note_put_back(protocol, at);
        }
    }

    /// Number of addresses with a free port of a protocol. Takes one step for each 64 addresses.
    pub fn addresses_with_free(&self, protocol: Protocol) -> u32 {
        let words = &self.with_free[protocol.index()];
        words.iter().map(|word| word.count_ones()).sum()
    }

    /// Number of addresses.
    pub fn len(&self) -> usize {
        self.addresses.len()
    }

    /// Returns true if there is no address.
    pub fn is_empty(&self) -> bool {
        self.addresses.is_empty()
    }

    fn position(&self, addr: Ipv4Addr) -> Option<u32> {
        let found = self.by_addr.binary_search_by_key(&addr, |(addr, _)| *addr);
        found.ok().map(|found| self.by_addr[found].1)
    }

    fn block(&mut self, protocol: Protocol, at: u32) -> &mut Block {
        let Address { kind, blocks, .. } = &mut self.addresses[at as usize];
        blocks[protocol.index()].get_or_insert_with(|| {
            let Kind { ranges, ports } = &mut self.kinds[*kind as usize];
            let ranges = ranges[protocol.index()].iter().cloned();
            let ports =
                ports[protocol.index()].get_or_insert_with(|| Arc::new(PortSet::new(ranges)));
            Box::new(Block::new(ports.clone()))
        })
    }

    fn note_taken(&mut self, protocol: Protocol, at: u32) {
        let pool = self.pool_at(at as usize);
        self.parts[pool].free[protocol.index()] -= 1;
        self.note_free(protocol, at);
    }

    fn note_put_back(&mut self, protocol: Protocol, at: u32) {
        let pool = self.pool_at(at as usize);
        self.parts[pool].free[protocol.index()] += 1;
        self.note_free(protocol, at);
    }

    /// Updates the bit that says whether an address has a free port.
    fn note_free(&mut self, protocol: Protocol, at: u32) {
        let has_free = self.block(protocol, at).free_ports() > 0;
        let word = &mut self.with_free[protocol.index()][at as usize / 64];
        let bit = 1 << (at % 64);
        if has_free {
            *word |= bit;
        } else {
            *word &= !bit;
        }
    }
}

/// The configured port ranges of an address for a protocol; they may overlap.
fn ranges(parts: &[(PoolId, Ipv4Addr, &Pool4)], protocol: Protocol) -> Vec<RangeInclusive<u16>> {
    let least = u16::from(protocol != Protocol::Icmp);
    let its = parts
        .iter()
        .filter(|(.., part)| part.protocols.contains(&protocol));
    let ranges = its.map(|(.., part)| *part.ports.start().max(&least)..=*part.ports.end());
    ranges.filter(|ports| !ports.is_empty()).collect()
}

/// Number of ports in ranges that may overlap.
fn count(mut ranges: Vec<RangeInclusive<u16>>) -> u64 {
    ranges.sort_unstable_by_key(|ports| *ports.start());
    let mut counted = 0;
    let mut next = 0;
    for ports in ranges {
        let start = u32::from(*ports.start()).max(next);
        let end = u32::from(*ports.end()) + 1;
        counted += u64::from(end.saturating_sub(start));
        next = next.max(end);
    }
    counted
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Addresses with equal ports share one set, whether they come from one network or from single entries.
    #[test]
    fn addresses_of_a_kind_share_what_they_have_alike() {
        let part = |net: String, ports| Pool4 {
            interface: None,
            net: net.parse().expect("a network"),
            ports,
            protocols: Protocol::ALL.to_vec(),
            sources: vec![],
        };
        let single = |n| part(format!("198.18.{}.{}/32", n / 256, n % 256), 1024..=65535);
        let mut parts: Vec<Pool4> = (0..65_536u32).map(single).collect();
        parts[7].ports = 2000..=2999;
        let listed = Pool::new(&parts, false, [1, 2]);
        assert_eq!((listed.addresses.len(), listed.kinds.len()), (65_536, 2));
        let mut pool = Pool::new(&[part("198.18.0.0/16".into(), 1024..=65535)], false, [1, 2]);
        assert_eq!((pool.addresses.len(), pool.kinds.len()), (65_536, 1));
        assert_eq!(
            pool.ports(Protocol::Udp) - listed.ports(Protocol::Udp),
            63_512
        );
        for at in [0, 65_535] {
            assert!(pool.block(Protocol::Udp, at).is_free(1024));
        }
        let ports = pool.kinds[0].ports[Protocol::Udp.index()].as_ref();
        assert_eq!(ports.map(Arc::strong_count), Some(3));
        assert!(size_of::<Address>() <= 32);
    }
}
