// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The CLATs under which the law is tested: every length of prefix, with addresses that keep checksums as they are and
//! with others, and every key that a program looks at.

use diolkos_core::csum::Sum;
use diolkos_core::{Config, Eam, Icmp, TrafficClass, UdpZeroChecksum};
use diolkos_sys::fastpath::ClatRules;
use ipnet::Ipv6Net;
use std::net::{Ipv4Addr, Ipv6Addr};

/// One CLAT, as the settings of the program describe it.
#[derive(Clone, Debug)]
pub struct Clat {
    pub name: &'static str,
    pub v4: Ipv4Addr,
    pub v6: Ipv6Addr,
    pub pref64: Ipv6Net,
    pub mtu4: u32,
    pub mtu6: u32,
    pub lowest_ipv6_mtu: u32,
    pub udp_zero_checksum: UdpZeroChecksum,
    pub traffic_class: TrafficClass,
    pub allow_private_with_wkp: bool,
}

impl Clat {
    /// With the defaults of the program, and an address that is not checksum-neutral.
    fn new(name: &'static str, pref64: &str) -> Clat {
        Clat {
            name,
            v4: Ipv4Addr::new(192, 0, 0, 1),
            v6: "2001:db8:1:2:a5a5:1234:5678:9abc".parse().unwrap(),
            pref64: pref64.parse().unwrap(),
            mtu4: 1516,
            mtu6: 1500,
            lowest_ipv6_mtu: 1280,
            udp_zero_checksum: UdpZeroChecksum::Drop,
            traffic_class: TrafficClass::Copy,
            allow_private_with_wkp: false,
        }
    }

    /// With a last word of the address that makes both families sum up alike (RFC 6052 section 4.1).
    fn neutral(self) -> Clat {
        let mut segments = self.v6.segments();
        segments[7] = 0;
        let rest = Sum::default()
            .ipv6(segments.into())
            .ipv6(self.pref64.network());
        segments[7] = Sum::default().ipv4(self.v4).minus(rest).fold();
        Clat {
            v6: segments.into(),
            ..self
        }
    }

    /// RFC 6052 section 3.1 holds for what is behind the prefix.
    pub fn only_global(&self) -> bool {
        self.pref64 == "64:ff9b::/96".parse().unwrap() && !self.allow_private_with_wkp
    }

    /// What the program tells the fast path (`start_fast_path` in `src/clat/mod.rs`).
    pub fn rules(&self) -> ClatRules {
        ClatRules {
            v4: self.v4,
            v6: self.v6,
            pref64: self.pref64.network(),
            pref64_bits: self.pref64.prefix_len(),
            tun_ifindex: 1,
            uplink_ifindex: 1,
            uplink_is_ethernet: true,
            mtu4: self.mtu4,
            mtu6: self.mtu6,
            lowest_ipv6_mtu: self.lowest_ipv6_mtu,
            traffic_class_zero: self.traffic_class == TrafficClass::Zero,
            wkp_only_global: self.only_global(),
        }
    }

    /// What it tells the slow path (`Settings::translation` in `src/config/translation.rs`).
    pub fn config(&self) -> Config {
        Config {
            pref64: vec![self.pref64],
            eam: vec![Eam {
                v4: self.v4.into(),
                v6: self.v6.into(),
            }],
            clat: true,
            lowest_ipv6_mtu: self.lowest_ipv6_mtu,
            mtu4: self.mtu4,
            mtu6: self.mtu6,
            udp_zero_checksum: self.udp_zero_checksum,
            traffic_class: self.traffic_class,
            allow_private_with_wkp: self.allow_private_with_wkp,
            icmp: Icmp {
                address6: Some(self.v6),
                ..Icmp::default()
            },
        }
    }
}

/// All of them.
pub fn all() -> Vec<Clat> {
    vec![
        Clat::new("well-known prefix, neutral", "64:ff9b::/96").neutral(),
        Clat::new("well-known prefix", "64:ff9b::/96"),
        Clat {
            allow_private_with_wkp: true,
            ..Clat::new("well-known prefix, private allowed", "64:ff9b::/96").neutral()
        },
        Clat::new("/96, neutral", "2001:db8:64::/96").neutral(),
        Clat::new("/64", "2001:db8:122:344::/64").neutral(),
        Clat::new("/56", "2001:db8:122:300::/56"),
        Clat::new("/48", "64:ff9b:1::/48"),
        Clat::new("/40", "2001:db8:100::/40").neutral(),
        Clat {
            v6: "2001:db8:100:2:a5a5:1234:5678:9abc".parse().unwrap(),
            ..Clat::new("/32", "2001:db9::/32").neutral()
        },
        Clat {
            v6: "2001:db8:cb00:7101:a5a5:1234:5678:9abc".parse().unwrap(),
            ..Clat::new("/32 in which the CLAT's own address lies", "2001:db8::/32")
        },
        Clat {
            mtu6: 1280,
            mtu4: 1296,
            traffic_class: TrafficClass::Zero,
            ..Clat::new("IPv6 MTU 1280, traffic class zero", "2001:db8:64::/96")
        },
        Clat {
            mtu6: 9000,
            mtu4: 9016,
            lowest_ipv6_mtu: 1400,
            ..Clat::new("IPv6 MTU 9000, lowest 1400", "2001:db8:64::/96").neutral()
        },
        Clat {
            mtu4: 1300,
            ..Clat::new("IPv4 MTU 1300", "2001:db8:64::/96").neutral()
        },
        Clat {
            v4: Ipv4Addr::new(10, 1, 2, 3),
            udp_zero_checksum: UdpZeroChecksum::Compute,
            lowest_ipv6_mtu: 1500,
            ..Clat::new("10.1.2.3, UDP checksums computed", "64:ff9b::/96").neutral()
        },
    ]
}
