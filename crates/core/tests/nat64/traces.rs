// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is told of a packet that has not come is what becomes of it when it comes, and whoever asks changes nothing: of two
//! translators that get the same packets, one is asked about each before, and they go on alike.

use crate::common::*;
use crate::harness::*;
use crate::packets::*;
use crate::robust::Sender;
use diolkos_core::config::nat64::{Filtering, Nat64Config, PortBlocks};
use diolkos_core::session::Event;
use diolkos_core::{Reason, Step, Verdict};
use std::time::Duration;

const STEPS: usize = 10_000;

/// A small pool and few sessions, so that there are refusals of every kind.
fn small(config: &mut Nat64Config) {
    config.pool4[0].ports = 2000..=2011;
    config.limits.sessions = 40;
    config.limits.sessions_per_source = 20;
    config.limits.held_syns = 5;
    config.translator.icmp.rate = 1;
    config.translator.icmp.burst = 3;
}

fn changes(steps: &[Step]) -> Vec<Event> {
    let changes = steps.iter().filter_map(|step| match step {
        Step::Changes(event) => Some(*event),
        _ => None,
    });
    changes.collect()
}

/// Returns the reasons for which packets were refused.
fn agree(change: impl Fn(&mut Nat64Config)) -> Vec<Reason> {
    let [mut asked, mut other] = [(); 2].map(|()| {
        Router::new(|config| {
            small(config);
            change(config);
        })
    });
    let mut sender = Sender::new();
    // Packets that never come.
    let mut strays = Sender::new();
    strays.below(2);
    let (mut told, mut reasons) = (0, Vec::new());
    for step in 0..STEPS {
        let (packet, is_spoilt) = sender.packet();
        let before = asked.watch.events.len();
        strays.left.clone_from(&sender.left);
        asked.trace(&strays.packet().0);
        let trace = asked.trace(&packet);
        assert_eq!(asked.watch.events.len(), before, "nobody hears of a trace");
        assert_eq!(trace, asked.trace(&packet), "nor does another trace");

        let came = asked.give(&packet);
        assert_eq!(came, other.give(&packet), "packet {step}");
        let events = &asked.watch.events[before..];
        if let Some(trace) = trace {
            told += 1;
            assert_eq!(trace.verdict, came.0, "packet {step}");
            assert_eq!(changes(&trace.steps), events, "packet {step}");
            let mut left = trace.sent;
            left.extend(trace.answer);
            assert_eq!(left, came.1, "packet {step}");
        }
        if let Verdict::Drop(reason) = came.0 {
            reasons.push(reason);
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
        assert_eq!(asked.watch.dropped, other.watch.dropped);
        assert_eq!(asked.nat64.state().counts(), other.nat64.state().counts());
        if step % 100 == 0 {
            asked.watch.events.clear();
            other.watch.events.clear();
        }
    }
    assert!(told > STEPS / 2, "only {told} were told");
    let all = |w: &Router| w.nat64.state().sessions().collect::<Vec<_>>();
    assert_eq!(all(&asked), all(&other));
    reasons
}

#[test]
fn what_is_told_happens() {
    let reasons = agree(|_| {});
    for reason in [
        Reason::PoolExhausted,
        Reason::SourceSessionLimit,
        Reason::NoBinding,
        Reason::NoConnection,
        Reason::SynLimit,
    ] {
        assert!(reasons.contains(&reason), "{reason} is missing");
    }
}

#[test]
fn what_is_told_of_a_filtered_packet_happens() {
    let reasons = agree(|config| config.filtering = Filtering::AddressDependent);
    assert!(reasons.contains(&Reason::Filtered));
}

#[test]
fn what_is_told_of_shares_and_narrow_links_happens() {
    agree(|config| {
        config.limits = diolkos_core::config::nat64::Limits {
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

/// By the way of a packet that is refused: RFC 6146 section 3.5.1.
#[test]
fn a_trace_tells_the_way() {
    let mut w = Router::new(|_| {});
    let out = packet6(
        "2001:db8::5",
        "2001:db8:64::192.0.2.33",
        17,
        udp_of(4711, 53, b"?"),
    );
    let trace = w.trace(&out.bytes()).unwrap();
    assert_eq!(trace.verdict, Verdict::Forward);
    assert!(matches!(trace.steps[0], Step::Mapped { v4, .. } if v4.to_string() == "192.0.2.33"));
    assert!(matches!(
        trace.steps[1],
        Step::Changes(Event::BindingOpened(_))
    ));
    assert!(matches!(
        trace.steps[2],
        Step::Changes(Event::SessionOpened(_))
    ));
    assert_eq!(w.nat64.state().counts(), Default::default());

    let came = w.pass(&out.bytes());
    assert_eq!(trace.sent, [came]);
    let again = w.trace(&out.bytes()).unwrap();
    assert!(matches!(again.steps[1], Step::Binding(view) if view.sessions == 1));
    assert!(matches!(again.steps[2], Step::Session(_)));

    let stray = packet4("192.0.2.33", POOL, 17, udp_of(53, 9, b"!"));
    let refused = w.trace(&stray.bytes()).unwrap();
    assert_eq!(refused.verdict, Verdict::Drop(Reason::NoBinding));
    assert!(refused.answer.is_some() && refused.sent.is_empty());
}

/// However often somebody asks, the errors that are really sent are as many.
#[test]
fn asking_uses_up_no_errors() {
    let mut w = Router::new(|config| {
        config.translator.icmp.rate = 1;
        config.translator.icmp.burst = 1;
    });
    let stray = packet4("192.0.2.33", POOL, 17, udp_of(53, 9, b"!")).bytes();
    for _ in 0..3 {
        assert!(w.trace(&stray).unwrap().answer.is_some());
    }
    assert!(w.refuse(&stray).1.is_some());
    assert!(w.trace(&stray).unwrap().answer.is_none());
}
