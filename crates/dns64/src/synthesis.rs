// SPDX-License-Identifier: Apache-2.0 OR MIT
//! AAAA records out of A records (RFC 6147 section 5.1.7), and which real ones stand against it (section 5.1.4).

use std::net::Ipv6Addr;

use crate::chain::Chain;
use crate::policy::Policy;
use crate::wire::{Malformed, Message, Record, Rtype};

/// The TTL of a synthetic record at most, seconds, where the denial of the AAAA record came without an SOA record
/// (RFC 6147 section 5.1.7).
pub const TTL_WITHOUT_SOA: u32 = 600;

/// The AAAA records at the end of a chain.
#[derive(Debug)]
pub struct Found<'m> {
    /// Those that are real to an IPv6 node.
    pub usable: Vec<&'m Record>,
    /// How many others there are.
    pub excluded: usize,
}

/// Looks which AAAA records count.
pub fn usable<'m>(
    policy: &Policy,
    message: &Message<'_>,
    chain: &Chain<'m>,
) -> Result<Found<'m>, Malformed> {
    let mut found = Found {
        usable: Vec::new(),
        excluded: 0,
    };
    for record in chain.at_end(Rtype::AAAA) {
        match policy.is_excluded(message.v6(record)?) {
            true => found.excluded += 1,
            false => found.usable.push(record),
        }
    }
    Ok(found)
}

/// A synthetic record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Synthetic {
    /// Seconds.
    pub ttl: u32,
    /// The IPv4 node's address in a prefix.
    pub address: Ipv6Addr,
}

/// The synthetic records for the A records at the end of a chain. `denial`: the TTL with which the AAAA records were
/// denied.
pub fn synthesise(
    policy: &Policy,
    message: &Message<'_>,
    chain: &Chain<'_>,
    denial: Option<u32>,
) -> Result<Vec<Synthetic>, Malformed> {
    let mut made = Vec::new();
    for record in chain.at_end(Rtype::A) {
        let ttl = record.ttl.min(denial.unwrap_or(TTL_WITHOUT_SOA));
        let addresses = policy.synthesise(message.v4(record)?);
        made.extend(addresses.map(|address| Synthetic { ttl, address }));
    }
    Ok(made)
}
