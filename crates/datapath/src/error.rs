// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The errors of this crate: why there is no fast path, why a packet cannot be traced, and the end of the slow path.

use std::io;

use diolkos_fastpath::FastPathError;
use diolkos_kernel::error::KernelError;
use diolkos_service::failure::{Classified, Exit};
use diolkos_service::privilege::{self, PERFMON, SYS_ADMIN};
use diolkos_sys::limit;

/// Number of additional files that is enough for any operation that could not open one.
const MORE: u64 = 128;

/// Why packets cannot be translated, or traced.
#[derive(thiserror::Error, Debug)]
#[non_exhaustive]
pub enum DatapathError {
    /// The fast path cannot be started.
    #[error(transparent)]
    FastPath(FastPathError),
    /// The verifier refuses the programs, since the process lacks a capability that it should have.
    #[error(
        "the kernel refuses the BPF programs ({what}), because CAP_PERFMON is missing: run as root, or with \
         CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN"
    )]
    NoPerfmon {
        /// The verifier's reason in one line.
        what: String,
        /// The error as it was returned.
        source: FastPathError,
    },
    /// All files that the process may open are open: its limit has been lowered.
    #[error(
        "the limit of open files is {limit}, and all of them are open: raise it (prlimit --pid {} --nofile={enough}; \
         systemd: LimitNOFILE={enough}, and a restart)",
        std::process::id(),
        enough = limit + MORE
    )]
    NoFiles {
        /// The limit.
        limit: u64,
        /// The error as it was returned.
        source: FastPathError,
    },
    /// A thread that reads the TUN device cannot be started.
    #[error("cannot start the readers of {device}: {source}")]
    Readers {
        /// The device.
        device: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// A queue of the TUN device cannot be read any more.
    #[error("the TUN device {device} is gone")]
    TunGone {
        /// The device.
        device: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// The packet that is to be traced cannot exist.
    #[error("{0}")]
    Packet(String),
    /// The engine has no trace.
    #[error("this translator cannot trace packets")]
    NoTrace,
    /// The kernel's configuration cannot be read.
    #[error(transparent)]
    Kernel(#[from] KernelError),
}

impl From<FastPathError> for DatapathError {
    /// Adds what this process can tell about the cause. The output of the verifier is logged.
    fn from(source: FastPathError) -> DatapathError {
        if source.lacks_files() {
            // A process that cannot ask assumes the kernel's default.
            let limit = limit::open_files_now().unwrap_or(1024);
            return DatapathError::NoFiles { limit, source };
        }
        if let FastPathError::Load { what, log, .. } = &source {
            tracing::debug!("{log}");
            // Without CAP_PERFMON the verifier refuses what it otherwise accepts, in many words. CAP_SYS_ADMIN includes
            // all newer capabilities.
            if privilege::missing(&[PERFMON, SYS_ADMIN]).len() == 2 {
                let what = what.clone();
                return DatapathError::NoPerfmon { what, source };
            }
        }
        DatapathError::FastPath(source)
    }
}

impl Classified for DatapathError {
    fn exit(&self) -> Exit {
        use DatapathError as E;
        match self {
            E::FastPath(_) | E::NoPerfmon { .. } | E::NoFiles { .. } => Exit::Missing,
            E::Readers { .. } | E::TunGone { .. } => Exit::RunTime,
            E::Packet(_) | E::NoTrace => Exit::Usage,
            E::Kernel(error) => error.exit(),
        }
    }

    fn is_transient(&self) -> bool {
        match self {
            // Files may be closed, and the limit raised, while the process runs.
            DatapathError::NoFiles { .. } => true,
            DatapathError::Kernel(error) => error.is_transient(),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use super::*;

    #[test]
    fn each_has_its_sentence_its_source_and_its_exit_code() {
        use DatapathError as E;
        let memory = || io::ErrorKind::OutOfMemory.into();
        let refused = || FastPathError::Refused(memory());
        let own = std::process::id();
        let files = format!(
            "the limit of open files is 64, and all of them are open: raise it (prlimit --pid {own} --nofile=192; systemd: \
             LimitNOFILE=192, and a restart)"
        );
        let cases = [
            (E::from(refused()), Exit::Missing, false, refused().to_string()),
            (E::NoPerfmon { what: "no".to_owned(), source: refused() }, Exit::Missing, false,
             "the kernel refuses the BPF programs (no), because CAP_PERFMON is missing: run as root, or with CAP_BPF, \
              CAP_PERFMON and CAP_NET_ADMIN".to_owned()),
            (E::NoFiles { limit: 64, source: FastPathError::Files }, Exit::Missing, true, files),
            (E::Readers { device: "tun0".to_owned(), source: memory() }, Exit::RunTime, false,
             "cannot start the readers of tun0: out of memory".to_owned()),
            (E::TunGone { device: "tun0".to_owned(), source: memory() }, Exit::RunTime, false,
             "the TUN device tun0 is gone".to_owned()),
            (KernelError::Connect(memory()).into(), Exit::RunTime, false,
             "no netlink connection to the kernel: out of memory".to_owned()),
            (KernelError::Read { action: "list the links".to_owned(), source: memory() }.into(), Exit::RunTime, true,
             "cannot list the links: out of memory".to_owned()),
        ];
        for (error, exit, is_transient, sentence) in cases {
            assert_eq!(error.to_string(), sentence);
            assert!(error.source().is_some(), "{error}");
            assert_eq!(
                (error.exit(), error.is_transient()),
                (exit, is_transient),
                "{error}"
            );
        }
        for (error, sentence) in [
            (E::Packet("no".to_owned()), "no"),
            (E::NoTrace, "this translator cannot trace packets"),
        ] {
            assert_eq!(
                (error.to_string().as_str(), error.exit()),
                (sentence, Exit::Usage)
            );
            assert!(error.source().is_none() && !error.is_transient());
        }
    }

    #[test]
    fn a_process_without_files_says_so() {
        let error = DatapathError::from(FastPathError::Files);
        assert!(matches!(error, DatapathError::NoFiles { .. }) && error.is_transient());
    }
}
