// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One gateway of a cluster, step by step. Schedules of many gateways are in `simulation`.
//!
//! One program, since most of the time of a small one is its linking.

#[path = "../common/mod.rs"]
mod common;

mod defer;
mod file;
mod messages;
mod other_file;
mod roll;
mod size;
mod standing;
