// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The configuration of the fast path and of the slow path: the same, each in its own form.

use std::net::Ipv6Addr;

use diolkos_datapath::rules as shared;
use diolkos_fastpath::ClatRules;
use diolkos_xlat::Config;
use ipnet::Ipv6Net;

use diolkos_config::{AutoValues, Settings, V6Address};
use diolkos_kernel::net::{Link, Medium};

/// The kernel gives a program no room for a link-layer header in front of a longer packet, unless it is a
/// super-packet.
const LONGEST: u32 = 16_000;

/// Returns the MTU of the TUN device, in bytes.
pub fn tun_mtu(uplink: &Link) -> u32 {
    uplink.mtu.min(LONGEST)
}

/// Returns the MTU of the IPv6 side, in bytes.
pub fn mtu6(uplink: &Link) -> u32 {
    uplink.mtu6.min(LONGEST)
}

/// The IPv6 side of the translation. The address may have been made for the prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Side6 {
    /// The PLAT's prefix.
    pub pref64: Ipv6Net,
    /// The CLAT's address.
    pub address: Ipv6Addr,
    /// True if it never leaves this host: the kernel masquerades it.
    pub is_shared: bool,
}

/// Returns the configuration of the slow path.
pub fn translation(settings: &Settings, uplink: &Link, side6: Side6) -> Config {
    let found = AutoValues {
        mtu4: tun_mtu(uplink),
        mtu6: mtu6(uplink),
        narrowest4: tun_mtu(uplink),
        narrowest6: mtu6(uplink),
        address6: Some(side6.address),
        outside: None,
    };
    // The address in force counts, whatever the operator wants next.
    let mut settings = settings.clone();
    settings.clat.v6 = V6Address::Auto;
    let config = settings.translation(found);
    Config {
        pref64: vec![side6.pref64],
        // The uplink's MTU already includes `translator.mtu6`, and its bound is that of the fast path too.
        mtu6: found.mtu6,
        // Routers may announce less for the uplink than the operator has configured for all.
        lowest_ipv6_mtu: config.lowest_ipv6_mtu.min(found.mtu6),
        ..config
    }
}

/// Returns the rules of the fast path.
pub fn of(settings: &Settings, uplink: &Link, side6: Side6, tun_ifindex: u32) -> ClatRules {
    let config = translation(settings, uplink, side6);
    // A CLAT has one.
    let pref64 = shared::pref64(&config).swap_remove(0);
    ClatRules {
        rules: shared::of(&config, tun_ifindex),
        v4: settings.clat.v4(),
        v6: side6.address,
        pref64,
        uplink_ifindex: uplink.index,
        uplink_is_ethernet: uplink.medium == Medium::Ethernet,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use diolkos_config::{TrafficClass, WELL_KNOWN_PREFIX};

    fn uplink(mtu: u32) -> Link {
        Link {
            mtu6: mtu - 100,
            ..Link::ethernet(2, mtu)
        }
    }

    #[test]
    fn both_paths_are_told_the_same() {
        let address: Ipv6Addr = "2001:db8::464".parse().expect("an address");
        let mut settings = Settings::default();
        settings.translator.lowest_ipv6_mtu = 1300;
        for pref64 in ["64:ff9b::/96", "2001:db8:64::/96", "2001:db8:100::/40"] {
            for (class, private, mtu) in [
                (TrafficClass::Copy, false, 1500),
                // Less than `lowest_ipv6_mtu`: a router may announce that at any time.
                (TrafficClass::Copy, false, 1380),
                (TrafficClass::Zero, true, 9000),
                (TrafficClass::Copy, true, 65536),
            ] {
                let side6 = Side6 {
                    pref64: pref64.parse().expect("a prefix"),
                    address,
                    is_shared: false,
                };
                settings.translator.traffic_class = class;
                settings.translator.allow_private_with_wkp = private;
                let fast = of(&settings, &uplink(mtu), side6, 3);
                let slow = translation(&settings, &uplink(mtu), side6);
                slow.check().expect("nothing contradicts itself");
                let [prefix] = slow.pref64[..] else {
                    panic!("one prefix")
                };
                let [mapping] = slow.eam[..] else {
                    panic!("one mapping")
                };
                assert!(slow.clat);
                assert_eq!(
                    (fast.pref64.network, fast.pref64.bits),
                    (prefix.network(), prefix.prefix_len())
                );
                assert_eq!((fast.v4, 32), (mapping.v4.addr(), mapping.v4.prefix_len()));
                assert_eq!((fast.v6, 128), (mapping.v6.addr(), mapping.v6.prefix_len()));
                assert_eq!(
                    (fast.rules.mtu4, fast.rules.mtu6, fast.rules.lowest_ipv6_mtu),
                    (slow.mtu4, slow.mtu6, slow.lowest_ipv6_mtu)
                );
                assert_eq!(fast.rules.tcp_mss, slow.tcp_mss);
                assert_eq!(
                    fast.rules.traffic_class_zero,
                    slow.traffic_class == diolkos_xlat::TrafficClass::Zero
                );
                assert_eq!(
                    fast.pref64.only_global,
                    prefix == WELL_KNOWN_PREFIX && !slow.allow_private_with_wkp
                );
            }
        }
    }
}
