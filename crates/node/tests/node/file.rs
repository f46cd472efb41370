// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks of the file, and the order of nodes that follows from it.

use diolkos_node::config::{Fault, SourcePool, PARTS};
use diolkos_node::order::{Order, BUCKETS};
use diolkos_node::{Config, NodeId};

fn config(nodes: &[(&str, &str)]) -> Config {
    Config {
        source_prefix_len: 56,
        ..crate::common::file(0, nodes.iter().copied())
    }
}

const GOOD: &[(&str, &str)] = &[
    ("a", "192.0.2.0/30 198.51.100.7/32"),
    ("b", "192.0.2.4/30"),
    ("c", "198.51.100.8/32"),
];

#[test]
fn each_address_has_one_owner() {
    let owners = config(GOOD).check().expect("it is right");
    let of = |addr: &str| {
        owners
            .of(addr.parse().expect("an address"))
            .map(|node| node.0)
    };
    let asked = [
        "192.0.2.0",
        "192.0.2.3",
        "192.0.2.4",
        "192.0.2.8",
        "198.51.100.7",
        "198.51.100.8",
    ];
    assert_eq!(
        asked.map(of),
        [Some(0), Some(0), Some(1), None, Some(0), Some(2)]
    );
    assert_eq!(of("0.0.0.0"), None);
    let fault = |nodes: &[(&str, &str)]| config(nodes).check().err();
    let shared = fault(&[("a", "192.0.2.0/24"), ("b", "192.0.2.9/32")]);
    assert_eq!(
        shared,
        Some(Fault::Shared("192.0.2.9".parse().expect("an address")))
    );
    let twice = fault(&[("a", "192.0.2.0/32"), ("a", "192.0.2.9/32")]);
    assert_eq!(twice, Some(Fault::Name("a".to_owned())));
    assert_eq!(fault(&[("a", "")]), Some(Fault::NoAddress("a".to_owned())));
    assert_eq!(fault(&[]), Some(Fault::Nodes));
    let mut quick = config(GOOD);
    quick.timing.term = quick.timing.reachable;
    assert_eq!(quick.check().err(), Some(Fault::Timing));
}

#[test]
fn what_must_agree_is_in_the_digest_and_what_need_not_is_not() {
    let base = config(GOOD).digests();
    let differs = |change: &dyn Fn(&mut Config)| {
        let mut other = config(GOOD);
        change(&mut other);
        let pairs = base.into_iter().zip(other.digests()).zip(PARTS);
        let parts: Vec<&str> = pairs
            .filter(|((a, b), _)| a != b)
            .map(|(_, part)| part)
            .collect();
        parts
    };
    assert!(differs(&|c| c.me = NodeId(1)).is_empty());
    assert!(differs(&|c| c.bounds.changes = 9).is_empty());
    assert_eq!(differs(&|c| c.members[0].name = "d".to_owned()), ["nodes"]);
    assert_eq!(differs(&|c| c.members[0].pool4.truncate(1)), ["nodes"]);
    assert_eq!(differs(&|c| c.members.swap(1, 2)), ["nodes"]);
    assert_eq!(differs(&|c| c.key[1] = 9), ["sources"]);
    assert_eq!(differs(&|c| c.source_prefix_len = 64), ["sources"]);
    assert_eq!(differs(&|c| c.pref64.clear()), ["sources"]);
    let pool = |source: &str, last: &str| SourcePool {
        sources: vec![source.parse().unwrap()],
        addresses: vec![("192.0.2.1".parse().unwrap(), last.parse().unwrap())],
    };
    for (own, other) in [
        (vec![], vec![pool("2001:db8::/48", "192.0.2.1")]),
        (
            vec![pool("2001:db8::/48", "192.0.2.1")],
            vec![pool("2001:db8::/47", "192.0.2.1")],
        ),
        (
            vec![pool("2001:db8::/48", "192.0.2.1")],
            vec![pool("2001:db8::/48", "192.0.2.2")],
        ),
    ] {
        let of = |pools: &[SourcePool]| {
            let mut file = config(GOOD);
            file.pools = pools.into();
            file
        };
        assert_eq!(of(&own).differs(&of(&own).digests()), None);
        let part = of(&own).differs(&of(&other).digests());
        assert_eq!(part.map(|part| PARTS[part]), Some("sources"));
    }
    assert_eq!(differs(&|c| c.lifetimes_s[0] = 60), ["lifetimes"]);
    assert_eq!(differs(&|c| c.timing.term *= 2), ["times"]);
    assert_eq!(differs(&|c| c.timing.margin_ppm = 1), ["times"]);
}

#[test]
fn a_node_that_goes_moves_only_its_own_subscribers() {
    let order = Order::new(&config(GOOD));
    let mut first = [0; 3];
    for bucket in 0..BUCKETS {
        let row = order.row(bucket);
        first[row[0].index()] += 1;
        assert!((0..3).all(|node| row.contains(&NodeId(node))));
        assert!((0..3).all(|place| order.place(bucket, row[place]) == place));
    }
    // 1024 buckets to three nodes: 341 each, with a standard deviation of 15.
    assert!(first.iter().all(|n| (250..440).contains(n)), "{first:?}");
    let mut turned = config(GOOD);
    turned.members.reverse();
    let turned = Order::new(&turned);
    let names = |order: &Order, of: [&str; 3]| {
        order
            .row(7)
            .iter()
            .map(|n| of[n.index()].to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        names(&order, ["a", "b", "c"]),
        names(&turned, ["c", "b", "a"])
    );
}
