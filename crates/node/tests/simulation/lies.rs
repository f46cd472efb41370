// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Messages of a node that lies, or is confused.

use std::net::Ipv6Addr;

use diolkos_nat64::config::{Binding, Endpoint6};
use diolkos_node::message::{BindingChange, Message};

use crate::machine::{address, v4, FIRST_PORT, PROTOCOLS};
use crate::truth::key_of;
use crate::world::World;

/// Returns what it sends instead of an honest message.
pub fn instead(world: &mut World, _at: usize, bytes: Vec<u8>) -> Vec<u8> {
    let lie = world.random.below(40);
    let message = match lie {
        0 => {
            let mut bytes = bytes;
            let place = world.random.below(bytes.len());
            bytes[place] ^= 1 << world.random.below(8);
            claims(world, &bytes);
            return bytes;
        }
        1 => {
            return (0..world.random.below(60))
                .map(|_| world.random.next() as u8)
                .collect()
        }
        2 => Message::Given((0..3).map(|_| binding(world)).collect()),
        3 => Message::GivenBack,
        4 => Message::Told {
            through: world.random.next() % 100,
            changes: (0..3)
                .map(|_| BindingChange::Opened(binding(world)))
                .collect(),
        },
        5 => {
            let of = binding(world);
            Message::Told {
                through: 0,
                changes: vec![BindingChange::Closed(of.protocol, of.v4)],
            }
        }
        6..12 => match Message::decode(&bytes) {
            Some(Message::Beat(mut beat)) => {
                let far = world.random.next() % (1 << 40);
                match world.random.below(4) {
                    0 => beat.applied = far,
                    1 => beat.applied += 3,
                    2 => beat.echo += std::time::Duration::from_nanos(far),
                    _ => beat.applied = 0,
                }
                Message::Beat(beat)
            }
            _ => return bytes,
        },
        12 => Message::Ask(world.random.chance(0.5)),
        13 => Message::End {
            serial: world.random.below(5) as u32,
            through: 3,
        },
        _ => return bytes,
    };
    let bytes = message.encode();
    claims(world, &bytes);
    bytes
}

/// A node that has lost its state believes what others say that they have of it.
fn claims(world: &mut World, bytes: &[u8]) {
    if let Some(Message::Given(bindings)) = Message::decode(bytes) {
        world.truth.exempt.extend(bindings.iter().map(key_of));
    }
}

fn binding(world: &mut World) -> Binding {
    let owner = world.random.below(world.machines.len() + 1);
    let key = (
        address(owner).to_bits(),
        FIRST_PORT + world.random.below(8) as u16,
        PROTOCOLS[world.random.below(2)] as u8,
    );
    let (protocol, v4) = v4(&key);
    Binding {
        protocol,
        v4,
        v6: Endpoint6 {
            addr: Ipv6Addr::from_bits(
                0x2001_0db8 << 96 | (world.random.below(6) as u128) << 64 | 1,
            ),
            port: 1000,
        },
    }
}
