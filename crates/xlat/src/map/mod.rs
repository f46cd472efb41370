// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Maps a node's IPv6 address to its IPv4 address, and back.
//!
//! Each address passes these stages in order:
//!
//! 1. [`special`]: may the address be translated at all?
//! 2. `eamt`: is there an explicit mapping (RFC 7757)? The longest match decides.
//! 3. [`crate::addr::rfc6052`]: otherwise, is the IPv4 address embedded in a translation prefix, or can it be?

mod eamt;
mod networks;

use crate::addr::rfc6052::Pref64;
use crate::addr::special;
use crate::config::{Config, Eam};
use crate::verdict::Reason;
use eamt::Eamt;
use networks::Networks4;
use std::net::{Ipv4Addr, Ipv6Addr};

/// How an address was mapped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Via {
    /// By an entry of the explicit address mapping table.
    Eam,
    /// By a translation prefix, given as its index in the configuration's list.
    Pref64(u8),
}

/// Why an address was not mapped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unmappable {
    /// No mapping and no prefix covers it.
    Unmapped,
    /// The well-known prefix must not represent it (RFC 6052 section 3.1).
    NotGlobalWithWkp,
    /// The routes of both families lead to the translator, and no explicit mapping covers the address.
    Loops,
}

impl Unmappable {
    /// The drop reason for a packet with such an address: `unmapped`, or a more specific reason.
    pub fn reason(self, unmapped: Reason) -> Reason {
        match self {
            Unmappable::Unmapped => unmapped,
            Unmappable::NotGlobalWithWkp => Reason::NotGlobalWithWkp,
            Unmappable::Loops => match unmapped {
                Reason::DestinationUnmapped => Reason::DestinationLoops,
                other => other,
            },
        }
    }
}

/// Maps addresses from one family to the other and back.
#[derive(Debug)]
pub struct Mapper {
    eamt: Eamt,
    pref64: Vec<Pref64>,
    /// True if an explicit mapping lies inside a translation prefix. Otherwise an address in a prefix needs no
    /// table lookup.
    eam_in_pref64: bool,
    allow_private_with_wkp: bool,
    loops4: Networks4,
}

impl Mapper {
    pub(crate) fn new(config: &Config) -> Mapper {
        let inside = |eam: &Eam| config.pref64.iter().any(|prefix| prefix.contains(&eam.v6));
        Mapper {
            eamt: Eamt::new(&config.eam),
            eam_in_pref64: config.eam.iter().any(inside),
            pref64: config
                .pref64
                .iter()
                .map(|&prefix| Pref64::new(prefix))
                .collect(),
            allow_private_with_wkp: config.allow_private_with_wkp,
            loops4: Networks4::new(&config.loops4),
        }
    }

    /// The IPv6 address of an IPv4 node. With several translation prefixes, the first is used.
    #[inline]
    pub fn to_ipv6(&self, addr: Ipv4Addr) -> Result<(Ipv6Addr, Via), Unmappable> {
        match self.eamt.to_ipv6(addr) {
            Some(mapped) => Ok((mapped, Via::Eam)),
            None if self.loops4.contains(addr) => Err(Unmappable::Loops),
            None => self.embed(0, addr).map(|mapped| (mapped, Via::Pref64(0))),
        }
    }

    /// The IPv4 address of an IPv6 node.
    #[inline]
    pub fn to_ipv4(&self, addr: Ipv6Addr) -> Result<(Ipv4Addr, Via), Unmappable> {
        let explicit = || self.eamt.to_ipv4(addr).map(|mapped| (mapped, Via::Eam));
        if self.eam_in_pref64 {
            if let Some(mapped) = explicit() {
                return Ok(mapped);
            }
        }
        for (at, prefix) in self.pref64.iter().enumerate() {
            if let Some(mapped) = prefix.extract(addr) {
                self.permit(prefix, mapped)?;
                if self.loops4.contains(mapped) && !self.is_explicit(mapped) {
                    return Err(Unmappable::Loops);
                }
                return Ok((mapped, Via::Pref64(at as u8)));
            }
        }
        explicit().ok_or(Unmappable::Unmapped)
    }

    /// The IPv6 address of an IPv4 node in the translation prefix with this index. Explicit mappings are
    /// ignored.
    #[inline]
    pub fn embed(&self, prefix: u8, addr: Ipv4Addr) -> Result<Ipv6Addr, Unmappable> {
        let prefix = self
            .pref64
            .get(usize::from(prefix))
            .ok_or(Unmappable::Unmapped)?;
        self.permit(prefix, addr)?;
        Ok(prefix.embed(addr))
    }

    /// The IPv6 address that represents an IPv4 address in the first translation prefix. None if there is no
    /// prefix, or if the prefix must not represent the address.
    pub(crate) fn embed_by_first(config: &Config, addr: Ipv4Addr) -> Option<Ipv6Addr> {
        let prefix = Pref64::new(*config.pref64.first()?);
        permit(&prefix, addr, config.allow_private_with_wkp).ok()?;
        Some(prefix.embed(addr))
    }

    /// Returns true if the address lies in a translation prefix.
    #[inline]
    pub fn holds(&self, addr: Ipv6Addr) -> bool {
        self.pref64
            .iter()
            .any(|prefix| prefix.extract(addr).is_some())
    }

    /// Returns true if an explicit mapping covers the address, so its node is behind this translator.
    #[inline]
    pub fn is_explicit(&self, addr: Ipv4Addr) -> bool {
        self.eamt.covers_ipv4(addr)
    }

    #[inline]
    fn permit(&self, prefix: &Pref64, addr: Ipv4Addr) -> Result<(), Unmappable> {
        permit(prefix, addr, self.allow_private_with_wkp)
    }
}

/// Checks the rule of RFC 6052 section 3.1. RFC 8215 has no such rule for 64:ff9b:1::/48.
#[inline]
fn permit(prefix: &Pref64, addr: Ipv4Addr, allow_private_with_wkp: bool) -> Result<(), Unmappable> {
    if prefix.is_well_known() && !allow_private_with_wkp && !special::is_global(addr) {
        return Err(Unmappable::NotGlobalWithWkp);
    }
    Ok(())
}
