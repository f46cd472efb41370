// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The border between errors and people: any crate's error that ends a command, a thread or a service.
//!
//! error of a crate (an enum; [`Classified`]) → [`Failure`] → one sentence, and an exit code

use std::error::Error;
use std::fmt;

use diolkos_sys::tun::TunError;

/// Whose fault an error is. It is the meaning of the exit code; scripts rely on these codes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exit {
    /// Exit 1: the surroundings, at run time.
    RunTime = 1,
    /// Exit 2: the command line or the configuration.
    Usage = 2,
    /// Exit 3: the host, which lacks a privilege or a kernel feature.
    Missing = 3,
    /// Exit 4: `show status` found a translator that runs but is not ready, or `cluster status` found a fault.
    NotReady = 4,
}

/// An error whose variants say what failed. Its text is a sentence for people: what is wrong and, unless that is obvious, what
/// to do. Its source is the error below it, if there is one.
pub trait Classified: Error + Send + Sync + 'static {
    /// Whose fault it is.
    fn exit(&self) -> Exit;

    /// A retry may succeed: the kernel had no time or no memory. The caller's state stays valid until then.
    fn is_transient(&self) -> bool {
        false
    }
}

/// An error that was carried to where it is told: standard error, the log, or the reply to a request.
#[derive(Debug)]
pub struct Failure(Box<dyn Classified>);

impl Failure {
    /// Whose fault it is, which decides the exit code.
    pub fn exit(&self) -> Exit {
        self.0.exit()
    }

    /// A retry may succeed, as the error said ([`Classified::is_transient`]).
    pub fn is_transient(&self) -> bool {
        self.0.is_transient()
    }
}

impl<E: Classified> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure(Box::new(error))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for Failure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}

impl Classified for TunError {
    fn exit(&self) -> Exit {
        match self {
            TunError::NoDriver(_) | TunError::Closed | TunError::NotPermitted(_) => Exit::Missing,
            TunError::BadName(_) => Exit::Usage,
            _ => Exit::RunTime,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use crate::error::ServiceError;

    #[test]
    fn a_failure_is_its_error() {
        let failure = Failure::from(ServiceError::Signals(io::ErrorKind::OutOfMemory.into()));
        assert_eq!(failure.exit(), Exit::RunTime);
        assert_eq!(
            failure.to_string(),
            "cannot install a signal handler: out of memory"
        );
        assert_eq!(
            failure.source().expect("a source").to_string(),
            "out of memory"
        );
        assert!(!failure.is_transient());
    }

    #[test]
    fn a_device_that_cannot_be_made_has_its_exit_code() {
        let denied = || io::ErrorKind::PermissionDenied.into();
        for (error, exit) in [
            (TunError::NoDriver(denied()), Exit::Missing),
            (TunError::Closed, Exit::Missing),
            (TunError::NotPermitted("tun0".to_owned()), Exit::Missing),
            (TunError::BadName("a/b".to_owned()), Exit::Usage),
            (TunError::NameTaken("eth0".to_owned()), Exit::RunTime),
        ] {
            assert_eq!(Failure::from(error).exit(), exit);
        }
    }
}
