// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A trace predicts the real translation and changes nothing. Two translators get the same packets; one also traces
//! each packet first, and both behave alike.

use crate::common::*;
use crate::harness::*;
use crate::packets::*;
use crate::robust::Sender;
use diolkos_nat64::config::{Filtering, Nat64Config, PortBlocks};
use diolkos_nat64::session::{Event, TableStep};
use diolkos_nat64::Nat64Trace;
use diolkos_xlat::map::Via;
use diolkos_xlat::trace::Mapping;
use diolkos_xlat::{Reason, Verdict};
use std::time::Duration;

const STEPS: usize = 10_000;

/// A small pool and few sessions, so that there are refusals of every kind.
fn small(config: &mut Nat64Config) {
    config.pool4[0].ports = 2000..=2011;
    config.limits.sessions = 40;
    config.limits.sessions_per_source = 20;
    config.limits.held_syns = 5;
    config.limits.held_fragments = 8;
    config.limits.fragmented_packets = 10;
    config.translator.icmp.rate = 1;
    config.translator.icmp.burst = 3;
}

/// A change of the tables, predicted or real, without random ports, which cannot be predicted.
#[derive(PartialEq, Debug)]
enum Change {
    Block(String),
    Binding(String),
    Session(String),
    State(String),
}

fn told(trace: &Nat64Trace) -> Vec<Change> {
    let changes = trace.tables.iter().filter_map(|step| match step {
        TableStep::GivesBlock { source, addr, .. } => {
            Some(Change::Block(format!("{source} {addr}")))
        }
        TableStep::Binds { v6, addr, port, .. } => {
            let port = port.filter(|_| !trace.is_port_random);
            Some(Change::Binding(format!("{v6} {addr} {port:?}")))
        }
        TableStep::Opens { peer, state } => {
            // A held SYN may wait for this port.
            let state = Some(state).filter(|_| !trace.is_port_random);
            Some(Change::Session(format!("{} {state:?}", peer.addr)))
        }
        TableStep::Moves { from, to } => Some(Change::State(format!("{from:?} {to:?}"))),
        _ => None,
    });
    changes.collect()
}

fn done(events: &[Event], trace: &Nat64Trace) -> Vec<Change> {
    let changes = events.iter().filter_map(|event| match event {
        Event::BlockAllocated(block) => {
            Some(Change::Block(format!("{} {}", block.source, block.addr)))
        }
        Event::BindingOpened(binding) => {
            let port = Some(binding.v4.port).filter(|_| !trace.is_port_random);
            Some(Change::Binding(format!(
                "{} {} {port:?}",
                binding.v6, binding.v4.addr
            )))
        }
        Event::SessionOpened(view) => {
            let state = Some(view.state).filter(|_| !trace.is_port_random);
            Some(Change::Session(format!("{} {state:?}", view.peer.addr)))
        }
        Event::SessionChanged(view, (before, _)) => {
            let change = || Change::State(format!("{before:?} {:?}", view.state));
            (*before != view.state).then(change)
        }
        event => panic!("a packet has done more than was told: {event:?}"),
    });
    changes.collect()
}

/// Returns true if the result cannot be predicted: a hairpinned packet may get just the random port to which it is sent,
/// or one with which the other node has a session. The entries that it opens on its way out are not counted yet on its
/// way back.
fn is_beyond_telling(
    packet: &[u8],
    trace: &Nat64Trace,
    came: Verdict,
    asked: &Router,
    events: &[Event],
) -> bool {
    let is = |at: usize, bytes: &[u8]| packet.get(at..at + bytes.len()) == Some(bytes);
    let turns = packet.first().is_some_and(|byte| byte >> 4 == 6) && is(36, &[203, 0, 113, 1]);
    let bound = events.iter().find_map(|event| match event {
        Event::BindingOpened(binding) => Some(binding.v4),
        _ => None,
    });
    let opened = |event: &Event| matches!(event, Event::SessionOpened(view) if Some(view.peer) == bound && Some(view.binding.v4) != bound);
    let meets_another = !events.iter().any(opened)
        && asked
            .nat64
            .state()
            .sessions()
            .any(|view| Some(view.peer) == bound);
    let opens = |step: &TableStep| matches!(step, TableStep::Opens { .. });
    let is_at_limit = matches!(
        came,
        Verdict::Drop(
            Reason::SessionLimit
                | Reason::HostSessionLimit
                | Reason::SourceSessionLimit
                | Reason::SiteSessionLimit
                | Reason::HostRateLimit
                | Reason::SourceRateLimit
                | Reason::SiteRateLimit
                | Reason::OutsideSessionLimit
                | Reason::OutsideNodeLimit
                | Reason::OutsidePeerLimit
        )
    );
    turns
        && (trace.is_port_random && meets_another || is_at_limit && trace.tables.iter().any(opens))
}

/// The packet without its source port or identifier, if that is random, and without the checksums that depend on it.
fn without_port(packet: &[u8], is_random: bool) -> Vec<u8> {
    let mut packet = packet.to_vec();
    let (protocol, at) = match packet[0] >> 4 {
        4 => (packet[9], 20),
        _ if packet[6] == 44 => (packet[40], 48),
        _ => (packet[6], 40),
    };
    let fields: [usize; 2] = match protocol {
        6 => [0, 16],
        17 => [0, 6],
        _ => [2, 4],
    };
    for field in fields.into_iter().filter(|_| is_random) {
        if let Some(bytes) = packet.get_mut(at + field..at + field + 2) {
            bytes.fill(0);
        }
    }
    packet
}

/// Sends the same packets to two translators, of which one traces them first. Returns the predicted reasons of
/// refusals.
fn agree(change: impl Fn(&mut Nat64Config)) -> Vec<Reason> {
    let [mut asked, mut other] = [(); 2].map(|()| {
        Router::new(|config| {
            small(config);
            change(config);
        })
    });
    let mut sender = Sender::new();
    // Packets that are traced only.
    let mut strays = Sender::new();
    strays.below(2);
    let mut reasons = Vec::new();
    let mut compared = 0;
    for step in 0..STEPS {
        let (packet, is_spoilt) = sender.packet();
        let before = asked.watch.events.len();
        strays.left.clone_from(&sender.left);
        asked.trace(&strays.packet().0);
        let trace = asked.trace(&packet);
        assert_eq!(trace, asked.trace(&packet), "asking changes nothing");

        let came = asked.give(&packet);
        assert_eq!(came, other.give(&packet), "packet {step}");
        let events = &asked.watch.events[before..];
        let told_of =
            |trace: &Nat64Trace| !is_beyond_telling(&packet, trace, came.0, &asked, events);
        if let Some(trace) = trace.filter(told_of) {
            compared += 1;
            assert_eq!(trace.packet.verdict, came.0, "packet {step}");
            assert_eq!(told(&trace), done(events, &trace), "packet {step}");
            let left = trace.packet.sent.iter().chain(&trace.packet.answer);
            let random = trace.is_port_random && trace.packet.answer.is_none();
            let same = |packet: &Vec<u8>| without_port(packet, random);
            let left: Vec<_> = left.map(same).collect();
            let came: Vec<_> = came.1.iter().map(same).collect();
            assert_eq!(left, came, "packet {step}");
            if let Verdict::Drop(reason) = trace.packet.verdict {
                reasons.push(reason);
            }
        }
        if !is_spoilt {
            sender.left.extend(came.1);
        }
        let excess = sender.left.len().saturating_sub(50);
        sender.left.drain(..excess);
        if step % 10 == 0 {
            let seconds = [0.1, 1.0, 3.0, 70.0, 400.0][sender.below(5)];
            assert_eq!(asked.wait(seconds), other.wait(seconds));
        }
        assert_eq!(asked.watch.events, other.watch.events);
        assert_eq!(asked.nat64.state().counts(), other.nat64.state().counts());
        if step % 100 == 0 {
            asked.watch.events.clear();
            other.watch.events.clear();
        }
    }
    let all = |w: &Router| w.nat64.state().sessions().collect::<Vec<_>>();
    assert_eq!(all(&asked), all(&other));
    assert!(compared > STEPS / 2, "{compared}");
    reasons
}

/// The whole state of a translator: tables, timers, pool, fragments, and the rate limit of errors.
fn snapshot(w: &Router) -> String {
    format!("{:?}", w.nat64)
}

#[test]
fn whoever_asks_changes_nothing() {
    let with_blocks = |config: &mut Nat64Config| {
        config.pool4[0].ports = 2048..=2303;
        config.blocks = Some(PortBlocks {
            ports: 64,
            per_source: 2,
            source_prefix_len: 56,
        });
    };
    let filtering = |config: &mut Nat64Config| config.filtering = Filtering::AddressDependent;
    let changes: [&dyn Fn(&mut Nat64Config); 3] = [&|_| {}, &with_blocks, &filtering];
    for change in changes {
        let mut w = Router::new(|config| {
            small(config);
            change(config);
        });
        let mut sender = Sender::new();
        for step in 0..1500 {
            let (packet, _) = sender.packet();
            if step % 15 == 0 {
                let before = snapshot(&w);
                for _ in 0..20 {
                    w.trace(&sender.packet().0);
                }
                assert!(before == snapshot(&w), "packet {step}");
            }
            let left = w.give(&packet).1;
            sender.left.extend(left);
            let excess = sender.left.len().saturating_sub(50);
            sender.left.drain(..excess);
        }
        assert!(w.nat64.state().counts().sessions > 10, "it is populated");
    }
}

#[test]
fn what_is_told_happens() {
    let told = agree(|_| {});
    for reason in [
        Reason::PoolExhausted,
        Reason::SourceSessionLimit,
        Reason::NoBinding,
        Reason::NoConnection,
        Reason::SynLimit,
    ] {
        assert!(told.contains(&reason), "{reason} is missing");
    }
}

#[test]
fn what_is_told_of_a_filtered_packet_happens() {
    let told = agree(|config| config.filtering = Filtering::AddressDependent);
    assert!(told.contains(&Reason::Filtered));
}

#[test]
fn what_is_told_of_shares_and_narrow_links_happens() {
    agree(|config| {
        config.limits = diolkos_nat64::config::Limits {
            sessions: 40,
            ..Default::default()
        };
        config.translator.mtu4 = 600;
        config.translator.mtu6 = 1280;
        config.port_preservation = true;
    });
}

#[test]
fn what_is_told_where_sources_have_blocks_happens() {
    agree(|config| {
        config.pool4[0].ports = 2048..=2303;
        config.blocks = Some(PortBlocks {
            ports: 64,
            per_source: 2,
            source_prefix_len: 56,
        });
        config.timeouts.port_block = Duration::from_secs(100);
    });
}

/// The steps of a packet that is refused: RFC 6146 section 3.5.1.
#[test]
fn a_trace_tells_the_way() {
    let mut w = Router::new(|_| {});
    let out = packet6(
        "2001:db8::5",
        "2001:db8:64::192.0.2.33",
        17,
        udp_of(4711, 53, b"?"),
    );
    let told =
        |w: &mut Router, packet: &[u8]| w.trace(packet).expect("it is no fragment and no error");
    let trace = told(&mut w, &out.bytes());
    assert_eq!(trace.packet.verdict, Verdict::Forward);
    assert!(matches!(
        trace.packet.mappings[..],
        [Mapping::Mapped { v4, via: Via::Pref64(0), .. }] if v4.to_string() == "192.0.2.33"
    ));
    assert!(matches!(
        trace.tables[..],
        [TableStep::Binds { port: None, .. }, TableStep::Opens { .. }]
    ));
    assert!(trace.is_port_random);
    assert_eq!(w.nat64.state().counts(), Default::default());

    w.pass(&out.bytes());
    let again = told(&mut w, &out.bytes());
    assert_eq!(again.packet.sent, [w.pass(&out.bytes())]);
    assert!(matches!(
        again.tables[..],
        [TableStep::Binding(view), TableStep::Session(_)] if view.sessions == 1
    ));

    let stray = packet4("192.0.2.33", POOL, 17, udp_of(53, 9, b"!"));
    let refused = told(&mut w, &stray.bytes());
    assert_eq!(refused.packet.verdict, Verdict::Drop(Reason::NoBinding));
    assert!(refused.packet.answer.is_some() && refused.packet.sent.is_empty());
}

/// Any number of traces takes no token of the rate limit of errors.
#[test]
fn asking_uses_up_no_errors() {
    let mut w = Router::new(|config| {
        config.translator.icmp.rate = 1;
        config.translator.icmp.burst = 1;
    });
    let stray = packet4("192.0.2.33", POOL, 17, udp_of(53, 9, b"!")).bytes();
    let answer = |w: &mut Router| w.trace(&stray).expect("it is told").packet.answer;
    for _ in 0..3 {
        assert!(answer(&mut w).is_some());
    }
    assert!(w.refuse(&stray).1.is_some());
    assert!(answer(&mut w).is_none());
}

/// The result for a fragment or an ICMP error depends on packets that a trace does not know.
#[test]
fn fragments_and_errors_are_not_told() {
    let mut w = Router::new(|_| {});
    let mut payload = fragment_header(17, 3, false, 77);
    payload.extend(pattern(16));
    let later = V6::new("2001:db8::5", "2001:db8:64::192.0.2.33", 44, payload);
    assert!(w.trace(&later.bytes()).is_none());
    let quoted = packet4(POOL, "192.0.2.33", 17, udp_of(2000, 53, b"?")).bytes();
    let error = error4("198.51.100.9", POOL, 3, 4, [0, 0, 0x05, 0x78], &quoted);
    assert!(w.trace(&error.bytes()).is_none());
}
