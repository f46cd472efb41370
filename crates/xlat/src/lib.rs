// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Stateless translation between IPv6 and IPv4: all of RFC 7915, with the addresses of RFC 6052 and RFC 7757, and the
//! ICMP errors of RFC 4884, RFC 5837 and RFC 6791.
//!
//! This crate depends on no other crate of the project. It reads no socket, clock or source of randomness; the caller
//! passes them in ([`Env`]). A packet is translated in the buffer in which it arrived: headers are rewritten in front
//! of the payload, and the payload stays in place.
//!
//! Create a translator with [`Translator::new`] and a [`Config`], and call [`Translator::translate`] for each
//! [`Packet`]. The modules below are public for stateful translators, which call the same stages one by one and insert
//! their tables between them.
//!
//! The modules, in the order in which a packet meets them:
//!
//! * [`config`]: the operator's settings, checked for contradictions before the first packet.
//! * [`packet`]: the packet in its buffer, its metadata from the device, and the outbox for additional packets.
//! * [`translate`]: the path from one family to the other (RFC 7915 sections 4.1 and 5.1).
//! * [`wire`]: headers, first as checked views and then as plain structs.
//! * [`addr`]: IPv4 addresses in IPv6 addresses (RFC 6052), and addresses that must not be translated.
//! * [`map`]: mapping between IPv6 and IPv4 addresses by prefixes and by the explicit table (RFC 7757).
//! * [`csum`]: Internet checksums, computed or updated by difference (RFC 1071, RFC 1624).
//! * [`icmp`]: ICMP errors, translated and originated (RFC 7915 sections 4.2 to 4.4 and 5.2 to 5.4, RFC 4884, RFC
//!   6791).
//! * [`frag`]: splits one packet into several.
//! * [`verdict`]: the complete list of drop reasons; [`refusal`]: what the sender is told of one.
//! * [`trace`]: predicts the treatment of a packet, with the same code.
//!
//! ```
//! use diolkos_xlat::{Config, Env, Offload, Outbox, Packet, Translator, Verdict, HEADROOM};
//! use std::time::Duration;
//!
//! struct Zero;
//! impl Env for Zero {
//!     fn now(&mut self) -> Duration { Duration::ZERO }
//!     fn ipv4_id(&mut self) -> u16 { 0 }
//! }
//! struct Wire(Vec<Vec<u8>>);
//! impl Outbox for Wire {
//!     fn emit(&mut self, packet: &[u8], _offload: Offload) { self.0.push(packet.to_vec()) }
//! }
//!
//! let config = Config { pref64: vec!["2001:db8:64::/96".parse().unwrap()], ..Config::default() };
//! let translator = Translator::new(&config).unwrap();
//! // A UDP datagram from 192.0.2.1 to 198.51.100.2, without data.
//! let datagram = [
//!     0x45, 0, 0, 28, 0, 0, 0x40, 0, 64, 17, 0x4e, 0x9a, 192, 0, 2, 1, 198, 51, 100, 2, //
//!     0x13, 0x88, 0x13, 0x89, 0, 8, 0xec, 0x95,
//! ];
//! let mut buffer = [0u8; HEADROOM + 28];
//! buffer[HEADROOM..].copy_from_slice(&datagram);
//! let mut packet = Packet::new(&mut buffer, HEADROOM, HEADROOM + 28, Offload::default());
//! assert_eq!(translator.translate(&mut packet, &mut Zero, &mut Wire(vec![])), Verdict::Forward);
//! assert_eq!(packet.bytes().len(), 48);
//! assert_eq!(packet.bytes()[0] >> 4, 6);
//! ```
#![forbid(unsafe_code)]

pub mod addr;
pub mod config;
pub mod csum;
pub mod frag;
pub mod icmp;
pub mod map;
pub mod packet;
#[cfg(test)]
mod proven;
pub mod refusal;
pub mod trace;
pub mod translate;
pub mod verdict;
pub mod wire;

pub use config::{Config, ConfigError, Eam, Icmp, TrafficClass, UdpZeroChecksum};
pub use icmp::ErrorSources;
pub use packet::{
    Checksum, ClampedMss, Env, Gso, GsoKind, Label, Offload, Outbox, Packet, HEADROOM,
};
pub use trace::Trace;
pub use translate::Translator;
pub use verdict::{Gateway, Reason, Verdict};
