// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Many nodes at once: which share of their sessions the programs open, and that no lease serves two nodes.

use std::collections::HashMap;
use std::net::Ipv6Addr;
use std::time::Duration;

use diolkos_gateway::fastpath::FastPath;
use diolkos_nat64::config::{Limits, Nat64Config};

use crate::controller::config;
use crate::crowd::{scatter, By, Crowd, Gateway};

/// Sessions between two looks of the controller.
const BATCH: usize = 32;
/// Sweeps in a second.
const SWEEPS: usize = 4;

/// 64 addresses: with more networks than the programs can know, nothing would be lent.
pub fn pool() -> Nat64Config {
    let mut config = config(1, 1024..=65535);
    config.pool4[0].net = "192.0.2.0/26".parse().expect("a network");
    config
}

/// What has opened the sessions of so many nodes: programs, and the slow path; and the leases, with how many are wide.
#[derive(Debug)]
struct Opened {
    by_program: usize,
    by_controller: usize,
    leases: u32,
    wide: usize,
}

/// How many sessions are opened, and how many a second; the first ones, until leases have settled, are not counted.
struct Load {
    uncounted: usize,
    counted: usize,
    a_second: usize,
}

/// 12 000 a second, all of them counted.
fn all(counted: usize) -> Load {
    Load {
        uncounted: 0,
        counted,
        a_second: 12_000,
    }
}

/// Opens sessions of nodes that `whose` selects, each from a new port, with settling and sweeping as in the program.
fn open(config: &Nat64Config, load: Load, whose: impl Fn(u64) -> u32) -> Opened {
    let sessions = load.uncounted + load.counted;
    let mut gateway = Gateway::new(config);
    let mut next_port: HashMap<u32, u16> = HashMap::new();
    let (mut by_program, mut by_controller) = (0, 0);
    for n in 0..sessions {
        let now = Duration::from_micros(n as u64 * 1_000_000 / load.a_second as u64);
        if n % (load.a_second / SWEEPS).max(1) == 0 {
            gateway.sweep(now);
        }
        let number = whose(scatter(n as u64 + (1 << 40)));
        // Each a link of its own.
        let node = Ipv6Addr::from_bits(0x2001_0db8 << 96 | u128::from(number) << 64 | 1);
        let port = next_port.entry(number).or_insert(1024);
        *port = port.checked_add(1).unwrap_or(1024);
        match gateway.first_packet((node, *port), now, n % BATCH != 0) {
            By::Nobody => panic!("there are ports for all"),
            _ if n < load.uncounted => {}
            By::Program => by_program += 1,
            By::Controller => by_controller += 1,
        }
    }
    gateway.settle(Duration::from_secs(60));
    assert_eq!(
        gateway.state.sessions().count(),
        sessions,
        "the tables know each session once"
    );
    let (leases, _) = gateway.leases.lent_out();
    let all = gateway.crowd.leases();
    let wide = all.iter().filter(|place| place.is_wide).count();
    gateway.finish();
    Opened {
        by_program,
        by_controller,
        leases,
        wide,
    }
}

#[test]
fn programs_open_most_sessions_of_sixteen_thousand_nodes() {
    // 12 000 a second, as long as a lease may be idle: with one place for each of 4096 hashes it was a tenth.
    let opened = open(&pool(), all(360_000), |drawn| (drawn % 16384) as u32);
    let all = opened.by_program + opened.by_controller;
    // Each node's first session is the controller's: 16 384 of 360 000.
    assert!(
        opened.by_program * 10 >= all * 9,
        "{} of {all} by programs",
        opened.by_program
    );
    assert!(opened.leases >= 16384 * 9 / 10, "{} leases", opened.leases);
}

#[test]
fn programs_open_nearly_all_sessions_of_sixty_five_thousand_nodes() {
    // A node opens one in three seconds on average, so one in thirteen comes more than 8 seconds after its last. 4 % of the
    // nodes find four others in their set.
    let mut config = pool();
    config.pool4[0].net = "192.0.2.0/24".parse().expect("a network");
    let load = Load {
        uncounted: 400_000,
        counted: 200_000,
        a_second: 20_000,
    };
    let opened = open(&config, load, |drawn| (drawn % 65536) as u32);
    assert!(opened.by_controller * 10 <= 200_000, "{opened:?}");
}

#[test]
fn a_node_that_opens_much_gets_a_wide_lease_among_many() {
    // Every second session is that of node 0.
    let opened = open(&pool(), all(60_000), |drawn| {
        if drawn % 2 == 0 {
            0
        } else {
            (drawn >> 8) as u32 % 1000
        }
    });
    assert!(opened.wide >= 1, "node 0 has an ordinary lease");
    assert!(
        opened.by_program * 10 >= (60_000 - 4 * 1001) * 9,
        "{}",
        opened.by_program
    );
}

/// Shares leave a host one part in 36 of what there is.
#[test]
fn a_busy_node_gets_a_wide_lease_whatever_its_share() {
    let mut config = pool();
    config.pool4[0].net = "192.0.2.0/24".parse().expect("a network");
    config.limits = Limits::default();
    let opened = open(&config, all(20_000), |_| 0);
    assert_eq!((opened.leases, opened.wide), (1, 1), "{opened:?}");
    assert!(opened.by_program * 10 >= 20_000 * 9, "{opened:?}");
}

/// A node that may not open more is not one that is short of a larger lease.
#[test]
fn a_node_at_its_rate_gets_no_wide_lease() {
    let mut config = pool();
    config.limits.new_sessions_per_host = Some(2);
    config.limits.new_sessions_burst = 10;
    let load = Load {
        uncounted: 0,
        counted: 60,
        a_second: 1,
    };
    let opened = open(&config, load, |_| 0);
    assert_eq!(opened.wide, 0, "{opened:?}");
    assert!(opened.by_program >= 50, "{opened:?}");
}

#[test]
fn nodes_of_one_set_do_not_take_turns_with_leases() {
    // Five nodes of one set, all as busy: four have a lease at any time, and keep it.
    let crowd = Crowd::new();
    let node = |number: u32| Ipv6Addr::from_bits(0x2001_0db8 << 96 | u128::from(number) << 64 | 1);
    let set = crowd.set_of(node(0));
    let five: Vec<u32> = (0..)
        .filter(|n| crowd.set_of(node(*n)) == set)
        .take(5)
        .collect();
    let opened = open(&pool(), all(20_000), |drawn| five[(drawn % 5) as usize]);
    assert_eq!(opened.leases, 4);
    let share = opened.by_program as f64 / 20_000.0;
    assert!(share >= 0.75, "{share}");
}
