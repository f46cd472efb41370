// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The client of the engine that keeps the records of nodes (`diolkos_node::record`): etcd 3.4.22, 3.5.6 or newer.
//!
//! ```text
//! node ── ask ──► bounded queue ──► thread "engine": one request at a time ══ TLS ══ one member, then the next
//!      ◄─ token, answer ◄── bounded queue ◄──┘
//! ```
//!
//! It speaks HTTP/1.1 and JSON to the gateway that every member has on its client port (`/v3/kv/txn`). Watches and
//! leases are not used.
//!
//! * **Every answer is linearizable** ([`Client`]): reads go through etcd's log like writes (see `store.rs`), and a
//!   write names the revision that it replaces.
//! * **An uncertain result is not an answer.** A request whose answer is late, truncated or unreadable gets none, and
//!   [`Status`] has the reason. A write is sent once.
//! * **No member can delay the node.** If one does not answer within the deadline, the next one is tried.
//! * **The engine's name changes** after a wipe, and after a restore as far as that can be detected (`docs/engine.md`).
#![forbid(unsafe_code)]

mod client;
mod connection;
mod operate;
mod settings;
mod store;
mod version;
mod wire;

pub use client::{Answers, Client, StartError, Status, Unsent};
pub use operate::{inspect, reset, ClusterData};
pub use settings::{is_server, Login, Settings, SettingsError, Tls};
