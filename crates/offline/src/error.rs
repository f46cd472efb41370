// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why a capture is not translated.

use std::io;
use std::path::PathBuf;

use diolkos_config::ConfigurationError;
use diolkos_service::failure::{Classified, Exit};
use diolkos_xlat::config::ConfigError;

use crate::pcap::ReadError;

/// Why a capture is not translated.
#[derive(thiserror::Error, Debug)]
#[non_exhaustive]
pub enum OfflineError {
    /// The configuration file.
    #[error(transparent)]
    Configuration(#[from] ConfigurationError),
    /// The address of a CLAT.
    #[error(
        "clat.v6: `auto` and `shared` need an uplink, and there is none here: give the address"
    )]
    NoUplink,
    /// The prefix.
    #[error("translator.pref64: `auto` needs a network, and there is none here: give the prefix")]
    NoNetwork,
    /// Only a NAT64 has bindings.
    #[error("--bindings: only a NAT64 has bindings, and translator.mode is another")]
    NoBindings,
    /// The settings contradict each other.
    #[error("{sentence}")]
    Contradiction {
        /// The first contradiction, with its key.
        sentence: String,
        /// The error as it was returned.
        source: ConfigError,
    },
    /// The output would overwrite the input.
    #[error("--to-pcap is the file that --from-pcap reads: choose another")]
    SameFile,
    /// The capture cannot be opened.
    #[error("the capture {path} cannot be read: {source}", path = path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// The capture is no capture, or is damaged.
    #[error("the capture {path}: {source}", path = path.display())]
    Capture {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: ReadError,
    },
    /// The output cannot be written.
    #[error("the capture {path} cannot be written: {source}", path = path.display())]
    Unwritten {
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// Standard output cannot be written.
    #[error("cannot write: {0}")]
    Output(#[source] io::Error),
    /// The file of bindings cannot be read.
    #[error("--bindings {path}: it cannot be read: {source}", path = path.display())]
    BindingsUnreadable {
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// The file of bindings is too long.
    #[error("--bindings {path}: it is longer than {most_mib} MiB", path = path.display())]
    BindingsTooLong {
        /// The file.
        path: PathBuf,
        /// The limit, MiB.
        most_mib: u64,
    },
    /// The file of bindings is something else.
    #[error(
        "--bindings {path}: it is not the output of `diolkos show bindings --json`: {source}",
        path = path.display()
    )]
    BindingsForeign {
        /// The file.
        path: PathBuf,
        /// What the parser says.
        source: serde_json::Error,
    },
    /// The tables refuse a binding.
    #[error("--bindings {path}: the binding {binding} cannot be made: {why}", path = path.display())]
    Binding {
        /// The file.
        path: PathBuf,
        /// The binding in words.
        binding: String,
        /// The reason in words.
        why: String,
    },
}

impl Classified for OfflineError {
    fn exit(&self) -> Exit {
        use OfflineError as E;
        match self {
            E::Configuration(error) => error.exit(),
            E::NoUplink
            | E::NoNetwork
            | E::NoBindings
            | E::Contradiction { .. }
            | E::SameFile
            | E::Binding { .. } => Exit::Usage,
            E::Unreadable { .. }
            | E::Capture { .. }
            | E::Unwritten { .. }
            | E::Output(_)
            | E::BindingsUnreadable { .. }
            | E::BindingsTooLong { .. }
            | E::BindingsForeign { .. } => Exit::RunTime,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use super::*;

    #[test]
    fn each_has_its_sentence_its_source_and_its_exit_code() {
        use OfflineError as E;
        let path = || PathBuf::from("/x");
        let memory = || io::ErrorKind::OutOfMemory.into();
        let binding = "tcp 192.0.2.1:1 of [::1]:2".to_owned();
        let cases = [
            (
                E::NoUplink,
                false,
                Exit::Usage,
                "clat.v6: `auto` and `shared` need an uplink, and there is none here: give the \
              address",
            ),
            (
                E::NoNetwork,
                false,
                Exit::Usage,
                "translator.pref64: `auto` needs a network, and there is none here: give the \
              prefix",
            ),
            (
                E::NoBindings,
                false,
                Exit::Usage,
                "--bindings: only a NAT64 has bindings, and translator.mode is another",
            ),
            (
                E::SameFile,
                false,
                Exit::Usage,
                "--to-pcap is the file that --from-pcap reads: choose another",
            ),
            (
                E::Unreadable {
                    path: path(),
                    source: memory(),
                },
                true,
                Exit::RunTime,
                "the capture /x cannot be read: out of \
              memory",
            ),
            (
                E::Unwritten {
                    path: path(),
                    source: memory(),
                },
                true,
                Exit::RunTime,
                "the capture /x cannot be written: out of \
              memory",
            ),
            (
                E::Output(memory()),
                true,
                Exit::RunTime,
                "cannot write: out of memory",
            ),
            (
                E::BindingsUnreadable {
                    path: path(),
                    source: memory(),
                },
                true,
                Exit::RunTime,
                "--bindings /x: it cannot be read: \
              out of memory",
            ),
            (
                E::BindingsTooLong {
                    path: path(),
                    most_mib: 9,
                },
                false,
                Exit::RunTime,
                "--bindings /x: it is longer than 9 MiB",
            ),
            (
                E::Binding {
                    path: path(),
                    binding,
                    why: "no".to_owned(),
                },
                false,
                Exit::Usage,
                "--bindings /x: the binding tcp \
              192.0.2.1:1 of [::1]:2 cannot be made: no",
            ),
        ];
        for (error, has_source, exit, sentence) in cases {
            assert_eq!(error.to_string(), sentence);
            assert_eq!(error.source().is_some(), has_source, "{error}");
            assert_eq!(
                (error.exit(), error.is_transient()),
                (exit, false),
                "{error}"
            );
        }
    }
}
