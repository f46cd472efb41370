// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The client of the engine that keeps a cluster's state: NATS JetStream (2.9 or newer).
//!
//! ```text
//! caller ── write, publish, last_sequence ──► bounded queues ─┐
//!        ◄────────── Events::recv ◄── bounded channel ◄── thread "engine": one session at a time ══ TLS ══ one server
//! ```
//!
//! The crate knows keys, values, revisions and messages as bytes. What they mean is the caller's.
//!
//! * The **bucket** `DIOLKOS_<name>` keeps one value for each key. A write names the revision that it replaces, and the engine
//!   refuses it if there is another one. The bucket is on disk: revisions go on after all servers were restarted.
//! * The **stream** of bindings is a log in the servers' memory, bounded in bytes and age. What is lost with it, its
//!   publishers publish again.
//!
//! **A session is one connection to one server.** Whatever goes wrong ends it, and the next server is tried, for ever. Each session has
//! a runtime of its own, so nothing of it survives: a write that was queued for one connection is never sent on the
//! next one, where the caller would no longer expect it.
//!
//! **Nothing waits for the caller, and nothing is dropped because of it.** If the caller is slow to take events, the
//! readers stop to fetch: the server keeps what was not fetched, within the bounds of the stream. Each accepted write and publication
//! gets exactly one answer.
#![forbid(unsafe_code)]

mod client;
mod commands;
mod connection;
mod event;
mod fault;
mod names;
mod place;
mod reader;
mod requests;
mod session;
mod settings;
mod worker;

pub use client::{Client, Counters, Events, StartError, Unsent};
pub use event::{Event, Outcome, Store};
pub use settings::{Identity, Login, Settings, SettingsError, Tls};
