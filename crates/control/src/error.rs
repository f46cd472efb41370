// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why a running program cannot be asked, or be asked by others.

use std::io;
use std::path::PathBuf;

use diolkos_service::failure::{Classified, Exit};

/// Why a running program cannot be asked, or be asked by others.
#[derive(thiserror::Error, Debug)]
#[non_exhaustive]
pub enum ControlError {
    /// No program runs for the device.
    #[error("no diolkos runs in this network namespace with the device {0}")]
    Nobody(String),
    /// A program claims the device, but is not trusted.
    #[error(
        "no diolkos runs in this network namespace with the device {device}, of root or of this user; {why}"
    )]
    Ignored {
        /// The device.
        device: String,
        /// The reason.
        why: String,
    },
    /// This user may not look for programs.
    #[error(
        "/run/diolkos belongs to another user, and a running diolkos answers only that user, root and the group `control.group` \
         of its configuration: run this as root, or as a member of that group"
    )]
    Closed,
    /// This user may not open the socket, or must not trust its owner.
    #[error("{0}")]
    Denied(#[source] io::Error),
    /// The program has not answered within the time limit.
    #[error("the running diolkos is busy and has not answered in time: try again")]
    Busy(#[source] io::Error),
    /// The program ended meanwhile, or has just begun.
    #[error(
        "the diolkos with the device {device} is starting or ending and did not answer: try again"
    )]
    StartingOrEnding {
        /// The device.
        device: String,
        /// The error of the socket.
        source: io::Error,
    },
    /// The socket failed otherwise.
    #[error("the running diolkos does not answer: {0}")]
    Unanswered(#[source] io::Error),
    /// The reply is of another request, or of another version.
    #[error("unexpected answer of the running diolkos: {0}")]
    Unexpected(String),
    /// The program could not do it; the sentence is its own.
    #[error("{0}")]
    Failed(String),
    /// The program says that its configuration is wrong; the sentence is its own.
    #[error("{0}")]
    Misconfigured(String),
    /// The group that may read does not exist.
    #[error(
        "control.group: there is no group `{0}`: create it (groupadd --system {0}), or name another one"
    )]
    NoGroup(String),
    /// The list of groups cannot be read.
    #[error("control.group: the group `{group}` cannot be looked up: {source}")]
    Groups {
        /// The group.
        group: String,
        /// The error of the list.
        source: io::Error,
    },
    /// The socket cannot be created.
    #[error("cannot create the control socket {path}: {source}", path = path.display())]
    Socket {
        /// The socket.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
}

impl ControlError {
    /// The error of a socket on which no answer came.
    pub(crate) fn unanswered(device: &str, source: io::Error) -> ControlError {
        use io::ErrorKind::{
            BrokenPipe, ConnectionRefused, ConnectionReset, NotFound, PermissionDenied, TimedOut,
            UnexpectedEof, WouldBlock,
        };
        match source.kind() {
            PermissionDenied => ControlError::Denied(source),
            WouldBlock | TimedOut => ControlError::Busy(source),
            NotFound | ConnectionRefused | BrokenPipe | ConnectionReset | UnexpectedEof => {
                ControlError::StartingOrEnding {
                    device: device.to_owned(),
                    source,
                }
            }
            _ => ControlError::Unanswered(source),
        }
    }
}

impl Classified for ControlError {
    fn exit(&self) -> Exit {
        match self {
            ControlError::Closed => Exit::Missing,
            ControlError::Misconfigured(_) | ControlError::NoGroup(_) => Exit::Usage,
            _ => Exit::RunTime,
        }
    }

    fn is_transient(&self) -> bool {
        matches!(
            self,
            ControlError::Busy(_) | ControlError::StartingOrEnding { .. }
        )
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use super::*;

    #[test]
    fn each_has_its_sentence_its_source_and_its_exit_code() {
        use io::ErrorKind;
        use ControlError as E;
        let of = |kind: ErrorKind| E::unanswered("tun0", kind.into());
        let name = || "tun0".to_owned();
        let cases = [
            (E::Nobody(name()), false, Exit::RunTime, "no diolkos runs in this network namespace with the device tun0"),
            (E::Ignored { device: name(), why: "no".to_owned() }, false, Exit::RunTime, "no diolkos runs in this network \
              namespace with the device tun0, of root or of this user; no"),
            (E::Closed, false, Exit::Missing, "/run/diolkos belongs to another user, and a running diolkos answers only that \
              user, root and the group `control.group` of its configuration: run this as root, or as a member of that group"),
            (of(ErrorKind::PermissionDenied), false, Exit::RunTime, "permission denied"),
            (of(ErrorKind::TimedOut), true, Exit::RunTime, "the running diolkos is busy and has not answered in time: try again"),
            (of(ErrorKind::ConnectionReset), true, Exit::RunTime, "the diolkos with the device tun0 is starting or ending and \
              did not answer: try again"),
            (of(ErrorKind::InvalidData), false, Exit::RunTime, "the running diolkos does not answer: invalid data"),
            (E::Unexpected("Done".to_owned()), false, Exit::RunTime, "unexpected answer of the running diolkos: Done"),
            (E::Failed("no".to_owned()), false, Exit::RunTime, "no"),
            (E::Misconfigured("no".to_owned()), false, Exit::Usage, "no"),
            (E::NoGroup("g".to_owned()), false, Exit::Usage, "control.group: there is no group `g`: create it (groupadd \
              --system g), or name another one"),
            (E::Groups { group: "g".to_owned(), source: ErrorKind::InvalidData.into() }, false, Exit::RunTime,
             "control.group: the group `g` cannot be looked up: invalid data"),
            (E::Socket { path: "/s".into(), source: ErrorKind::InvalidData.into() }, false, Exit::RunTime,
             "cannot create the control socket /s: invalid data"),
        ];
        for (error, is_transient, exit, sentence) in cases {
            assert_eq!(error.to_string(), sentence);
            assert_eq!(
                (error.exit(), error.is_transient()),
                (exit, is_transient),
                "{error}"
            );
        }
        for kind in [
            ErrorKind::PermissionDenied,
            ErrorKind::TimedOut,
            ErrorKind::NotFound,
            ErrorKind::InvalidData,
        ] {
            assert!(of(kind).source().is_some(), "{kind}");
        }
    }
}
