// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The stateful translator, in virtual time.
//!
//! * `udp`, `tcp`, `limits`, `rates`, `shares`, `bindings`, `due`, `restore`, `reconfigure`: the tables only
//!   ([`diolkos_nat64::session`]).
//! * `model`, `agreement`, `given_back_model`, `given_back`: the tables compared with a model that is too simple to be
//!   wrong.
//! * `packets`, `errors`, `fragments`, `fragment_floods`, `hairpin`: whole packets ([`diolkos_nat64`]).
//! * `grants`: bindings that nodes ask for.
//! * `moved`: an address that has become another one.
//! * `pools_by_source_model`: an address of a pool never goes to a node outside of it; `pools_by_source` has cases.
//! * `robust`: long sequences of invalid packets.
//! * `traces`: traces predict the real translation.
//! * `inherit`, `rests`, `rests_model`, `copies`, `copies_model`, `elsewhere`, `onward`: several gateways, each with
//!   its own addresses.
//! * `world`: common code.

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
mod grants;
mod hairpin;
mod harness;
mod inherit;
mod labels;
mod limits;
mod model;
mod moved;
mod onward;
mod packets;
mod pools_by_source;
mod pools_by_source_model;
mod rates;
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
