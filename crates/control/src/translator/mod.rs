// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Control of a running program: the Varlink interface `org.diolkos.Translator`.
//!
//! ask (the command line) → interface (requests and answers as calls and replies) → serve → the program's loop
//!
//! A new request needs a method in `packaging/varlink/org.diolkos.Translator.varlink`, a [`Request`] and an [`Answer`], code
//! for both directions in `interface.rs` (for a request without parameters only its name), and an answer by each service. The
//! socket is in a folder that only the program's user can change (see [`diolkos_service::instance`]), so no other user can
//! replace it. In addition, each side asks the kernel for the identity of the other.

mod ask;
mod interface;
mod serve;
mod status;

use std::time::Duration;

use diolkos_nat64::config::{Binding, Endpoint4, Endpoint6, Protocol};

use diolkos_datapath::trace::{Imagined, Report};
use diolkos_datapath::DatapathError;
use diolkos_figures::cluster_status::ClusterStatus;
use diolkos_figures::counters::Counter;
use diolkos_figures::entries::{BindingRow, Entries, Order, SessionRow, TopRow};
use diolkos_figures::figures::Figures;
use diolkos_figures::prefixes::PrefixRows;
use diolkos_figures::selection::Selection;
use diolkos_service::failure::{Classified, Exit};

pub use ask::{ask, ask_this, follow, socket, status, unexpected};
pub use diolkos_figures::finding::{Finding, Kind as FindingKind, Reason};
pub use serve::{listen, Asker, Control, Question};
pub use status::{Address6, Condition, State, Status};

/// Time limit for an answer that needs much work: each route of a new configuration is a request to the kernel, and there may
/// be many sessions.
const LONG_PATIENCE: Duration = Duration::from_secs(60);

/// A request to a running program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// All counters.
    Counters,
    /// All figures for a monitoring system.
    Figures,
    /// The configuration in force.
    Config,
    /// The translation prefixes in use.
    Prefix,
    /// Reload the configuration file.
    Reload,
    /// End, and leave nothing in the kernel.
    Stop,
    /// Sessions of a NAT64.
    Sessions(Selection),
    /// Bindings of a NAT64.
    Bindings(Selection),
    /// The prefixes with the highest usage.
    Top {
        /// The quantity by which they are sorted.
        order: Order,
        /// The number of lines for each prefix length.
        lines: u32,
    },
    /// The path that a packet would take.
    Trace(Imagined),
    /// The status of a cluster node.
    Cluster,
    /// Leave new subscribers to other nodes.
    Drain,
    /// Accept new subscribers again.
    Join,
    /// Arm the node for a new cluster file on all nodes.
    Roll {
        /// For this many seconds.
        seconds: u32,
    },
    /// Disarm the node.
    CancelRoll,
    /// Create a binding.
    Bind(Binding),
    /// Remove a binding.
    Unbind {
        /// The table of this protocol.
        protocol: Protocol,
        /// The address and port on the IPv4 side.
        v4: Endpoint4,
    },
    /// End a session.
    EndSession {
        /// The table of this protocol.
        protocol: Protocol,
        /// The address and port of its node.
        v6: Endpoint6,
        /// The address and port that the node must be bound to; `None`: any.
        v4: Option<Endpoint4>,
        /// Its peer; with ICMP, the port is 0.
        peer: Endpoint4,
    },
}

impl Request {
    /// Returns true if members of the control group may send the request: it changes nothing, and its answer does not tell who
    /// communicates with whom. All other requests are for root and the program's own user.
    fn is_for_members(self) -> bool {
        matches!(
            self,
            Request::Counters
                | Request::Figures
                | Request::Config
                | Request::Prefix
                | Request::Cluster
                | Request::Top { .. }
        )
    }

    /// Returns true if the answer may take more than one reply.
    fn has_parts(self) -> bool {
        matches!(self, Request::Sessions(_) | Request::Bindings(_))
    }

    /// Returns true if the answer may take megabytes in one reply.
    fn is_long(self) -> bool {
        self == Request::Config
    }
}

/// The answer to a [`Request`].
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
    /// This kind of translator does not support the request.
    NotSupported(String),
    /// The request failed.
    Failed(String),
}

/// The answer to [`Request::Trace`].
pub fn traced(report: Result<Report, DatapathError>) -> Answer {
    match report {
        Ok(report) => Answer::Trace(Box::new(report)),
        Err(failure) if failure.exit() == Exit::Usage => Answer::Misconfigured(failure.to_string()),
        Err(failure) => Answer::Failed(failure.to_string()),
    }
}
