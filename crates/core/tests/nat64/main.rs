// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The stateful translator, in virtual time.
//!
//! * `udp`, `tcp`, `limits`, `operate`: the tables alone ([`diolkos_core::session`]).
//! * `model`: the tables against a model that is too simple to be wrong.
//! * `packets`, `errors`, `fragments`, `hairpin`: whole packets ([`diolkos_core::nat64`]).
//! * `world`: what they have in common.

#[path = "../common/mod.rs"]
mod common;

mod errors;
mod fragments;
mod hairpin;
mod limits;
mod model;
mod operate;
mod packets;
mod tcp;
mod udp;
mod world;
