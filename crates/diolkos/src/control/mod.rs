// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Talking to a running program: one request, one answer, one line of JSON each.
//!
//! The socket is in a folder that only the program's user can open (see [`crate::instance`]), so that nobody else can take
//! its place or fill its queue. Besides, each side asks the kernel who the other is, and speaks with root and its own user
//! only. Everything has a bound: the length of a request, the number of connections, and the time for each step.

mod ask;
mod serve;

use std::net::SocketAddrV4;
use std::time::Duration;

use diolkos_sys::peer;
use serde::{Deserialize, Serialize};

use crate::config::nat64::{Protocol, Static};
use crate::counters::Counter;
use crate::nat64::{BindingRow, Entries, SessionRow};
use crate::prefixes::PrefixRows;

pub use ask::{ask, ask_this};
pub use serve::{listen, Control};

/// What ends a request and an answer. JSON has none within.
const END: u8 = b'\n';
/// How long either side waits for the other.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long an answer may take for which there is much to do: each route of a new configuration is a request to the
/// kernel, and there may be many sessions.
const LONG_PATIENCE: Duration = Duration::from_secs(60);

fn is_trusted(uid: u32) -> bool {
    uid == 0 || uid == peer::own_uid()
}

/// What can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Request {
    /// Who are you?
    Hello,
    /// All counters.
    Counters,
    /// The configuration in force.
    Config,
    /// The translation prefixes that are known.
    Prefix,
    /// Read the configuration file again.
    Reload,
    /// End, and leave nothing.
    Stop,
    /// The sessions of a NAT64.
    Sessions,
    /// Its bindings.
    Bindings,
    /// Make a binding.
    Bind(Static),
    /// End one.
    Unbind {
        /// Of which table.
        protocol: Protocol,
        /// As the IPv4 side sees it.
        v4: SocketAddrV4,
    },
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer {
    /// To [`Request::Hello`].
    Hello {
        /// Of the process.
        pid: u32,
    },
    /// To [`Request::Counters`].
    Counters(Vec<Counter>),
    /// To [`Request::Config`]: canonical TOML.
    Config(String),
    /// To [`Request::Prefix`].
    Prefix(PrefixRows),
    /// To [`Request::Reload`]: the new configuration is in force.
    Reloaded,
    /// To [`Request::Sessions`].
    Sessions(Entries<SessionRow>),
    /// To [`Request::Bindings`].
    Bindings(Entries<BindingRow>),
    /// To [`Request::Bind`], [`Request::Unbind`] and [`Request::Stop`].
    Done,
    /// The configuration file is wrong; the old configuration stays in force.
    Misconfigured(String),
    /// It could not be done.
    Failed(String),
}
