// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why a configuration is not used.

use std::io;
use std::path::PathBuf;

use diolkos_service::failure::{Classified, Exit};

/// Why a configuration is not used. It is the operator's to change, except where it does not print.
#[derive(thiserror::Error, Debug)]
#[non_exhaustive]
pub enum ConfigurationError {
    /// The file cannot be read.
    #[error("the configuration file {path} cannot be read: {source}", path = path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The kernel's error, or what is wrong with the file.
        source: io::Error,
    },
    /// The text is no TOML, or has a key or a type that does not exist.
    #[error("{name}:{line}:{column}: {sentence}")]
    Text {
        /// The name of the file.
        name: String,
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
        /// What is wrong, and what to write.
        sentence: String,
        /// The parser's error.
        source: Box<toml::de::Error>,
    },
    /// Values contradict each other, or are of another mode: one line for each, with its place.
    #[error("{}", .0.join("\n"))]
    Objections(Vec<String>),
    /// A node is named, but there is no cluster.
    #[error("--node: the file has no section [cluster]")]
    NoCluster,
    /// There is a cluster, but the node is not one of it, or none is named.
    #[error("cluster.node: say by --node which gateway is meant: {}", .0.join(", "))]
    WhichNode(Vec<String>),
    /// The settings have no text: an error in this program.
    #[error("the configuration does not print: {0}")]
    Print(#[from] toml::ser::Error),
}

impl Classified for ConfigurationError {
    fn exit(&self) -> Exit {
        match self {
            ConfigurationError::Print(_) => Exit::RunTime,
            _ => Exit::Usage,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use super::*;

    #[test]
    fn each_has_its_sentence_and_its_source() {
        use ConfigurationError as E;
        let text = toml::from_str::<toml::Table>("=").expect_err("no TOML");
        let names = || vec!["a".to_owned(), "b".to_owned()];
        let cases = [
            (
                E::Unreadable {
                    path: "/x".into(),
                    source: io::ErrorKind::NotFound.into(),
                },
                true,
                "the configuration file /x cannot be read: entity not found",
            ),
            (
                E::Text {
                    name: "x.toml".to_owned(),
                    line: 1,
                    column: 2,
                    sentence: "no".to_owned(),
                    source: Box::new(text),
                },
                true,
                "x.toml:1:2: no",
            ),
            (E::Objections(names()), false, "a\nb"),
            (
                E::NoCluster,
                false,
                "--node: the file has no section [cluster]",
            ),
            (
                E::WhichNode(names()),
                false,
                "cluster.node: say by --node which gateway is meant: a, b",
            ),
        ];
        for (error, has_source, sentence) in cases {
            assert_eq!(error.to_string(), sentence);
            assert_eq!(error.source().is_some(), has_source, "{error}");
            assert_eq!((error.exit(), error.is_transient()), (Exit::Usage, false));
        }
    }
}
