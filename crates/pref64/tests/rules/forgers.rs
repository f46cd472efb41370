// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Discovery on a link where any node may forge advertisements.

use std::collections::BTreeMap;

use diolkos_pref64::{Known, Source};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::harness::*;

#[test]
fn what_routers_offer_is_bounded() {
    let mut world = World::new();
    world.hear("fe80::1", &[(OWN, 600)]);
    world.is(OWN);
    for router in 2..1000 {
        world.hear(&format!("fe80::{router:x}"), &[(OTHER, 60_000)]);
    }
    assert_eq!(world.discovery.known().count(), 16);
    world.is(OWN);
    let many: Vec<String> = (0..100).map(|n| format!("2001:db8:{n:x}::/96")).collect();
    let many: Vec<(&str, u64)> = many.iter().map(|p| (p.as_str(), 60_000)).collect();
    for router in 2..1000 {
        world.hear(&format!("fe80::{router:x}"), &many);
    }
    assert!(world.discovery.known().count() <= 16 * 8);
    world.is(OWN);
}

/// The longest lifetime of RFC 8781 section 4.1 is 65528 seconds.
#[test]
fn one_forged_advertisement_shuts_nobody_out() {
    let forged: Vec<String> = (0..32)
        .map(|n| format!("2001:db8:bad:{n:x}::/64"))
        .collect();
    let forged: Vec<(&str, u64)> = forged.iter().map(|p| (p.as_str(), 65_528)).collect();
    for forger in ["fe80::bad", "fe80::1"] {
        let mut world = World::new();
        world.hear(forger, &forged);
        world.now = 10_000;
        world.hear("fe80::1", &[(OWN, 1800)]);
        world.is(OWN);
    }
    let mut world = World::new();
    for forger in 0..32 {
        world.hear(&format!("fe80::bad:{forger:x}"), &forged);
    }
    world.now = 10_000;
    world.hear("fe80::1", &[(OWN, 1800)]);
    world.is(OWN);
}

/// The forged prefix stays in use only until it is clear that no router confirms it.
#[test]
fn what_is_not_confirmed_gives_way_to_what_is() {
    let mut world = World::new();
    world.hear("fe80::bad", &[(OTHER, 65_528)]);
    world.is(OTHER);
    for second in (10..3600).step_by(590) {
        world.now = second * 1000;
        world.hear("fe80::1", &[(OWN, 1800)]);
        world.is(OTHER);
    }
    let wake = world.discovery.wake(at(world.now)).expect("a moment");
    assert!(wake <= at(3_600_000), "{wake:?}");
    world.now = 3_600_000;
    world.is(OWN);
    // If no router is heard any more, all offers are equal again.
    let mut world = World::new();
    world.hear("fe80::1", &[(OTHER, 65_528)]);
    world.is(OTHER);
    world.now = 10_000_000;
    world.is(OTHER);
}

/// A flood of forged routers, each heard twice, follows the true router, which is proven and stays.
#[test]
fn a_router_that_keeps_confirming_stays() {
    let mut world = World::new();
    for second in [0, 600] {
        world.now = second * 1000;
        world.hear("fe80::1", &[(WELL_KNOWN, 1800)]);
    }
    for round in 1..40_u64 {
        for forger in 0..64 {
            for _ in 0..2 {
                world.now += 4_000;
                let forged = format!("2001:db8:{forger:x}::/64");
                world.hear(&format!("fe80::bad:{forger:x}"), &[(&forged, 65_528)]);
            }
            let stays = world.discovery.known().any(|k| k.prefix == net(WELL_KNOWN));
            assert!(stays, "round {round}, forger {forger}");
        }
        world.hear("fe80::1", &[(WELL_KNOWN, 1800)]);
    }
    world.is(WELL_KNOWN);
}

#[test]
fn what_is_in_use_stays_though_it_was_heard_once() {
    let mut world = World::new();
    world.hear("fe80::1", &[(WELL_KNOWN, 1800)]);
    world.is(WELL_KNOWN);
    for forger in 0..1000 {
        world.now += 1;
        world.hear(&format!("fe80::bad:{forger:x}"), &[(OTHER, 65_528)]);
        let stays = world.discovery.known().any(|k| k.prefix == net(WELL_KNOWN));
        assert!(stays, "forger {forger}");
    }
}

proptest! {
    /// For any sequence of advertisements: memory is bounded, a router that is heard has a place, and a router that was
    /// heard twice before the others keeps it as long as it is heard once an hour.
    #[test]
    fn nobody_shuts_out_anybody(
        steps in vec((0..40_u16, 0..12_u16, 1..12_u16, 0..900_u64, any::<bool>()), 1..200),
    ) {
        const PROVEN: u16 = 4;
        let mut world = World::new();
        let router = |number: u16| format!("fe80::{number:x}");
        let mut last: BTreeMap<u16, u64> = BTreeMap::new();
        let hear = |world: &mut World, number: u16, first: u16, count: u16| {
            let prefixes = (first..first + count).map(|n| format!("2001:db8:{number:x}:{n:x}::/64"));
            let prefixes: Vec<String> = prefixes.collect();
            let offers: Vec<(&str, u64)> = prefixes.iter().map(|p| (p.as_str(), 65_528)).collect();
            world.hear(&router(number), &offers);
            net(&prefixes[0])
        };
        for now in [0, 600_000] {
            world.now = now;
            for number in 0..PROVEN {
                hear(&mut world, number, 0, 1);
                last.insert(number, now);
            }
        }
        for (number, first, count, later, chooses) in steps {
            world.now += later * 1000 + 1; // a later one each time; the first prefixes of each count
            last.retain(|_, last| world.now < *last + 3_600_000);
            let (first, count) = if number < PROVEN { (0, 1) } else { (first, count) };
            let said = hear(&mut world, number, first, count);
            last.entry(number).and_modify(|last| *last = world.now);
            let known: Vec<Known> = world.discovery.known().copied().collect();
            let of = |number: u16| {
                let source = Source::Router(router(number).parse().expect("an address"));
                known.iter().filter(move |known| known.source == source)
            };
            prop_assert!(known.len() <= 128);
            prop_assert!(of(number).count() <= 8);
            prop_assert!(of(number).any(|known| known.prefix == said));
            for &proven in last.keys() {
                prop_assert_eq!(of(proven).count(), 1, "router {}", proven);
            }
            if chooses {
                prop_assert!(world.choice().is_some());
            }
        }
    }
}
