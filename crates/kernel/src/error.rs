// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The errors of this crate. What the kernel's error numbers mean is decided here, for all requests.

use std::fmt::Display;
use std::io;
use std::path::PathBuf;

use diolkos_service::error::ServiceError;
use diolkos_service::failure::{Classified, Exit};
use diolkos_sys::tun::TunError;

/// What the CLAT can do instead of sharing the host's address.
const INSTEAD: &str = "give the CLAT an address of its own with --v6, or a prefix with --v6-prefix";

/// Why the kernel's configuration could not be read or changed.
#[derive(thiserror::Error, Debug)]
#[non_exhaustive]
pub enum KernelError {
    /// No netlink socket could be opened at the start.
    #[error("no netlink connection to the kernel: {0}")]
    Connect(#[source] io::Error),
    /// The kernel closed a netlink socket, so changes would be missed.
    #[error("the kernel closed the netlink connection")]
    Lost,
    /// The socket that reports sysctls failed.
    #[error("the kernel no longer reports settings: {0}")]
    Settings(#[source] io::Error),
    /// A privilege is missing. `action` completes "no permission to …" and "cannot …", here and below.
    #[error("no permission to {action}: run as root or with CAP_NET_ADMIN")]
    NotPermitted {
        /// The request.
        action: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// The kernel returned an error to a question or a list. These need nothing but its time and memory.
    #[error("cannot {action}: {source}")]
    Read {
        /// The request.
        action: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// The kernel refused a change.
    #[error("cannot {action}: {source}")]
    Change {
        /// The request.
        action: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// The kernel did not answer in time.
    #[error("cannot {action}: the kernel has not answered within {patience_s} s")]
    Silent {
        /// The request.
        action: String,
        /// The time limit.
        patience_s: u64,
    },
    /// No netlink socket could be opened for a request.
    #[error("cannot {action}: no netlink connection to the kernel: {source}")]
    Unconnected {
        /// The request.
        action: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// The kernel closed the socket of a request.
    #[error("cannot {action}: the kernel closed the netlink connection")]
    Closed {
        /// The request.
        action: String,
    },
    /// A look-up that cannot be written as a message.
    #[error("cannot look up the route: {0}")]
    Question(#[source] io::Error),
    /// Another program has a route to this destination with this metric.
    #[error(
        "there is a route to {to} with metric {metric} already: stop what it belongs to (`ip route show {to}` names \
         its device), or choose another metric"
    )]
    RouteExists {
        /// The destination.
        to: String,
        /// The metric.
        metric: u32,
    },
    /// The interface takes no IPv6 route.
    #[error(
        "cannot add the route to {to}: IPv6 is disabled on {name}: set net.ipv6.conf.{name}.disable_ipv6 to 0"
    )]
    Ipv6Disabled {
        /// The destination.
        to: String,
        /// The interface.
        name: String,
    },
    /// There is no such interface.
    #[error("there is no network interface `{name}` (there are: {})", .there.join(", "))]
    NoLink {
        /// The interface.
        name: String,
        /// The interfaces that exist.
        there: Vec<String>,
    },
    /// The TUN device cannot be made or opened.
    #[error(transparent)]
    Tun(#[from] TunError),
    /// Another process was always faster.
    #[error(
        "another process opens each new TUN device before it has an owner, {attempts} times now: \
         find out who does (`lsof /dev/net/tun`), or let only root use the device (chmod 0600 /dev/net/tun)"
    )]
    TunContested {
        /// The number of devices that were made.
        attempts: usize,
    },
    /// Another process may read packets of the device.
    #[error("other users can open the TUN device {0}, or have opened it")]
    TunShared(String),
    /// The device was removed.
    #[error("the TUN device {0} is gone")]
    TunGone(String),
    /// The device of a running translator was removed.
    #[error("the TUN device is gone")]
    OwnTunGone,
    /// The device would stay after the process.
    #[error("{name} cannot be owned: {source}")]
    TunNotOwned {
        /// The device.
        name: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// The process may not change rules of netfilter.
    #[error(
        "the kernel does not let this process masquerade ({0}), so the CLAT cannot share the host's address: run it as \
         root or with CAP_NET_ADMIN, or {INSTEAD}"
    )]
    MasqueradeNotPermitted(#[source] io::Error),
    /// The kernel lacks a part of netfilter.
    #[error(
        "the kernel cannot masquerade: it refuses {needs}: {source}; so the CLAT cannot share the host's address: \
         {INSTEAD}"
    )]
    Masquerade {
        /// The part, with the name of its kernel option.
        needs: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// The kernel does not share the address of an interface with a NAT64.
    #[error(
        "the address of {interface} cannot be shared (nat64.pool4.interface): the kernel refuses {needs}: {source}"
    )]
    Sharing {
        /// The interface.
        interface: String,
        /// The part, with the name of its kernel option.
        needs: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
    /// Entries of conntrack that contradict the rules of a shared address stay.
    #[error(
        "entries of conntrack from before nodes shared the address of {interface} cannot be deleted ({source}; CONFIG_NF_CT_NETLINK): a \
         flow that had one passes again once it has been silent for conntrack's timeout, or after `conntrack -F`"
    )]
    Stale {
        /// The interface.
        interface: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// A sysctl of forwarding cannot be read or written.
    #[error(
        "forwarding cannot be switched on ({source}), which packets through {tun} need: \
         switch it on before (net.ipv6.conf.all.forwarding=1; for a router net.ipv4.ip_forward=1 too)"
    )]
    Forwarding {
        /// The TUN device.
        tun: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// The values of sysctls cannot be recorded, so they are not changed.
    #[error(
        "{path}, which records the settings to restore, cannot be written ({source}): make its folder writable",
        path = path.display()
    )]
    Note {
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// The process has no folder for the record of sysctls.
    #[error(transparent)]
    Service(#[from] ServiceError),
}

impl KernelError {
    /// netfilter refused a message; `needs` names the part of it that the message needs.
    pub(crate) fn masquerade(needs: &str, source: io::Error) -> KernelError {
        match source.kind() {
            io::ErrorKind::PermissionDenied => KernelError::MasqueradeNotPermitted(source),
            _ => KernelError::Masquerade {
                needs: needs.to_owned(),
                source,
            },
        }
    }
}

impl Classified for KernelError {
    fn exit(&self) -> Exit {
        use KernelError as E;
        match self {
            E::Tun(error) => error.exit(),
            E::Service(error) => error.exit(),
            E::NotPermitted { .. }
            | E::MasqueradeNotPermitted(_)
            | E::Masquerade { .. }
            | E::Sharing { .. }
            | E::Forwarding { .. }
            | E::Note { .. } => Exit::Missing,
            E::Connect(_)
            | E::Lost
            | E::Settings(_)
            | E::Read { .. }
            | E::Change { .. }
            | E::Silent { .. }
            | E::Unconnected { .. }
            | E::Closed { .. }
            | E::Question(_)
            | E::RouteExists { .. }
            | E::Ipv6Disabled { .. }
            | E::NoLink { .. }
            | E::TunContested { .. }
            | E::TunShared(_)
            | E::TunGone(_)
            | E::OwnTunGone
            | E::Stale { .. }
            | E::TunNotOwned { .. } => Exit::RunTime,
        }
    }

    fn is_transient(&self) -> bool {
        use KernelError as E;
        matches!(
            self,
            E::Read { .. }
                | E::Silent { .. }
                | E::Unconnected { .. }
                | E::Closed { .. }
                | E::Sharing { .. }
        )
    }
}

/// The reason why a request was not carried out.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The kernel returned an error.
    Error(rtnetlink::Error),
    /// The kernel did not answer in time.
    Silence {
        /// The time limit.
        patience_s: u64,
    },
    /// No socket could be opened.
    Unconnected(io::Error),
    /// The kernel closed the socket.
    Closed,
}

impl Refusal {
    /// The kernel's error number, if it returned one.
    pub(crate) fn errno(&self) -> Option<io::Error> {
        match self {
            Refusal::Error(rtnetlink::Error::NetlinkError(message)) => Some(message.to_io()),
            _ => None,
        }
    }

    fn is(&self, kind: io::ErrorKind) -> bool {
        self.errno().is_some_and(|error| error.kind() == kind)
    }

    /// Returns true if what was to be added is there already.
    pub(crate) fn is_there(&self) -> bool {
        self.is(io::ErrorKind::AlreadyExists)
    }

    /// Returns true if the device is down, so that it takes no routes.
    pub(crate) fn is_down(&self) -> bool {
        self.is(io::ErrorKind::NetworkDown)
    }

    /// Returns true if no route exists, or the route refuses packets.
    pub(crate) fn is_unreachable(&self) -> bool {
        self.errno().is_some_and(|error| is_unreachable(&error))
    }

    /// The error of a question or a list. `action` completes the sentence "cannot …".
    pub(crate) fn read(self, action: impl Display) -> KernelError {
        let action = action.to_string();
        self.denied(action, |action, source| KernelError::Read {
            action,
            source,
        })
    }

    /// The error of a change. `action` completes the sentence "cannot …".
    pub(crate) fn change(self, action: impl Display) -> KernelError {
        let action = action.to_string();
        self.denied(action, |action, source| KernelError::Change {
            action,
            source,
        })
    }

    /// The error of a route that was not added. `disabled6` is the interface, if IPv6 is disabled on it.
    pub(crate) fn route(
        self,
        to: impl Display,
        metric: Option<u32>,
        disabled6: Option<String>,
    ) -> KernelError {
        match (metric, disabled6) {
            // The kernel reports this with the same error number as a missing privilege.
            (_, Some(name)) if self.is(io::ErrorKind::PermissionDenied) => {
                KernelError::Ipv6Disabled {
                    to: to.to_string(),
                    name,
                }
            }
            (Some(metric), _) if self.is_there() => KernelError::RouteExists {
                to: to.to_string(),
                metric,
            },
            _ => self.change(format_args!("add the route to {to}")),
        }
    }

    fn denied(
        self,
        action: String,
        otherwise: impl FnOnce(String, io::Error) -> KernelError,
    ) -> KernelError {
        match (self.errno(), self) {
            (Some(source), _) if source.kind() == io::ErrorKind::PermissionDenied => {
                KernelError::NotPermitted { action, source }
            }
            (Some(source), _) => otherwise(action, source),
            (None, Refusal::Error(error)) => otherwise(action, io::Error::other(error)),
            (None, Refusal::Silence { patience_s }) => KernelError::Silent { action, patience_s },
            (None, Refusal::Unconnected(source)) => KernelError::Unconnected { action, source },
            (None, Refusal::Closed) => KernelError::Closed { action },
        }
    }
}

/// Returns true for the errors by which the kernel says that no route exists or that the route refuses packets.
pub(crate) fn is_unreachable(error: &io::Error) -> bool {
    use io::ErrorKind::{HostUnreachable, InvalidInput, NetworkUnreachable, PermissionDenied};
    matches!(
        error.kind(),
        HostUnreachable | NetworkUnreachable | InvalidInput | PermissionDenied
    )
}

/// The type of the route that refuses packets, if the error that the kernel returns is of one. It is the error that the sender
/// of such a packet would get.
pub(crate) fn refusing_route(error: &io::Error) -> Option<&'static str> {
    match error.kind() {
        io::ErrorKind::InvalidInput => Some("blackhole"),
        io::ErrorKind::HostUnreachable => Some("unreachable"),
        io::ErrorKind::PermissionDenied => Some("prohibit"),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
