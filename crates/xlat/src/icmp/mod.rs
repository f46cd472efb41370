// SPDX-License-Identifier: Apache-2.0 OR MIT
//! ICMP errors: those that pass through, and those of our own.
//!
//! An error that passes through carries the beginning of the packet it is about, which is
//! translated with it. Its stages:
//!
//! 1. `table`: type, code, and the field that goes with them.
//! 2. `quote`: the quoted packet and, behind it, the extensions of RFC 4884.
//! 3. `inner`: the quoted packet, header by header.
//! 4. `pool`: a source for errors from routers whose address has no counterpart (RFC 6791).
//! 5. `interface`: their own address, in an extension.
//! 6. `translate`: all of it in one message, cut to what may be sent.
//!
//! `originate` makes the errors of our own, and `rate` limits them.

mod inner;
mod interface;
mod originate;
mod pool;
mod quote;
mod rate;
mod table;
mod translate;

pub use inner::{parse_ipv4 as parse_quoted_ipv4, parse_ipv6 as parse_quoted_ipv6};
pub use originate::Answer;
pub use translate::Ends;

use crate::addr::Mapper;
use crate::config::Config;
use pool::{Pool4, Pool6};
use rate::ErrorLimit;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Bytes of the longest ICMP error we send: the smallest MTU of IPv6 (RFC 4443 section 2.4(c)).
pub const LARGEST_ERROR: usize = 1280;

/// The same in IPv4. It is also the longest packet that is sent without DF: "When the resulting IPv4 packet is smaller than or
/// equal to 1260 bytes, the translator MUST send the packet with a cleared Don't Fragment bit. Otherwise, the packet MUST be sent
/// with the Don't Fragment bit set" (RFC 7915 section 5).
pub(crate) const LARGEST_WITHOUT_DF: usize = 1260;

/// The dummy address: a source for IPv4 nodes that have no address (RFC 7600 section 4.8).
const DUMMY: Ipv4Addr = Ipv4Addr::new(192, 0, 0, 8);

/// Where the errors come from that we originate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ErrorSources {
    /// Of ICMP errors.
    pub address4: Ipv4Addr,
    /// Of ICMPv6 errors. None if none can be sent: 64:ff9b::/96 may not carry the address that stands for us in IPv4 where
    /// nobody gave us one of IPv6 (RFC 6052 section 3.1).
    pub address6: Option<Ipv6Addr>,
}

impl ErrorSources {
    /// Those of a configuration: an address of its own, else the first of the pool (RFC 6791), else the dummy address.
    pub fn of(config: &Config) -> ErrorSources {
        let icmp = &config.icmp;
        let address4 = icmp
            .address4
            .or(icmp.source_pool4.first().map(|pool| pool.network()))
            .unwrap_or(DUMMY);
        let address6 = icmp
            .address6
            .or(icmp.source_pool6.first().map(|pool| pool.network()))
            .or_else(|| Mapper::embed_by_first(config, address4));
        ErrorSources { address4, address6 }
    }
}

/// What the configuration says of ICMP errors.
#[derive(Debug)]
pub struct IcmpErrors {
    address4: Ipv4Addr,
    address6: Option<Ipv6Addr>,
    pool4: Pool4,
    pool6: Pool6,
    mtu4: usize,
    mtu6: usize,
    zero_traffic_class: bool,
    name_routers: bool,
    limit4: ErrorLimit,
    limit6: ErrorLimit,
}

impl IcmpErrors {
    /// A source for an error from an IPv4 router that may not stand in the prefix.
    pub fn stand_in_ipv6(&self, router: Ipv4Addr) -> Option<Ipv6Addr> {
        self.pool6.stand_in(router)
    }

    /// A source for an error from an IPv6 router.
    pub fn stand_in_ipv4(&self, router: Ipv6Addr) -> Ipv4Addr {
        self.pool4.stand_in(router)
    }

    /// Errors as this configuration wants them. The token buckets are full.
    pub fn new(config: &Config) -> IcmpErrors {
        let icmp = &config.icmp;
        let ErrorSources { address4, address6 } = ErrorSources::of(config);
        IcmpErrors {
            address4,
            address6,
            pool4: Pool4::new(&icmp.source_pool4, DUMMY),
            pool6: Pool6::new(&icmp.source_pool6, address6),
            mtu4: config.mtu4 as usize,
            mtu6: config.mtu6 as usize,
            zero_traffic_class: config.traffic_class == crate::config::TrafficClass::Zero,
            name_routers: icmp.name_routers,
            limit4: ErrorLimit::new(icmp.rate, icmp.burst),
            limit6: ErrorLimit::new(icmp.rate, icmp.burst),
        }
    }
}
