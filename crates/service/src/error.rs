// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The errors of this crate.

use std::io;
use std::path::{Path, PathBuf};

use diolkos_sys::peer;

use crate::failure::{Classified, Exit};

/// The environment variable that selects the mode.
pub(crate) const VARIABLE: &str = "DIOLKOS_SECCOMP";

/// Why the process cannot run as it should.
#[derive(thiserror::Error, Debug)]
#[non_exhaustive]
pub enum ServiceError {
    /// Another process has claimed the device.
    #[error(
        "another diolkos{who} already runs in this network namespace with the device {name}: \
         stop it, or choose another device with --device",
        who = if pid.is_empty() { String::new() } else { format!(" (process {pid})") }
    )]
    Taken {
        /// The device, or the name of a DNS64.
        name: String,
        /// The process, or nothing if that is not known.
        pid: String,
    },
    /// A name cannot be part of a path.
    #[error(
        "`{0}` is not a name for a device or a DNS64 (1 to 64 visible ASCII characters, no `/`, no `.` in front)"
    )]
    Name(String),
    /// The kernel is too old to number network namespaces.
    #[error("the kernel does not number network namespaces ({0}); Linux 5.14 and later do")]
    NamespaceNumber(#[source] io::Error),
    /// The folder for locks and sockets, or a file in it.
    #[error(
        "{path}, for the lock and the control socket, cannot be used ({source}): {advice}",
        path = path.display()
    )]
    Folder {
        /// The folder or file.
        path: PathBuf,
        /// The kernel's error, or what is wrong with the folder.
        source: io::Error,
        /// Advice for this user.
        advice: &'static str,
    },
    /// The environment names a confinement that does not exist.
    #[error("{VARIABLE}: {0:?} is none of \"enforce\", \"log\" and \"off\"")]
    Confinement(String),
    /// A thread after the first has no filter of system calls.
    #[error(
        "a thread cannot be confined to its system calls: {0}; {VARIABLE}=off runs without that"
    )]
    Unconfined(#[source] io::Error),
    /// Other processes could read the memory of this one.
    #[error("cannot forbid cores: {0}")]
    Cores(#[source] io::Error),
    /// A thread keeps rights that it does not need.
    #[error("cannot drop capabilities: {0}")]
    Capabilities(#[source] io::Error),
    /// The process lacks capabilities.
    #[error(
        "translating packets needs {}: run it as root, or give it the capabilities",
        .0.join(" and ")
    )]
    Privileges(Vec<&'static str>),
    /// Signals cannot be handled.
    #[error("cannot install a signal handler: {0}")]
    Signals(#[source] io::Error),
    /// A confined thread would get signals.
    #[error("cannot block signals: {0}")]
    SignalMask(#[source] io::Error),
    /// A thread cannot be started.
    #[error("cannot start the thread {purpose}: {source}")]
    Thread {
        /// What the thread is for, after "the thread".
        purpose: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
    /// An error in this program.
    #[error("{who} panicked: {said}: this is an error in diolkos, please report it with the log")]
    Panic {
        /// The thread or task.
        who: String,
        /// The message of the panic, on one line.
        said: String,
    },
}

impl ServiceError {
    /// A path in the folder for locks and sockets that cannot be used, with the advice for this user.
    pub(crate) fn folder(path: &Path, source: io::Error) -> ServiceError {
        ServiceError::Folder {
            path: path.to_owned(),
            source,
            advice: match peer::own_uid() {
                0 => "make /run writable (systemd: RuntimeDirectory=diolkos)",
                _ => {
                    "run as root, or set XDG_RUNTIME_DIR to a folder of this user, or give this user the folder \
                     /run/diolkos (systemd: RuntimeDirectory=diolkos)"
                }
            },
        }
    }
}

impl Classified for ServiceError {
    fn exit(&self) -> Exit {
        use ServiceError as E;
        match self {
            E::Name(_) | E::Confinement(_) => Exit::Usage,
            E::NamespaceNumber(_) | E::Folder { .. } | E::Privileges(_) => Exit::Missing,
            E::Taken { .. }
            | E::Unconfined(_)
            | E::Cores(_)
            | E::Capabilities(_)
            | E::Signals(_)
            | E::SignalMask(_)
            | E::Thread { .. }
            | E::Panic { .. } => Exit::RunTime,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use super::*;

    fn memory() -> io::Error {
        io::ErrorKind::OutOfMemory.into()
    }

    #[test]
    fn each_has_its_sentence_its_source_and_its_exit_code() {
        use ServiceError as E;
        let taken = |pid: &str| E::Taken {
            name: "tun0".to_owned(),
            pid: pid.to_owned(),
        };
        let cases = [
            (taken("12"), false, Exit::RunTime, "another diolkos (process 12) already runs in this network namespace with \
              the device tun0: stop it, or choose another device with --device"),
            (taken(""), false, Exit::RunTime, "another diolkos already runs in this network namespace with the device \
              tun0: stop it, or choose another device with --device"),
            (E::Name("a/b".to_owned()), false, Exit::Usage, "`a/b` is not a name for a device or a DNS64 (1 to 64 visible \
              ASCII characters, no `/`, no `.` in front)"),
            (E::NamespaceNumber(memory()), true, Exit::Missing, "the kernel does not number network namespaces (out of \
              memory); Linux 5.14 and later do"),
            (E::Folder { path: "/run/diolkos".into(), source: memory(), advice: "do this" }, true, Exit::Missing,
             "/run/diolkos, for the lock and the control socket, cannot be used (out of memory): do this"),
            (E::Confinement("no".to_owned()), false, Exit::Usage, "DIOLKOS_SECCOMP: \"no\" is none of \"enforce\", \"log\" \
              and \"off\""),
            (E::Unconfined(memory()), true, Exit::RunTime, "a thread cannot be confined to its system calls: out of \
              memory; DIOLKOS_SECCOMP=off runs without that"),
            (E::Cores(memory()), true, Exit::RunTime, "cannot forbid cores: out of memory"),
            (E::Capabilities(memory()), true, Exit::RunTime, "cannot drop capabilities: out of memory"),
            (E::Privileges(vec!["A", "B"]), false, Exit::Missing, "translating packets needs A and B: run it as root, or \
              give it the capabilities"),
            (E::Signals(memory()), true, Exit::RunTime, "cannot install a signal handler: out of memory"),
            (E::SignalMask(memory()), true, Exit::RunTime, "cannot block signals: out of memory"),
            (E::Thread { purpose: "of the alarms", source: memory() }, true, Exit::RunTime,
             "cannot start the thread of the alarms: out of memory"),
            (E::Panic { who: "the thread `x`".to_owned(), said: "no".to_owned() }, false, Exit::RunTime,
             "the thread `x` panicked: no: this is an error in diolkos, please report it with the log"),
        ];
        for (error, has_source, exit, sentence) in cases {
            assert_eq!(error.to_string(), sentence);
            assert_eq!(error.source().is_some(), has_source, "{error}");
            assert_eq!(error.exit(), exit, "{error}");
            assert!(!error.is_transient(), "{error}");
        }
    }
}
