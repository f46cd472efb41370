// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The answers of the program to neighbours (`bpf/answer.bpf.c`): *it answers exactly as [`reference`] does, or lets
//! the frame go on unchanged.*
//!
//! [`vectors`] (by hand, from the RFCs), or a seed ([`hostile`]) ─► a frame ─► the kernel (BPF_PROG_TEST_RUN), and the
//! reference
//!
//! | environment | |
//! |---|---|
//! | `DIOLKOS_LAW_SEED` | another seed than the usual one |
//! | `DIOLKOS_LAW_CASES` | how many frames are made from it |
//!
//! VLAN tags, and the recipients of answers, are tested with real devices in `tests/e2e`.

// Checksums as the tests of `xlat` compute them, without code of the translator.
#[path = "../../../xlat/tests/common/mod.rs"]
mod common;
mod hostile;
mod reference;
mod vectors;

use std::str::FromStr;

use diolkos_fastpath::testrun::{Action, AnswerRun};
use diolkos_fastpath::ANSWER_NAMES;
use hostile::Maker;
use reference::Reference;
use vectors::VECTORS;

const SEED: u64 = 0x0a45;
const CASES: usize = 40_000;

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];

fn reference() -> Reference {
    let v4 = [
        ("192.0.2.1/32", true),
        ("192.0.2.8/29", false),
        ("192.0.2.9/32", true),
    ];
    let v6 = [("2001:db8::a/128", true), ("2001:db8:64::/96", false)];
    Reference {
        mac: MAC,
        v4: v4
            .map(|(net, echo)| (net.parse().expect("a network"), echo))
            .into(),
        v6: v6
            .map(|(net, echo)| (net.parse().expect("a network"), echo))
            .into(),
    }
}

/// Loads the program with the same addresses.
fn program(reference: &Reference) -> AnswerRun {
    let run = AnswerRun::load().expect("the program loads (as root)");
    let at = AnswerRun::IFINDEX;
    run.served
        .announce(at, reference.mac)
        .expect("it is put in");
    for (net, echo) in &reference.v4 {
        let served = run
            .served
            .serve4(at, (net.network(), net.prefix_len()), *echo);
        served.expect("it is put in");
    }
    for (net, echo) in &reference.v6 {
        let served = run
            .served
            .serve6(at, (net.network(), net.prefix_len()), *echo);
        served.expect("it is put in");
    }
    run
}

/// Returns the names of the counters that changed.
fn moved(run: &AnswerRun, before: &[u64]) -> Vec<&'static str> {
    let now = run.served.counts().expect("they are read");
    let pairs = ANSWER_NAMES.iter().zip(now.iter().zip(before));
    pairs
        .filter(|(_, (now, before))| now != before)
        .map(|(name, _)| *name)
        .collect()
}

/// Returns the answer of the program, and the counters that changed; without an answer, the frame must be unchanged.
fn answer(run: &AnswerRun, frame: &[u8]) -> (Option<Vec<u8>>, Vec<&'static str>) {
    let before = run.served.counts().expect("they are read");
    let (action, out) = run.frame(frame).expect("it runs");
    let names = moved(run, &before);
    match action {
        Action::Redirect => (Some(out), names),
        Action::Next => {
            assert_eq!(out, frame, "what goes on is unchanged");
            (None, names)
        }
        other => panic!("{other:?} for {}", hex(frame)),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let pair = |pair: &[u8]| {
        let text = std::str::from_utf8(pair).expect("digits");
        u8::from_str_radix(text, 16).expect("digits")
    };
    digits.chunks(2).map(pair).collect()
}

#[test]
fn by_hand() {
    let reference = reference();
    let run = program(&reference);
    for (name, question, expected) in VECTORS {
        let question = bytes(question);
        let (answered, counted) = answer(&run, &question);
        let by_reference = reference.answer(&question);
        match expected {
            Ok(expected) => {
                let expected = Some(bytes(expected));
                assert_eq!(
                    answered.as_deref().map(hex),
                    expected.as_deref().map(hex),
                    "{name}"
                );
                assert_eq!(by_reference, expected, "the reference: {name}");
                assert_eq!(counted.len(), 1, "{name}");
            }
            Err(why) => {
                assert_eq!((answered, by_reference), (None, None), "{name}");
                let expected: Vec<&str> = Some(*why)
                    .filter(|why| !why.is_empty())
                    .into_iter()
                    .collect();
                assert_eq!(counted, expected, "{name}");
            }
        }
    }
}

/// Frames received on an interface that is not named get no answer.
#[test]
fn an_interface_that_does_not_announce_answers_nothing() {
    let reference = reference();
    let run = program(&reference);
    run.served.forget(AnswerRun::IFINDEX);
    for (name, question, _) in VECTORS {
        let (answered, counted) = answer(&run, &bytes(question));
        assert_eq!((answered, counted), (None, Vec::new()), "{name}");
    }
    // Of another interface.
    run.served
        .announce(AnswerRun::IFINDEX, MAC)
        .expect("it is put in");
    for (net, _) in &reference.v4 {
        run.served
            .leave4(AnswerRun::IFINDEX, (net.network(), net.prefix_len()));
        let other = run.served.serve4(
            AnswerRun::IFINDEX + 1,
            (net.network(), net.prefix_len()),
            true,
        );
        other.expect("it is put in");
    }
    let (_, request, _) = VECTORS[0];
    assert_eq!(answer(&run, &bytes(request)), (None, Vec::new()));
}

/// For any bytes, the result is the answer of the reference, or the unchanged frame. An answer is never longer than the
/// request, apart from the option that RFC 4861 requires.
#[test]
fn hostile_frames() {
    let seed = from_environment("DIOLKOS_LAW_SEED").unwrap_or(SEED);
    let cases = from_environment("DIOLKOS_LAW_CASES").unwrap_or(CASES);
    let reference = reference();
    let run = program(&reference);
    let mut maker = Maker::new(
        seed,
        VECTORS
            .iter()
            .map(|(_, question, _)| bytes(question))
            .collect(),
    );
    let (mut answered, mut answerable) = (0, 0);
    for case in 0..cases {
        let frame = maker.frame();
        let context = || format!("frame {case} of DIOLKOS_LAW_SEED={seed}: {}", hex(&frame));
        let expected = reference.answer(&frame);
        answerable += usize::from(expected.is_some());
        let (action, out) = run
            .frame(&frame)
            .unwrap_or_else(|e| panic!("{e}: {}", context()));
        match action {
            Action::Next => assert_eq!(out, frame, "{}", context()),
            Action::Redirect => {
                answered += 1;
                assert_eq!(
                    Some(hex(&out)),
                    expected.as_deref().map(hex),
                    "{}",
                    context()
                );
                let is_probe = out.get(..6) == Some(&[0x33, 0x33, 0, 0, 0, 1]);
                let most = frame.len() + if is_probe { 8 } else { 0 };
                assert!(out.len() <= most, "{}", context());
            }
            other => panic!("{other:?}: {}", context()),
        }
    }
    // It may decline, but not always.
    assert!(
        answerable > cases / 10,
        "{answerable} of {cases} frames can be answered"
    );
    assert!(
        answered * 100 > answerable * 97,
        "{answered} of {answerable} were answered"
    );
}

fn from_environment<T: FromStr>(name: &str) -> Option<T> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name}={text} is no number")),
    )
}
