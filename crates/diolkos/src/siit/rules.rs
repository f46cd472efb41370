// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the fast path is told: the same as the slow path, in its own words.

use diolkos_core::{Config, TrafficClass};
use diolkos_sys::fastpath::{Eam, Pref64, Rules, SiitRules};

use crate::config::WELL_KNOWN_PREFIX;

/// From a configuration that contradicts nothing.
pub fn of(config: &Config, tun_ifindex: u32) -> SiitRules {
    let pref64 = config.pref64.iter().map(|prefix| Pref64 {
        network: prefix.network(),
        bits: prefix.prefix_len(),
        only_global: *prefix == WELL_KNOWN_PREFIX && !config.allow_private_with_wkp,
    });
    let eam = config.eam.iter().map(|eam| Eam {
        v4: (eam.v4.network(), eam.v4.prefix_len()),
        v6: (eam.v6.network(), eam.v6.prefix_len()),
    });
    SiitRules {
        rules: Rules {
            tun_ifindex,
            mtu4: config.mtu4,
            mtu6: config.mtu6,
            lowest_ipv6_mtu: config.lowest_ipv6_mtu,
            traffic_class_zero: config.traffic_class == TrafficClass::Zero,
        },
        pref64: pref64.collect(),
        eam: eam.collect(),
    }
}
