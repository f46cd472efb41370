// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the answering program says to neighbours (`bpf/answer.bpf.c`): *it answers exactly as [`reference`] does, or lets
//! the frame go on unchanged.*
//!
//! vectors (by hand, from the RFCs), or a seed ([`hostile`]) ─► a frame ─► the kernel (BPF_PROG_TEST_RUN), and the reference
//!
//! | environment | |
//! |---|---|
//! | `DIOLKOS_LAW_SEED` | another seed than the usual one |
//! | `DIOLKOS_LAW_CASES` | how many frames are made from it |
//!
//! VLAN tags and who hears the answers are tested with real devices in `tests/e2e`.

// Checksums as the tests of `core` add them up: without code of the translator.
#[path = "../../../core/tests/common/mod.rs"]
mod common;
mod hostile;
mod reference;

use std::str::FromStr;

use diolkos_sys::fastpath::testrun::{Action, AnswerRun};
use diolkos_sys::fastpath::ANSWER_NAMES;
use hostile::Maker;
use reference::Reference;

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

/// The program with the same addresses.
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

/// The counters that moved, by name.
fn moved(run: &AnswerRun, before: &[u64]) -> Vec<&'static str> {
    let now = run.served.counts().expect("they are read");
    let pairs = ANSWER_NAMES.iter().zip(now.iter().zip(before));
    pairs
        .filter(|(_, (now, before))| now != before)
        .map(|(name, _)| *name)
        .collect()
}

/// The answer of the program, and the counters that moved; unanswered, the frame is as it was.
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

/// Name, question, and its answer or the counter that says why there is none; empty: the frame is not counted.
type Vector = (
    &'static str,
    &'static str,
    Result<&'static str, &'static str>,
);

/// We are 02:00:00:00:00:01, whoever asks is 02:00:00:00:00:aa.
const VECTORS: &[Vector] = &[
    (
        "a request (RFC 826), padded to 60 bytes; the answer is not",
        "ffffffffffff 0200000000aa 0806 0001 0800 06 04 0001 0200000000aa c0000264 000000000000 c0000201
         000000000000000000000000000000000000",
        Ok("0200000000aa 020000000001 0806 0001 0800 06 04 0002 020000000001 c0000201 0200000000aa c0000264"),
    ),
    (
        "a request to one node (RFC 1122 section 2.3.2.1), for an address of a network",
        "020000000001 0200000000aa 0806 0001 0800 06 04 0001 0200000000aa c0000264 020000000001 c000020f",
        Ok("0200000000aa 020000000001 0806 0001 0800 06 04 0002 020000000001 c000020f 0200000000aa c0000264"),
    ),
    (
        "a probe (RFC 5227 section 2.1.1): the sender has no address yet",
        "ffffffffffff 0200000000aa 0806 0001 0800 06 04 0001 0200000000aa 00000000 000000000000 c0000201",
        Ok("0200000000aa 020000000001 0806 0001 0800 06 04 0002 020000000001 c0000201 0200000000aa 00000000"),
    ),
    (
        "a request that names another sender than its frame: RFC 826 answers who is named",
        "ffffffffffff 0200000000bb 0806 0001 0800 06 04 0001 0200000000aa c0000264 000000000000 c0000201",
        Ok("0200000000aa 020000000001 0806 0001 0800 06 04 0002 020000000001 c0000201 0200000000aa c0000264"),
    ),
    (
        "an announcement of our address by another (RFC 5227 section 2.3)",
        "ffffffffffff 0200000000aa 0806 0001 0800 06 04 0001 0200000000aa c0000201 000000000000 c0000201",
        Err("decline_conflict"),
    ),
    (
        "a request from another of our addresses",
        "ffffffffffff 0200000000aa 0806 0001 0800 06 04 0001 0200000000aa c0000208 000000000000 c0000201",
        Err("decline_conflict"),
    ),
    (
        "a reply is not a question",
        "020000000001 0200000000aa 0806 0001 0800 06 04 0002 0200000000aa c0000264 020000000001 c0000201",
        Err(""),
    ),
    (
        "an address that is not served",
        "ffffffffffff 0200000000aa 0806 0001 0800 06 04 0001 0200000000aa c0000264 000000000000 c0000202",
        Err(""),
    ),
    (
        "another hardware type",
        "ffffffffffff 0200000000aa 0806 0006 0800 06 04 0001 0200000000aa c0000264 000000000000 c0000201",
        Err(""),
    ),
    (
        "another length of hardware addresses",
        "ffffffffffff 0200000000aa 0806 0001 0800 08 04 0001 0200000000aa c0000264 000000000000 c0000201",
        Err(""),
    ),
    (
        "cut short",
        "ffffffffffff 0200000000aa 0806 0001 0800 06 04 0001 0200000000aa c0000264 000000000000 c00002",
        Err(""),
    ),
    (
        "our own frame, come back",
        "ffffffffffff 020000000001 0806 0001 0800 06 04 0001 020000000001 c0000264 000000000000 c0000201",
        Err("decline_own"),
    ),
    (
        "sent to somebody else",
        "020000000002 0200000000aa 0806 0001 0800 06 04 0001 0200000000aa c0000264 000000000000 c0000201",
        Err("decline_destination"),
    ),
    (
        "the sender is a group: an answer would reach many",
        "ffffffffffff 0200000000aa 0806 0001 0800 06 04 0001 ffffffffffff c0000264 000000000000 c0000201",
        Err("decline_source"),
    ),
    (
        "the sender is the loopback",
        "ffffffffffff 0200000000aa 0806 0001 0800 06 04 0001 0200000000aa 7f000001 000000000000 c0000201",
        Err("decline_source"),
    ),
    (
        "a solicitation to the group (RFC 4861 section 4.3)",
        "3333ff00000a 0200000000aa 86dd 60000000 0020 3a ff 20010db8000000000000000000000002
         ff0200000000000000000001ff00000a 87001b6d 00000000 20010db800000000000000000000000a 01010200000000aa",
        Ok("0200000000aa 020000000001 86dd 60000000 0020 3a ff 20010db800000000000000000000000a
            20010db8000000000000000000000002 88008a61 60000000 20010db800000000000000000000000a 0201020000000001"),
    ),
    (
        "the same from a link-local address",
        "3333ff00000a 0200000000aa 86dd 60000000 0020 3a ff fe8000000000000000000000000000aa
         ff0200000000000000000001ff00000a 870049fd 00000000 20010db800000000000000000000000a 01010200000000aa",
        Ok("0200000000aa 020000000001 86dd 60000000 0020 3a ff 20010db800000000000000000000000a
            fe8000000000000000000000000000aa 8800b8f1 60000000 20010db800000000000000000000000a 0201020000000001"),
    ),
    (
        "a solicitation to the node without options: the answer is not longer, and overrides nothing (section 7.2.4)",
        "020000000001 0200000000aa 86dd 60000000 0018 3a ff 20010db8000000000000000000000002
         20010db800000000000000000000000a 8700ef6b 00000000 20010db800000000000000000000000a",
        Ok("0200000000aa 020000000001 86dd 60000000 0018 3a ff 20010db800000000000000000000000a
            20010db8000000000000000000000002 8800ae6b 40000000 20010db800000000000000000000000a"),
    ),
    (
        "Duplicate Address Detection: all nodes are told (section 7.2.4)",
        "3333ff00000a 0200000000aa 86dd 60000000 0018 3a ff 00000000000000000000000000000000
         ff0200000000000000000001ff00000a 87004cdb 00000000 20010db800000000000000000000000a",
        Ok("333300000001 020000000001 86dd 60000000 0020 3a ff 20010db800000000000000000000000a
            ff020000000000000000000000000001 8800f918 20000000 20010db800000000000000000000000a 0201020000000001"),
    ),
    (
        "the same with a nonce (RFC 7527), an option that is ignored",
        "3333ff00000a 0200000000aa 86dd 60000000 0020 3a ff 00000000000000000000000000000000
         ff0200000000000000000001ff00000a 8700a505 00000000 20010db800000000000000000000000a 0e01112233445566",
        Ok("333300000001 020000000001 86dd 60000000 0020 3a ff 20010db800000000000000000000000a
            ff020000000000000000000000000001 8800f918 20000000 20010db800000000000000000000000a 0201020000000001"),
    ),
    (
        "a solicitation that crossed a router: hop limit 254",
        "3333ff00000a 0200000000aa 86dd 60000000 0020 3a fe 20010db8000000000000000000000002
         ff0200000000000000000001ff00000a 87001b6d 00000000 20010db800000000000000000000000a 01010200000000aa",
        Err("decline_hop_limit"),
    ),
    (
        "a wrong checksum",
        "3333ff00000a 0200000000aa 86dd 60000000 0020 3a ff 20010db8000000000000000000000002
         ff0200000000000000000001ff00000a 87001b6e 00000000 20010db800000000000000000000000a 01010200000000aa",
        Err("decline_checksum"),
    ),
    (
        "code 1",
        "3333ff00000a 0200000000aa 86dd 60000000 0020 3a ff 20010db8000000000000000000000002
         ff0200000000000000000001ff00000a 87011b6c 00000000 20010db800000000000000000000000a 01010200000000aa",
        Err("decline_header"),
    ),
    (
        "an option of length 0 (section 7.1.1)",
        "3333ff00000a 0200000000aa 86dd 60000000 0020 3a ff 20010db8000000000000000000000002
         ff0200000000000000000001ff00000a 87001b6e 00000000 20010db800000000000000000000000a 01000200000000aa",
        Err("decline_options"),
    ),
    (
        "an option that is longer than the message",
        "3333ff00000a 0200000000aa 86dd 60000000 0020 3a ff 20010db8000000000000000000000002
         ff0200000000000000000001ff00000a 87001b6c 00000000 20010db800000000000000000000000a 01020200000000aa",
        Err("decline_options"),
    ),
    (
        "Duplicate Address Detection that names a link-layer address (section 7.1.1)",
        "3333ff00000a 0200000000aa 86dd 60000000 0020 3a ff 00000000000000000000000000000000
         ff0200000000000000000001ff00000a 87004928 00000000 20010db800000000000000000000000a 01010200000000aa",
        Err("decline_options"),
    ),
    (
        "a solicitation to the group of another address",
        "3333ff00000b 0200000000aa 86dd 60000000 0020 3a ff 20010db8000000000000000000000002
         ff0200000000000000000001ff00000b 87001b6c 00000000 20010db800000000000000000000000a 01010200000000aa",
        Err("decline_destination"),
    ),
    (
        "an address that is not served",
        "3333ff00000b 0200000000aa 86dd 60000000 0020 3a ff 20010db8000000000000000000000002
         ff0200000000000000000001ff00000b 87001b6b 00000000 20010db800000000000000000000000b 01010200000000aa",
        Err(""),
    ),
    (
        "an echo request: TOS, identification, DF and data come back (RFC 792, RFC 1122 section 3.2.2.6)",
        "020000000001 0200000000aa 0800 45b80023 1c464000 3f019a76 c0000264 c0000201 08003385 12340001 64696f6c6b6f73",
        Ok("0200000000aa 020000000001 0800 45b80023 1c464000 40019976 c0000201 c0000264 00003b85 12340001 64696f6c6b6f73"),
    ),
    (
        "an echo request to an address that answers no echo",
        "020000000001 0200000000aa 0800 45b80023 1c464000 3f019a6d c0000264 c000020a 08003385 12340001 64696f6c6b6f73",
        Err(""),
    ),
    (
        "an echo reply is translated, and not answered",
        "020000000001 0200000000aa 0800 45b80023 1c464000 3f019a76 c0000264 c0000201 00003b85 12340001 64696f6c6b6f73",
        Err(""),
    ),
    (
        "a fragment of an echo request",
        "020000000001 0200000000aa 0800 45b80023 1c462000 3f01ba76 c0000264 c0000201 08003385 12340001 64696f6c6b6f73",
        Err("decline_fragment"),
    ),
    (
        "a wrong checksum of the IPv4 header",
        "020000000001 0200000000aa 0800 45b80023 1c464000 3f019a77 c0000264 c0000201 08003385 12340001 64696f6c6b6f73",
        Err("decline_checksum"),
    ),
    (
        "an echo request to a broadcast of the link (RFC 1122 section 3.2.2.6): it would be answered by many",
        "ffffffffffff 0200000000aa 0800 45b80023 1c464000 3f019a76 c0000264 c0000201 08003385 12340001 64696f6c6b6f73",
        Err("decline_destination"),
    ),
    (
        "an ICMPv6 echo request: the traffic class comes back, the flow label does not (RFC 4443 section 4.2)",
        "020000000001 0200000000aa 86dd 6b812345 000f 3a 39 20010db8000000000000000000000002
         20010db800000000000000000000000a 80005fbd 12340001 64696f6c6b6f73",
        Ok("0200000000aa 020000000001 86dd 6b800000 000f 3a 40 20010db800000000000000000000000a
            20010db8000000000000000000000002 81005ebd 12340001 64696f6c6b6f73"),
    ),
    (
        "an ICMPv6 echo request without a source",
        "020000000001 0200000000aa 86dd 6b812345 000f 3a 39 00000000000000000000000000000000
         20010db800000000000000000000000a 80005fbd 12340001 64696f6c6b6f73",
        Err("decline_source"),
    ),
];

#[test]
fn vectors() {
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

/// What an interface that is not named receives is not answered.
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

/// Whatever the bytes: the answer of the reference, or the frame as it was. And never more than was sent, apart from the
/// option that RFC 4861 demands.
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
    // It may decline, but that is no way to obey.
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
