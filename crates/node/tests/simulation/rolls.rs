// SPDX-License-Identifier: Apache-2.0 OR MIT
//! All nodes change together to another file, in which two nodes have each other's addresses, while packets pass, nodes
//! are killed and stopped, and the network and the engine fail.

use diolkos_node::Event;

use crate::world::{World, SECOND};

/// Returns how many processes changed together with the others.
fn run(seed: u64) -> Result<usize, String> {
    let nodes = 2 + seed as usize % 3;
    let mut world = World::new(seed, nodes, false);
    (world.load, world.slowness) = (12, [20, 20, 300][seed as usize / 3 % 3]);
    world.pass(9.0)?;
    // The new file is everywhere: every process that starts from now on uses it.
    for machine in &mut world.machines {
        machine.next.has_other_file = true;
    }
    for at in 0..nodes {
        if world.random.chance(0.8) {
            world.arm(at, 60);
        }
    }
    for _ in 0..10 {
        fault(&mut world);
        let pause = world.random.unit();
        world.pass(pause * pause * 8.0)?;
    }
    crate::faults::heal(&mut world);
    for _ in 0..60 {
        (0..nodes).for_each(|at| world.arm(at, 60));
        world.pass(1.0)?;
        let are_new = world.machines.iter().all(|m| m.runs.has_other_file);
        if are_new && crate::settled(&world).is_ok() {
            return crate::opens(&mut world).map(|()| world.rolled);
        }
    }
    crate::settled(&world)?;
    Err("not all have the other file".to_owned())
}

fn fault(world: &mut World) {
    let (now, nodes) = (world.now, world.machines.len());
    let (at, other) = (world.random.below(nodes), world.random.below(nodes));
    let factor = world.random.unit();
    let soon = |most: f64| now + (factor * factor * most * SECOND as f64) as u64;
    match world.random.below(12) {
        0 => world.engine.away_until = soon(12.0),
        1 => world.machines[at].slow_until = soon(20.0),
        2 => world.machines[at].cut_from_engine_until = soon(12.0),
        3 => world.machines[at].frozen_until = soon(15.0),
        4 | 5 => {
            world.net.cut.insert((at, other), soon(30.0));
            if world.random.chance(0.7) {
                world.net.cut.insert((other, at), soon(30.0));
            }
        }
        6 | 7 => {
            let ends = world.random.chance(0.5);
            world.kill(at, ends);
            world.machines[at].starts = Some((soon(10.0), false));
        }
        8 => world.event(at, Event::Disarm),
        9 => world.reload(at),
        _ => {
            let seconds = 1 + world.random.next() % 20;
            world.arm(at, seconds);
        }
    }
}

#[test]
fn an_address_that_a_roll_moves_has_one_owner() {
    let (mut failures, mut rolled, seeds) = (Vec::new(), 0, seeds());
    for seed in seeds.clone() {
        match run(seed) {
            Ok(processes) => rolled += processes,
            Err(error) => failures.push(format!("seed {seed}: {error}")),
        }
    }
    assert!(failures.is_empty(), "{}: {:#?}", failures.len(), failures);
    // Often they do, and do not just start again.
    assert!(rolled as u64 >= seeds.end - seeds.start, "{rolled}");
}

fn seeds() -> std::ops::Range<u64> {
    match crate::number("DIOLKOS_NODE_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..crate::number("DIOLKOS_NODE_SEEDS").unwrap_or(300),
    }
}
