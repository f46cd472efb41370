// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The fast-path law: *If the fast path translates a packet, the slow path would have produced the same bytes. If it
//! drops one, the slow path would have dropped it for the same named reason. It may decline anything.*
//!
//! Both paths get the same packets: the kernel runs the programs of the fast path (BPF_PROG_TEST_RUN), and the test
//! calls the slow path. Two minimum rates ensure that the fast path does not obey by declining everything.
//!
//! vectors, re-addressed (`readdress`), or a seed (`grammar`, with state `flows`) ─► a packet (`given`) for a translator
//! (`setup`; all of them: `configurations`) ─► `paths` ─► what becomes of it (`fate`)
//!
//! | environment | |
//! |---|---|
//! | `DIOLKOS_LAW_SEED` | another seed than the usual one |
//! | `DIOLKOS_LAW_CASES` | how many packets are made from it |
//! | `DIOLKOS_LAW_ONLY` | the number of the only one to look at |
//!
//! The programs of a router's interfaces and of its drivers get the packets too, and must agree with the program at its
//! device.
//!
//! Test runs cannot show checksums left to the device, packets in several memory fragments, routes and transmission:
//! `tests/e2e` tests these with real devices.

// Checksums as the tests of `xlat` compute them, without code of the translator.
#[path = "../../../xlat/tests/common/mod.rs"]
mod common;
mod configurations;
mod fate;
mod flows;
mod grammar;
mod input;
mod paths;
mod readdress;
mod setup;
#[expect(
    dead_code,
    reason = "vectors are replayed there; here only their packets are of use"
)]
#[path = "../../../xlat/tests/vectors/file.rs"]
mod vectors;

use fate::{Fate, FateCounts};
use grammar::Recipe;
use paths::Paths;
use setup::Setup;
use std::net::Ipv4Addr;
use std::str::FromStr;

const SEED: u64 = 0x00d1_01c0;
const CASES: usize = 120_000;

/// At least this fraction of the packets that are called plain is translated under every configuration.
const PLAIN_FLOOR: f64 = 0.999;
/// The same, of all generated packets, however odd.
const FLOOR: f64 = 0.4;
/// The same, of the vectors' packets between a node and a plain peer: most of them are about what is not plain.
const VECTORS_FLOOR: f64 = 0.1;

/// The same, of all generated packets, at a router's interface: CLATs have no such place, and not all packets are led
/// there.
const INLINE_FLOOR: f64 = 0.05;

/// The fraction of packets translated at an interface that its driver's program translates too.
const DRIVER_FLOOR: f64 = 0.99;

/// The same, of packets between nodes and peers that have mostly met before.
const STATE_FLOOR: f64 = 0.4;
/// The fraction of UDP sessions, and of TCP sessions, that the fast path has opened by itself.
const OPENED_FLOOR: f64 = 0.5;

fn from_environment<T: FromStr>(key: &str) -> Option<T> {
    let text = std::env::var(key).ok()?;
    let value = text.parse().ok();
    Some(value.unwrap_or_else(|| panic!("{key}={text} is not a number")))
}

#[test]
fn the_law_holds_for_every_vector() {
    let files = vectors::all();
    let all = files.iter().flat_map(|(_, file)| &file.vectors);
    let all: Vec<_> = all.collect();
    assert!(all.len() > 700, "vectors are missing");
    let obey = |paths: &mut Paths, vector: &vectors::Vector, given| match paths
        .obey(&given, vector.environment.ipv4_id)
    {
        Ok(fate) => fate,
        Err(broken) => panic!("{}: {}\n{broken}", vector.name, vector.demand),
    };

    // One peer of a documentation network, as in the vectors, and one that the well-known prefix may carry.
    let peers = [Ipv4Addr::new(198, 51, 100, 2), Ipv4Addr::new(8, 8, 4, 4)];
    let (mut unchanged, mut readdressed) = (FateCounts::default(), FateCounts::default());
    for setup in configurations::all() {
        let mut paths = Paths::new(&setup);
        for vector in &all {
            if let Some(given) = readdress::as_it_is(&vector.input.hex) {
                unchanged.add(obey(&mut paths, vector, given));
            }
            for peer in peers {
                if let Some(given) = readdress::between(&vector.input.hex, &setup, peer) {
                    readdressed.add(obey(&mut paths, vector, given));
                }
            }
        }
    }
    println!("vectors as they are:\n{unchanged}vectors re-addressed:\n{readdressed}");
    assert!(readdressed.translated() >= VECTORS_FLOOR, "{readdressed}");

    // Then each vector as it is meant, with its own configuration. Those that depend on earlier packets belong to the
    // slow path.
    let mut own = FateCounts::default();
    let mut made: Vec<Paths> = Vec::new();
    for vector in all.iter().filter(|v| v.environment.earlier.is_empty()) {
        let Some(given) = readdress::as_it_is(&vector.input.hex) else {
            continue;
        };
        let setup = Setup::of(&vector.name, vector.config.config());
        let at = made.iter().position(|paths| paths.are_for(&setup));
        let at = at.unwrap_or_else(|| {
            made.push(Paths::new(&setup));
            made.len() - 1
        });
        own.add(obey(&mut made[at], vector, given));
    }
    println!(
        "vectors with the configurations of their own, {} of them:\n{own}",
        made.len()
    );
    assert!(own.translated() >= VECTORS_FLOOR, "{own}");
}

#[test]
fn the_law_holds_for_every_packet_of_the_grammar() {
    let seed = from_environment("DIOLKOS_LAW_SEED").unwrap_or(SEED);
    let cases = from_environment("DIOLKOS_LAW_CASES").unwrap_or(CASES);
    let only: Option<usize> = from_environment("DIOLKOS_LAW_ONLY");
    let setups = configurations::all();
    let (mut all, mut plain, mut inline) = (FateCounts::default(), FateCounts::default(), 0);
    let mut driver = [0; 2];
    for (at, setup) in setups.iter().enumerate() {
        let mut paths = Paths::new(setup);
        let mut plain_here = FateCounts::default();
        for case in (at..cases).step_by(setups.len()) {
            if only.is_some_and(|only| only != case) {
                continue;
            }
            let mut rng = fastrand::Rng::with_seed(seed ^ (case as u64) << 32);
            let ipv4_id = [0, 0xffff, rng.u16(..)][rng.usize(..3)];
            let recipe = Recipe::new(setup, &mut rng);
            match paths.obey(&recipe.given(setup), ipv4_id) {
                Ok(fate) => {
                    all.add(fate);
                    if recipe.is_plain(setup) {
                        plain_here.add(fate);
                    }
                }
                Err(_) => panic!(
                    "the fast-path law is broken; DIOLKOS_LAW_SEED={seed} DIOLKOS_LAW_ONLY={case} repeats it\n{}",
                    simplest(&mut paths, setup, recipe, ipv4_id)
                ),
            }
        }
        assert!(
            only.is_some() || plain_here.translated() >= PLAIN_FLOOR,
            "{}: too many plain packets are declined:\n{plain_here}",
            setup.name
        );
        plain.merge(&plain_here);
        inline += paths.inline;
        driver = [driver[0] + paths.driver[0], driver[1] + paths.driver[1]];
    }
    println!("seed {seed}, all packets:\n{all}plain ones:\n{plain}");
    assert!(
        only.is_some() || all.translated() >= FLOOR,
        "too many packets are declined:\n{all}"
    );
    println!("{inline} of them inline, too");
    assert!(only.is_some() || inline as f64 >= INLINE_FLOOR * all.all() as f64);
    assert!(only.is_some() || has_driver_floor(driver), "{driver:?}");
}

#[test]
fn the_law_holds_with_state() {
    for setup in configurations::nat64s() {
        let (all, opened) = flows_of(&setup);
        assert!(all.translated() >= STATE_FLOOR, "{}:\n{all}", setup.name);
        let unsolicited = all.of(Fate::Dropped("drop_no_binding"));
        assert!(unsolicited > 0, "{}: none is dropped:\n{all}", setup.name);
        for [there, by_itself] in opened {
            let share = f64::from(by_itself) / f64::from(there);
            assert!(share >= OPENED_FLOOR, "{}: {opened:?}", setup.name);
        }
    }
}

#[test]
fn the_law_holds_where_sessions_are_refused() {
    for setup in configurations::narrow_nat64s() {
        let (_, opened) = flows_of(&setup);
        let by_itself = opened.map(|[_, by_itself]| by_itself);
        assert!(
            by_itself.iter().all(|&n| n > 0),
            "{}: {opened:?}",
            setup.name
        );
    }
}

/// Returns true if enough of the packets that are translated behind a driver are translated in it.
fn has_driver_floor([behind, within]: [usize; 2]) -> bool {
    within > 0 && within as f64 >= DRIVER_FLOOR * behind as f64
}

/// Runs packets between nodes and peers. Returns their fates, with the number of UDP and TCP sessions, and of those
/// that the fast path has opened.
fn flows_of(setup: &Setup) -> (FateCounts, [[u32; 2]; 2]) {
    let seed = from_environment("DIOLKOS_LAW_SEED").unwrap_or(SEED);
    let cases = from_environment("DIOLKOS_LAW_CASES").unwrap_or(CASES);
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut paths = Paths::new(setup);
    let mut all = FateCounts::default();
    for case in 0..cases / 3 {
        let given = flows::next(setup, paths.slow.nat64(), &mut rng);
        let ipv4_id = rng.u16(..);
        match paths.obey(&given, ipv4_id) {
            Ok(fate) => all.add(fate),
            Err(broken) => panic!("packet {case} of DIOLKOS_LAW_SEED={seed}: {broken}"),
        }
    }
    assert_eq!(paths.inline, all.of(Fate::Translated), "{}", setup.name);
    assert!(has_driver_floor(paths.driver), "{:?}", paths.driver);
    assert!(paths.moved > 0, "{}: no session moves", setup.name);
    let (opened, counts) = (paths.slow.opened(), paths.slow.nat64().state().counts());
    let [left, lent] = paths.slow.end_leases();
    assert_eq!(left, 0, "{}: ports are lost, of {lent}", setup.name);
    println!("{}: {counts:?}", setup.name);
    println!("sessions of UDP and TCP, and those opened by the fast path: {opened:?}\n{all}");
    (all, opened)
}

/// Describes how the simplest packet that breaks the law like this one breaks it.
fn simplest(paths: &mut Paths, setup: &Setup, mut recipe: Recipe, ipv4_id: u16) -> String {
    let mut broken = |recipe: &Recipe| paths.obey(&recipe.given(setup), ipv4_id).err();
    let mut simpler = || {
        let next = recipe.simpler().into_iter().find(|r| broken(r).is_some());
        next.inspect(|next| recipe = next.clone()).is_some()
    };
    while simpler() {}
    let story = broken(&recipe).unwrap_or_else(|| "it does not break it every time".into());
    format!("{story}{recipe:#?}")
}
