// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The faults of a schedule, chosen by its seed.

use diolkos_node::Event;

use crate::world::{World, SECOND};

const FAULTS: usize = 10;

/// Runs a schedule to its end, or to the first violation.
pub fn run(world: &mut World) -> Result<(), String> {
    let quiet = 2.0 + world.random.unit() * 6.0;
    world.pass(quiet)?;
    for _ in 0..FAULTS {
        happen(world);
        // Some faults coincide; others happen once the cluster has settled.
        let until_next = match world.random.below(3) {
            0 => 0.3,
            1 => 3.0,
            _ => 12.0,
        };
        let pause = world.random.unit() * until_next;
        world.pass(pause)?;
    }
    Ok(())
}

fn seconds(world: &mut World, most: f64) -> u64 {
    // Short ones are more frequent.
    let factor = world.random.unit();
    (most * factor * factor * SECOND as f64) as u64
}

fn happen(world: &mut World) {
    let count = world.machines.len();
    let (node, other) = (world.random.below(count), world.random.below(count));
    let now = world.now;
    match world.random.below(24) {
        0..3 => {
            let (ends, knows) = (world.random.chance(0.5), world.random.chance(0.4));
            world.kill(node, ends);
            upgrade(world, node);
            let after = seconds(world, 20.0);
            world.machines[node].starts = Some((now + after, knows && !ends));
        }
        3..6 => {
            let most = if world.random.chance(0.01) {
                3600.0
            } else {
                25.0
            };
            let time = seconds(world, most);
            world.machines[node].frozen_until = now + time;
        }
        6 => {
            let most = if world.random.chance(0.2) {
                7200.0
            } else {
                10.0
            };
            let time = seconds(world, most);
            for machine in &mut world.machines {
                machine.frozen_until = now + time;
            }
        }
        7..11 => {
            let until = now + seconds(world, 40.0);
            let is_both = world.random.chance(0.7);
            world.net.cut.insert((node, other), until);
            if is_both {
                world.net.cut.insert((other, node), until);
            }
        }
        11 => {
            let until = now + seconds(world, 40.0);
            for other in 0..count {
                world.net.cut.insert((node, other), until);
                world.net.cut.insert((other, node), until);
            }
        }
        12 => {
            let all: Vec<u64> = world.net.connections.keys().copied().collect();
            for id in all {
                if world.random.chance(0.5) {
                    world.reset(id);
                }
            }
        }
        13 => world.engine.away_until = now + seconds(world, 20.0),
        14 => world.machines[node].cut_from_engine_until = now + seconds(world, 30.0),
        15 => {
            world.machines[node].slow_until = now + seconds(world, 30.0);
            world.requests_are_late ^= true;
        }
        16 => match world.random.below(3) {
            0 => world.engine.back_up(),
            1 => world.engine.wipe(),
            _ => world.engine.restore(),
        },
        17 => world.event(node, Event::Short),
        18 => {
            world.event(node, Event::Drain);
            if world.random.chance(0.3) {
                world.event(other, Event::Stay);
            }
        }
        19..22 => (0..3).for_each(|_| world.reload(node)),
        _ => {
            world.event(node, Event::Drain);
            world.event(node, Event::Leave);
            upgrade(world, node);
            let after = seconds(world, 10.0);
            world.machines[node].starts = Some((now + after, false));
        }
    }
}

/// Sets the version of a node's next process: the newer one, or the older one again.
fn upgrade(world: &mut World, node: usize) {
    let newer = world.newer.filter(|_| world.random.chance(0.7));
    world.machines[node].next.version = newer.unwrap_or_default();
}

/// Ends all faults.
pub fn heal(world: &mut World) {
    let now = world.now;
    world.net.cut.clear();
    world.engine.away_until = 0;
    world.requests_are_late = false;
    for node in 0..world.machines.len() {
        let machine = &mut world.machines[node];
        machine.frozen_until = machine.frozen_until.min(now);
        (machine.cut_from_engine_until, machine.slow_until) = (0, 0);
        if machine.lies {
            machine.lies = false;
            world.kill(node, true);
        }
        let version = world.newer.unwrap_or_default();
        let machine = &mut world.machines[node];
        machine.next.version = version;
        if machine.runs.version != version {
            world.kill(node, true);
        }
        world.reload_first(node);
        world.event(node, Event::Stay);
        world.machines[node].starts = Some((now, false));
    }
}
