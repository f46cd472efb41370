// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A configuration out of six bytes, and the bytes for a configuration of the vectors.
//!
//! The addresses are those of the vectors, so that packets from there are translated.

use crate::input::Input;
use diolkos_xlat::{Config, Eam, Icmp, TrafficClass, UdpZeroChecksum};

/// Bytes that a configuration takes.
pub const LEN: usize = 6;

const PREF64: [&[&str]; 10] = [
    &["2001:db8:100::/40"],
    &["64:ff9b::/96"],
    &["2001:db8:64::/96"],
    &["2001:db8:122:344::/64"],
    &["2001:db8:122:300::/56"],
    &["64:ff9b:1::/48"],
    &["2001:db8::/32"],
    &["2001:db8:64::/96", "2001:db8:4000::/40"],
    &["64:ff9b::/96", "2001:db8:100::/40"],
    &[],
];
/// Nested, of equal and of different suffix lengths, and inside a translation prefix.
const EAM: [&[(&str, &str)]; 6] = [
    &[],
    &[
        ("192.0.2.0/28", "2001:db8:e::/124"),
        ("198.51.100.0/24", "2001:db8:f::/64"),
    ],
    &[("192.0.0.1/32", "2001:db8:1:2:a5a5:1234:5678:9abc/128")],
    &[
        ("192.0.2.0/24", "2001:db8:1c0:2::/64"),
        ("192.0.2.33/32", "2001:db8:1c0:2:21::/128"),
    ],
    &[("0.0.0.0/0", "2001:db8:e::/96")],
    &[
        ("198.51.100.2/32", "2001:db8:100::1/128"),
        ("192.0.2.33/32", "2001:db8:100::2/128"),
    ],
];
const MTU4: [u32; 7] = [1500, 68, 576, 1280, 1400, 9000, 65535];
const MTU6: [u32; 5] = [1500, 1280, 1480, 9000, 65535];
const LOWEST_IPV6_MTU: [u32; 4] = [1280, 1300, 1480, 1500];

const CLAT: u8 = 1;
const COMPUTE: u8 = 2;
const ZERO_CLASS: u8 = 4;
const ALLOW_PRIVATE: u8 = 8;
const POOLS: u8 = 16;
const ADDRESS6: u8 = 32;
const SCARCE: u8 = 64;
const NO_ERRORS: u8 = 128;

/// Errors that are sent at once where they are scarce.
pub const SCARCE_BURST: u32 = 3;

/// The configuration that the next bytes mean. It may contradict itself.
pub fn config(input: &mut Input<'_>) -> Config {
    let pref64 = input.one_of(&PREF64);
    let eam = input.one_of(&EAM);
    let has = input.byte();
    let flag = |bit: u8| has & bit != 0;
    let (mtu4, mtu6) = (input.one_of(&MTU4), input.one_of(&MTU6));
    let default = Icmp::default();
    Config {
        pref64: pref64.iter().map(|net| parsed(net)).collect(),
        eam: eam
            .iter()
            .map(|(v4, v6)| Eam {
                v4: parsed(v4),
                v6: parsed(v6),
            })
            .collect(),
        clat: flag(CLAT),
        lowest_ipv6_mtu: input.one_of(&LOWEST_IPV6_MTU),
        mtu4,
        mtu6,
        udp_zero_checksum: match flag(COMPUTE) {
            true => Some(UdpZeroChecksum::Compute),
            false => Some(UdpZeroChecksum::Drop),
        },
        udp_zero_checksum_ports: Vec::new(),
        takes_hop: true,
        // The judge holds that what is behind the transport header's fields stays as it is.
        tcp_mss: None,
        traffic_class: match flag(ZERO_CLASS) {
            true => TrafficClass::Zero,
            false => TrafficClass::Copy,
        },
        allow_private_with_wkp: flag(ALLOW_PRIVATE),
        loops4: Vec::new(),
        icmp: Icmp {
            address6: flag(ADDRESS6).then(|| parsed("2001:db8:9::1")),
            source_pool4: if flag(POOLS) {
                vec![parsed("203.0.113.0/28")]
            } else {
                vec![]
            },
            source_pool6: if flag(POOLS) {
                vec![parsed("2001:db8:9:9::/64")]
            } else {
                vec![]
            },
            rate: if flag(NO_ERRORS) { 0 } else { default.rate },
            burst: if flag(SCARCE) {
                SCARCE_BURST
            } else {
                default.burst
            },
            ..default
        },
    }
}

/// The bytes for what comes nearest to a configuration.
pub fn bytes(config: &Config) -> [u8; LEN] {
    let place = |found: Option<usize>| found.unwrap_or(0) as u8;
    let pref64: Vec<String> = config.pref64.iter().map(ToString::to_string).collect();
    let eam: Vec<_> = config
        .eam
        .iter()
        .map(|eam| (eam.v4.to_string(), eam.v6.to_string()))
        .collect();
    let mut has = 0;
    for (bit, given) in [
        (CLAT, config.clat),
        (
            COMPUTE,
            config.udp_zero_checksum == Some(UdpZeroChecksum::Compute),
        ),
        (ZERO_CLASS, config.traffic_class == TrafficClass::Zero),
        (ALLOW_PRIVATE, config.allow_private_with_wkp),
        (POOLS, !config.icmp.source_pool4.is_empty()),
        (ADDRESS6, config.icmp.address6.is_some()),
        (SCARCE, config.icmp.burst <= SCARCE_BURST),
        (NO_ERRORS, config.icmp.rate == 0),
    ] {
        has |= if given { bit } else { 0 };
    }
    [
        place(PREF64.iter().position(|nets| *nets == pref64)),
        place(EAM.iter().position(|nets| {
            nets.len() == eam.len()
                && nets
                    .iter()
                    .zip(&eam)
                    .all(|(a, b)| (a.0, a.1) == (&b.0, &b.1))
        })),
        has,
        place(MTU4.iter().position(|mtu| *mtu == config.mtu4)),
        place(MTU6.iter().position(|mtu| *mtu == config.mtu6)),
        place(
            LOWEST_IPV6_MTU
                .iter()
                .position(|mtu| *mtu == config.lowest_ipv6_mtu),
        ),
    ]
}

fn parsed<T: std::str::FromStr<Err: std::fmt::Debug>>(text: &str) -> T {
    text.parse().expect("a constant of this file")
}
