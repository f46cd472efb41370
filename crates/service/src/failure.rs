// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fatal errors: one sentence and an exit code.

use std::fmt;

use diolkos_fastpath::FastPathError;
use diolkos_sys::tun::TunError;

/// The meaning of the exit code; scripts rely on these codes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Exit 1: a failure at run time.
    RunTime = 1,
    /// Exit 2: wrong usage or configuration.
    Usage = 2,
    /// Exit 3: a privilege or a kernel feature is missing.
    Missing = 3,
    /// Exit 4: `show status` found a translator that runs but is not ready, or `cluster status` found a fault.
    NotReady = 4,
}

/// An error for people: it says what is wrong and, unless that is obvious, what to do.
#[derive(Debug)]
pub struct Failure {
    /// The kind, which decides the exit code.
    pub kind: Kind,
    /// A retry may succeed: the kernel had no time or no memory. The caller's state stays valid until then.
    pub is_transient: bool,
    message: String,
}

impl Failure {
    /// Exit 1.
    pub fn run_time(message: impl Into<String>) -> Failure {
        Failure {
            kind: Kind::RunTime,
            is_transient: false,
            message: message.into(),
        }
    }

    /// Exit 1, unless the caller retries.
    pub fn transient(message: impl Into<String>) -> Failure {
        Failure::run_time(message).or_transient()
    }

    /// Marks the failure as worth a retry, unless a privilege is missing or the usage is wrong.
    pub fn or_transient(mut self) -> Failure {
        self.is_transient = self.kind == Kind::RunTime;
        self
    }

    /// Exit 2.
    pub fn usage(message: impl Into<String>) -> Failure {
        Failure {
            kind: Kind::Usage,
            is_transient: false,
            message: message.into(),
        }
    }

    /// Exit 4 without a message: standard output has said why.
    pub fn not_ready() -> Failure {
        Failure {
            kind: Kind::NotReady,
            is_transient: false,
            message: String::new(),
        }
    }

    /// Exit 3.
    pub fn missing(message: impl Into<String>) -> Failure {
        Failure {
            kind: Kind::Missing,
            is_transient: false,
            message: message.into(),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

impl From<TunError> for Failure {
    fn from(error: TunError) -> Failure {
        let kind = match error {
            TunError::NoDriver(_) | TunError::Closed | TunError::NotPermitted(_) => Kind::Missing,
            TunError::BadName(_) => Kind::Usage,
            TunError::NameTaken(_) | TunError::Other { .. } => Kind::RunTime,
        };
        Failure {
            kind,
            is_transient: false,
            message: error.to_string(),
        }
    }
}

impl From<FastPathError> for Failure {
    fn from(error: FastPathError) -> Failure {
        Failure::missing(error.to_string())
    }
}
