// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Synthesises AAAA records from A records (RFC 6147 section 5.1.7), unless there are usable real ones (section
//! 5.1.4).

use std::net::Ipv6Addr;

use crate::chain::Chain;
use crate::policy::Policy;
use crate::wire::{Malformed, Message, Record, Rtype};

/// Maximum TTL of a synthetic record in seconds if the denial of the AAAA record had no SOA record (RFC 6147 section
/// 5.1.7).
pub const TTL_WITHOUT_SOA: u32 = 600;

/// The AAAA records at the end of a chain.
#[derive(Debug)]
pub struct AaaaRecords<'m> {
    /// The records that an IPv6 node can use.
    pub usable: Vec<&'m Record>,
    /// Number of excluded records.
    pub excluded: usize,
}

/// Finds the AAAA records that count.
pub fn usable<'m>(
    policy: &Policy,
    message: &Message<'_>,
    chain: &Chain<'m>,
) -> Result<AaaaRecords<'m>, Malformed> {
    let mut found = AaaaRecords {
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
    /// TTL in seconds.
    pub ttl: u32,
    /// The IPv4 node's address, embedded in a prefix.
    pub address: Ipv6Addr,
}

/// The synthetic records for the A records at the end of a chain. `denial`: the TTL of the denial of the AAAA
/// records.
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
