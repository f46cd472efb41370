// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The configuration of the slow path in the form of the fast path.

use diolkos_config::WELL_KNOWN_PREFIX;
use diolkos_fastpath::{Pref64, Rules};
use diolkos_xlat::{Config, TrafficClass};

/// Returns the rules that all modes share.
pub fn of(config: &Config, tun_ifindex: u32) -> Rules {
    Rules {
        tun_ifindex,
        mtu4: config.mtu4,
        mtu6: config.mtu6,
        lowest_ipv6_mtu: config.lowest_ipv6_mtu,
        traffic_class_zero: config.traffic_class == TrafficClass::Zero,
        takes_hop: config.takes_hop,
        tcp_mss: config.tcp_mss,
    }
}

/// Returns the translation prefixes.
pub fn pref64(config: &Config) -> Vec<Pref64> {
    let prefixes = config.pref64.iter().map(|prefix| Pref64 {
        network: prefix.network(),
        bits: prefix.prefix_len(),
        only_global: *prefix == WELL_KNOWN_PREFIX && !config.allow_private_with_wkp,
    });
    prefixes.collect()
}
