// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Prefixes that are known and cannot be used, and prefixes that come and go without end.

use diolkos_pref64::Unusable;

use crate::harness::*;

/// The longest lifetime of RFC 8781 section 4.1, seconds.
const LONGEST: u64 = 65_528;

/// A network whose prefix only its resolver reveals, and one forged advertisement with an unusable prefix.
#[test]
fn resolvers_are_asked_while_no_offer_can_be_used() {
    for how in [Unusable::Contradicts, Unusable::Unclaimed] {
        let mut world = World::new();
        world.pass(5, Some(WELL_KNOWN));
        world.is(WELL_KNOWN);
        world.hear("fe80::bad", &[(OTHER, LONGEST)]);
        world.is(OTHER);
        world.exclude(OTHER, how);
        world.is(WELL_KNOWN);
        let (asked, _) = world.pass(50, Some(WELL_KNOWN));
        assert_eq!(
            asked, 1,
            "the answer ends at 60 s, and is renewed before that"
        );
        for minute in 1..60 {
            world.pass(minute * 60, Some(WELL_KNOWN));
            if world.prefix().as_deref() == Some(OTHER) {
                assert_eq!(how, Unusable::Unclaimed, "it contradicts for good");
                world.exclude(OTHER, how);
            }
            world.is(WELL_KNOWN);
        }
    }
}

#[test]
fn what_is_passed_over_is_tried_again_after_a_minute_and_then_less_often() {
    let mut world = World::new();
    world.hear("fe80::1", &[(OWN, LONGEST)]);
    let mut pauses = Vec::new();
    for _ in 0..6 {
        world.is(OWN);
        world.exclude(OWN, Unusable::Unclaimed);
        assert_eq!(world.prefix(), None);
        let passed = world.now;
        while world.prefix().is_none() {
            let next = world.now / 1000 + 1;
            world.pass(next, None);
            assert!(world.now < 3_600_000, "it is never tried again");
        }
        pauses.push((world.now - passed) / 1000);
    }
    assert_eq!(pauses, [60, 120, 240, 480, 900, 900]);
    // After the prefix was used, its exclusion time starts again at the minimum.
    world.discovery.worked(net(OWN));
    world.exclude(OWN, Unusable::Unclaimed);
    let again = world.now + 60_000;
    world.pass(again / 1000 - 1, None);
    assert_eq!(world.prefix(), None);
    world.pass(again / 1000, None);
    world.is(OWN);
}

#[test]
fn what_may_change_is_reconsidered_and_what_contradicts_is_not() {
    let mut world = World::new();
    world.hear("fe80::1", &[(OWN, 6000), (WELL_KNOWN, 6000)]);
    world.exclude(OWN, Unusable::Contradicts);
    world.exclude(WELL_KNOWN, Unusable::Unclaimed);
    assert_eq!(world.prefix(), None);
    world.discovery.reconsider();
    world.is(WELL_KNOWN);
    // The prefix is no longer offered, so its exclusion ends.
    assert!(!world.discovery.admits(at(world.now), net(OWN)));
    world.hear("fe80::1", &[(OWN, 0)]);
    world.is(WELL_KNOWN);
    world.hear("fe80::1", &[(OWN, 600)]);
    world.is(OWN);
}

/// RFC 8781 section 5.1: routers take precedence, but a silent router does not outlast the answer of a resolver.
#[test]
fn a_prefix_that_no_router_confirms_gives_way_to_the_resolvers() {
    let mut world = World::new();
    world.pass(5, Some(WELL_KNOWN));
    world.hear("fe80::bad", &[(OTHER, LONGEST)]);
    let (asked, _) = world.pass(3594, Some(WELL_KNOWN));
    assert_eq!(asked, 0);
    world.is(OTHER);
    let (asked, solicited) = world.pass(3604, Some(WELL_KNOWN));
    assert_eq!(
        (asked, solicited),
        (1, 3),
        "whoever offers it can confirm it"
    );
    world.is(OTHER);
    world.pass(3605, Some(WELL_KNOWN));
    world.is(WELL_KNOWN);
    world.pass(20_000, Some(WELL_KNOWN));
    world.is(WELL_KNOWN);
    // If resolvers deny the prefix or do not answer, it holds for the lifetime that the router gave.
    let mut world = World::new();
    world.hear("fe80::1", &[(OTHER, LONGEST)]);
    world.pass(20_000, None);
    world.is(OTHER);
}

/// Useless offers may trigger queries and solicitations, but not one each.
#[test]
fn forgers_do_not_decide_how_often_others_are_asked() {
    let mut world = World::new();
    world.pass(20, None);
    let (mut asked, mut solicited) = (0, 0);
    for second in 20..30 {
        for n in 0..100 {
            let forged = format!("2001:db8:bad:{:x}::/96", second * 100 + n);
            world.hear("fe80::bad", &[(&forged, LONGEST)]);
            world.exclude(&forged, Unusable::Contradicts);
            let more = world.pass(second, None);
            world.hear("fe80::bad", &[(&forged, 0)]);
            let most = world.pass(second, None);
            (asked, solicited) = (asked + more.0 + most.0, solicited + more.1 + most.1);
        }
    }
    assert!((1..=10).contains(&asked), "{asked}");
    assert!((1..=3).contains(&solicited), "{solicited}");
}

/// A better prefix that comes and goes fifty times a second.
#[test]
fn what_comes_and_goes_is_not_followed_without_end() {
    let mut world = World::new();
    world.hear("fe80::1", &[(WELL_KNOWN, LONGEST)]);
    world.is(WELL_KNOWN);
    let (mut moves, mut last) = (0, WELL_KNOWN.to_owned());
    let look = |world: &mut World, moves: &mut usize, last: &mut String| {
        let now = world.prefix().expect("a prefix that works stays");
        *moves += usize::from(now != *last);
        *last = now;
    };
    for round in 0..3000_u64 {
        let forged = format!("2001:db8:bad:{round:x}::/96");
        world.hear("fe80::bad", &[(&forged, LONGEST)]);
        look(&mut world, &mut moves, &mut last);
        world.now += 10;
        world.hear("fe80::bad", &[(&forged, 0)]);
        look(&mut world, &mut moves, &mut last);
        world.now += 10;
    }
    assert_eq!(world.now, 60_000);
    assert!((1..=5).contains(&moves), "{moves}");
    world.is(WELL_KNOWN);
    // A prefix that stays is taken a while later; after a long calm, the next one is taken at once.
    world.hear("fe80::1", &[(OWN, LONGEST)]);
    let wake = world.discovery.wake(at(world.now)).expect("a moment");
    world.is(WELL_KNOWN);
    assert!(world.discovery.wait().is_some());
    assert!(wake > at(world.now));
    world.pass(world.now / 1000 + 2, None);
    world.is(OWN);
    world.now += 200_000;
    world.hear("fe80::1", &[(OWN, 0)]);
    world.is(WELL_KNOWN);
    assert!(world.discovery.wait().is_some());
    world.now += 200_000;
    world.hear("fe80::1", &[(OTHER, LONGEST)]);
    world.is(OTHER);
    assert!(world.discovery.wait().is_none());
}

#[test]
fn the_loss_of_what_is_in_use_is_followed_at_once_and_the_waits_grow_to_a_minute() {
    let mut world = World::new();
    world.hear("fe80::1", &[(WELL_KNOWN, LONGEST)]);
    world.is(WELL_KNOWN);
    let mut waits = Vec::new();
    for _ in 0..12 {
        world.hear("fe80::2", &[(OWN, LONGEST)]);
        let begin = world.now;
        while world.prefix().as_deref() != Some(OWN) {
            world.now += 500;
        }
        waits.push((world.now - begin) / 1000);
        world.hear("fe80::2", &[(OWN, 0)]);
        world.is(WELL_KNOWN);
    }
    assert_eq!(waits[..6], [0, 0, 1, 4, 16, 60]);
    assert!(waits[5..].iter().all(|wait| *wait == 60), "{waits:?}");
}
