// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What happens to a cluster, by its seed: processes are killed, started, frozen and told to leave, links and the engine go
//! away and come back, messages are late or lost, entries vanish.

use diolkos_cluster::{Key, NodeId, SliceId};

use crate::world::{World, NODES, SLICES};

/// Faults of one schedule.
const FAULTS: usize = 12;

/// Runs a schedule to its end, or to the first slice with two owners.
pub fn run(world: &mut World) -> Result<(), String> {
    let quiet = world.random.unit() * 10.0;
    world.pass(quiet)?;
    for _ in 0..FAULTS {
        happen(world)?;
        // Some faults come together, some when all is settled.
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

fn happen(world: &mut World) -> Result<(), String> {
    let node = world.random.below(NODES);
    match world.random.below(13) {
        0 => world.kill(node),
        1 | 2 if world.nodes[node].process.is_none() => world.start(node),
        1 => {
            world.kill(node);
            world.start(node);
        }
        2 | 3 => {
            let seconds = world.random.unit() * 10.0;
            world.nodes[node].frozen_until = world.now + seconds;
        }
        4 | 5 => world.nodes[node].is_cut_off ^= true,
        6 => world.engine_is_away ^= true,
        7 => world.is_lossy ^= true,
        8 => {
            if let Some(process) = &mut world.nodes[node].process {
                process.ownership.leave();
            }
            // It does not hear what becomes of its last writes.
            if world.random.chance(0.5) {
                let writes = world.random.unit() * 0.2;
                world.pass(writes)?;
                world.nodes[node].is_cut_off = true;
            }
        }
        9 => world.reconnect(node),
        // Once only: a write that expects no entry after the first purge would pass after the second one.
        10 if !world.was_purged => {
            world.was_purged = true;
            world.engine.purge(Key::Node(NodeId(node as u16)));
            // Those that do not hear of it write in vain.
            for node in 0..NODES {
                if world.random.chance(0.5) {
                    world.reconnect(node);
                }
            }
        }
        11 => {
            let key = match world.random.chance(0.2) {
                true => Key::Node(NodeId(node as u16)),
                false => Key::Slice(world.random.below(SLICES.into()) as SliceId),
            };
            world.engine.remove(key);
            // A node that starts has never seen the entry.
            let other = world.random.below(NODES);
            if world.random.chance(0.5) {
                world.kill(other);
                world.start(other);
            }
        }
        _ => world.heal(),
    }
    Ok(())
}
