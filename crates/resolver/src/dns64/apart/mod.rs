// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The DNS64 beside a translator: a process of its own, without privileges, and its keeper in the translator's process.
//!
//! keeper (sockets that listen, the search for the prefix, the control socket; starts the process) ─► orders, in `message`
//! ─► worker (the process: clients, upstream, the cache) ─► reports ─► keeper; its log ─► [`voice`] ─► log
//!
//! The keeper does not trust the process: it reads reports of a bounded length that it has asked for, never waits for the
//! process, and ends it if it does not answer or says anything else.

mod channel;
mod keeper;
mod message;
mod process;
mod sockets;
mod voice;
mod worker;

pub use channel::standard_input;
pub use keeper::keep;
pub use worker::work;
