// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What every router's fast path is told, from a configuration that contradicts nothing.

use diolkos_core::{Config, TrafficClass};
use diolkos_sys::fastpath::{Inline, Port, Pref64, Rules};

use crate::config::{Settings, WELL_KNOWN_PREFIX};

/// What all modes share.
pub fn of(config: &Config, tun_ifindex: u32) -> Rules {
    Rules {
        tun_ifindex,
        mtu4: config.mtu4,
        mtu6: config.mtu6,
        lowest_ipv6_mtu: config.lowest_ipv6_mtu,
        traffic_class_zero: config.traffic_class == TrafficClass::Zero,
    }
}

/// The translation prefixes.
pub fn pref64(config: &Config) -> Vec<Pref64> {
    let prefixes = config.pref64.iter().map(|prefix| Pref64 {
        network: prefix.network(),
        bits: prefix.prefix_len(),
        only_global: *prefix == WELL_KNOWN_PREFIX && !config.allow_private_with_wkp,
    });
    prefixes.collect()
}

/// Out of which of the interfaces packets are sent without the kernel's forwarding. `bpf_fib_lookup` leaves the VRF out of
/// its question unset (corrected in 2026), so what comes from one may get the route of another: then the kernel forwards all.
pub fn exits(settings: &Settings, inline: &[Inline]) -> Vec<u32> {
    let has_vrf = inline.iter().any(|inline| inline.is_in_vrf);
    if has_vrf || !settings.translator.placement.sends() {
        return Vec::new();
    }
    let ethernets = inline.iter().filter(|inline| inline.is_ethernet);
    ethernets.map(|inline| inline.ifindex).collect()
}

/// The interfaces whose drivers translate. None: no driver does.
pub fn drivers(inline: &[Inline]) -> Option<Vec<Port>> {
    let ports: Vec<Port> = inline.iter().filter_map(|inline| inline.driver).collect();
    (!ports.is_empty()).then(|| ports.into_iter().filter(|port| port.takes).collect())
}
