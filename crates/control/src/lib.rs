// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What asks and steers a running translator.
//!
//! [`varlink`] is the protocol and its bounds, [`control`] the interface `org.diolkos.Translator` in both directions, [`metrics`] the page
//! for monitoring. [`service`] is the loop that every translator runs on: it hears signals, news of the kernel and requests, and has the
//! [`service::Service`] do what follows.
//!
//! It knows the types of `diolkos-figures`, and not who fills them in: CLAT, SIIT and NAT64 implement [`service::Service`], and the command
//! line calls [`control::ask`].

pub mod control;
pub mod metrics;
pub mod service;
pub mod varlink;
