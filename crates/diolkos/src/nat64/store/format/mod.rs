// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The state as bytes, and back: a head, the operator's bindings, the sessions, and an end that tells whether all of it is
//! there.
//!
//! All numbers are little-endian; addresses and ports are as on the wire.
//!
//! | part | bytes |
//! |---|---|
//! | head | `diolkos\n`, version (4), kind: 1 = NAT64 (4), start of the machine (16), CLOCK_BOOTTIME and time since 1970 (8 each, ns), 1 if nothing has changed since (1), the pool's secret (32), number of prefixes (2), each: network (16), length (1) |
//! | binding | 1, protocol (1: 0 TCP, 1 UDP, 2 ICMP), IPv6 address and port (18), IPv4 address and port (6) |
//! | session | 2, state (1), place of the prefix in the head (1), IPv6 address and port (18), IPv4 address and port (6), the peer's (6), ms that it lives from the moment of the head on (4) |
//! | end | 0, number of bindings (4), of sessions (4), SipHash-1-3 with key 0 of everything before (8) |
//!
//! The hash finds what breaks by itself. Against people the file has its owner and its mode.

mod read;
mod write;

use std::io;

use diolkos_core::config::nat64::Binding;
use diolkos_core::session::SessionView;
use ipnet::Ipv6Net;

use super::moment::Moment;

pub use read::{verify, Reader};
pub use write::Writer;

const MAGIC: &[u8; 8] = b"diolkos\n";
/// Of this format. Another one is another number.
pub const VERSION: u32 = 1;
const NAT64: u32 = 1;

const END: u8 = 0;
const BINDING: u8 = 1;
const SESSION: u8 = 2;

/// What is known before any entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Head {
    /// When it was so.
    pub moment: Moment,
    /// It was written by a run that ended in order: nothing has changed since.
    pub clean: bool,
    /// The pool's, so that a source keeps its address (RFC 4787 REQ-2).
    pub secret: [u64; 4],
    /// The translation prefixes that sessions name by their place.
    pub pref64: Vec<Ipv6Net>,
}

/// One entry of the tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entry {
    /// A binding that the operator made at run time.
    Binding(Binding),
    /// A session, with its binding.
    Session(SessionView),
}

/// Why bytes are no state.
#[derive(thiserror::Error, Debug)]
pub enum Malformed {
    /// They are something else.
    #[error("it is no state file of diolkos")]
    Foreign,
    /// Of another format.
    #[error("its format has version {0}, and this diolkos knows version {VERSION}")]
    Version(u32),
    /// The end is missing.
    #[error("it is truncated")]
    Truncated,
    /// Something stands there that nobody writes.
    #[error("it is corrupted: {0}")]
    Corrupted(&'static str),
    /// It cannot be read.
    #[error("it cannot be read: {0}")]
    Unreadable(io::Error),
}

#[cfg(test)]
mod tests {
    use super::*;
    use diolkos_core::config::nat64::{Endpoint4, Endpoint6, Protocol};
    use diolkos_core::session::SessionState;
    use std::net::Ipv4Addr;
    use std::time::Duration;

    fn head() -> Head {
        Head {
            moment: Moment {
                boot: 0x1234_5678_9abc_def0_1122_3344_5566_7788,
                since_boot: Duration::from_nanos(123_456_789),
                wall: Duration::from_secs(1_800_000_000),
            },
            clean: true,
            secret: [1, u64::MAX, 3, 4],
            pref64: vec![
                "64:ff9b::/96".parse().expect("a prefix"),
                "2001:db8::/32".parse().expect("a prefix"),
            ],
        }
    }

    fn entries() -> Vec<Entry> {
        let binding = |protocol, port| Binding {
            protocol,
            v4: Endpoint4 {
                addr: Ipv4Addr::new(192, 0, 2, 1),
                port,
            },
            v6: Endpoint6 {
                addr: "2001:db8::5".parse().expect("an address"),
                port: 7,
            },
        };
        let bindings = Protocol::ALL.map(|protocol| Entry::Binding(binding(protocol, 443)));
        let sessions = SessionState::ALL.map(|state| {
            let protocol = match state {
                SessionState::Udp => Protocol::Udp,
                SessionState::Icmp => Protocol::Icmp,
                _ => Protocol::Tcp,
            };
            Entry::Session(SessionView {
                binding: binding(protocol, 1024 + state as u16),
                peer: Endpoint4 {
                    addr: Ipv4Addr::new(198, 51, 100, 2),
                    port: 80,
                },
                prefix: state as u8 % 2,
                state,
                remaining: Duration::from_millis(7_440_000 - state as u64),
            })
        });
        bindings.into_iter().chain(sessions).collect()
    }

    fn written() -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes, &head()).expect("memory takes all");
        for entry in entries() {
            writer.put(&entry).expect("memory takes all");
        }
        writer.finish().expect("memory takes all");
        bytes
    }

    #[test]
    fn what_is_written_is_read() {
        let bytes = written();
        assert_eq!(bytes.len(), 83 + 2 * 17 + 3 * 26 + 9 * 37 + 17);
        let (mut reader, read) = Reader::new(&bytes[..]).expect("it is whole");
        assert_eq!(read, head());
        let read = std::iter::from_fn(|| reader.entry().expect("it is whole"));
        assert_eq!(read.collect::<Vec<_>>(), entries());
    }

    #[test]
    fn no_byte_can_be_missing() {
        let bytes = written();
        for len in 0..bytes.len() {
            match verify(&bytes[..len]) {
                Err(Malformed::Foreign) => assert!(len < MAGIC.len()),
                Err(Malformed::Truncated) => assert!(len >= MAGIC.len()),
                other => panic!("{len}: {other:?}"),
            }
        }
        let longer = [&bytes[..], &[0]].concat();
        assert!(matches!(verify(&longer[..]), Err(Malformed::Corrupted(_))));
    }

    #[test]
    fn no_bit_can_be_another() {
        let bytes = written();
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut wrong = bytes.clone();
                wrong[at] ^= 1 << bit;
                let error = verify(&wrong[..]).expect_err("it is not what was written");
                match at {
                    0..8 => assert!(matches!(error, Malformed::Foreign)),
                    8..12 => assert!(matches!(error, Malformed::Version(v) if v != VERSION)),
                    _ => assert!(
                        matches!(error, Malformed::Corrupted(_) | Malformed::Truncated),
                        "{at}: {error}"
                    ),
                }
            }
        }
    }

    #[test]
    fn without_entries_it_is_whole_too() {
        let mut bytes = Vec::new();
        let writer = Writer::new(&mut bytes, &head()).expect("memory takes all");
        writer.finish().expect("memory takes all");
        assert_eq!(verify(&bytes[..]).expect("it is whole"), head());
        assert!(matches!(verify(&[][..]), Err(Malformed::Foreign)));
    }
}
