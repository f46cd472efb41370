// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A cluster without machines: nodes with clocks of their own, an engine, and messages between them that are late or lost.
//! What may never be is looked at after every step: a slice in which two nodes may open bindings; and whenever a slice opens: a
//! binding that its new owner does not have, though the owner before knew that the stream has it, or has handed the slice over.
//!
//! engine (entries, feed, stream) ─► bindings (tables of a process; truth: what each slice has) ─► world (nodes, clocks, messages,
//! steps) ─► faults (what happens to them, by a seed) ─► checks here
//!
//! `CLUSTER_SEED=7` runs that schedule alone, `CLUSTER_SCHEDULES=100000` more of them.

mod bindings;
mod engine;
mod faults;
mod random;
mod truth;
mod world;

use std::env;

use diolkos_cluster::Timing;
use world::{Mistake, World};

/// Schedules of faults that every run of the tests tries.
const SCHEDULES: u64 = 1000;

/// A node has more slices than it claims or hands over at once.
fn timing() -> Timing {
    Timing {
        at_once: 3,
        ..Timing::default()
    }
}

fn number(variable: &str) -> Option<u64> {
    let text = env::var(variable).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{variable}={text} is no number")),
    )
}

#[test]
fn no_slice_has_two_owners_whatever_fails() {
    let seeds = match number("CLUSTER_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("CLUSTER_SCHEDULES").unwrap_or(SCHEDULES),
    };
    let (mut buried, mut handed, mut inherited) = (0, 0, 0);
    for seed in seeds.clone() {
        let mut world = World::new(seed, timing());
        if let Err(what) = faults::run(&mut world) {
            panic!("seed {seed}: {what}; CLUSTER_SEED={seed} repeats it");
        }
        buried += world.buried;
        handed += world.handed;
        inherited += world.truth.inherited;
    }
    // Schedules in which nothing happens would prove nothing.
    if seeds.end - seeds.start >= SCHEDULES {
        assert!(
            buried > 500,
            "only {buried} lives were ended by other nodes"
        );
        assert!(handed > 5000, "only {handed} slices were handed over");
        assert!(
            inherited > 50_000,
            "only {inherited} bindings were inherited"
        );
    }
}

#[test]
fn when_all_is_well_again_every_slice_has_the_owner_that_it_should() {
    for seed in 0..100 {
        let mut world = World::new(seed, timing());
        faults::run(&mut world).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
        world.heal();
        world
            .pass(60.0)
            .unwrap_or_else(|what| panic!("seed {seed}: {what}"));
        world.assert_settled(seed);
    }
}

/// The check can fail: owners that are declared dead before their lease has ended go on for a while.
#[test]
fn a_cluster_that_is_too_quick_to_bury_is_caught() {
    let hasty = Timing {
        // dead_after follows from the lease that others are believed to have.
        lease: timing().lease / 3,
        ..timing()
    };
    let caught = (0..100).any(|seed| {
        let mut world = World::with_two_timings(seed, timing(), hasty);
        faults::run(&mut world).is_err()
    });
    assert!(caught, "no schedule of a hundred showed two owners");
}

/// So can the other one: what an heir has to know is lost if anybody takes a shorter way.
#[test]
fn bindings_that_an_heir_does_not_have_are_caught() {
    for mistake in [Mistake::DoesNotRead, Mistake::NoSnapshot] {
        let caught = (0..100).any(|seed| {
            let mut world = World::new(seed, timing());
            world.mistake = mistake;
            faults::run(&mut world).is_err_and(|what| what.contains("was told"))
        });
        assert!(
            caught,
            "no schedule of a hundred lost a binding: {mistake:?}"
        );
    }
}
