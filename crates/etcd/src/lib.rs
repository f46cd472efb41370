// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The client of the engine that keeps the records of nodes (`diolkos_node::record`): etcd 3.4.22, 3.5.6 or newer.
//!
//! ```text
//! node ── ask ──► bounded queue ──► thread "engine": one request at a time ══ TLS ══ one member, then the next
//!      ◄─ token, answer ◄── bounded queue ◄──┘
//! ```
//!
//! It speaks HTTP/1.1 and JSON to the gateway that every member has on its port for clients (`/v3/kv/txn`). Watches and leases are not
//! used.
//!
//! * **Every answer is linearizable** ([`Client`]): reads go through etcd's log like writes (`store.rs` says why), and a write names the
//!   revision that it replaces.
//! * **What is not known is not answered.** A request whose answer is late, is cut off or cannot be read gets none, and the
//!   reason stands in [`Status`]. A write is sent once.
//! * **No member holds up the node.** One that does not answer within the deadline is left for the next one.
//! * **The engine's name changes** when it is wiped, and when it goes back as far as that can be seen (`docs/engine.md`).
#![forbid(unsafe_code)]

mod client;
mod connection;
mod operate;
mod settings;
mod store;
mod version;
mod wire;

pub use client::{Answers, Client, StartError, Status, Unsent};
pub use operate::{inspect, reset, Found};
pub use settings::{is_server, Login, Settings, SettingsError, Tls};
