// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The section `[clat]`: the addresses and routes of a CLAT.

use std::net::Ipv4Addr;

use diolkos_xlat::config::auto::number;
use ipnet::Ipv4Net;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::key::section;
use super::network::networks;
use super::{Prefix, Resolver, V4Address, V6Address};

section! {
    /// The addresses and routes of a CLAT (RFC 6877).
    pub struct Clat {
        /// The IPv4 address of the TUN device (RFC 7335). `"auto"`: the first of 192.0.0.1 to 192.0.0.6 that no other CLAT of this
        /// host has.
        v4: V4Address = V4Address::Auto, Live;
        /// The IPv6 address into which it is translated. `"auto"`: made from `v6_prefix`, the same at every start; where that is `"auto"` and the uplink has
        /// addresses but no /64, as `"shared"`. `"shared"`: an internal one, which the kernel masquerades, so that the CLAT
        /// shares the address of this host.
        v6: V6Address = V6Address::Auto, Live;
        /// A prefix (/16 to /96) that the network routes to this node, as by DHCPv6-PD: the address is made from it, or lies in it.
        /// `"auto"`: the uplink's /64.
        v6_prefix: Prefix = Prefix::Auto, Live;
        /// What is reached through the translator.
        #[serde(deserialize_with = "networks")]
        routes: Vec<Ipv4Net> = vec![Ipv4Net::default()], Live;
        /// Preference of these routes; a native IPv4 route with a lower metric wins. `"auto"`: 2048, or the next one that is free.
        #[serde(with = "number")]
        #[schemars(schema_with = "number::schema")]
        metric: Option<u32> = None, Live;
        /// What to do while another program's CLAT serves this host, such as NetworkManager's.
        other_clat: OtherClat = OtherClat::Yield, Live;
        /// Who is asked for the prefix where `translator.pref64` is auto; empty: the resolvers of /etc/resolv.conf.
        resolvers: Vec<Resolver> = Vec::new(), Live;
    }
}

/// What a CLAT does while another program's CLAT serves this host.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum,
)]
#[serde(rename_all = "kebab-case")]
pub enum OtherClat {
    /// Steps aside: it has no IPv4 routes until the other one is gone.
    #[default]
    Yield,
    /// Goes on. The IPv4 default route with the lower metric wins.
    TakeOver,
}

/// The first address for a CLAT (RFC 7335).
pub const FIRST_V4: Ipv4Addr = Ipv4Addr::new(192, 0, 0, 1);
/// Addresses that only translators and tunnels to IPv4 use on a host (RFC 7335 section 3).
pub const CONTINUITY: Ipv4Net = Ipv4Net::new_assert(Ipv4Addr::new(192, 0, 0, 0), 29);
/// Metric of a CLAT's routes: any native IPv4 route of a network manager wins.
pub const FIRST_METRIC: u32 = 2048;

impl Clat {
    /// The IPv4 address; before one is chosen, the address of a CLAT that is alone on its host.
    pub fn v4(&self) -> Ipv4Addr {
        self.v4.fixed().unwrap_or(FIRST_V4)
    }

    /// The metric; before one is chosen, the metric of a CLAT that is alone on its host.
    pub fn metric(&self) -> u32 {
        self.metric.unwrap_or(FIRST_METRIC)
    }

    /// Returns true if the IPv6 address is made from the uplink's prefix, and follows it.
    pub fn follows_uplink(&self) -> bool {
        (self.v6, self.v6_prefix) == (V6Address::Auto, Prefix::Auto)
    }
}
