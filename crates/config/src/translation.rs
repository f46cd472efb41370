// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The settings as the translator takes them.

use std::net::Ipv6Addr;

use diolkos_core::Config;
use ipnet::{Ipv4Net, Ipv6Net};

use super::{Eam, Icmp, Mode, Placement, Settings};

/// What stands where the settings say `auto`; only the machine can tell it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// MTU of the IPv4 side, bytes.
    pub mtu4: u32,
    /// MTU of the IPv6 side, bytes.
    pub mtu6: u32,
    /// The CLAT's address, or a global one of the router's.
    pub address6: Option<Ipv6Addr>,
}

impl Found {
    /// Without a machine, as `translate` works (bytes).
    pub const OFFLINE_MTU: u32 = 1500;
    /// Stands for an address that is not known yet: one of the discard prefix (RFC 6666).
    const UNKNOWN: Ipv6Addr = Ipv6Addr::new(0x100, 0, 0, 0, 0, 0, 0, 1);

    /// What contradicts nothing: before the machine is looked at.
    pub const ANYTHING: Found = Found {
        mtu4: 65535,
        mtu6: 65535,
        address6: None,
    };
}

impl Settings {
    /// The translation as the slow path takes it.
    pub fn translation(&self, found: Found) -> Config {
        let t = &self.translator;
        let own6 = match t.mode {
            Mode::Clat => self.clat.v6.fixed().or(found.address6),
            Mode::Siit | Mode::Nat64 => found.address6,
        };
        // The first address of a pool goes before an address that nobody has named.
        let own6_for_errors = own6.filter(|_| self.icmp.source_pool6.is_empty());
        Config {
            pref64: t.pref64.given().to_vec(),
            eam: match t.mode {
                Mode::Clat => vec![Eam {
                    v4: Ipv4Net::from(self.clat.v4()),
                    v6: Ipv6Net::from(own6.unwrap_or(Found::UNKNOWN)),
                }],
                Mode::Nat64 => Vec::new(),
                Mode::Siit => self.eam.clone(),
            },
            clat: t.mode == Mode::Clat,
            lowest_ipv6_mtu: t.lowest_ipv6_mtu,
            mtu4: t.mtu4.or(found.mtu4),
            mtu6: t.mtu6.or(found.mtu6),
            udp_zero_checksum: t.udp_zero_checksum.fixed(),
            udp_zero_checksum_ports: t.udp_zero_checksum_ports.clone(),
            traffic_class: t.traffic_class,
            allow_private_with_wkp: t.allow_private_with_wkp,
            loops4: match t.mode {
                Mode::Siit => self.siit.loops4.clone(),
                Mode::Clat | Mode::Nat64 => Vec::new(),
            },
            takes_hop: t.placement == Placement::Device,
            icmp: Icmp {
                address6: self.icmp.address6.or(own6_for_errors),
                ..self.icmp.clone()
            },
        }
    }
}
