// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which programs of a NAT64 are loaded.

use std::mem::MaybeUninit;

use libbpf_rs::skel::OpenSkel;

use super::{open, Media, Nat64Rules};
use crate::{Port, Rules, Sends};

/// The verifier takes some tenths of a second for each: only programs that have a place are loaded.
#[test]
fn programs_without_a_place_are_not_loaded() {
    let port = Port {
        ifindex: 1,
        card: 1,
        vlan: None,
        address: [2, 0, 0, 0, 0, 1],
        takes: true,
        sends: Sends::Frames,
        turns: true,
        hides_tags: false,
    };
    for (ethernet, bare_ip, has_driver) in [
        (false, false, false),
        (true, false, false),
        (false, true, false),
        (true, true, true),
    ] {
        let rules = Nat64Rules {
            rules: Rules {
                tun_ifindex: 7,
                mtu4: 1500,
                mtu6: 1500,
                lowest_ipv6_mtu: 1280,
                traffic_class_zero: false,
                takes_hop: true,
                tcp_mss: None,
            },
            pref64: Vec::new(),
            max_sessions: 16,
            exits: Vec::new(),
            media: Media { ethernet, bare_ip },
            drivers: has_driver.then(|| vec![port]),
            max_bindings: 16,
            own: Vec::new(),
            max_away: 16,
        };
        let mut storage = MaybeUninit::uninit();
        let open = open(&mut storage, &rules, 0).expect("it opens");
        let loaded = [
            open.progs.nat64_egress.autoload(),
            open.progs.nat64_ingress.autoload(),
            open.progs.nat64_ingress_raw.autoload(),
            open.progs.nat64_xdp.autoload(),
        ];
        assert_eq!(loaded, [true, ethernet, bare_ip, has_driver]);
        let all = open.open_object().progs();
        let all_loaded = all.filter(|program| program.autoload()).count();
        assert_eq!(all_loaded, loaded.iter().filter(|is| **is).count());
    }
}
