// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The fixed ports of each source of one pool (RFC 7422 section 2, algorithm 0). They follow from the configuration alone,
//! so the configuration identifies the user of a port without a log.
//!
//! Sources are numbered in the order of their prefixes, addresses in the order of the pool. The first address serves
//! the first sources, whose port ranges follow each other; the next address serves the next sources, and so on. The
//! ports after these ranges are the overflow: blocks of it are given to sources that need more, and are logged.

use super::numbered::Numbered;
use super::{Deterministic, Endpoint4, Nat64Config, Pool4, Protocol};
use diolkos_xlat::config::check::{is_unicast6, not_unicast};
use diolkos_xlat::config::Problem;
use ipnet::{Ipv4Net, Ipv6Net};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Range;

/// Port counts are multiples of this number.
const UNIT: u32 = 64;
/// Sources get no well-known ports.
const FIRST_USER_PORT: u32 = 1024;
/// The largest share of the overflow in percent.
const MOST_OVERFLOW: u8 = 90;

/// A range of ports of one address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PortRange {
    /// The address.
    pub addr: Ipv4Addr,
    /// The first port.
    pub first: u16,
    /// The last port.
    pub last: u16,
}

/// The parameters of a mapping apart from its two prefix lists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Figures {
    /// Prefix length of one source.
    pub source_prefix_len: u8,
    /// The first port given to a source.
    pub first_port: u16,
    /// Ports of each source; a multiple of 64.
    pub ports_per_source: u16,
    /// Number of sources that share an address.
    pub sources_per_address: u16,
    /// The last port of the overflow; 0 if there is none.
    pub overflow_last: u16,
}

/// Maps the sources of one pool to ports and back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mapping {
    sources: Numbered<Ipv6Net>,
    addresses: Numbered<Ipv4Net>,
    figures: Figures,
}

/// A pool that is divided between sources, with the names of its places in the configuration.
pub(super) struct Divided<'a> {
    /// The key of its sources.
    pub key: String,
    /// Prefix of messages about it, if there are several pools.
    pub about: String,
    pub sources: &'a [Ipv6Net],
    /// Its parts, by their positions in the configuration.
    pub parts: Vec<(usize, &'a Pool4)>,
}

impl Mapping {
    /// Divides a pool. The error names the wrong key.
    pub(super) fn divide(
        config: &Nat64Config,
        wanted: &Deterministic,
        pool: &Divided<'_>,
    ) -> Result<Mapping, Problem> {
        let len = config.limits.source_prefix_len;
        let Range { start: first, end } = ports_of(&pool.parts)?;
        let nets = pool.parts.iter().map(|(_, part)| part.net).collect();
        let addresses = Numbered::new(nets, 32).map_err(|why| {
            problem(
                "nat64.pool4",
                format!("{why}; a fixed mapping needs each once"),
            )
        })?;
        let sources =
            Numbered::new(pool.sources.to_vec(), len).map_err(|why| problem(&pool.key, why))?;
        let division = Division {
            sources: sources.len,
            addresses: addresses.len,
            ports: end - first,
            overflow: wanted.overflow_share,
            len,
        };
        let Layout { ports, per_address } = division.solve(wanted, pool)?;
        let behind = first + ports * per_address;
        let overflow_last = match (wanted.overflow_share, &config.blocks) {
            (0, None) => 0,
            (0, Some(_)) => {
                return Err(problem(
                    "nat64.ports_per_block",
                    "with [nat64.deterministic], blocks are those of the overflow, and its share is 0: set \
                     nat64.deterministic.overflow_share, or remove ports_per_block"
                        .into(),
                ))
            }
            (share, None) => {
                return Err(problem(
                    "nat64.deterministic.overflow_share",
                    format!("{share} % of the ports are given in blocks: set nat64.ports_per_block, as 256"),
                ))
            }
            (share, Some(blocks)) => {
                let size = u32::from(blocks.ports.max(1));
                if behind.next_multiple_of(size) + size > end {
                    let left = end - behind;
                    let about = &pool.about;
                    return Err(problem(
                        "nat64.deterministic.overflow_share",
                        format!("{about}{share} % are {left} ports of each address, in which no block of {size} begins"),
                    ));
                }
                (end - 1) as u16
            }
        };
        let figures = Figures {
            source_prefix_len: len,
            first_port: first as u16,
            ports_per_source: ports as u16,
            sources_per_address: per_address as u16,
            overflow_last,
        };
        Ok(Mapping {
            sources,
            addresses,
            figures,
        })
    }

    /// The parameters apart from the lists.
    pub fn figures(&self) -> Figures {
        self.figures
    }

    /// The prefixes of the sources, in order.
    pub fn sources(&self) -> &[Ipv6Net] {
        &self.sources.nets
    }

    /// The prefixes of the pool, in order.
    pub fn addresses(&self) -> &[Ipv4Net] {
        &self.addresses.nets
    }

    /// The number of sources.
    pub fn source_count(&self) -> u64 {
        self.sources.len
    }

    /// The fixed ports of a node's source. None if no source contains the node.
    pub fn ports_of(&self, node: Ipv6Addr) -> Option<PortRange> {
        let number = self.sources.number_of(node.to_bits())?;
        let per_address = u64::from(self.figures.sources_per_address);
        let addr = self.addresses.nth(number / per_address)?;
        let first =
            self.figures.first_port + (number % per_address) as u16 * self.figures.ports_per_source;
        Some(PortRange {
            addr: Ipv4Addr::from_bits(addr as u32),
            first,
            last: first + (self.figures.ports_per_source - 1),
        })
    }

    /// The source with a fixed port. None if no source has it.
    pub fn source_of(&self, v4: Endpoint4) -> Option<Ipv6Net> {
        let first = self.first_of(v4.port)?;
        let at = self.addresses.number_of(u128::from(v4.addr.to_bits()))?;
        let slot = (first - self.figures.first_port) / self.figures.ports_per_source;
        let number = at * u64::from(self.figures.sources_per_address) + u64::from(slot);
        let source = Ipv6Addr::from_bits(self.sources.nth(number)?);
        Ipv6Net::new(source, self.figures.source_prefix_len).ok()
    }

    /// The first port of the fixed range that contains a port. None if the port is not fixed.
    pub fn first_of(&self, port: u16) -> Option<u16> {
        let size = u32::from(self.figures.ports_per_source);
        let offset = port.checked_sub(self.figures.first_port)?;
        let is_fixed = u32::from(port) < self.fixed_end();
        is_fixed.then(|| self.figures.first_port + (u32::from(offset) / size * size) as u16)
    }

    /// The first port after all fixed ones; 65536 if there is none.
    pub fn fixed_end(&self) -> u32 {
        let Figures {
            first_port,
            ports_per_source,
            sources_per_address,
            ..
        } = self.figures;
        u32::from(first_port) + u32::from(ports_per_source) * u32::from(sources_per_address)
    }

    /// Returns true for a port of the overflow on an address of the pool.
    pub fn is_overflow(&self, v4: Endpoint4) -> bool {
        let bits = u128::from(v4.addr.to_bits());
        u32::from(v4.port) >= self.fixed_end()
            && v4.port <= self.figures.overflow_last
            && self.addresses.number_of(bits).is_some()
    }
}

/// The amounts to divide.
struct Division {
    sources: u64,
    addresses: u64,
    /// Ports of each address.
    ports: u32,
    /// Percentage of the ports for the overflow.
    overflow: u8,
    len: u8,
}

/// How the addresses of the pool are divided.
struct Layout {
    /// Ports of a source.
    ports: u32,
    /// Sources of an address.
    per_address: u32,
}

impl Division {
    fn solve(&self, wanted: &Deterministic, pool: &Divided<'_>) -> Result<Layout, Problem> {
        let about = &pool.about;
        let Division {
            sources,
            addresses,
            ports: all,
            overflow,
            len,
        } = *self;
        if overflow > MOST_OVERFLOW {
            return Err(problem(
                "nat64.deterministic.overflow_share",
                format!("{overflow} is not between 0 and {MOST_OVERFLOW} percent"),
            ));
        }
        let for_overflow = (all * u32::from(overflow)).div_ceil(100);
        let fixed = all - for_overflow;
        let told = match overflow {
            0 => format!("{all} ports"),
            _ => format!("{all} - {for_overflow} (overflow) = {fixed} ports"),
        };
        match wanted.ports_per_source {
            None => {
                let per_address = sources.div_ceil(addresses);
                let ports = u64::from(fixed) / per_address / u64::from(UNIT) * u64::from(UNIT);
                if ports == 0 {
                    let most = addresses * u64::from(fixed / UNIT);
                    return Err(problem(
                        &pool.key,
                        format!(
                            "{about}{sources} sources (/{len}) / {addresses} pool addresses = {per_address} for each address, \
                             which has {told}: less than {UNIT} for each source. The pool is large enough for {most} \
                             sources: add addresses, or lower source_prefix_len"
                        ),
                    ));
                }
                Ok(Layout {
                    ports: ports as u32,
                    per_address: per_address as u32,
                })
            }
            Some(ports) => {
                if ports == 0 || !ports.is_multiple_of(UNIT) {
                    return Err(problem(
                        "nat64.deterministic.ports_per_source",
                        format!("{ports} is neither \"auto\" nor a multiple of {UNIT}"),
                    ));
                }
                let per_address = fixed / ports;
                let most = addresses * u64::from(per_address);
                if most < sources {
                    return Err(problem(
                        "nat64.deterministic.ports_per_source",
                        format!(
                            "{about}{sources} sources (/{len}) x {ports} ports do not fit: each of the {addresses} pool \
                             addresses has {told} / {ports} = {per_address} sources, together {most}. Add addresses, or \
                             lower ports_per_source"
                        ),
                    ));
                }
                Ok(Layout { ports, per_address })
            }
        }
    }
}

/// Checks the sources of the default pool. Those of other pools are checked with their parts.
pub(super) fn check_sources(sources: &[Ipv6Net], len: u8) -> Result<(), Problem> {
    let object = |at: usize, message: String| {
        Err(problem(
            &format!("nat64.deterministic.sources[{at}]"),
            message,
        ))
    };
    for (at, net) in sources.iter().enumerate() {
        if net.addr() != net.network() {
            let meant = net.trunc();
            return object(at, format!("{net} has host bits set; write {meant}"));
        }
        if !is_unicast6(*net) {
            return object(at, not_unicast(*net));
        }
        if net.prefix_len() > len {
            return object(
                at,
                format!("{net} is a part of one source: source_prefix_len is {len}"),
            );
        }
    }
    Ok(())
}

/// The ports that every address of a pool has.
fn ports_of(parts: &[(usize, &Pool4)]) -> Result<Range<u32>, Problem> {
    let Some((first_at, first)) = parts.first() else {
        return Err(problem(
            "nat64.pool4",
            "a fixed mapping needs a pool".into(),
        ));
    };
    for (at, part) in parts {
        if part.ports != first.ports {
            let message = format!(
                "all addresses of a fixed mapping have the same ports, as nat64.pool4[{first_at}]"
            );
            return Err(problem(&format!("nat64.pool4[{at}].ports"), message));
        }
        if !Protocol::ALL.iter().all(|of| part.protocols.contains(of)) {
            let message = "a fixed mapping has the same ports for all three protocols";
            return Err(problem(
                &format!("nat64.pool4[{at}].protocols"),
                message.into(),
            ));
        }
    }
    let low = u32::from(*first.ports.start())
        .max(FIRST_USER_PORT)
        .next_multiple_of(UNIT);
    let end = (u32::from(*first.ports.end()) + 1) / UNIT * UNIT;
    if low >= end {
        let (from, to) = (first.ports.start(), first.ports.end());
        return Err(problem(
            &format!("nat64.pool4[{first_at}].ports"),
            format!("{from}-{to} has no {UNIT} ports above 1023, from a multiple of {UNIT} on, for a source"),
        ));
    }
    Ok(low..end)
}

pub(super) fn problem(key: &str, message: String) -> Problem {
    Problem {
        key: key.to_owned(),
        message,
    }
}

#[cfg(test)]
mod tests;
