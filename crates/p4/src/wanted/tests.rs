// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is wanted, without a switch.

use super::*;
use diolkos_fastpath::Owner;

fn session(port: u16, peer: u8) -> Session {
    Session {
        protocol: 17,
        node: (Ipv6Addr::from_bits(0x2001_0db8 << 96 | 5), 4711),
        v4: (Ipv4Addr::new(203, 0, 113, 1), port),
        peer: (Ipv4Addr::new(198, 51, 100, peer), 53),
        prefix: 0,
        owner: Owner::OURS,
    }
}

fn wanted(slots: u32) -> Wanted {
    let mut wanted = Wanted::new(100);
    wanted.set_base(&["64:ff9b::/96".parse().expect("a prefix")], Vec::new());
    wanted.go_up(slots);
    wanted
}

fn is_put(change: &SessionUpdate) -> bool {
    matches!(change, SessionUpdate::Put(_))
}

#[test]
fn changes_come_in_their_order_and_equal_ones_are_left_out() {
    let mut wanted = wanted(50);
    let one = session(5000, 1);
    wanted.put(&one).expect("there is room");
    wanted.put(&one).expect("it is there");
    wanted.remove(key(&one));
    wanted.remove(key(&one));
    wanted.put(&one).expect("there is room");
    let taken = wanted.take(10);
    let kinds: Vec<bool> = taken.iter().map(is_put).collect();
    assert_eq!(kinds, [true, false, true]);
    assert!(!wanted.has_changes());
    let no_prefix = Session { prefix: 1, ..one };
    assert!(wanted.put(&no_prefix).is_err());
}

/// A port must not have a new owner while the switch may have entries of the old one.
#[test]
fn a_port_waits_for_the_removal_of_another_nodes_session() {
    let mut wanted = wanted(50);
    let one = session(5000, 1);
    let other = Session {
        node: (Ipv6Addr::LOCALHOST, 1),
        ..one
    };
    wanted.put(&one).expect("there is room");
    wanted.put(&other).expect("it takes its place");
    let (outer, inner) = ends(&other);
    assert!(wanted.leaving.is_of_another(outer, inner));
    let taken = wanted.take(10);
    assert_eq!(taken.iter().filter(|change| is_put(change)).count(), 2);
    let freed: Vec<bool> = taken
        .iter()
        .map(|change| wanted.confirmed(change))
        .collect();
    assert_eq!(freed, [false, true, false]);
    assert!(!wanted.leaving.is_of_another(outer, inner));
}

#[test]
fn after_a_restart_of_the_switch_everything_is_written_again() {
    let mut wanted = wanted(50);
    for peer in 1..=5 {
        wanted.put(&session(5000, peer)).expect("there is room");
    }
    let taken = wanted.take(3);
    wanted.remove(key(&session(5000, 5)));
    wanted.go_down(&taken);
    assert!(!wanted.has_changes());
    wanted.remove(key(&session(5000, 4)));
    wanted.put(&session(5000, 6)).expect("there is room");
    wanted.go_up(50);
    let all = wanted.take(100);
    assert!(all.iter().all(is_put));
    let mut ports: Vec<u8> = Vec::new();
    for change in &all {
        if let SessionUpdate::Put(known) = change {
            ports.push(known.session.peer.0.octets()[3]);
        }
    }
    ports.sort_unstable();
    assert_eq!(ports, [1, 2, 3, 6]);
}

#[test]
fn a_refused_session_is_gone_unless_it_has_changed_since() {
    let mut wanted = wanted(50);
    let one = session(5000, 1);
    wanted.put(&one).expect("there is room");
    let Some(&SessionUpdate::Put(first)) = wanted.take(1).first() else {
        panic!("it is to be put")
    };
    wanted.remove(key(&one));
    wanted.put(&one).expect("there is room");
    wanted.refused(&first);
    assert_eq!(wanted.sessions(), 1, "the later one is not meant");
    let Some(&SessionUpdate::Put(second)) = wanted.take(2).get(1) else {
        panic!("it is to be put again")
    };
    wanted.refused(&second);
    assert_eq!((wanted.sessions(), wanted.figures.refused), (0, 2));
}

#[test]
fn sessions_beyond_a_smaller_switch_stay_with_the_slow_path() {
    let mut wanted = wanted(50);
    for peer in 1..=5 {
        wanted.put(&session(5000, peer)).expect("there is room");
    }
    wanted.go_up(3);
    assert_eq!((wanted.sessions(), wanted.figures.refused), (2, 3));
    assert!(wanted.put(&session(5000, 9)).is_err(), "no slot is left");
}

#[test]
fn what_was_used_is_noted_by_its_slot() {
    let mut wanted = wanted(50);
    for peer in 1..=9 {
        wanted.put(&session(5000, peer)).expect("there is room");
    }
    assert_eq!(wanted.begin_reading(), 10);
    let now = Duration::from_secs(7);
    // Slot 0 belongs to nobody, and slot 15 to none.
    wanted.used(0, &[0b0000_0011, 0b1000_0010], now);
    wanted.end_reading();
    let seen: Vec<u8> = (1..=9)
        .filter(|peer| wanted.last_seen(key(&session(5000, *peer))) == Some(now))
        .collect();
    assert_eq!(seen, [1, 9]);
}

#[test]
fn counters_of_a_restarted_switch_go_on() {
    let mut wanted = wanted(50);
    wanted.counted(&[5, 7]);
    wanted.counted(&[6, 7]);
    wanted.counts_anew();
    wanted.counted(&[2, 0]);
    assert_eq!(wanted.figures.counts[..3], [8, 7, 0]);
}
