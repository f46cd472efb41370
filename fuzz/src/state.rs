// SPDX-License-Identifier: Apache-2.0 OR MIT
//! State files: what is read as whole is written and read again as the same, and what can be kept of any other is found
//! without a mistake.
//!
//! A changed byte makes a checksum wrong. So that changes are not all found by that alone, the checksums of an input are made
//! right before it is read a second time.

use diolkos_gateway::store::format::{salvage, verify, Head, Malformed, StateReader, StateWriter};
use diolkos_gateway::store::Moment;
use diolkos_nat64::config::{Binding, Endpoint4, Endpoint6, Protocol};
use diolkos_nat64::session::{SessionState, SessionView};
use siphasher::sip::SipHasher13;
use std::hash::Hasher;
use std::time::Duration;

/// Of a checksum.
const SUM: usize = 8;
/// Of a file before its first section: the beginning with its checksum, and the seal.
const BEGINNING: usize = 16;
const SECTIONS: usize = BEGINNING + SUM + 1;
/// Of a section before its body.
const FRAME: usize = 8;

/// The target: a file.
pub fn run(file: &[u8]) {
    read(file);
    if let Some(mended) = mended(file) {
        read(&mended);
    }
}

/// With checksums that are right.
fn mended(file: &[u8]) -> Option<Vec<u8>> {
    let mut mended = file.to_vec();
    mend(&mut mended, 0, BEGINNING)?;
    let mut at = SECTIONS;
    while let Some(frame) = mended.get(at..at + FRAME) {
        let len = u32::from_le_bytes(frame[4..].try_into().ok()?) as usize;
        let Some(end) = at.checked_add(FRAME + len) else {
            break;
        };
        if mend(&mut mended, at, end).is_none() {
            break;
        }
        at = end + SUM;
    }
    Some(mended)
}

fn mend(file: &mut [u8], from: usize, to: usize) -> Option<()> {
    let mut sum = SipHasher13::new();
    sum.write(file.get(from..to)?);
    file.get_mut(to..to + SUM)?
        .copy_from_slice(&sum.finish().to_le_bytes());
    Some(())
}

type State = (Head, Vec<Binding>, Vec<SessionView>);

fn read(file: &[u8]) {
    let kept = salvage(file);
    if let Err(error) = verify(file) {
        assert!(!matches!(error, Malformed::Unreadable(_)), "{error}");
        assert!(!error.to_string().contains('\n'), "{error}");
        return;
    }
    let state = state(file);
    assert!(kept.is_complete);
    assert_eq!(kept.secret, Some(state.0.secret));
    assert_eq!(kept.bindings, state.1);
    let (head, bindings, sessions) = &state;
    let copy = written(head, bindings, sessions);
    assert_eq!(self::state(&copy), state, "its own print");
}

fn state(file: &[u8]) -> State {
    let (mut reader, head) = StateReader::new(file).expect("it is whole");
    let bindings = std::iter::from_fn(|| reader.binding().expect("it is whole")).collect();
    let sessions = std::iter::from_fn(|| reader.session().expect("it is whole")).collect();
    (head, bindings, sessions)
}

fn written(head: &Head, bindings: &[Binding], sessions: &[SessionView]) -> Vec<u8> {
    let mut file = Vec::new();
    let mut writer = StateWriter::new(&mut file, head).expect("memory takes all");
    for binding in bindings {
        writer.binding(binding).expect("memory takes all");
    }
    for session in sessions {
        writer.session(session).expect("memory takes all");
    }
    writer.finish().expect("memory takes all");
    file
}

/// States with no entry, with one of each kind, and with many; whole, cut off and longer.
pub fn seeds() -> Vec<(String, Vec<u8>)> {
    let mut seeds = Vec::new();
    for (name, prefixes, bindings, sessions) in [
        ("empty", 0, vec![], vec![]),
        ("bindings", 1, bindings(), vec![]),
        ("sessions", 2, vec![], sessions(1)),
        ("all", 2, bindings(), sessions(1)),
        ("many", 2, vec![], sessions(5)),
    ] {
        let head = Head {
            moment: Moment {
                boot: 0x0123_4567_89ab_cdef,
                since_boot: Duration::from_secs(1000),
                wall: Duration::from_secs(1_800_000_000),
            },
            clean: prefixes == 2,
            secret: [1, 2],
            pref64: ["64:ff9b::/96", "2001:db8:64::/48"][..prefixes]
                .iter()
                .map(|prefix| prefix.parse().expect("a prefix"))
                .collect(),
        };
        let file = written(&head, &bindings, &sessions);
        seeds.push((format!("{name}-cut-off"), file[..file.len() - 1].to_vec()));
        seeds.push((format!("{name}-longer"), [&file[..], &[0]].concat()));
        seeds.push((name.to_owned(), file));
    }
    seeds
}

fn binding(protocol: Protocol, port: u16) -> Binding {
    Binding {
        protocol,
        v4: Endpoint4 {
            addr: [192, 0, 2, 1].into(),
            port,
        },
        v6: Endpoint6 {
            addr: "2001:db8::5".parse().expect("an address"),
            port: 5000,
        },
    }
}

fn bindings() -> Vec<Binding> {
    Protocol::ALL.map(|p| binding(p, 443)).to_vec()
}

/// Of every state so many.
fn sessions(each: u16) -> Vec<SessionView> {
    let of = |state, n| {
        let protocol = match state {
            SessionState::Udp => Protocol::Udp,
            SessionState::Icmp => Protocol::Icmp,
            _ => Protocol::Tcp,
        };
        SessionView {
            binding: binding(protocol, 1024 + n),
            peer: Endpoint4 {
                addr: [198, 51, 100, 2].into(),
                port: 80,
            },
            prefix: (n % 2) as u8,
            state,
            remaining: Duration::from_secs(100),
        }
    };
    let states = SessionState::ALL.into_iter();
    states
        .flat_map(|state| (0..each).map(move |n| of(state, n)))
        .collect()
}
