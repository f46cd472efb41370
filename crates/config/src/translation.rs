// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Converts the settings for the translator.

use std::net::{Ipv4Addr, Ipv6Addr};

use diolkos_xlat::Config;
use ipnet::{Ipv4Net, Ipv6Net};

use super::{Eam, Icmp, Mode, Settings};

/// The values for the settings with `auto`, which only the machine can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AutoValues {
    /// MTU of the IPv4 side, bytes.
    pub mtu4: u32,
    /// MTU of the IPv6 side, bytes.
    pub mtu6: u32,
    /// The least MTU of all interfaces for IPv4, bytes.
    pub narrowest4: u32,
    /// The same for IPv6.
    pub narrowest6: u32,
    /// The address of the CLAT, or a global address of the router.
    pub address6: Option<Ipv6Addr>,
    /// The address of the interface that shares it with the pool (`nat64.pool4.interface`).
    pub outside: Option<Ipv4Addr>,
}

impl AutoValues {
    /// The MTU without a machine, as in `translate`, bytes.
    pub const OFFLINE_MTU: u32 = 1500;
    /// A placeholder for an address that is not known yet: an address of the discard prefix (RFC 6666).
    const UNKNOWN: Ipv6Addr = Ipv6Addr::new(0x100, 0, 0, 0, 0, 0, 0, 1);

    /// Values that cause no contradiction, for checks before the machine is examined.
    pub const ANYTHING: AutoValues = AutoValues {
        mtu4: 65535,
        mtu6: 65535,
        narrowest4: 65535,
        narrowest6: 65535,
        address6: None,
        outside: None,
    };
}

impl Settings {
    /// The configuration of the translation for the slow path.
    pub fn translation(&self, found: AutoValues) -> Config {
        let t = &self.translator;
        let own6 = match t.mode {
            Mode::Clat => self.clat.v6.fixed().or(found.address6),
            Mode::Siit | Mode::Nat64 => found.address6,
        };
        // The first address of a pool takes precedence over an address that was not configured.
        let own6_for_errors = own6.filter(|_| self.icmp.source_pool6.is_empty());
        Config {
            pref64: t.pref64.given().to_vec(),
            eam: match t.mode {
                Mode::Clat => vec![Eam {
                    v4: Ipv4Net::from(self.clat.v4()),
                    v6: Ipv6Net::from(own6.unwrap_or(AutoValues::UNKNOWN)),
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
            tcp_mss: self.tcp_mss(found),
            takes_hop: self.is_at_device(),
            icmp: Icmp {
                address6: self.icmp.address6.or(own6_for_errors),
                ..self.icmp.clone()
            },
        }
    }
}
