// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Schedules of faults for a cluster of nodes, chosen by seeds, with a checker that knows real time and every packet.
//!
//! The checker ensures: no port is translated for a subscriber while any node, or its program, still would for another
//! one, nor before it has rested; a packet from outside reaches only the subscriber that the port was last given to
//! when it was sent. Once all faults have ended, every node serves, and all have the same copies.
//!
//! Files are reloaded, and nodes are upgraded to another version and back: nodes of two formats share nothing, and
//! report why.
//!
//! `DIOLKOS_NODE_SEEDS` runs more schedules, `DIOLKOS_NODE_SEED` one.

#[path = "../common/mod.rs"]
mod common;
mod engine;
mod faults;
mod formats;
mod lies;
mod machine;
mod net;
mod program;
mod random;
mod rolls;
mod scenarios;
mod tables;
mod truth;
mod world;

use std::sync::Mutex;
use std::time::Duration;

use diolkos_node::message::Status;
use diolkos_node::NodeId;

use formats::Version;
use random::Random;
use world::World;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Runs a schedule. Returns what it has covered.
fn run(seed: u64) -> Result<[u64; 8], String> {
    let mut random = Random::new(seed ^ 0x5eed);
    let nodes = 2 + random.below(4);
    let has_liar = nodes > 2 && random.chance(0.15);
    let mut world = World::new(seed, nodes, has_liar);
    let seconds = |random: &mut Random, of: [f64; 3]| Duration::from_secs_f64(of[random.below(3)]);
    let timing = &mut world.config.timing;
    timing.term = seconds(&mut random, [4.0, 6.0, 25.0]);
    timing.proof = seconds(&mut random, [2.0, 3.0, 8.0]);
    timing.patience = seconds(&mut random, [0.5, 2.0, 4.0]);
    world.is_tight = random.chance(0.3);
    world.links_are_shared = random.chance(0.5);
    world.config.bounds.resting = 1 + random.below(10);
    world.slowness = [20, 20, 100, 1500][random.below(4)];
    let version = |messages, records| Some(Version { messages, records });
    world.newer = match random.below(8) {
        0 => version(true, false),
        1 => version(false, true),
        2 => version(true, true),
        _ => None,
    };
    faults::run(&mut world)?;
    faults::heal(&mut world);
    world.slowness = 20;
    world.pass(45.0)?;
    // Answers may be late at any single moment.
    for _ in 0..20 {
        world.pass(0.2)?;
        if settled(&world).is_ok() {
            break;
        }
    }
    settled(&world)?;
    opens(&mut world)?;
    let truth = &world.truth;
    Ok([
        truth.translations,
        truth.reused,
        truth.by_copy,
        world.given_back as u64,
        world.voids as u64,
        world.reloads[0] as u64,
        world.reloads[1] as u64,
        world.refused as u64,
    ])
}

/// Checks that every node serves, and has the bindings that the others have.
fn settled(world: &World) -> Result<(), String> {
    let nodes = world.machines.iter().map(|machine| {
        let process = machine.process.as_ref();
        process.map(|process| (machine, process.gateway.node()))
    });
    let nodes: Option<Vec<_>> = nodes.collect();
    let nodes = nodes.ok_or("a node has not started")?;
    for (machine, node) in &nodes {
        let clock = machine.clock(world.now);
        if node.status(clock) != Status::Serving {
            return Err(format!(
                "{:?} does not serve: {:?}",
                machine.id,
                node.status(clock)
            ));
        }
        for (other, _) in &nodes {
            if other.id != machine.id && !node.takes(other.id, clock) {
                let connected = [
                    node.is_connected(other.id),
                    world.net.has(machine.id.index(), other.id.index()),
                ];
                return Err(format!(
                    "{:?} does not reach {:?}: {connected:?}",
                    machine.id, other.id
                ));
            }
        }
    }
    Ok(())
}

/// Checks that a new flow opens within a second, wherever its first packet arrives.
fn opens(world: &mut World) -> Result<(), String> {
    (world.load, world.is_restless) = (0, false);
    world.pass(12.0)?;
    for flow in &mut world.flows {
        (flow.is_active, flow.port) = (false, None);
    }
    for n in 0..world::SUBSCRIBERS {
        world.flows[n].at = n % world.machines.len();
        world.send_from_host(n, true);
    }
    world.pass(1.0)?;
    match world.flows[..world::SUBSCRIBERS]
        .iter()
        .position(|flow| flow.port.is_none())
    {
        Some(n) => Err(format!("flow {n} does not open")),
        None => copies(world),
    }
}

/// Checks that copies are those of their owner.
fn copies(world: &World) -> Result<(), String> {
    let of = |at: usize, owner: usize| {
        let process = world.machines[at].process.as_ref();
        let bindings =
            process.map(|process| process.gateway.node().bindings_of(NodeId(owner as u8)));
        let keys = bindings.into_iter().flatten().map(|b| truth::key_of(&b));
        keys.collect::<std::collections::BTreeSet<_>>()
    };
    for owner in 0..world.machines.len() {
        for at in 0..world.machines.len() {
            if of(at, owner) != of(owner, owner) {
                return Err(format!("node {at} has other copies of {owner}"));
            }
        }
    }
    Ok(())
}

#[test]
fn no_port_has_two_subscribers() {
    if let Some(seed) = number("DIOLKOS_NODE_SEED") {
        return assert_eq!(run(seed).err(), None, "seed {seed}");
    }
    let seeds = number("DIOLKOS_NODE_SEEDS").unwrap_or(10_000);
    let next = std::sync::atomic::AtomicU64::new(0);
    let totals = Mutex::new([0; 8]);
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| loop {
                let seed = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                if seed >= seeds || failures.lock().expect("no panic").len() > 9 {
                    break;
                }
                match run(seed) {
                    Ok(seen) => {
                        let mut totals = totals.lock().expect("no panic");
                        (0..8).for_each(|n| totals[n] += seen[n]);
                    }
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
    let [translations, reused, by_copy, given_back, voids, reloads, not_taken, refused] =
        totals.into_inner().expect("no panic");
    println!(
        "{seeds} schedules: {translations} packets, {by_copy} by copies, {reused} ports given on, {given_back} messages give back, {voids} times void, \
         {reloads} files taken and {not_taken} refused, {refused} greetings of another version"
    );
    // The schedules must cover what they are for.
    if seeds >= 100 {
        assert!(
            reused > seeds && by_copy > 10 * seeds && given_back > seeds / 10 && voids > seeds / 10
        );
        assert!(reloads > seeds && not_taken > seeds / 2 && refused > seeds);
    }
}
