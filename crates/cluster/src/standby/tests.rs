// SPDX-License-Identifier: Apache-2.0 OR MIT
use std::collections::HashMap;
use std::net::Ipv6Addr;

use diolkos_core::config::nat64::Endpoint4;
use proptest::prelude::*;

use super::*;
use crate::entry::NodeId;
use crate::ownership::Title;

/// Two addresses; slices of 8064 ports, eight to an address.
fn slices() -> Slices {
    let net = "192.0.2.0/31".parse().expect("a network");
    Slices::cut(&[(net, 1024..=65_535)], 8064, 64, [1, 2]).expect("it can be cut")
}

fn binding(slices: &Slices, slice: SliceId, port: u16, node: u64) -> Binding {
    let Slice { addr, ports } = slices.get(slice).cloned().expect("a slice");
    Binding {
        protocol: Protocol::Tcp,
        v4: Endpoint4 {
            addr,
            port: ports.start() + port,
        },
        v6: Endpoint6 {
            addr: Ipv6Addr::from_bits(0x2001_0db8 << 96 | u128::from(node)),
            port: 5000,
        },
    }
}

fn message(slice: SliceId, revision: Revision, kind: Kind, changes: Vec<Change>) -> Message {
    Message {
        slice,
        node: NodeId(1),
        title: Title { life: 1, revision },
        kind,
        changes,
    }
}

/// A world of one slice.
struct World {
    slices: Slices,
    standby: Standby,
}

impl World {
    fn new(limit: u32) -> World {
        let slices = slices();
        let standby = Standby::new(&slices, limit, [3, 4]);
        World { slices, standby }
    }

    fn open(&mut self, slice: SliceId, kind: Kind, pairs: &[(u16, u64)], cycle: u32) {
        let changes = pairs
            .iter()
            .map(|&(port, node)| Change::Opened(binding(&self.slices, slice, port, node)));
        let message = message(slice, 1, kind, changes.collect());
        self.standby.apply(&message, Standing::Owner, cycle);
    }

    /// The ports, of the slice's own count, and nodes of a slice.
    fn pairs(&self, slice: SliceId) -> Vec<(u16, u64)> {
        let start = *self.slices.get(slice).expect("a slice").ports.start();
        let of = |b: Binding| (b.v4.port - start, b.v6.addr.to_bits() as u64);
        let mut pairs: Vec<_> = self.standby.of_slice(slice).map(of).collect();
        pairs.sort();
        pairs
    }
}

fn part(number: u32, part: u16, is_last: bool) -> Kind {
    Kind::Snapshot {
        number,
        part,
        is_last,
    }
}

#[test]
fn a_port_and_a_node_have_one_binding_the_last_one() {
    let mut world = World::new(1000);
    world.open(2, Kind::Changes, &[(1, 10), (2, 20)], 0);
    world.open(2, Kind::Changes, &[(1, 30)], 0);
    assert_eq!(
        world.pairs(2),
        [(1, 30), (2, 20)],
        "the port is another node's"
    );
    world.open(2, Kind::Changes, &[(3, 20)], 0);
    assert_eq!(
        world.pairs(2),
        [(1, 30), (3, 20)],
        "the node has another port"
    );
    world.open(2, Kind::Changes, &[(1, 20)], 0);
    assert_eq!(world.pairs(2), [(1, 20)], "both");
    assert!(world.pairs(1).is_empty() && world.standby.len() == 1);
}

#[test]
fn only_owners_are_heard_and_earlier_ones_not_after_later_ones() {
    let mut world = World::new(1000);
    let change = Change::Opened(binding(&world.slices, 0, 1, 1));
    let mut say = |standing, revision| {
        let message = message(0, revision, Kind::Changes, vec![change]);
        world.standby.apply(&message, standing, 0);
        let heard = world.standby.len_of(0);
        world.standby.forget(0);
        heard
    };
    assert_eq!(say(Standing::Stranger, 5), 0);
    assert_eq!(
        say(Standing::OtherOwner, 4),
        1,
        "before the owner has spoken"
    );
    assert_eq!(say(Standing::Owner, 5), 1);
    assert_eq!(say(Standing::OtherOwner, 4), 0);
    assert_eq!(
        say(Standing::OtherOwner, 6),
        1,
        "of whom the feed has not told yet"
    );
    assert_eq!(say(Standing::Owner, 5), 0, "the feed is late");
    assert_eq!(
        say(Standing::Myself, 6),
        1,
        "the slice may be another's soon"
    );
    let nowhere = message(99, 1, Kind::Changes, vec![change]);
    world.standby.apply(&nowhere, Standing::Owner, 0);
    let counters = world.standby.counters();
    assert_eq!(
        (counters.strangers, counters.outdated, counters.messages),
        (2, 2, 4)
    );
}

#[test]
fn a_slice_cannot_displace_the_others() {
    // 16 slices: 50 for each, and 800 for those that come first.
    let mut world = World::new(1600);
    let many: Vec<(u16, u64)> = (0..1400).map(|n| (n, n.into())).collect();
    world.open(0, Kind::Changes, &many, 0);
    assert_eq!(world.standby.len_of(0), 850);
    assert_eq!(world.standby.counters().no_room, 550);
    for slice in 1..16 {
        world.open(slice, Kind::Changes, &many[..60], 0);
        assert_eq!(world.standby.len_of(slice), 50);
    }
    assert_eq!(world.standby.len(), 1600);
    // What is closed makes room.
    for port in 0..10 {
        let Binding { protocol, v4, .. } = binding(&world.slices, 0, port, 0);
        let closed = Change::Closed {
            protocol,
            port: v4.port,
        };
        let message = message(0, 1, Kind::Changes, vec![closed]);
        world.standby.apply(&message, Standing::Owner, 0);
    }
    world.open(1, Kind::Changes, &many[..70], 0);
    assert_eq!(world.standby.len_of(1), 60);
    world.standby.forget(0);
    assert_eq!((world.standby.len_of(0), world.standby.len()), (0, 760));
}

#[test]
fn what_two_cycles_have_not_repeated_is_forgotten_in_small_steps() {
    let mut world = World::new(1000);
    world.open(0, Kind::Changes, &[(1, 1), (2, 2), (3, 3)], 5);
    world.open(15, Kind::Changes, &[(1, 1)], 6);
    world.open(0, Kind::Repetition, &[(2, 2)], 6);
    world.standby.age(7, 100);
    assert_eq!(
        world.standby.len(),
        4,
        "cycle 6 was missed, 7 may still repeat it"
    );
    world.standby.age(8, 1);
    assert_eq!(world.pairs(0).len(), 2, "one step");
    world.standby.age(8, 100);
    assert_eq!(
        (world.pairs(0), world.pairs(15)),
        (vec![(2, 2)], vec![(1, 1)])
    );
    world.standby.age(9, 100);
    assert!(world.standby.is_empty());
    assert_eq!(world.standby.counters().aged, 4);
}

#[test]
fn a_complete_snapshot_replaces_what_was_there() {
    let mut world = World::new(1000);
    world.open(0, Kind::Changes, &[(1, 1), (2, 2), (3, 3)], 0);
    world.open(0, part(7, 1, true), &[(4, 4)], 0);
    world.open(0, Kind::Repetition, &[(3, 3)], 0);
    assert_eq!(
        world.pairs(0),
        [(1, 1), (2, 2), (3, 3), (4, 4)],
        "a part lacks"
    );
    world.open(0, part(7, 0, false), &[(2, 2)], 0);
    assert_eq!(world.pairs(0), [(2, 2), (3, 3), (4, 4)]);
    world.open(0, part(8, 0, true), &[], 0);
    assert!(world.pairs(0).is_empty());
    assert_eq!(world.standby.counters().snapshots, 2);
}

#[test]
fn parts_of_two_snapshots_make_none() {
    let mut world = World::new(1000);
    world.open(0, Kind::Changes, &[(1, 1)], 0);
    world.open(0, part(7, 0, false), &[(2, 2)], 0);
    world.open(0, part(8, 1, true), &[(3, 3)], 0);
    assert_eq!(world.pairs(0), [(1, 1), (2, 2), (3, 3)]);
    assert_eq!(world.standby.counters().snapshots, 0);
    // The entry at which the snapshot began may go meanwhile.
    let port = binding(&world.slices, 0, 2, 2).v4.port;
    let closed = Change::Closed {
        protocol: Protocol::Tcp,
        port,
    };
    let message = message(0, 1, Kind::Changes, vec![closed]);
    world.standby.apply(&message, Standing::Owner, 0);
    world.open(0, part(8, 0, false), &[], 0);
    assert_eq!(world.pairs(0), [(3, 3)]);
}

#[derive(Clone, Debug)]
enum Step {
    Open(SliceId, u16, u64),
    Close(SliceId, u16),
    Forget(SliceId),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..3u32, 0..12u16, 0..12u64).prop_map(|(s, p, n)| Step::Open(s, p, n)),
        3 => (0..3u32, 0..12u16).prop_map(|(s, p)| Step::Close(s, p)),
        1 => (0..3u32).prop_map(Step::Forget),
    ]
}

proptest! {
    /// Against a plain map from slice and port to the node.
    #[test]
    fn it_does_what_a_plain_map_does(steps in proptest::collection::vec(step(), 0..200)) {
        let mut world = World::new(1000);
        let mut model: HashMap<(SliceId, u16), u64> = HashMap::new();
        for step in steps {
            match step {
                Step::Open(slice, port, node) => {
                    world.open(slice, Kind::Changes, &[(port, node)], 0);
                    model.retain(|(s, _), n| (*s, *n) != (slice, node));
                    model.insert((slice, port), node);
                }
                Step::Close(slice, port) => {
                    let Binding { protocol, v4, .. } = binding(&world.slices, slice, port, 0);
                    let closed = Change::Closed { protocol, port: v4.port };
                    let message = message(slice, 1, Kind::Changes, vec![closed]);
                    world.standby.apply(&message, Standing::Owner, 0);
                    model.remove(&(slice, port));
                }
                Step::Forget(slice) => {
                    world.standby.forget(slice);
                    model.retain(|(s, _), _| *s != slice);
                }
            }
            prop_assert_eq!(world.standby.len() as usize, model.len());
        }
        for (&(slice, port), &node) in &model {
            let expected = binding(&world.slices, slice, port, node);
            let of = expected.protocol;
            prop_assert_eq!(world.standby.find_v4(slice, of, expected.v4.port), Some(expected));
            prop_assert_eq!(world.standby.find_v6(slice, of, expected.v6), Some(expected));
            prop_assert_eq!(world.standby.find_v4(slice, Protocol::Udp, expected.v4.port), None);
        }
    }
}

/// At every size while it grows, both indexes and what a growing table holds twice included.
#[test]
fn a_binding_takes_less_than_100_bytes() {
    let net = "192.0.2.0/26".parse().expect("a network");
    let slices = Slices::cut(&[(net, 1024..=65_535)], 8064, 64, [1, 2]).expect("it can be cut");
    let most = if cfg!(debug_assertions) {
        200_000
    } else {
        1_000_000
    };
    let mut standby = Standby::new(&slices, 2 * most, [3, 4]);
    let fixed = standby.memory();
    for n in 0..most {
        let (slice, port) = (n % 512, (n / 512) as u16);
        let binding = binding(&slices, slice, port, n.into());
        standby.put(slice, &binding, 0);
        let is_step = n % 1000 == 999;
        if is_step && n >= 99_999 {
            let each = (standby.memory() - fixed) as f64 / f64::from(standby.len());
            if n == 99_999 || (n + 1) % 100_000 == 0 {
                println!("{} bindings: {each:.1} bytes each", n + 1);
            }
            // One of 256 parts of a table grows at a time, and has its old places meanwhile: less than a byte each.
            assert!(each < 99.0, "{each} bytes each at {}", n + 1);
        }
    }
    assert_eq!(standby.len(), most);
}
