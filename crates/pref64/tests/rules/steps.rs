// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rules of the discovery, step by step.

use diolkos_pref64::{Action, Source};

use crate::harness::*;

/// RFC 4861 section 6.3.7: three solicitations, four seconds apart, until a router answers. An advertisement without
/// a prefix is no answer: it may come from another router than the one with the prefix, or be forged.
#[test]
fn at_the_start_routers_are_solicited_and_resolvers_asked() {
    let mut world = World::new();
    let done = world.until(60);
    let solicited = [0, 4, 8].map(|second| (second, Action::Solicit));
    let mut expected = solicited.to_vec();
    expected.insert(1, (0, Action::Ask));
    assert_eq!(done, expected);
    world.is_none();

    let mut world = World::new();
    world.until(2);
    world.hear("fe80::1", &[(OWN, 1800)]);
    assert_eq!(
        world.until(60),
        [],
        "one that has answered is not solicited again"
    );

    let mut world = World::new();
    world.until(2);
    world.hear("fe80::bad", &[]);
    world.hear("fe80::bad", &[(OWN, 0)]);
    let solicited = [4, 8].map(|second| (second, Action::Solicit));
    assert_eq!(world.until(60), solicited);
}

#[test]
fn an_answer_waits_a_second_for_routers_at_first() {
    let mut world = World::new();
    world.until(0);
    world.reply(&[WELL_KNOWN], 600);
    world.is_none();
    assert_eq!(world.discovery.wake(at(0)), Some(at(1000)));
    world.now = 1000;
    world.is(WELL_KNOWN);
    assert_eq!(
        world.choice().expect("it").source,
        Source::Resolver(resolver())
    );

    let mut world = World::new();
    world.until(0);
    world.reply(&[WELL_KNOWN], 600);
    world.hear("fe80::1", &[]);
    world.is(WELL_KNOWN);
}

/// RFC 8781 section 5.1.
#[test]
fn routers_go_before_resolvers() {
    let mut world = World::new();
    world.until(0);
    world.reply(&[OWN], 600);
    world.now = 2000;
    world.is(OWN);
    world.hear("fe80::1", &[(WELL_KNOWN, 1800)]);
    world.is(WELL_KNOWN);
    let known = world.choice().expect("it");
    assert_eq!(
        known.source,
        Source::Router("fe80::1".parse().expect("an address"))
    );
    assert_eq!(known.until, at(1_802_000));
}

#[test]
fn as_long_as_a_router_offers_one_nobody_is_asked() {
    let mut world = World::new();
    world.until(0);
    world.reply(&[OWN], 60);
    world.hear("fe80::1", &[(WELL_KNOWN, 600)]);
    assert_eq!(world.until(589), []);
    // Routers are solicited and resolvers queried before it expires.
    assert_eq!(
        world.until(590),
        [(590, Action::Solicit), (590, Action::Ask)]
    );
    world.deny(Some(60));
    world.is(WELL_KNOWN);
    world.until(600);
    world.is_none();
}

#[test]
fn an_offer_of_lifetime_zero_is_withdrawn() {
    let mut world = World::new();
    world.until(0);
    world.deny(None);
    world.until(1);
    world.hear("fe80::1", &[(OWN, 600), (WELL_KNOWN, 600)]);
    world.is(OWN);
    world.hear("fe80::1", &[(OWN, 0), (WELL_KNOWN, 600)]);
    world.is(WELL_KNOWN);
    assert_eq!(world.asked(1), [0; 0]);
    world.hear("fe80::1", &[(WELL_KNOWN, 0)]);
    world.is_none();
    assert_eq!(world.asked(1), [1], "at once, whatever was denied before");
    world.hear("fe80::1", &[(WELL_KNOWN, 0), (OWN, 0)]);
    world.is_none();
}

#[test]
fn a_router_withdraws_what_it_said_itself() {
    let mut world = World::new();
    world.hear("fe80::1", &[(OWN, 600)]);
    world.hear("fe80::2", &[(OWN, 900)]);
    assert_eq!(world.choice().expect("it").until, at(900_000));
    world.hear("fe80::1", &[(OWN, 0)]);
    world.is(OWN);
    world.hear("fe80::2", &[]);
    world.is(OWN);
    world.hear("fe80::2", &[(OWN, 0)]);
    world.is_none();
}

#[test]
fn offers_end_with_their_lifetime_and_are_prolonged() {
    let mut world = World::new();
    world.hear("fe80::1", &[(OWN, 600)]);
    world.now = 500_000;
    world.hear("fe80::1", &[(OWN, 600)]);
    world.now = 1_099_999;
    world.is(OWN);
    world.now = 1_100_000;
    world.is_none();
}

#[test]
fn short_lifetimes_do_not_make_us_solicit_without_end() {
    let mut world = World::new();
    world.until(0);
    for second in 0..60 {
        world.hear("fe80::1", &[(OWN, 8)]);
        assert_eq!(world.until(second), [], "every second one is heard");
    }
    let done = world.until(65);
    assert_eq!(done, [(62, Action::Solicit)], "a question is open still");
}

/// Of several prefixes; the node does not move without need.
#[test]
fn of_equals_the_one_in_use_stays() {
    let mut world = World::new();
    world.hear("fe80::1", &[(OTHER, 600)]);
    world.is(OTHER);
    world.hear("fe80::2", &[(OWN, 1800), (WELL_KNOWN, 1800)]);
    world.is(OTHER);
    world.hear("fe80::1", &[(OTHER, 0)]);
    world.is(OWN);
    world.hear("fe80::1", &[(OTHER, 600)]);
    world.is(OWN);
}

/// RFC 7050 section 3: ten seconds before the TTL ends.
#[test]
fn answers_are_refreshed_before_they_end() {
    let mut world = World::new();
    world.until(0);
    world.reply(&[OWN], 300);
    assert_eq!(world.asked(299), [290]);
    world.reply(&[OWN], 300);
    world.now = 598_000;
    world.is(OWN);
    world.now = 599_000;
    world.is_none();
}

#[test]
fn short_and_long_ttls_have_bounds() {
    for (ttl, asked) in [(0, 20), (5, 20), (u32::MAX >> 1, 86_390)] {
        let mut world = World::new();
        world.until(0);
        world.reply(&[OWN], ttl);
        assert_eq!(world.asked(100_000), [asked], "TTL {ttl}");
    }
}

#[test]
fn silence_and_failures_deny_nothing() {
    let mut world = World::new();
    world.until(0);
    world.reply(&[OWN], 60);
    assert_eq!(world.asked(50), [50]);
    world.fail();
    world.is(OWN);
    assert_eq!(world.asked(52).len(), 1);
    world.discovery.answered(at(world.now), None);
    world.is(OWN);
    world.until(60);
    world.is_none();
}

#[test]
fn without_an_answer_the_pauses_grow_to_about_a_minute() {
    let mut world = World::new();
    world.until(12);
    for doubled in 0..12 {
        world.discovery.answered(at(world.now), None);
        let due = world.discovery.wake(at(world.now)).expect("a time");
        let pause = due.as_millis() as u64 - world.now;
        let middle = 1000 << doubled.min(6);
        assert!(
            (middle * 3 / 4..=middle * 5 / 4).contains(&pause),
            "{pause}"
        );
        assert_eq!(world.discovery.next(due - at(1)), None);
        assert_eq!(world.discovery.next(due), Some(Action::Ask));
        world.now += pause;
    }
}

#[test]
fn a_denial_counts_at_once_and_is_asked_again_at_a_sane_pace() {
    let mut world = World::new();
    world.until(0);
    world.reply(&[OWN], 600);
    world.now = 2_000;
    world.is(OWN);
    world.deny(Some(0));
    world.is_none();
    let asked = world.asked(2_000);
    assert!(
        (47..=77).contains(&asked[0]) && asked.len() == 1,
        "{asked:?}"
    );
    world.deny(Some(1_000_000));
    let asked = world.asked(10_000);
    assert!(
        (2675..=3125).contains(&asked[0]) && asked.len() == 1,
        "{asked:?}"
    );
}

/// RFC 7050 section 3: discovery restarts when a node joins a network.
#[test]
fn another_network_is_looked_at_anew() {
    let mut world = World::new();
    world.until(0);
    world.hear("fe80::1", &[(OWN, 6000)]);
    world.deny(None);
    world.now = 20_000;
    world.discovery.attached(at(world.now));
    assert_eq!(world.until(20), [(20, Action::Solicit), (20, Action::Ask)]);
    world.is(OWN);
    world.until(34);
    world.is(OWN);
    world.until(35);
    world.is_none();
}

#[test]
fn what_is_confirmed_after_that_stays() {
    let mut world = World::new();
    world.until(0);
    world.reply(&[OWN], 6000);
    world.now = 20_000;
    world.discovery.attached(at(world.now));
    world.until(20);
    world.reply(&[OWN], 6000);
    world.until(6000);
    world.is(OWN);
}

#[test]
fn a_network_that_changed_in_part_is_asked_again_and_believed() {
    let mut world = World::new();
    world.until(0);
    world.hear("fe80::1", &[(OWN, 6000)]);
    world.deny(None);
    world.now = 20_000;
    world.discovery.look_again(at(world.now));
    assert_eq!(world.until(20), [(20, Action::Solicit), (20, Action::Ask)]);
    world.until(5999);
    world.is(OWN);
}
