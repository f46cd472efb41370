// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Interfaces to query and control a running translator.
//!
//! [`varlink`] is the protocol with its bounds, [`translator`] the interface `org.diolkos.Translator` in both directions, and
//! [`metrics`] the pages for monitoring. [`service`] is the loop that every translator runs: it receives signals, notifications
//! of the kernel and requests, and calls the [`service::Service`].
//!
//! The crate knows the types of `diolkos-figures`, but not their sources: CLAT, SIIT and NAT64 implement [`service::Service`],
//! and the command line calls [`translator::ask`].

mod error;
pub mod metrics;
pub mod service;
pub mod translator;
pub mod varlink;

pub use error::ControlError;
