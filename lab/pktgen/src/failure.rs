// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fatal errors: one sentence and an exit code, with the codes of `diolkos`.

use std::{fmt, io};

use diolkos_fastpath::FastPathError;

/// An error for people: it says what is wrong and, unless that is obvious, what to do.
#[derive(Debug)]
pub struct Failure {
    /// 1: failed at run time; 2: wrong usage; 3: a privilege or a kernel feature is missing.
    pub code: u8,
    message: String,
}

impl Failure {
    /// Exit 1.
    pub fn run_time(message: impl Into<String>) -> Failure {
        Failure {
            code: 1,
            message: message.into(),
        }
    }

    /// Exit 2.
    pub fn usage(message: impl Into<String>) -> Failure {
        Failure {
            code: 2,
            message: message.into(),
        }
    }

    /// Exit 3.
    pub fn missing(message: impl Into<String>) -> Failure {
        Failure {
            code: 3,
            message: message.into(),
        }
    }

    /// An error of the kernel: exit 3 if a privilege is missing, otherwise 1.
    pub fn refused(what: impl fmt::Display, error: &io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::PermissionDenied => Failure::missing(format!(
                "no permission to {what}: run it as root, or with CAP_BPF, CAP_NET_ADMIN and CAP_NET_RAW"
            )),
            _ => Failure::run_time(format!("cannot {what}: {error}")),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<FastPathError> for Failure {
    fn from(error: FastPathError) -> Failure {
        match &error {
            FastPathError::Attach { source, .. } if source.raw_os_error() == Some(16) => {
                Failure::run_time(
                    "the interface has an XDP program already: take it off, or choose another interface",
                )
            }
            _ => Failure::missing(error.to_string()),
        }
    }
}
