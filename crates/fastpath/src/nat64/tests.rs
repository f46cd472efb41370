// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which programs of a NAT64 are loaded, and what they share with those of an earlier run.

use std::mem::MaybeUninit;
use std::os::fd::AsFd;

use libbpf_rs::skel::OpenSkel;

use diolkos_sys::bpf::program_info;
use libbpf_rs::MapCore;

use super::{load_with, open, pinned_rules, Nat64Rules, PinnedProgram};
use crate::{Media, Port, Rules, Sends};

fn rules(media: Media, drivers: Option<Vec<Port>>) -> Nat64Rules {
    Nat64Rules {
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
        media,
        drivers,
        max_bindings: 16,
        own: Vec::new(),
        max_away: 16,
        heard: 0,
    }
}

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
        let rules = rules(Media { ethernet, bare_ip }, has_driver.then(|| vec![port]));
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

/// What the new daemon makes programs forget, those of the earlier run must forget, too: they look at the same places.
#[test]
fn programs_that_share_maps_have_the_key_of_the_earlier_run() {
    const KEY: u64 = 0x0123_4567_89ab_cdef;
    let mut rules = rules(Media::of(&[]), None);
    rules.pref64 = vec![crate::Pref64 {
        network: "64:ff9b::".parse().expect("a prefix"),
        bits: 96,
        only_global: true,
    }];
    let mut storage = MaybeUninit::uninit();
    let old = open(&mut storage, &rules, KEY)
        .expect("it opens")
        .load()
        .expect("it loads: run the test as root");
    let program = old.progs.nat64_egress.as_fd();
    let id = program_info(program, &mut []).expect("it is there").id;
    let pinned = PinnedProgram::of(id).expect("it is there");
    let known = pinned_rules(&pinned).expect("they are of this version");
    assert_eq!(known.lease_key, KEY);
    assert_eq!(known.pref64, [(rules.pref64[0].network, 96)]);

    let mut storage = MaybeUninit::uninit();
    let (new, key) = load_with(&mut storage, &rules, &known, &pinned).expect("they fit");
    assert_eq!(key, KEY);
    let data = new.maps.rodata_data.as_ref().expect("there is data");
    assert_eq!(data.nat64.lease_key, KEY);
    let id_of = |map: &dyn MapCore| map.info().expect("it is there").info.id;
    assert_eq!(
        id_of(&new.maps.known_sessions),
        id_of(&old.maps.known_sessions)
    );

    // With another number of sessions, the places would be others.
    rules.max_sessions = 17;
    let mut storage = MaybeUninit::uninit();
    assert!(load_with(&mut storage, &rules, &known, &pinned).is_none());
}
