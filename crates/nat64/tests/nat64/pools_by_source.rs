// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pools by source: their shares, what `check` refuses, and which address speaks for the translator.

use crate::common::{packet4, v4};
use crate::harness::*;
use crate::packets::udp_of;
use crate::pools_by_source_model::{config_of, node, part, pools, Kind, A, FIRST, PEER};
use diolkos_nat64::config::{Deterministic, Nat64Config, Protocol};
use diolkos_nat64::session::Segment;
use diolkos_xlat::Reason;

const UDP: Protocol = Protocol::Udp;
const TCP: Protocol = Protocol::Tcp;
const OTHER: Segment = Segment::Other;

/// Each pool has its own shares: a source that exhausts one pool takes nothing from another, even in one site.
#[test]
fn a_full_pool_takes_nothing_of_another() {
    let mut of_shares = config();
    of_shares.pool4 = pools(0);
    of_shares.limits = Default::default();
    let mut t = Tables::new(&of_shares);
    // One site of two pools, the first of which is much larger.
    let mut wide = of_shares.clone();
    wide.pool4[0].ports = 1024..=65535;
    t.state.reconfigure(&wide, &mut t.watch);
    let mut many = 0;
    while t.out(UDP, node(0, many), PEER, OTHER).is_ok() {
        many += 1;
    }
    assert!(many > 1000, "{many}");
    // As many as without the others: half of 8 ports, rounded up.
    let its = |n: u16| t.out(UDP, node(2, n), PEER, OTHER).is_ok();
    let alone = {
        let mut t = Tables::new(&wide);
        (0..20)
            .filter(|n| t.out(UDP, node(2, *n), PEER, OTHER).is_ok())
            .count()
    };
    assert_eq!(
        (0..20)
            .filter({
                let mut its = its;
                move |n| its(*n)
            })
            .count(),
        alone
    );
    assert!(alone > 0);
}

#[test]
fn a_static_binding_has_an_address_of_its_pool_or_of_none() {
    let keys = |v4: &str, number| {
        let mut config = config();
        config.pool4 = pools(0);
        config.bindings = vec![binding(TCP, v4, node(number, 1))];
        match config.check() {
            Ok(()) => vec![],
            Err(error) => error.problems.into_iter().map(|p| p.key).collect(),
        }
    };
    let wrong = ["nat64.static[0].v4"];
    assert_eq!(keys("203.0.113.1:80", 0), [""; 0]);
    // Also of a port outside of the pool.
    assert_eq!(keys("203.0.113.1:80", 2), wrong);
    assert_eq!(keys("203.0.113.4:80", 2), wrong);
    assert_eq!(keys("203.0.113.7:80", 2), [""; 0]);
}

#[test]
fn sources_are_whole_and_of_one_pool() {
    let problems = |change: &dyn Fn(&mut Nat64Config)| {
        let mut config = config();
        config.pool4 = pools(0);
        change(&mut config);
        match config.check() {
            Ok(()) => vec![],
            Err(error) => error
                .problems
                .into_iter()
                .map(|p| format!("{}: {}", p.key, p.message))
                .collect(),
        }
    };
    assert_eq!(problems(&|_| {}), [""; 0]);
    let with = |at: usize, net: &str| {
        let net = net.to_owned();
        move |config: &mut Nat64Config| config.pool4[at].sources.push(net.parse().unwrap())
    };
    assert_eq!(
        problems(&with(1, A)),
        ["nat64.pool4[1].sources: 2001:db8:a::/48 is in nat64.pool4[0].sources too, beside others: entries of one pool have the same sources"]
    );
    assert_eq!(
        problems(&with(1, "2001:db8:d::5/64")),
        ["nat64.pool4[1].sources: 2001:db8:d::5/64 has host bits set; write 2001:db8:d::/64"]
    );
    assert_eq!(
        problems(&with(1, "2001:db8:d::5/128")),
        ["nat64.pool4[1].sources: 2001:db8:d::5/128 is a part of one source: nat64.source_prefix_len is 64"]
    );
    assert_eq!(problems(&with(1, "ff00::/16")).len(), 1);
    assert_eq!(
        problems(&|config| config.pool4[1].net = "203.0.113.0/31".parse().unwrap()),
        ["nat64.pool4[1].address: 203.0.113.0/31 overlaps nat64.pool4[0], 203.0.113.1: they have different sources, and an address belongs to one pool; remove one"]
    );
}

/// The prefix length of blocks is that of sources where it decides on a pool or on fixed ports: a wider one would have nodes
/// of two pools.
#[test]
fn blocks_are_for_the_sources_of_pools() {
    let refused = |change: &dyn Fn(&mut Nat64Config)| {
        let mut config = config_of(0, Kind::Blocks);
        config.blocks.as_mut().unwrap().source_prefix_len = 48;
        change(&mut config);
        let error = config.check().err().map(|error| error.to_string());
        error.is_some_and(|said| said.contains("blocks are for /48, and limits for /64"))
    };
    assert!(refused(&|_| {}));
    assert!(refused(&|config| {
        config.pool4 = vec![part("203.0.113.0/29", &[])];
        config.pool4[0].ports = 1024..=65_535;
        config.deterministic = Some(Deterministic {
            sources: vec!["2001:db8:c::/56".parse().unwrap()],
            ports_per_source: None,
            overflow_share: 10,
        });
    }));
    // One pool for all has no such boundary.
    assert!(!refused(&|config| {
        config.pool4 = vec![part("203.0.113.0/29", &[])];
    }));
}

/// An address of a customer's pool does not speak for the translator, if there is another one.
#[test]
fn the_translators_own_errors_come_from_the_default_pool() {
    let default = part("203.0.113.1/32", &[]);
    let of_a = part("203.0.113.2/32", &[A]);
    for (pool4, from) in [
        (vec![of_a.clone(), default.clone()], "203.0.113.1"),
        (vec![default, of_a.clone()], "203.0.113.1"),
        (vec![of_a], "203.0.113.2"),
    ] {
        let mut w = Router::new(|config| config.pool4 = pool4.clone());
        let packet = packet4("192.0.2.1", from, 17, udp_of(53, FIRST, &[]));
        let (reason, answer) = w.refuse(&packet.bytes());
        assert_eq!(reason, Reason::NoBinding);
        assert_eq!(answer.expect("an error")[12..16], v4(from).octets());
    }
}
