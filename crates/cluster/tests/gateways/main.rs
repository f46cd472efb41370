// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Gateways of a cluster in random schedules, with the code that connects the node to the rest of the program: the
//! worker's steps, the changes of tables and programs, and the routes that follow. Connections, etcd, clocks and the
//! maps of programs are models.
//!
//! After every step the following holds for each gateway: programs send packets only to gateways that accept them, and
//! the slow path relies on no other way; programs use sessions of copies only as long as the node may use them; they
//! have no session that the tables do not have; they know few ports of other gateways, and none for long; routes
//! attract packets only if the node has said so. For all gateways together: no external port carries packets of two
//! subscribers without a rest in between. Once all faults have ended, every gateway serves and attracts.
//!
//! `DIOLKOS_GATEWAYS_SEEDS` runs more schedules, `DIOLKOS_GATEWAYS_SEED` one.

mod check;
mod clock;
#[path = "../../../node/tests/common/mod.rs"]
mod common;
mod connections;
#[path = "../../../node/tests/simulation/engine.rs"]
mod engine;
mod faults;
mod machine;
mod maps;
mod packets;
#[path = "../../../node/tests/simulation/random.rs"]
mod random;
mod routes;
#[path = "../../../node/tests/simulation/truth.rs"]
mod truth;
mod world;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Mutex;
use std::time::Duration;

use world::{Seen, World};

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Runs a schedule. Returns what it has covered.
fn run(seed: u64) -> Result<Seen, String> {
    let mut world = World::new(seed);
    let seconds = |world: &mut World, of: [f64; 3]| {
        let at = world.random.below(3);
        Duration::from_secs_f64(of[at])
    };
    let term = seconds(&mut world, [4.0, 6.0, 12.0]);
    let proof = seconds(&mut world, [2.0, 3.0, 6.0]);
    let patience = seconds(&mut world, [0.5, 2.0, 4.0]);
    let timing = &mut world.config.timing;
    (timing.term, timing.proof, timing.patience) = (term, proof, patience);
    faults::run(&mut world)?;
    faults::heal(&mut world);
    world.pass(25.0)?;
    // Answers may be late at any single moment.
    for _ in 0..20 {
        world.pass(0.2)?;
        if world.is_well().is_ok() {
            break;
        }
    }
    world.is_well()?;
    world.opens()?;
    Ok(world.seen())
}

#[test]
fn no_port_has_two_subscribers() {
    if let Some(seed) = number("DIOLKOS_GATEWAYS_SEED") {
        return assert_eq!(run(seed).err(), None, "seed {seed}");
    }
    let seeds = number("DIOLKOS_GATEWAYS_SEEDS").unwrap_or(150);
    let next = AtomicU64::new(0);
    let totals = Mutex::new(Seen::default());
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= seeds || failures.lock().expect("no panic").len() > 9 {
                    break;
                }
                match run(seed) {
                    Ok(seen) => totals.lock().expect("no panic").add(&seen),
                    Err(error) => {
                        let mut failures = failures.lock().expect("no panic");
                        failures.push(format!("seed {seed}: {error}"));
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().expect("no panic");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    let totals = totals.into_inner().expect("no panic");
    println!("{seeds} schedules: {totals:?}");
    // The schedules must cover what they are for.
    if seeds >= 100 {
        assert!(totals.all().iter().all(|seen| *seen > seeds), "{totals:?}");
    }
}
