// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors of commands. Every other error comes from a crate below.

use diolkos_service::failure::{Classified, Exit, Failure};

/// Why a command does not do what was asked.
#[derive(thiserror::Error, Debug)]
enum CommandError {
    /// It failed.
    #[error("{0}")]
    RunTime(String),
    /// It was asked wrongly.
    #[error("{0}")]
    Usage(String),
    /// The host lacks something.
    #[error("{0}")]
    Missing(String),
    /// Standard output has said why.
    #[error("")]
    NotReady,
}

impl Classified for CommandError {
    fn exit(&self) -> Exit {
        match self {
            CommandError::RunTime(_) => Exit::RunTime,
            CommandError::Usage(_) => Exit::Usage,
            CommandError::Missing(_) => Exit::Missing,
            CommandError::NotReady => Exit::NotReady,
        }
    }
}

/// A command that failed.
pub fn run_time(sentence: impl Into<String>) -> Failure {
    CommandError::RunTime(sentence.into()).into()
}

/// A command that was asked wrongly.
pub fn usage(sentence: impl Into<String>) -> Failure {
    CommandError::Usage(sentence.into()).into()
}

/// A host that lacks something.
pub fn missing(sentence: impl Into<String>) -> Failure {
    CommandError::Missing(sentence.into()).into()
}

/// A translator that runs but is not ready; standard output has said why.
pub fn not_ready() -> Failure {
    CommandError::NotReady.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_codes_are_those_of_the_manual() {
        let codes = [run_time("a"), usage("b"), missing("c"), not_ready()];
        assert_eq!(
            codes.each_ref().map(|failure| failure.exit() as u8),
            [1, 2, 3, 4]
        );
        assert_eq!(
            codes.map(|failure| failure.to_string()),
            ["a", "b", "c", ""]
        );
    }
}
