// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The state as bytes, and back: its time, the operator's bindings, the sessions, and an end that proves that the file
//! is complete.
//!
//! All numbers are little-endian; addresses and ports are as on the wire.
//!
//! | part | bytes |
//! |---|---|
//! | beginning | `diolkos\n`, version (4), kind: 1 = NAT64 (4), checksum of these (8), seal: 0xc3 if nothing has changed since, else 0x3c (1) |
//! | section | name (4), length of the body (4, 65536 at most), body, checksum of all this (8) |
//!
//! | section | body |
//! |---|---|
//! | `pool` | the pool's secret (16) |
//! | `when` | start of the machine (16), CLOCK_BOOTTIME and time since 1970 (8 each, ns), number of prefixes (2), each: network (16), length (1) |
//! | `oper`, none or several | size of an entry (2), entries, each: protocol (1: 0 TCP, 1 UDP, 2 ICMP), IPv6 address and port (18), IPv4 address and port (6) |
//! | `sess`, none or several | entries, each: state (1), place of the prefix in `when` (1), IPv6 address and port (18), IPv4 address and port (6), the peer's (6), ms that it lives from `when` on (4) |
//! | `done` | number of bindings (4), of sessions (4) |
//!
//! A checksum is SipHash-1-3 with key 0.
//!
//! **What every later version keeps:** the beginning, the frame of a section, `pool`, `oper` (its entries may grow at
//! their end) and the first number of `done`. So each version finds the operator's bindings in a file of any other
//! ([`salvage`]), and, in a damaged file, those whose sections are whole.

mod fields;
mod head;
mod malformed;
mod read;
mod salvage;
mod section;
#[cfg(test)]
mod tests;
mod write;

pub use head::{Head, Salvage, OUTDATED, SEAL_AT};
pub use malformed::{Malformed, VERSION};
pub use read::{verify, StateReader};
pub use salvage::salvage;
pub use write::StateWriter;
