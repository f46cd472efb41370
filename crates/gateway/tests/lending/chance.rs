// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Many packets, expiry, reloads and the operator, in random orders.

use diolkos_nat64::config::Protocol;

use crate::controller::{arrive, config, node, peer as of, seen, Controller};
use crate::guide::Guide;
use crate::program::Packet;
use crate::twin::{self, Undone, V4};

/// Number of events in one run.
const EVENTS: u32 = 60;

/// Simulates a small NAT64: few nodes, ports and peers, so that they collide. Returns the number of packets that
/// programs have sent, and of external ports that they used.
fn live(seed: u64) -> [usize; 2] {
    let mut chance = fastrand::Rng::with_seed(seed);
    twin::begin(
        Undone::default(),
        Guide::Random(fastrand::Rng::with_seed(!seed)),
    );
    let protocol = [Protocol::Udp, Protocol::Tcp][seed as usize % 2];
    twin::with(|world| world.protocol = protocol);
    let configs = [config(1, 5000..=5011), config(2, 5004..=5015)];
    let mut controller = Controller::new(&configs[0]);
    for _ in 0..EVENTS {
        twin::with(|world| world.bursts = chance.u32(0..6));
        let port = 2000 + chance.u16(0..6);
        let node = node(chance.u16(1..4), port);
        let peer = of(chance.u8(1..4));
        let external: Vec<V4> = seen();
        match chance.u32(0..100) {
            0..35 => arrive(Packet::Out { node, peer }),
            35..50 => {
                if let Some(&to) = chance.choice(&external) {
                    arrive(Packet::In { to, peer });
                }
            }
            // As many as are needed for a lease.
            50..70 => {
                for n in 1..5 {
                    controller.outbound(node, of(n));
                }
            }
            70..78 => {
                if let Some(&to) = chance.choice(&external) {
                    controller.inbound(to, peer);
                }
            }
            78..86 => controller.lock(),
            86..92 => controller.pass(chance.u64(1..400)),
            92..96 => controller.sweep(),
            96..98 => {
                if let Some(&v4) = chance.choice(&external) {
                    controller.unbind(v4);
                }
            }
            _ => {
                let at = chance.usize(0..2);
                controller.reload(&configs[at]);
            }
        }
    }
    controller.finish();
    let done = [twin::with(|world| world.ring.len()), seen().len()];
    twin::end();
    done
}

#[test]
fn nothing_breaks_in_random_orders() {
    let seeds = std::env::var("DIOLKOS_LENDING_SEEDS").ok();
    let seeds = seeds.map_or(300, |seeds| seeds.parse().expect("a number of seeds"));
    let mut sum = [0, 0];
    for seed in 0..seeds {
        let done = std::panic::catch_unwind(|| live(seed));
        let done = done.unwrap_or_else(|_| panic!("it breaks with seed {seed}"));
        sum = [sum[0] + done[0], sum[1] + done[1]];
    }
    // Otherwise nothing was tested.
    assert!(sum.iter().all(|&sum| sum as u64 > seeds), "{sum:?}");
}
