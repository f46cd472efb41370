// SPDX-License-Identifier: Apache-2.0 OR MIT
//! ICMP errors: those that are translated, and those originated here.
//!
//! A translated error quotes the beginning of the packet that caused it. The quote is translated with the error, in
//! these stages:
//!
//! 1. `table`: type, code, and the field that goes with them.
//! 2. `quote`: the quoted packet, followed by the extensions of RFC 4884.
//! 3. `inner`: the quoted packet, header by header.
//! 4. `pool`: a source for errors from routers whose address cannot be mapped (RFC 6791).
//! 5. `interface`: the address of such a router, in an extension.
//! 6. `translate`: the whole message, truncated to the permitted size.
//!
//! `originate` makes the errors of the translator itself (`answer`), and `rate` limits them.

mod answer;
mod inner;
mod interface;
mod originate;
mod pool;
mod quote;
mod rate;
mod table;
mod translate;

pub use answer::Answer;
pub use inner::{parse_ipv4 as parse_quoted_ipv4, parse_ipv6 as parse_quoted_ipv6};
pub use translate::Ends;

use crate::config::Config;
use crate::map::Mapper;
use pool::{Pool4, Pool6};
use rate::ErrorLimit;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Length in bytes of the longest ICMP error sent: the smallest MTU of IPv6 (RFC 4443 section 2.4(c)).
pub const LARGEST_ERROR: usize = 1280;

/// Length in bytes of the longest ICMP error sent in IPv4, and of the longest packet sent without DF: "When the
/// resulting IPv4 packet is smaller than or equal to 1260 bytes, the translator MUST send the packet with a cleared
/// Don't Fragment bit. Otherwise, the packet MUST be sent with the Don't Fragment bit set" (RFC 7915 section 5).
pub(crate) const LARGEST_WITHOUT_DF: usize = 1260;

/// The dummy address: a source for IPv4 nodes that have no address (RFC 7600 section 4.8).
const DUMMY: Ipv4Addr = Ipv4Addr::new(192, 0, 0, 8);

/// The source addresses of originated errors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ErrorSources {
    /// Source of ICMP errors.
    pub address4: Ipv4Addr,
    /// Source of ICMPv6 errors. None if no error can be sent: no IPv6 source is configured, and 64:ff9b::/96 must not
    /// represent the IPv4 source (RFC 6052 section 3.1).
    pub address6: Option<Ipv6Addr>,
}

impl ErrorSources {
    /// Chooses the sources from a configuration: the configured address, else the first of the pool (RFC 6791), else
    /// the dummy address.
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

/// The settings and state for ICMP errors.
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
    /// The source for an error from an IPv4 router whose address the prefix must not represent.
    pub fn stand_in_ipv6(&self, router: Ipv4Addr) -> Option<Ipv6Addr> {
        self.pool6.stand_in(router)
    }

    /// The source for an error from an IPv6 router without an IPv4 address.
    pub fn stand_in_ipv4(&self, router: Ipv6Addr) -> Ipv4Addr {
        self.pool4.stand_in(router)
    }

    /// Creates the settings from a configuration, with full token buckets.
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
