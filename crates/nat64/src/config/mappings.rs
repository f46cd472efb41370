// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The fixed ports of all pools: each of the [`Pools`] is divided between its own sources by a [`Mapping`] of its own
//! (RFC 7422). Those of the default pool are the sources of the section `[nat64.deterministic]`.
//!
//! A prefix of one pool may contain a longer one of another pool. The sources of the longer one keep their numbers in the wider one, so that the
//! ports of all others stay when a customer gets a pool. The ports of these numbers stay unused.

use super::mapping::{check_sources, problem, Divided};
use super::{
    Deterministic, Endpoint4, Mapping, Nat64Config, PoolId, Pools, PortRange, DEFAULT_POOL,
};
use diolkos_xlat::config::Problem;
use ipnet::Ipv6Net;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// The mappings of a configuration.
#[derive(Clone, Debug)]
pub struct Mappings {
    pools: Arc<Pools>,
    /// By pool. None for a default pool without addresses.
    all: Vec<Option<Mapping>>,
}

impl Mappings {
    /// Creates the mappings of a configuration with these [`Pools`], or None if it has none. The error names the wrong
    /// key.
    pub fn of(config: &Nat64Config, pools: &Arc<Pools>) -> Result<Option<Mappings>, Problem> {
        let Some(wanted) = &config.deterministic else {
            return Ok(None);
        };
        check_default(config, wanted, pools)?;
        let mut divided: Vec<Divided<'_>> = Vec::new();
        for pool in 0..pools.count() as PoolId {
            divided.push(Divided {
                key: "nat64.deterministic.sources".into(),
                about: String::new(),
                sources: &wanted.sources,
                parts: Vec::new(),
            });
            if pools.count() > 1 {
                let name = pools.name(pool);
                divided[pool as usize].about = format!("of the pool for {name}, ");
            }
        }
        for (at, part) in config.pool4.iter().enumerate() {
            let its = &mut divided[pools.of_part(at) as usize];
            if let Some((first, _)) = its.parts.first().filter(|_| its.sources != part.sources) {
                if !part.sources.is_empty() {
                    return Err(problem(
                        &format!("nat64.pool4[{at}].sources"),
                        format!(
                            "with [nat64.deterministic], the order of sources decides on their ports: write them in that \
                             of nat64.pool4[{first}], each once"
                        ),
                    ));
                }
            } else if !part.sources.is_empty() {
                its.key = format!("nat64.pool4[{at}].sources");
                its.about = format!("with [nat64.deterministic], of nat64.pool4[{at}]: ");
                its.sources = &part.sources;
            }
            its.parts.push((at, part));
        }
        let is_there = |pool: usize| pool != DEFAULT_POOL as usize || !wanted.sources.is_empty();
        let mut all = Vec::with_capacity(divided.len());
        for (pool, divided) in divided.iter().enumerate() {
            let mapping = is_there(pool).then(|| Mapping::divide(config, wanted, divided));
            all.push(mapping.transpose()?);
        }
        let pools = pools.clone();
        Ok(Some(Mappings { pools, all }))
    }

    /// Every mapping, with the number of its pool.
    pub fn iter(&self) -> impl Iterator<Item = (PoolId, &Mapping)> {
        let all = (0..).zip(&self.all);
        all.filter_map(|(pool, mapping)| Some((pool, mapping.as_ref()?)))
    }

    /// The pools.
    pub fn pools(&self) -> &Pools {
        &self.pools
    }

    /// The mapping of a pool.
    pub fn of_pool(&self, pool: PoolId) -> Option<&Mapping> {
        self.all.get(pool as usize)?.as_ref()
    }

    /// The mapping of the pool of an address.
    pub fn of_address(&self, addr: Ipv4Addr) -> Option<&Mapping> {
        self.of_pool(self.pools.of_address(addr)?)
    }

    /// The fixed ports of a node's source. None if the node's pool has none for it.
    pub fn ports_of(&self, node: Ipv6Addr) -> Option<PortRange> {
        self.of_pool(self.pools.of_node(node))?.ports_of(node)
    }

    /// The source with a fixed port. None if no source has it.
    pub fn source_of(&self, v4: Endpoint4) -> Option<Ipv6Net> {
        let pool = self.pools.of_address(v4.addr)?;
        let source = self.of_pool(pool)?.source_of(v4)?;
        (self.pools.of_node(source.network()) == pool).then_some(source)
    }

    /// The source that would have a port, if its nodes were not of another pool.
    pub fn source_elsewhere(&self, v4: Endpoint4) -> Option<Ipv6Net> {
        let source = self.of_address(v4.addr)?.source_of(v4);
        source.filter(|_| self.source_of(v4).is_none())
    }

    /// The first port of the fixed range that contains a port, whether a source has it or not. None if the port is not
    /// fixed.
    pub fn first_of(&self, v4: Endpoint4) -> Option<u16> {
        self.of_address(v4.addr)?.first_of(v4.port)
    }

    /// Returns true for a port of the overflow on an address of a pool.
    pub fn is_overflow(&self, v4: Endpoint4) -> bool {
        self.of_address(v4.addr)
            .is_some_and(|mapping| mapping.is_overflow(v4))
    }
}

/// Checks that the default pool has sources if it has addresses, and none of another pool.
fn check_default(
    config: &Nat64Config,
    wanted: &Deterministic,
    pools: &Pools,
) -> Result<(), Problem> {
    let its_first = |pool| (0..config.pool4.len()).find(|&at| pools.of_part(at) == pool);
    let sources = &wanted.sources;
    check_sources(sources, config.limits.source_prefix_len)?;
    let key = "nat64.deterministic.sources";
    match (its_first(DEFAULT_POOL), sources.first()) {
        (Some(at), None) if pools.count() > 1 => {
            let message = format!(
                "nat64.pool4[{at}] has no sources: name the prefixes of those who may use it here, as [\"2001:db8::/40\"]"
            );
            return Err(problem(key, message));
        }
        (_, None) if pools.count() == 1 => {
            let message = "name the prefixes of those who may use the pool, as [\"2001:db8::/40\"]";
            return Err(problem(key, message.into()));
        }
        (None, Some(_)) if pools.count() > 1 => {
            let message = "these nodes use entries of nat64.pool4 without sources, and there is none: add one, or remove \
                           these prefixes";
            return Err(problem(key, message.into()));
        }
        _ => {}
    }
    for (at, net) in sources.iter().enumerate() {
        if let Some(pool) = pools.around(*net) {
            let other = its_first(pool).unwrap_or(0);
            let message = format!(
                "{net} is in nat64.pool4[{other}].sources: its nodes have that pool, so it has no ports of the entries without \
                 sources; remove it from one of them"
            );
            return Err(problem(&format!("{key}[{at}]"), message));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
