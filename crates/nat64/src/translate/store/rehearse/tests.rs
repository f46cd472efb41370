// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A store that has rehearsed is the store that it was, and goes on as one that has not.

use super::super::super::fragment::Held;
use super::*;
use crate::session::key::Keys;
use diolkos_xlat::packet::Label;
use diolkos_xlat::translate::payload::Numbers;
use diolkos_xlat::wire::Ipv6;
use std::net::Ipv6Addr;

const NUMBERS: Numbers = Numbers { src: 1, dst: 2 };

/// Room for few, so that sources and the store itself are full most of the time.
fn small() -> Store {
    let mut store = Store::new(Keys([1, 2]));
    store.set_limits(&crate::config::Limits {
        fragmented_packets: 12,
        fragmented_packets_per_source: 4,
        held_fragments: 10,
        held_fragments_per_source: 4,
        ..Default::default()
    });
    store
}

/// Everything that a store says and does depends on.
fn all_of(store: &Store) -> impl PartialEq + std::fmt::Debug {
    let mut packets: Vec<_> = store.packets.iter().collect();
    packets.sort_by_key(|(_, packet)| packet.number);
    let packets = packets
        .iter()
        .map(|(key, packet)| format!("{key:?}{packet:?}"));
    let mut sources: Vec<_> = store.sources.iter().collect();
    sources.sort_by_key(|(source, _)| **source);
    (
        packets.collect::<Vec<_>>(),
        format!("{sources:?}"),
        (store.by_age.clone(), store.by_source.clone()),
        (store.waiting.clone(), store.by_size.clone()),
        (store.next, store.held, store.held_bytes),
    )
}

fn label(dice: u64) -> Label {
    Label {
        mark: dice as u32,
        ..Label::default()
    }
}

/// One of the things that fragments do to a store; what comes of it.
fn change(store: &mut Store, dice: u64) -> (Vec<Held>, usize) {
    let source = u128::from(dice >> 8 & 3);
    let ip = Ipv6 {
        traffic_class: 0,
        flow_label: 0,
        payload_len: 0,
        next_header: 44,
        hop_limit: 64,
        src: Ipv6Addr::from_bits(source),
        dst: Ipv6Addr::LOCALHOST,
    };
    let key = Key::v6(&ip, (dice >> 16 & 7) as u32, 17);
    match dice & 7 {
        0..4 => {
            let bytes = [7; 4000];
            let len = (dice >> 24) as usize % bytes.len();
            (
                vec![],
                store
                    .hold(key, source, (&bytes[..len], label(dice)), dice)
                    .unwrap_or(99),
            )
        }
        4 | 5 => store.first(key, source, NUMBERS, dice),
        6 => (store.remove(&key), 0),
        _ => (vec![], 0),
    }
}

#[test]
fn nothing_is_left_of_a_rehearsal() {
    let mut random = 0x2545_f491_4f6c_dd1du64;
    let mut dice = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    let [mut asked, mut other] = [small(), small()];
    let mut lost = 0;
    for step in 0..5000 {
        let before = all_of(&asked);
        asked.rehearse();
        for _ in 0..1 + step % 4 {
            lost += change(&mut asked, dice()).1;
        }
        asked.roll_back();
        assert_eq!(all_of(&asked), before, "step {step}");
        let next = dice();
        assert_eq!(change(&mut asked, next), change(&mut other, next));
    }
    assert_eq!(all_of(&asked), all_of(&other));
    assert!(lost > 100, "the store was never full");
}
