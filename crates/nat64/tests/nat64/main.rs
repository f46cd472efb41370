// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The stateful translator, in virtual time.
//!
//! * `udp`, `tcp`, `limits`, `shares`, `bindings`, `due`, `restore`, `reconfigure`: the tables alone ([`diolkos_nat64::session`]).
//! * `model`, `agreement`, `given_back_model`, `given_back`: the tables against a model that is too simple to be wrong.
//! * `packets`, `errors`, `fragments`, `fragment_floods`, `hairpin`: whole packets ([`diolkos_nat64`]).
//! * `robust`: packets that nobody should send, long sequences of them.
//! * `traces`: what is told of a packet that has not come, and what becomes of it when it comes.
//! * `inherit`, `rests`, `rests_model`, `copies`, `copies_model`, `elsewhere`, `onward`: several gateways, each with addresses of its own.
//! * `world`: what they have in common.

#[path = "../../../xlat/tests/common/mod.rs"]
mod common;

mod agreement;
mod bindings;
mod blocks;
mod copies;
mod copies_model;
mod deterministic;
mod due;
mod elsewhere;
mod errors;
mod fragment_floods;
mod fragments;
mod given_back;
mod given_back_model;
mod hairpin;
mod harness;
mod inherit;
mod labels;
mod limits;
mod model;
mod onward;
mod packets;
mod reassembly;
mod reconfigure;
mod restore;
mod rests;
mod rests_model;
mod robust;
mod shares;
mod tcp;
mod traces;
mod udp;
