// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Talking to a running program: the Varlink interface `org.diolkos.Translator`.
//!
//! ask (the command line) → interface (requests and answers as calls and replies) → serve → the program's loop
//!
//! A new request needs a method in `packaging/varlink/org.diolkos.Translator.varlink`, a [`Request`] and an [`Answer`], both
//! directions in `interface.rs`, and an answer of each service. The socket is in a folder that only the program's user can
//! change (see [`diolkos_service::instance`]), so that nobody else can take its place. Besides, each side asks the kernel who the other is.

mod ask;
mod interface;
mod serve;
mod status;

use std::time::Duration;

use diolkos_core::config::nat64::{Binding, Endpoint4, Endpoint6, Protocol};

use crate::nat64::{BindingRow, Entries, Order, Selection, SessionRow, TopRow};
use crate::trace::{Imagined, Report};
use diolkos_figures::cluster_status::ClusterStatus;
use diolkos_figures::counters::Counter;
use diolkos_figures::figures::Figures;
use diolkos_figures::prefixes::PrefixRows;
use diolkos_service::failure::{Failure, Kind};

pub use ask::{ask, ask_this, call_at, follow, socket, status, unexpected};
pub use diolkos_figures::finding::{Finding, Kind as FindingKind, Reason};
pub use serve::{listen, Asker, Control, Question};
pub use status::{Address6, Condition, State, Status};

/// How long an answer may take for which there is much to do: each route of a new configuration is a request to the
/// kernel, and there may be many sessions.
const LONG_PATIENCE: Duration = Duration::from_secs(60);

/// What the program is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// All counters.
    Counters,
    /// All figures for a monitoring system.
    Figures,
    /// The configuration in force.
    Config,
    /// The translation prefixes that are known.
    Prefix,
    /// Read the configuration file again.
    Reload,
    /// End, and leave nothing.
    Stop,
    /// Sessions of a NAT64.
    Sessions(Selection),
    /// Its bindings.
    Bindings(Selection),
    /// The prefixes that have most.
    Top {
        /// By what they are put in order.
        order: Order,
        /// How many of each size.
        lines: u32,
    },
    /// What would become of a packet.
    Trace(Imagined),
    /// How a node of a cluster stands.
    Cluster,
    /// Leave new subscribers to other nodes.
    Drain,
    /// Take them again.
    Join,
    /// Be armed for the new file of all nodes.
    Roll {
        /// For so long.
        seconds: u32,
    },
    /// Be armed no longer.
    CancelRoll,
    /// Make a binding.
    Bind(Binding),
    /// End one.
    Unbind {
        /// Of which table.
        protocol: Protocol,
        /// As the IPv4 side sees it.
        v4: Endpoint4,
    },
    /// End a session.
    EndSession {
        /// Of which table.
        protocol: Protocol,
        /// Its node.
        v6: Endpoint6,
        /// What its node must be bound to; None: to anything.
        v4: Option<Endpoint4>,
        /// Its peer; with ICMP, port 0.
        peer: Endpoint4,
    },
}

impl Request {
    /// Something may be different afterwards: only root and the program's own user may ask for it.
    fn changes(self) -> bool {
        match self {
            Request::Reload
            | Request::Stop
            | Request::Drain
            | Request::Join
            | Request::Roll { .. }
            | Request::CancelRoll
            | Request::Bind(_)
            | Request::Unbind { .. }
            | Request::EndSession { .. } => true,
            Request::Counters
            | Request::Figures
            | Request::Config
            | Request::Prefix
            | Request::Cluster
            | Request::Sessions(_)
            | Request::Bindings(_)
            | Request::Trace(_)
            | Request::Top { .. } => false,
        }
    }

    /// The answer says who talks to whom: only root and the program's own user may have it.
    fn is_private(self) -> bool {
        self.has_parts() || matches!(self, Request::Trace(_))
    }

    /// The answer may take more than one reply.
    fn has_parts(self) -> bool {
        matches!(self, Request::Sessions(_) | Request::Bindings(_))
    }

    /// The answer may take megabytes in one reply.
    fn is_long(self) -> bool {
        self == Request::Config
    }
}

/// What is answered.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// To [`Request::Counters`].
    Counters(Vec<Counter>),
    /// To [`Request::Figures`].
    Figures(Box<Figures>),
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
    /// To [`Request::Top`].
    Top(Entries<TopRow>),
    /// To [`Request::Trace`].
    Trace(Box<Report>),
    /// To [`Request::Cluster`].
    Cluster(Box<ClusterStatus>),
    /// To [`Request::Bind`], [`Request::Unbind`], [`Request::EndSession`], [`Request::Drain`], [`Request::Join`] and
    /// [`Request::Stop`].
    Done,
    /// The configuration file is wrong; the old configuration stays in force.
    Misconfigured(String),
    /// This kind of translator has no such thing.
    NotSupported(String),
    /// It could not be done.
    Failed(String),
}

/// The answer to [`Request::Trace`].
pub fn traced(report: Result<Report, Failure>) -> Answer {
    match report {
        Ok(report) => Answer::Trace(Box::new(report)),
        Err(failure) if failure.kind == Kind::Usage => Answer::Misconfigured(failure.to_string()),
        Err(failure) => Answer::Failed(failure.to_string()),
    }
}
