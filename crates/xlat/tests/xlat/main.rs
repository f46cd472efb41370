// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The stateless translator: whole packets, by subject, and properties of all packets. The vectors are in `vectors`.
//!
//! One program, since most of the time of a small one is its linking.

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/strategies.rs"]
mod strategies;

mod clat;
mod fragments;
mod hairpin;
mod headers;
mod icmp_errors;
mod icmp_extensions;
mod mss;
mod mss_lists;
mod own_errors;
mod path;
mod properties;
mod super_packets;
