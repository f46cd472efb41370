// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compares with a list that does the same without bounds of its own.

use proptest::prelude::*;

use super::*;

const TEST_ALL: Bounds = Bounds {
    places: 12,
    bytes: 600,
};
const TEST_SHARE: Bounds = Bounds {
    places: 5,
    bytes: 250,
};

fn port(number: u16) -> Port {
    let addr = format!("2001:db8:{:x}::1", number % 4);
    let addr = addr.parse().expect("an address");
    (Protocol::Udp, Endpoint6 { addr, port: number })
}

fn subscriber(port: Port) -> u128 {
    port.1.addr.to_bits() >> 64
}

fn peer(port: u16) -> Endpoint4 {
    let addr = std::net::Ipv4Addr::LOCALHOST;
    Endpoint4 { addr, port }
}

#[derive(Clone, Debug)]
enum Step {
    Begin(u16),
    Packet(u16, usize),
    Session(u16, u16),
    Know(u64),
    Alone,
    Wait(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (0u16..12).prop_map(Step::Begin),
        5 => (0u16..12, 0usize..120).prop_map(|(port, bytes)| Step::Packet(port, bytes)),
        2 => (0u16..12, 0u16..3).prop_map(|(port, peer)| Step::Session(port, peer)),
        2 => (0u64..4).prop_map(Step::Know),
        1 => Just(Step::Alone),
        2 => (0u64..40).prop_map(Step::Wait),
    ];
    prop::collection::vec(step, 0..200)
}

/// A binding of the model: port, change, end of its time, packets (number and bytes), peers.
struct Binding(Port, u64, Duration, Vec<(u64, usize)>, Vec<Endpoint4>);

fn used(all: &[Binding], of: Option<u128>) -> (usize, usize) {
    let its = all.iter();
    let its = its.filter(|b| of.is_none_or(|of| subscriber(b.0) == of));
    its.fold((0, 0), |(places, bytes), b| {
        let more: usize = b.3.iter().map(|(_, bytes)| bytes).sum();
        (places + b.3.len().max(1), bytes + more)
    })
}

fn fits(all: &[Binding], of: u128, places: usize, bytes: usize) -> bool {
    let is_within = |(used, bounds): ((usize, usize), Bounds)| {
        used.0 + places <= bounds.places && used.1 + bytes <= bounds.bytes
    };
    let pairs = [
        (used(all, None), TEST_ALL),
        (used(all, Some(of)), TEST_SHARE),
    ];
    pairs.into_iter().all(is_within)
}

proptest! {
    #[test]
    fn what_waits_is_bounded_and_leaves_in_order(steps in steps()) {
        let mut deferred = Deferred::bounded(TEST_ALL, TEST_SHARE);
        let mut model: Vec<Binding> = Vec::new();
        let (mut now, mut change, mut known, mut number, mut passed) = (Duration::ZERO, 0, 0, 0, 0);
        for step in steps {
            let mut alone = false;
            match step {
                Step::Begin(at) => {
                    change += 1;
                    let port = port(at);
                    deferred.begin(change, port, subscriber(port), now);
                    if fits(&model, subscriber(port), 1, 0) {
                        model.push(Binding(port, change, now + BOUND, Vec::new(), Vec::new()));
                    } else {
                        passed += 1;
                    }
                }
                Step::Packet(at, bytes) => {
                    let port = port(at);
                    let awaits = model.iter().rposition(|b| b.0 == port);
                    prop_assert_eq!(deferred.awaits(port), awaits.map(|at| model[at].1));
                    let Some(at) = awaits else { continue };
                    number += 1;
                    let places = usize::from(!model[at].3.is_empty());
                    let is_held = deferred.hold(model[at].1, bytes, || number);
                    prop_assert_eq!(is_held, fits(&model, subscriber(port), places, bytes));
                    match is_held {
                        true => model[at].3.push((number, bytes)),
                        false => passed += 1,
                    }
                }
                Step::Session(at, to) => {
                    let port = port(at);
                    let awaits = model.iter_mut().rfind(|b| b.0 == port);
                    let keeps = deferred.keeps(port, peer(to), true);
                    prop_assert_eq!(keeps, awaits.is_some());
                    prop_assert_eq!(deferred.keeps(port, peer(to), false), keeps);
                    awaits.into_iter().for_each(|b| b.4.push(peer(to)));
                }
                Step::Know(more) => known = change.min(known + more),
                Step::Alone => alone = true,
                Step::Wait(ms) => now += Duration::from_millis(ms),
            }
            let said = (!alone).then_some(known);
            while let Some(gone) = deferred.release(said, now) {
                let Binding(port, change, until, packets, peers) = model.remove(0);
                prop_assert_eq!(gone.port, port);
                prop_assert_eq!(gone.is_unknown, alone || change > known);
                prop_assert!(!gone.is_unknown || alone || now >= until);
                let numbers: Vec<u64> = packets.iter().map(|(number, _)| *number).collect();
                prop_assert_eq!((gone.packets, gone.peers), (numbers, peers));
            }
            // Nothing is left that another gateway knows, or whose time is over.
            prop_assert!(model.iter().all(|b| !alone && b.1 > known && now < b.2));
            let (places, bytes) = used(&model, None);
            prop_assert_eq!(deferred.used, Used { places, bytes });
            prop_assert!(places <= TEST_ALL.places && bytes <= TEST_ALL.bytes);
        }
        prop_assert_eq!(deferred.take_passed(), passed);
        while deferred.release(None, now).is_some() {}
        prop_assert!(deferred.shares.is_empty() && deferred.changes.is_empty());
        prop_assert_eq!(deferred.used, Used::default());
    }
}

#[test]
fn one_subscriber_takes_its_share_and_no_more() {
    let mut deferred: Deferred<()> = Deferred::default();
    for number in 0..ALL.places as u16 {
        deferred.begin(
            u64::from(number),
            (
                Protocol::Udp,
                Endpoint6 {
                    port: number,
                    ..port(0).1
                },
            ),
            0,
            BOUND,
        );
    }
    assert_eq!(deferred.used.places, SHARE.places);
    assert_eq!(deferred.take_passed() as usize, ALL.places - SHARE.places);
    deferred.begin(100_000, port(1), 1, BOUND);
    assert_eq!(deferred.awaits(port(1)), Some(100_000));
}
