// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A stateful NAT64 (RFC 6146): bindings and sessions, the pool of IPv4 addresses and ports, limits and fragments.
//!
//! The only other crate of the project that this crate uses is `diolkos-xlat`: it translates headers with the stateless
//! translator, between addresses and ports from the tables. It reads no socket, clock or source of randomness; the
//! caller passes them in ([`Random`]) and receives every change of the tables ([`session::Watcher`]).
//!
//! Create a translator with [`Nat64::new`] and a [`config::Nat64Config`]. Call [`Nat64::translate`] for each packet,
//! and [`Nat64::expire`] at least once a second. [`Nat64::state`] shows the tables.
//!
//! The modules:
//!
//! * [`config`]: the operator's settings, checked for contradictions before the first packet.
//! * [`key`]: hash tables of entry numbers, keyed against attackers.
//! * `translate`: the translation of a packet; ICMP errors, fragments, hairpinning.
//! * [`session`]: the tables of bindings and sessions, their timers and limits (RFC 6146 section 3.5).
//! * [`pool`]: which IPv4 addresses and ports are free.
//! * [`Nat64::trace`]: predicts the treatment of a packet, with the same code and lookups instead of table changes.
//!
//! ```
//! use diolkos_nat64::config::{Nat64Config, Pool4, Protocol};
//! use diolkos_nat64::{Nat64, Random};
//! use diolkos_xlat::{Config, Env, Offload, Outbox, Packet, Verdict, HEADROOM};
//! use std::time::Duration;
//!
//! struct World;
//! impl Env for World {
//!     fn now(&mut self) -> Duration { Duration::ZERO }
//!     fn ipv4_id(&mut self) -> u16 { 0 }
//! }
//! impl Random for World {
//!     fn random(&mut self) -> u64 { 4 } // Real ones are not chosen by dice.
//! }
//! struct Wire;
//! impl Outbox for Wire {
//!     fn emit(&mut self, _packet: &[u8], _offload: Offload) {}
//! }
//!
//! let config = Nat64Config {
//!     translator: Config {
//!         pref64: vec!["2001:db8:64::/96".parse().unwrap()],
//!         ..Config::default()
//!     },
//!     pool4: vec![Pool4 {
//!         interface: None,
//!         net: "203.0.113.0/28".parse().unwrap(),
//!         ports: 1024..=65535,
//!         protocols: Protocol::ALL.to_vec(),
//!         sources: vec![],
//!     }],
//!     ..Nat64Config::default()
//! };
//! let mut nat64 = Nat64::new(&config, [1, 2, 3, 4]).unwrap();
//! // An empty UDP datagram from 2001:db8::1, port 5000, to 2001:db8:64::192.0.2.1, port 53.
//! let mut datagram = [0u8; 48];
//! datagram[..8].copy_from_slice(&[0x60, 0, 0, 0, 0, 8, 17, 64]);
//! datagram[8..24].copy_from_slice(&"2001:db8::1".parse::<std::net::Ipv6Addr>().unwrap().octets());
//! let server: std::net::Ipv6Addr = "2001:db8:64::192.0.2.1".parse().unwrap();
//! datagram[24..40].copy_from_slice(&server.octets());
//! datagram[40..].copy_from_slice(&[0x13, 0x88, 0, 53, 0, 8, 0x2e, 0xa5]);
//!
//! let mut buffer = [0u8; HEADROOM + 48];
//! buffer[HEADROOM..].copy_from_slice(&datagram);
//! let mut packet = Packet::new(&mut buffer, HEADROOM, HEADROOM + 48, Offload::default());
//! let verdict = nat64.translate(&mut packet, &mut World, &mut Wire, &mut ());
//! assert_eq!(verdict, Verdict::Forward);
//! assert_eq!(packet.bytes()[0] >> 4, 4);
//! let session = nat64.state().sessions().next().unwrap();
//! assert_eq!(session.peer.to_string(), "192.0.2.1:53");
//! assert_eq!(packet.bytes()[12..16], session.binding.v4.addr.octets());
//! ```
#![forbid(unsafe_code)]

pub mod config;
pub mod key;
pub mod pool;
pub mod session;
mod translate;

pub use translate::{Nat64, Nat64Trace, Random};
