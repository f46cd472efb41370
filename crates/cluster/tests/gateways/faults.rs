// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The faults of a schedule, chosen by its seed.

use diolkos_node::Event;

use crate::world::{World, SECOND};

const FAULTS: usize = 8;

/// Runs a schedule to its end, or to the first violation.
pub fn run(world: &mut World) -> Result<(), String> {
    let quiet = 2.0 + world.random.unit() * 4.0;
    world.pass(quiet)?;
    for _ in 0..FAULTS {
        happen(world);
        // Some faults coincide; others happen once the cluster has settled.
        let until_next = [0.3, 3.0, 12.0][world.random.below(3)];
        let pause = world.random.unit() * until_next;
        world.pass(pause)?;
    }
    Ok(())
}

/// Returns the end of a fault; short ones are more frequent.
fn until(world: &mut World, most: f64) -> u64 {
    let factor = world.random.unit();
    world.now + (most * factor * factor * SECOND as f64) as u64
}

fn happen(world: &mut World) {
    let count = world.machines.len();
    let (node, other) = (world.random.below(count), world.random.below(count));
    match world.random.below(16) {
        0 | 1 => {
            world.kill(node);
            world.machines[node].starts = Some(until(world, 15.0));
        }
        2 | 3 => world.machines[node].frozen_until = until(world, 20.0),
        4..7 => {
            // One direction, or both.
            let (end, is_both) = (until(world, 30.0), world.random.chance(0.6));
            world.cut.insert((node, other), end);
            if is_both {
                world.cut.insert((other, node), end);
            }
        }
        7 => {
            let end = until(world, 30.0);
            for other in 0..count {
                world.cut.insert((node, other), end);
                world.cut.insert((other, node), end);
            }
        }
        8 => world.reset_some(),
        9 => world.engine.away_until = until(world, 20.0),
        10 => world.machines[node].cut_from_engine_until = until(world, 20.0),
        11 => world.requests_are_late ^= true,
        12 => match world.random.below(3) {
            0 => world.engine.back_up(),
            1 => world.engine.wipe(),
            _ => world.engine.restore(),
        },
        13 => {
            let end = until(world, 20.0);
            if let Some(process) = &mut world.machines[node].process {
                process.routes.broken_until = end;
            }
            world.event(node, Some(Event::Drain));
            if world.random.chance(0.5) {
                world.event(node, Some(Event::Stay));
            }
        }
        14 => world.machines[node].without_ways_until = until(world, 20.0),
        _ => {
            world.event(node, Some(Event::Drain));
            world.event(node, Some(Event::Leave));
            world.machines[node].starts = Some(until(world, 10.0));
        }
    }
}

/// Ends all faults.
pub fn heal(world: &mut World) {
    let now = world.now;
    world.cut.clear();
    world.engine.away_until = 0;
    world.requests_are_late = false;
    for node in 0..world.machines.len() {
        let machine = &mut world.machines[node];
        machine.frozen_until = machine.frozen_until.min(now);
        (machine.cut_from_engine_until, machine.without_ways_until) = (0, 0);
        machine.starts = Some(now);
        if let Some(process) = &mut machine.process {
            process.routes.broken_until = 0;
        }
        world.event(node, Some(Event::Stay));
    }
}
