// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Everything that reads bytes of others, tried out with bytes that nobody would write.
//!
//! Each target is a function of bytes that panics if something that must always hold does not. libFuzzer calls it
//! through `targets/`; `cargo test` calls it with the seeds alone.
//!
//! bytes → [`input`] (→ [`setting`]: a configuration) → target → [`judge`]: what every output of the translator is, read
//! a second time ([`seen`])
//!
//! | target | what reads the bytes | what is held against it |
//! |---|---|---|
//! | [`translate`] | the whole translator, one packet of either family | [`judge`] |
//! | [`nat64`] | a NAT64: sequences of packets of both sides, time, and an operator | lengths, limits, and that nothing is left |
//! | [`icmp_error`] | the translator without state, ICMP errors with quotes and extensions (RFC 4884) | [`judge`], and the extensions as they were |
//! | [`headers`] | IPv4 header and options, IPv6 extension chain | a second reader, written from the RFCs |
//! | [`addresses`] | configuration check, mapping table, translation prefixes | a search through all entries, octet by octet |
//! | [`offload`] | the header in front of each packet of the TUN device | [`judge`], and its own print |
//! | [`neighbour`] | Neighbour Discovery | a second reader, written from RFC 4861 |
//! | [`advertisement`] | router advertisements | a second reader, written from RFC 4861 and RFC 8781 |
//! | [`pref64`] | answers for ipv4only.arpa; the discovery of prefixes | what always holds of it, and a search through all that could be embedded |
//! | [`gateways`] | messages of other gateways, and records in the engine | their own print; what a gateway lets others decide |
//! | [`pcap`] | captures | their lengths, and what is written reads back |
//! | [`pcp`] | requests of nodes for bindings | a second reader, written from RFC 6887; the tables of a NAT64 |
//! | [`config`] | configuration files | they read their own print; errors have a place |
//! | [`state`] | state files | their own print |
//!
//! Seeds are made from `vectors/` ([`seeds`]); what fuzzing found worth keeping stands in `corpus/`.

pub mod addresses;
pub mod advertisement;
pub mod config;
pub mod gateways;
pub mod headers;
pub mod icmp_error;
pub mod input;
pub mod judge;
pub mod nat64;
pub mod neighbour;
pub mod offload;
pub mod pcap;
pub mod pcp;
pub mod pref64;
pub mod seeds;
pub mod seen;
pub mod setting;
pub mod state;
pub mod translate;

// The world and the checksums of the translator's own tests.
#[allow(missing_docs)]
#[path = "../../crates/xlat/tests/common/mod.rs"]
mod common;
#[allow(missing_docs, dead_code)] // Vectors are replayed elsewhere; here their packets are seeds.
#[path = "../../crates/xlat/tests/vectors/file.rs"]
mod vectors;
#[allow(missing_docs, dead_code)] // Its tables are tested without packets elsewhere.
#[path = "../../crates/nat64/tests/nat64/harness.rs"]
mod world;

/// A target: its name, what it does with bytes, and what to begin with.
pub struct Target {
    /// As in `targets/`.
    pub name: &'static str,
    /// Panics if something does not hold.
    pub run: fn(&[u8]),
    /// Inputs to begin with, each with a name.
    pub seeds: fn() -> Vec<(String, Vec<u8>)>,
}

/// All of them.
pub const TARGETS: [Target; 14] = [
    Target {
        name: "translate",
        run: translate::run,
        seeds: translate::seeds,
    },
    Target {
        name: "nat64",
        run: nat64::run,
        seeds: nat64::seeds,
    },
    Target {
        name: "icmp_error",
        run: icmp_error::run,
        seeds: icmp_error::seeds,
    },
    Target {
        name: "headers",
        run: headers::run,
        seeds: headers::seeds,
    },
    Target {
        name: "addresses",
        run: addresses::run,
        seeds: addresses::seeds,
    },
    Target {
        name: "offload",
        run: offload::run,
        seeds: offload::seeds,
    },
    Target {
        name: "gateways",
        run: gateways::run,
        seeds: gateways::seeds,
    },
    Target {
        name: "neighbour",
        run: neighbour::run,
        seeds: neighbour::seeds,
    },
    Target {
        name: "advertisement",
        run: advertisement::run,
        seeds: advertisement::seeds,
    },
    Target {
        name: "pref64",
        run: pref64::run,
        seeds: pref64::seeds,
    },
    Target {
        name: "pcap",
        run: pcap::run,
        seeds: pcap::seeds,
    },
    Target {
        name: "pcp",
        run: pcp::run,
        seeds: pcp::seeds,
    },
    Target {
        name: "config",
        run: config::run,
        seeds: config::seeds,
    },
    Target {
        name: "state",
        run: state::run,
        seeds: state::seeds,
    },
];
