// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The controller's side against a switch that refuses, is full, restarts, dies and talks nonsense.

mod fake;

use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use diolkos_fastpath::{NodePort, Owner, Sent, Session};
use diolkos_gateway::fastpath::FastPath;
use diolkos_p4::entry::{hop, settings, Entry, Mode};
use diolkos_p4::Switch;
use diolkos_service::supervise::{self, Alarm};

use fake::{Fake, Model, SLOTS};

/// A path of its own, and the switch that a test starts there.
struct Place {
    path: PathBuf,
    _alarm: Alarm,
    watch: supervise::Watch,
}

impl Place {
    fn new() -> Place {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("diolkos-p4-{}-{number}", std::process::id());
        let (watch, alarm) = supervise::pair();
        Place {
            path: std::env::temp_dir().join(name),
            _alarm: alarm,
            watch,
        }
    }

    fn fake(&self, boot: u64) -> Fake {
        Fake::start(&self.path, boot, Model::default())
    }

    fn switch(&self) -> Switch {
        let switch = Switch::start(&self.path, 2, 1000, &self.watch).expect("a switch");
        let prefixes = ["2001:db8:64::/96".parse().expect("a prefix")];
        switch.set_base(&prefixes, vec![on()]);
        switch
    }
}

fn on() -> Entry {
    settings(Mode::Sessions, true, 1280)
}

/// A session of UDP with this external port.
fn session(port: u16) -> Session {
    Session {
        protocol: 17,
        node: (Ipv6Addr::from_bits(0x2001_0db8 << 96 | 5), port),
        v4: (Ipv4Addr::new(192, 0, 2, 1), port),
        peer: (Ipv4Addr::new(198, 51, 100, 2), 53),
        prefix: 0,
        owner: Owner::OURS,
    }
}

fn put(switch: &Switch, ports: impl IntoIterator<Item = u16>) {
    for port in ports {
        switch
            .put(&session(port), Sent::default())
            .expect("there is room");
    }
}

fn counter(switch: &Switch, name: &str) -> u64 {
    let counters = switch.counters();
    let found = counters
        .iter()
        .find(|counter| counter.name == format!("p4.{name}"));
    found.expect("there is such a counter").packets
}

/// Waits; only a hang reaches the limit.
fn until(what: &str, is_so: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(60), "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn has_sessions(count: usize) -> impl Fn(&Model) -> bool {
    move |model| model.count("session6") == count && model.count("session4") == count
}

#[test]
fn sessions_are_written_and_removed() {
    let place = Place::new();
    let fake = place.fake(1);
    let switch = place.switch();
    put(&switch, 1000..1040);
    fake.until("all are written", has_sessions(40));
    assert!(switch.is_up());
    switch.remove(&session(1000)).expect("it is removed");
    switch.remove(&session(1000)).expect("it need not exist");
    fake.until("one is removed", has_sessions(39));
    let model = fake.model();
    assert_eq!(
        model.action_of_default("settings").map(|data| data[0]),
        Some(2)
    );
}

/// Nothing of an earlier run stays, and the program is on only after it has been emptied.
#[test]
fn what_an_earlier_run_left_is_removed_before_anything_begins() {
    let place = Place::new();
    let mut model = Model::default();
    let stale = ("hop4".to_owned(), vec![0; 4], vec![0; 4]);
    model
        .entries
        .insert(stale.clone(), ("forward".to_owned(), vec![0; 48]));
    let fake = Fake::start(&place.path, 1, model);
    let switch = Switch::start(&place.path, 2, 10, &place.watch).expect("a switch");
    assert_eq!(fake.model().entries.len(), 0);
    assert_eq!(fake.model().flushes, 1);
    drop(switch);
    assert_eq!(fake.model().flushes, 2, "it leaves nothing");
}

#[test]
fn a_restarted_switch_gets_everything_again() {
    let place = Place::new();
    let fake = place.fake(1);
    let switch = place.switch();
    put(&switch, 1000..1010);
    fake.until("all are written", has_sessions(10));
    fake.set(|model| model.counts[0] = 5);
    until("it is counted", || counter(&switch, "translated_6to4") == 5);
    drop(fake);
    until("it is gone", || !switch.is_up());
    switch.remove(&session(1000)).expect("it is removed");
    put(&switch, 1010..1012);
    let fake = place.fake(2);
    fake.until("all are written again", has_sessions(11));
    fake.set(|model| model.counts[0] = 2);
    until("counters go on", || {
        counter(&switch, "translated_6to4") == 7
    });
    assert_eq!(counter(&switch, "connections"), 2);
}

#[test]
fn a_switch_may_come_later() {
    let place = Place::new();
    let switch = place.switch();
    put(&switch, [1000]);
    assert!(!switch.is_up());
    let fake = place.fake(1);
    fake.until("it is written", has_sessions(1));
}

#[test]
fn a_switch_that_does_not_let_itself_be_emptied_is_refused() {
    let place = Place::new();
    let fake = place.fake(1);
    fake.set(|model| model.garbage = Some(b"what?".to_vec()));
    let refused = Switch::start(&place.path, 2, 10, &place.watch);
    let said = refused.expect_err("it is refused").to_string();
    assert!(
        said.contains("cannot be emptied (a reply of 5 bytes"),
        "{said}"
    );
    drop(fake);
}

#[test]
fn sessions_that_do_not_fit_stay_with_the_slow_path() {
    let place = Place::new();
    let fake = place.fake(1);
    fake.set(|model| model.most = Some(10));
    let switch = place.switch();
    put(&switch, 1000..1015);
    until("five are refused", || counter(&switch, "refused") == 5);
    fake.until("ten fit", has_sessions(10));
    assert_eq!(counter(&switch, "sessions"), 10);
    // There is room again.
    for port in 1000..1015 {
        switch.remove(&session(port)).expect("it need not exist");
    }
    put(&switch, [1020]);
    fake.until("one is written", has_sessions(1));
}

#[test]
fn slots_limit_sessions() {
    let place = Place::new();
    let fake = place.fake(1);
    let switch = place.switch();
    put(&switch, [1]);
    fake.until("the size is known", has_sessions(1));
    let most = SLOTS as u16 - 1;
    put(&switch, 2..=most);
    assert!(switch.put(&session(most + 1), Sent::default()).is_err());
    fake.until("all are written", has_sessions(usize::from(most)));
}

/// The rules are written as a whole, or the program declines everything.
#[test]
fn with_a_refused_rule_the_switch_is_off() {
    let place = Place::new();
    let fake = place.fake(1);
    fake.set(|model| model.refuses = Some("hop4"));
    let switch = place.switch();
    put(&switch, [1000]);
    fake.until("it is on", has_sessions(1));
    let rule = hop("192.0.2.0/24".parse().expect("a network"), None, false);
    switch.set_hops(vec![rule]);
    fake.until("it is off", |model| model.entries.is_empty());
    until("that is known", || !switch.is_up());
    fake.set(|model| model.refuses = None);
    switch.set_hops(Vec::new());
    fake.until("it is on again", has_sessions(1));
    until("that is known", || switch.is_up());
}

/// More rules than fit into a datagram: no packet sees a part of them.
#[test]
fn many_rules_are_written_while_the_switch_is_off() {
    let place = Place::new();
    let fake = place.fake(1);
    let switch = place.switch();
    let rules = |count: u32| -> Vec<Entry> {
        let net = |n: u32| ipnet::Ipv4Net::from(Ipv4Addr::from_bits(0x0a00_0000 + n));
        (0..count)
            .map(|n| hop(net(n).into(), None, false))
            .collect()
    };
    switch.set_hops(rules(200));
    let is_on = |model: &Model| {
        model
            .action_of_default("settings")
            .is_some_and(|d| d[0] == 2)
    };
    fake.until("all are written", |model| {
        model.count("hop4") == 200 && is_on(model)
    });
    switch.set_hops(rules(10));
    fake.until("some are removed", |model| {
        model.count("hop4") == 10 && is_on(model)
    });
}

#[test]
fn a_switch_that_dies_in_between_is_written_again() {
    let place = Place::new();
    let fake = place.fake(1);
    let switch = place.switch();
    put(&switch, [1000]);
    fake.until("it is written", has_sessions(1));
    fake.set(|model| model.dies = true);
    put(&switch, 1001..1005);
    fake.until("all are written", has_sessions(5));
    assert!(fake.model().flushes >= 2, "it was emptied in between");
}

#[test]
fn nonsense_ends_the_connection_and_everything_is_written_again() {
    let place = Place::new();
    let fake = place.fake(1);
    let switch = place.switch();
    put(&switch, [1000]);
    fake.until("it is written", has_sessions(1));
    for garbage in [vec![7; 64], vec![0; 9000], vec![1]] {
        let flushes = fake.model().flushes;
        fake.set(|model| model.garbage = Some(garbage));
        put(&switch, 1001..1003);
        fake.until("it is emptied", |model| model.flushes > flushes);
        fake.until("all are written", has_sessions(3));
        switch.remove(&session(1001)).expect("it is removed");
        switch.remove(&session(1002)).expect("it is removed");
        fake.until("one is left", has_sessions(1));
    }
    assert_eq!(counter(&switch, "garbage"), 3);
}

#[test]
fn the_switch_tells_which_sessions_are_used() {
    let place = Place::new();
    let fake = place.fake(1);
    let switch = place.switch();
    put(&switch, [1000, 1001]);
    fake.until("both are written", has_sessions(2));
    let seen = |port| switch.last_seen(&session(port)).expect("it can be asked");
    assert_eq!((seen(1000), seen(1001)), (None, None));
    let of_1001 = fake
        .model()
        .entries
        .iter()
        .find_map(|((table, key, _), (_, data))| {
            let is_it = table == "session4" && key[11..13] == 1001u16.to_be_bytes();
            is_it.then(|| u32::from_be_bytes([data[34], data[35], data[36], data[37]]))
        });
    let slot = of_1001.expect("its entry has a slot");
    assert!(slot > 0 && slot < SLOTS);
    fake.set(|model| model.used[slot as usize] = true);
    until("it is seen", || seen(1001).is_some());
    assert_eq!(seen(1000), None);
}

/// A port must not have a new owner while the switch may translate for the old one.
#[test]
fn a_new_owner_of_a_port_waits_for_the_end_of_the_old_one() {
    let place = Place::new();
    let fake = place.fake(1);
    let switch = Arc::new(place.switch());
    put(&switch, [1000]);
    fake.until("it is written", has_sessions(1));
    fake.set(|model| model.holds_deletes = true);
    switch.remove(&session(1000)).expect("it is removed");
    let other = NodePort {
        protocol: 17,
        addr: Ipv6Addr::LOCALHOST,
        port: 9,
    };
    let (binds, v4) = (switch.clone(), session(1000).v4);
    let bound = std::thread::spawn(move || binds.bind(other, v4));
    // Other ports do not wait, nor does the same node.
    let same = NodePort {
        addr: session(1000).node.0,
        port: 1000,
        ..other
    };
    switch.bind(same, v4).expect("it is its own");
    switch
        .bind(other, (v4.0, 1001))
        .expect("it is another port");
    assert_eq!(fake.model().count("session4"), 1);
    fake.set(|model| model.holds_deletes = false);
    bound.join().expect("no panic").expect("it is bound");
    assert_eq!(fake.model().count("session4"), 0, "it has waited");
}
