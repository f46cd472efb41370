// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is told of a packet that has not come is what becomes of it when it comes, and whoever asks changes nothing: of two
//! translators that get the same packets, one is asked about each before, and they go on alike.

use crate::common::*;
use crate::harness::*;
use crate::packets::*;
use crate::robust::Sender;
use diolkos_nat64::config::{Filtering, Nat64Config, PortBlocks};
use diolkos_nat64::session::Event;
use diolkos_nat64::{Nat64Step, Nat64Trace};
use diolkos_xlat::{Reason, Step, Verdict};
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

fn changes(steps: &[Nat64Step]) -> Vec<Event> {
    let changes = steps.iter().filter_map(|step| match step {
        Nat64Step::Changes(event) => Some(*event),
        _ => None,
    });
    changes.collect()
}

/// What the packets were of which a trace told.
#[derive(Default)]
struct Told {
    /// The reasons for which they were refused.
    reasons: Vec<Reason>,
    /// Those for which others were dropped that had been held.
    dropped: Vec<Reason>,
    first_fragments: usize,
    later_fragments: usize,
    held_fragments: usize,
    /// First fragments for which others waited.
    awaited_fragments: usize,
    /// Fragments that wait for all others of their packet, and packets that came of them.
    gathered_fragments: usize,
    reassembled: usize,
    /// ICMP errors that left translated.
    errors: usize,
}

impl Told {
    fn note(&mut self, trace: &Nat64Trace) {
        match trace.verdict {
            Verdict::Drop(reason) => self.reasons.push(reason),
            Verdict::Forward if is_error(&trace.sent[0]) => self.errors += 1,
            _ => {}
        }
        self.dropped.extend(&trace.dropped);
        for step in &trace.steps {
            match step {
                Nat64Step::FirstFragment { held } => {
                    self.first_fragments += 1;
                    self.awaited_fragments += usize::from(*held > 0);
                }
                Nat64Step::LaterFragment { .. } => self.later_fragments += 1,
                Nat64Step::HeldFragment => self.held_fragments += 1,
                Nat64Step::GatheredFragment => self.gathered_fragments += 1,
                Nat64Step::Reassembled { .. } => self.reassembled += 1,
                _ => {}
            }
        }
    }
}

/// Is it an ICMP error of either family?
fn is_error(packet: &[u8]) -> bool {
    match packet[0] >> 4 {
        4 => packet[9] == 1 && [3, 11, 12].contains(&packet[20]),
        _ => packet[6] == 58 && packet[40] < 128,
    }
}

/// Sends the same to two translators, of which one is asked before.
fn agree(change: impl Fn(&mut Nat64Config)) -> Told {
    agree_on(Sender::new(), change)
}

fn agree_on(mut sender: Sender, change: impl Fn(&mut Nat64Config)) -> Told {
    let [mut asked, mut other] = [(); 2].map(|()| {
        Router::new(|config| {
            small(config);
            change(config);
        })
    });
    // Packets that never come.
    let mut strays = Sender::new();
    strays.below(2);
    let mut told = Told::default();
    for step in 0..STEPS {
        let (packet, is_spoilt) = sender.packet();
        let before = asked.watch.events.len();
        let dropped = asked.watch.dropped.len();
        strays.left.clone_from(&sender.left);
        asked.trace(&strays.packet().0);
        let trace = asked.trace(&packet);
        assert_eq!(asked.watch.events.len(), before, "nobody hears of a trace");
        assert_eq!(trace, asked.trace(&packet), "nor does another trace");

        let came = asked.give(&packet);
        assert_eq!(came, other.give(&packet), "packet {step}");
        let events = &asked.watch.events[before..];
        assert_eq!(trace.verdict, came.0, "packet {step}");
        assert_eq!(changes(&trace.steps), events, "packet {step}");
        assert_eq!(
            trace.dropped,
            asked.watch.dropped[dropped..],
            "packet {step}"
        );
        told.note(&trace);
        let mut left = trace.sent;
        left.extend(trace.answer);
        assert_eq!(left, came.1, "packet {step}");
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
        let fragments = |w: &Router| (w.nat64.held_fragments(), w.nat64.fragmented_packets());
        assert_eq!(fragments(&asked), fragments(&other));
        if step % 100 == 0 {
            asked.watch.events.clear();
            other.watch.events.clear();
        }
    }
    let all = |w: &Router| w.nat64.state().sessions().collect::<Vec<_>>();
    assert_eq!(all(&asked), all(&other));
    told
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
        Reason::IcmpInnerUnmapped,
    ] {
        assert!(told.reasons.contains(&reason), "{reason} is missing");
    }
    assert!(told.errors >= 100, "{} ICMP errors", told.errors);
}

#[test]
fn what_is_told_of_fragments_happens() {
    let mut sender = Sender::new();
    sender.one_fragment_in = 1;
    let told = agree_on(sender, |config| config.limits.sessions = 400);
    assert!(told.reasons.contains(&Reason::FragmentOverlap));
    assert!(told.reassembled > 0);
    // Others make room, and are then dropped.
    assert!(told.dropped.contains(&Reason::FragmentLimit));
    for (kind, count) in [
        ("first fragments", told.first_fragments),
        ("later fragments", told.later_fragments),
        ("held fragments", told.held_fragments),
        ("gathered fragments", told.gathered_fragments),
        (
            "first fragments that others wait for",
            told.awaited_fragments,
        ),
    ] {
        assert!(count >= 10, "{count} {kind}");
    }
}

#[test]
fn what_is_told_of_a_filtered_packet_happens() {
    let told = agree(|config| config.filtering = Filtering::AddressDependent);
    assert!(told.reasons.contains(&Reason::Filtered));
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
    let trace = w.trace(&out.bytes());
    assert_eq!(trace.verdict, Verdict::Forward);
    assert!(
        matches!(trace.steps[0], Nat64Step::Stateless(Step::Mapped { v4, .. }) if v4.to_string() == "192.0.2.33")
    );
    assert!(matches!(
        trace.steps[1],
        Nat64Step::Changes(Event::BindingOpened(_))
    ));
    assert!(matches!(
        trace.steps[2],
        Nat64Step::Changes(Event::SessionOpened(_))
    ));
    assert_eq!(w.nat64.state().counts(), Default::default());

    let came = w.pass(&out.bytes());
    assert_eq!(trace.sent, [came]);
    let again = w.trace(&out.bytes());
    assert!(matches!(again.steps[1], Nat64Step::Binding(view) if view.sessions == 1));
    assert!(matches!(again.steps[2], Nat64Step::Session(_)));

    let stray = packet4("192.0.2.33", POOL, 17, udp_of(53, 9, b"!"));
    let refused = w.trace(&stray.bytes());
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
        assert!(w.trace(&stray).answer.is_some());
    }
    assert!(w.refuse(&stray).1.is_some());
    assert!(w.trace(&stray).answer.is_none());
}

/// A later fragment waits for its first one (RFC 6146 section 3.4), which takes it along.
#[test]
fn a_trace_tells_which_fragments_wait() {
    let mut w = Router::new(|_| {});
    let datagram = udp_of(4711, 53, &pattern(40));
    let part = |offset: usize, len: usize, more| {
        let mut payload = fragment_header(17, offset as u16 / 8, more, 77);
        payload.extend(&datagram[offset..offset + len]);
        V6::new("2001:db8::5", "2001:db8:64::192.0.2.33", 44, payload).bytes()
    };
    let (first, later) = (part(0, 24, true), part(24, 24, false));
    let told = w.trace(&later);
    assert_eq!((told.verdict, told.sent.len()), (Verdict::Held, 0));
    assert!(told.steps.contains(&Nat64Step::HeldFragment));
    assert_eq!(w.nat64.held_fragments(), 0);

    w.give(&later);
    let told = w.trace(&first);
    assert_eq!((told.verdict, told.sent.len()), (Verdict::Emitted, 2));
    assert!(told.steps.contains(&Nat64Step::FirstFragment { held: 1 }));
    assert_eq!(w.nat64.held_fragments(), 1);

    w.give(&first);
    let told = w.trace(&later);
    assert_eq!((told.verdict, told.sent.len()), (Verdict::Forward, 1));
    let ports = Nat64Step::LaterFragment {
        src_port: 4711,
        dst_port: 53,
    };
    assert!(told.steps.contains(&ports));
}

/// An error finds its node by the packet that it quotes (RFC 6146 section 3.4).
#[test]
fn a_trace_tells_whose_packet_an_error_quotes() {
    let mut w = Router::new(|_| {});
    let sent = packet6(
        "2001:db8::5",
        "2001:db8:64::192.0.2.33",
        17,
        udp_of(4711, 53, b"?"),
    );
    let left = w.pass(&sent.bytes());
    let error =
        |quote: &[u8]| error4("198.51.100.9", POOL, 3, 4, [0, 0, 0x05, 0x78], quote).bytes();
    let told = w.trace(&error(&left));
    assert_eq!(told.verdict, Verdict::Forward);
    assert!(matches!(told.steps[0], Nat64Step::Binding(view) if view.binding.v6.port == 4711));
    assert!(matches!(told.steps[1], Nat64Step::Session(_)));
    // Packet Too Big with the MTU of 1400 bytes and the difference of the headers (RFC 7915 section 4.2).
    assert_eq!(told.sent[0][40..42], [2, 0]);
    assert_eq!(told.sent[0][44..48], 1420u32.to_be_bytes());

    let mut unknown = left.clone();
    unknown[21] ^= 1;
    let told = w.trace(&error(&unknown));
    assert_eq!(told.verdict, Verdict::Drop(Reason::IcmpInnerUnmapped));
    assert!(matches!(told.steps[..], [Nat64Step::NoBinding { .. }]));
    assert!(told.answer.is_none());
}
