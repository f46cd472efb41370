// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tables of a NAT64 with 1000, a million and four million sessions, each with its own binding:
//! a lookup, a new flow and its end, bytes per session, and the longest pauses during growth and
//! expiry.
//!
//! `cargo bench -p diolkos-nat64 --bench session` needs 1 GB of memory. Sizes and pauses are
//! printed before the times. A pause is the longest of all single calls, so it includes pauses of
//! the machine. Those of the tables occur at many sizes, so the number of slow calls distinguishes
//! the two.

#![allow(missing_docs)] // criterion_group! makes a function without.

use criterion::{criterion_group, criterion_main, BenchmarkId, Criterion, Throughput};
use diolkos_nat64::config::{Endpoint4, Endpoint6, Limits, Nat64Config, Pool4, Protocol};
use diolkos_nat64::session::{Outbound, Segment, State};
use diolkos_xlat::Config;
use std::hint::black_box;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

const SIZES: [u32; 3] = [1000, 1_000_000, 4_000_000];
/// Maximum number of sessions visited by one call of `expire`.
const BUDGET: usize = 1024;

fn config() -> Nat64Config {
    Nat64Config {
        translator: Config {
            pref64: vec!["64:ff9b::/96".parse().unwrap()],
            ..Config::default()
        },
        pool4: vec![Pool4 {
            interface: None,
            net: "198.18.0.0/25".parse().unwrap(),
            ports: 1024..=65535,
            protocols: Protocol::ALL.to_vec(),
            sources: vec![],
        }],
        limits: Limits {
            sessions: 1 << 23,
            bindings: 1 << 23,
            ..Limits::default()
        },
        ..Nat64Config::default()
    }
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// Flow number `n`: 256 ports for each node, 64 nodes in each /64.
fn flow(n: u32) -> Outbound {
    let addr = (0x2001_0db8 << 96) + (u128::from(n >> 14) << 64) + u128::from(n >> 8 & 0x3f);
    Outbound {
        protocol: Protocol::Udp,
        v6: Endpoint6 {
            addr: Ipv6Addr::from_bits(addr),
            port: 1024 + (n & 0xff) as u16,
        },
        peer: Endpoint4 {
            addr: Ipv4Addr::from_bits(0xc633_0000 + (n & 0xffff)),
            port: 53,
        },
        prefix: 0,
        segment: Segment::Other,
    }
}

/// The longest call, and the number of calls above a millisecond.
#[derive(Clone, Copy, Default, Debug)]
struct Gaps {
    longest: Duration,
    over_1_ms: u32,
}

impl Gaps {
    fn note(&mut self, call: Duration) {
        self.longest = self.longest.max(call);
        self.over_1_ms += u32::from(call > Duration::from_millis(1));
    }
}

fn fill(state: &mut State, random: &mut Random, size: u32) -> Gaps {
    let mut gaps = Gaps::default();
    for n in 0..size {
        let start = Instant::now();
        state
            .outbound(Duration::ZERO, &flow(n), || random.next(), &mut ())
            .unwrap();
        gaps.note(start.elapsed());
    }
    gaps
}

fn empty(state: &mut State) -> Gaps {
    let mut gaps = Gaps::default();
    loop {
        let start = Instant::now();
        let done = state.expire(Duration::from_secs(400), BUDGET, &mut (), |_| {});
        gaps.note(start.elapsed());
        if done {
            return gaps;
        }
    }
}

fn tables(c: &mut Criterion) {
    let mut group = c.benchmark_group("session");
    group.throughput(Throughput::Elements(1));
    for size in SIZES {
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        let mut state = State::new(&config(), [1, 2, 3, 4]);
        let nothing = state.memory();
        let growth = fill(&mut state, &mut random, size);
        let bytes = (state.memory() - nothing) / size as usize;
        eprintln!("{size} sessions: {bytes} bytes each; new flows: {growth:?}");

        group.bench_function(BenchmarkId::new("lookup", size), |b| {
            b.iter(|| {
                let packet = flow((random.next() % u64::from(size)) as u32);
                black_box(state.outbound(Duration::ZERO, &packet, || 0, &mut ()))
            })
        });
        let mut n = size;
        group.bench_function(BenchmarkId::new("new flow and its end", size), |b| {
            b.iter(|| {
                n += 1;
                let opened = state.outbound(Duration::ZERO, &flow(n), || random.next(), &mut ());
                state.unbind(Protocol::Udp, opened.unwrap(), &mut ())
            })
        });
        let gaps = empty(&mut state);
        eprintln!("{size} sessions expire, {BUDGET} in a call: {gaps:?}");

        group.bench_function(BenchmarkId::new("expire", size), |b| {
            b.iter_custom(|iterations| {
                // The time for one session; as many sessions end as begin.
                let mut taken = Duration::ZERO;
                let mut left = iterations;
                while left > 0 {
                    let now = left.min(u64::from(size)) as u32;
                    let mut state = State::new(&config(), [1, 2, 3, 4]);
                    fill(&mut state, &mut random, now);
                    let start = Instant::now();
                    empty(&mut state);
                    taken += start.elapsed();
                    left -= u64::from(now);
                }
                taken
            })
        });
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(10).measurement_time(Duration::from_secs(2)).warm_up_time(Duration::from_millis(500));
    targets = tables
}
criterion_main!(benches);
