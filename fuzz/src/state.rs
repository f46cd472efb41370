// SPDX-License-Identifier: Apache-2.0 OR MIT
//! State files: what is read as whole is, byte by byte, what its entries are written as.
//!
//! A changed byte makes the checksum wrong. So that changes are not all found by it alone, the checksum of an input is made
//! right before it is read a second time.

use diolkos::readers::state::{verify, Entry, Malformed, Reader, Writer};
use diolkos::readers::Moment;
use diolkos_core::config::nat64::{Binding, Endpoint4, Endpoint6, Protocol};
use diolkos_core::session::{SessionState, SessionView};
use siphasher::sip::SipHasher13;
use std::hash::Hasher;
use std::time::Duration;

/// Of the checksum at the end.
const SUM: usize = 8;

/// The target: a file.
pub fn run(file: &[u8]) {
    read(file);
    if let Some(at) = file.len().checked_sub(SUM) {
        let mut mended = file.to_vec();
        let mut sum = SipHasher13::new();
        sum.write(&file[..at]);
        mended[at..].copy_from_slice(&sum.finish().to_le_bytes());
        read(&mended);
    }
}

fn read(file: &[u8]) {
    let head = match verify(file) {
        Ok(head) => head,
        Err(error) => {
            assert!(!matches!(error, Malformed::Unreadable(_)), "{error}");
            assert!(!error.to_string().contains('\n'), "{error}");
            return;
        }
    };
    let (mut reader, again) = Reader::new(file).expect("it is whole");
    assert_eq!(head, again);
    let mut copy = Vec::new();
    let mut writer = Writer::new(&mut copy, &head).expect("memory takes all");
    while let Some(entry) = reader.entry().expect("it is whole") {
        writer.put(&entry).expect("memory takes all");
    }
    writer.finish().expect("memory takes all");
    assert_eq!(copy, file, "its own print");
}

/// States with no entry, with one of each kind, and with many; whole, cut off and longer.
pub fn seeds() -> Vec<(String, Vec<u8>)> {
    let mut seeds = Vec::new();
    for (name, prefixes, entries) in [
        ("empty", 0, vec![]),
        ("bindings", 1, bindings()),
        ("sessions", 2, sessions(1)),
        ("all", 2, [bindings(), sessions(1)].concat()),
        ("many", 2, sessions(5)),
    ] {
        let head = diolkos::readers::state::Head {
            moment: Moment {
                boot: 0x0123_4567_89ab_cdef,
                since_boot: Duration::from_secs(1000),
                wall: Duration::from_secs(1_800_000_000),
            },
            clean: prefixes == 2,
            secret: [1, 2, 3, 4],
            pref64: ["64:ff9b::/96", "2001:db8:64::/48"][..prefixes]
                .iter()
                .map(|prefix| prefix.parse().expect("a prefix"))
                .collect(),
        };
        let mut file = Vec::new();
        let mut writer = Writer::new(&mut file, &head).expect("memory takes all");
        for entry in &entries {
            writer.put(entry).expect("memory takes all");
        }
        writer.finish().expect("memory takes all");
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

fn bindings() -> Vec<Entry> {
    Protocol::ALL
        .map(|p| Entry::Binding(binding(p, 443)))
        .to_vec()
}

/// Of every state so many.
fn sessions(each: u16) -> Vec<Entry> {
    let of = |state, n| {
        let protocol = match state {
            SessionState::Udp => Protocol::Udp,
            SessionState::Icmp => Protocol::Icmp,
            _ => Protocol::Tcp,
        };
        Entry::Session(SessionView {
            binding: binding(protocol, 1024 + n),
            peer: Endpoint4 {
                addr: [198, 51, 100, 2].into(),
                port: 80,
            },
            prefix: (n % 2) as u8,
            state,
            remaining: Duration::from_secs(100),
        })
    };
    let states = SessionState::ALL.into_iter();
    states
        .flat_map(|state| (0..each).map(move |n| of(state, n)))
        .collect()
}
