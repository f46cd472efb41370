// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Derives from a configuration where the programs of a router send, and which drivers translate.

use diolkos_config::Settings;
use diolkos_fastpath::{Inline, Port};

/// Returns the interfaces out of which packets are sent without the kernel's forwarding. `bpf_fib_lookup` does not
/// initialize the VRF that it asks for (Linux up to 2026), and where the kernel's stack is not cleared, a packet may
/// get the route of another VRF. So nothing is sent where there are several, the main table being one.
pub fn exits(settings: &Settings, inline: &[Inline]) -> Vec<u32> {
    if !settings.translator.placement.sends() || !is_one_domain(inline) {
        return Vec::new();
    }
    let ethernets = inline.iter().filter(|inline| inline.is_ethernet);
    ethernets.map(|inline| inline.ifindex).collect()
}

/// Returns true if all of the interfaces use the same routing table.
pub fn is_one_domain(inline: &[Inline]) -> bool {
    inline.windows(2).all(|pair| pair[0].vrf == pair[1].vrf)
}

/// Returns the interfaces whose drivers translate; None if there is no such driver.
pub fn drivers(inline: &[Inline]) -> Option<Vec<Port>> {
    let ports: Vec<Port> = inline.iter().filter_map(|inline| inline.driver).collect();
    (!ports.is_empty()).then(|| ports.into_iter().filter(|port| port.takes).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_of_several_vrfs_are_no_exits_for_each_other() {
        let of = |vrfs: &[Option<u32>]| {
            let inline = |vrf: &Option<u32>| Inline {
                ifindex: 2,
                is_ethernet: true,
                vrf: *vrf,
                driver: None,
            };
            is_one_domain(&vrfs.iter().map(inline).collect::<Vec<_>>())
        };
        assert!(of(&[]) && of(&[None, None]) && of(&[Some(7), Some(7)]));
        assert!(!of(&[None, Some(7)]) && !of(&[Some(7), Some(7), Some(8)]));
    }
}
