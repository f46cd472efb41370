// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rules of the discovery, in virtual time.

mod forgers;
mod harness;
mod steps;
mod unusable;
