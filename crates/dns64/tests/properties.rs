// SPDX-License-Identifier: Apache-2.0 OR MIT
//! For all input from clients and from upstream: there is no panic, every resolution ends, and every answer can be
//! parsed.

use diolkos_dns64::answer::LONGEST;
use diolkos_dns64::{
    exchange, write_refusal, Message, Policy, Query, Resolution, ResolutionStep, Rules,
};
use proptest::collection::vec;
use proptest::prelude::*;

/// More questions to upstream than any chain needs: three for each step, for AAAA, A and validation.
const MOST_QUESTIONS: usize = 64;

/// Labels and names from a small set, so that they collide.
fn name() -> impl Strategy<Value = Vec<u8>> {
    let label = prop_oneof![
        Just(&b"\x01a"[..]),
        Just(&b"\x01B"[..]),
        Just(&b"\x04ipv4"[..]),
        Just(&b"\x04arpa"[..]),
        Just(&b"\x01*"[..]),
        Just(&b"\x03\x00.\xff"[..]),
    ];
    vec(label, 0..4).prop_map(|labels| {
        let mut name = labels.concat();
        name.push(0);
        name
    })
}

fn rtype() -> impl Strategy<Value = u16> {
    prop_oneof![
        Just(1),
        Just(2),
        Just(5),
        Just(6),
        Just(12),
        Just(15),
        Just(28),
        Just(39),
        Just(41),
        Just(46),
        any::<u16>(),
    ]
}

fn data() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        name(),
        vec(any::<u8>(), 4),
        vec(any::<u8>(), 16),
        vec(any::<u8>(), 0..40),
        (name(), name(), vec(any::<u8>(), 20)).prop_map(|(m, r, n)| [m, r, n].concat()),
    ]
}

fn record() -> impl Strategy<Value = Vec<u8>> {
    (name(), rtype(), any::<u32>(), data()).prop_map(|(name, rtype, ttl, data)| {
        let mut out = name;
        out.extend(rtype.to_be_bytes());
        out.extend([0, 1]);
        out.extend(ttl.to_be_bytes());
        out.extend((data.len() as u16).to_be_bytes());
        out.extend(data);
        out
    })
}

/// A message with a question and three sections, which may be corrupted afterwards.
fn message() -> impl Strategy<Value = Vec<u8>> {
    let sections = (
        vec(record(), 0..5),
        vec(record(), 0..3),
        vec(record(), 0..3),
    );
    let bend = vec((any::<prop::sample::Index>(), any::<u8>()), 0..3);
    (any::<u16>(), name(), rtype(), sections, bend).prop_map(
        |(flags, name, rtype, (answer, authority, additional), bend)| {
            let mut out = vec![0, 0];
            out.extend(flags.to_be_bytes());
            out.extend([0, 1]);
            for section in [&answer, &authority, &additional] {
                out.extend((section.len() as u16).to_be_bytes());
            }
            out.extend(name);
            out.extend(rtype.to_be_bytes());
            out.extend([0, 1]);
            out.extend([answer, authority, additional].concat().concat());
            for (at, byte) in bend {
                let at = at.index(out.len());
                out[at] = byte;
            }
            out
        },
    )
}

/// A query for AAAA, or for something else, with every combination of CD, EDNS and DO.
fn query() -> impl Strategy<Value = Vec<u8>> {
    let edns = proptest::option::of((any::<u16>(), any::<bool>()));
    let rtype = prop_oneof![4 => Just(28u16), 1 => rtype()];
    (name(), rtype, any::<bool>(), edns).prop_map(|(name, rtype, cd, edns)| {
        let mut out = vec![0x12, 0x34, 1, u8::from(cd) << 4, 0, 1, 0, 0, 0, 0, 0];
        out.push(u8::from(edns.is_some()));
        out.extend(name);
        out.extend(rtype.to_be_bytes());
        out.extend([0, 1]);
        if let Some((size, dnssec_ok)) = edns {
            out.extend([0, 0, 41]);
            out.extend(size.to_be_bytes());
            out.extend([0, 0, u8::from(dnssec_ok) << 7, 0, 0, 0]);
        }
        out
    })
}

fn policy() -> Policy {
    Policy::new(Rules {
        allow_private_with_wkp: true,
        ..Rules::default()
    })
}

proptest! {
    #[test]
    fn any_bytes_from_a_client(bytes in prop_oneof![vec(any::<u8>(), 0..600), message()]) {
        let mut out = Vec::new();
        match Query::parse(&bytes) {
            Ok(query) => query.key(&mut out),
            Err(refusal) => {
                if write_refusal(&refusal, 1232, &mut out) {
                    prop_assert!(Message::parse(&out).is_ok());
                    prop_assert!(out.len() <= bytes.len() + 11, "no amplification");
                }
            }
        }
    }

    #[test]
    fn any_bytes_from_upstream(bytes in prop_oneof![vec(any::<u8>(), 0..600), message()]) {
        let _ = exchange::id(&bytes);
        if let Ok(message) = Message::parse(&bytes) {
            let _ = (message.rcode(), message.negative_ttl());
        }
    }

    #[test]
    fn any_replies_end_in_an_answer(
        query in query(),
        replies in vec(proptest::option::weighted(0.9, message()), 1..5),
        limit in 0usize..2000,
    ) {
        let policy = policy();
        let query = Query::parse(&query).expect("it is a query");
        let (mut resolution, mut step) = Resolution::begin(
            &policy,
            query.question(),
            query.dnssec_ok(),
            query.checking_disabled,
        );
        let mut questions = 0;
        let answer = loop {
            match step {
                ResolutionStep::Done(answer) => break answer,
                ResolutionStep::Ask(ask) => {
                    let mut out = Vec::new();
                    exchange::write(&ask, 0, 1232, &mut out);
                    prop_assert!(Query::parse(&out).is_ok(), "what is asked can be read");
                    let reply = &replies[questions % replies.len()];
                    questions += 1;
                    prop_assert!(questions < MOST_QUESTIONS, "no end");
                    let message = reply.as_ref().and_then(|bytes| Message::parse(bytes).ok());
                    step = resolution.reply(&policy, message.as_ref());
                }
            }
        };
        let mut out = Vec::new();
        answer.write(&query, 1, LONGEST, 1232, &mut out);
        let message = Message::parse(&out);
        prop_assert!(message.is_ok(), "what is answered can be read");
        prop_assert_eq!(message.expect("it can").question, Some(query.question()));
        answer.write(&query, 1, limit, 1232, &mut out);
        prop_assert!(out.len() <= limit.max(12 + query.question_bytes().len() + 11));
        prop_assert!(Message::parse(&out).is_ok(), "truncated, too");
    }
}
