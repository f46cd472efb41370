// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors, with the codes of the CNI specification (section 5, "Error").

use std::io;
use std::path::{Path, PathBuf};

use serde_json::{json, Value};

/// The newest version of the specification that this plugin knows.
pub const NEWEST: &str = "1.1.0";

/// Why a call fails.
#[derive(thiserror::Error, Debug)]
pub enum CniError {
    /// The configuration has a version of the specification that this plugin does not know.
    #[error("cniVersion \"{0}\" is not supported; write \"1.0.0\" or \"1.1.0\"")]
    Version(String),
    /// A variable of the environment is missing or wrong.
    #[error("{name} {why}")]
    Environment {
        /// The variable.
        name: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// The system refused something.
    #[error("{what} {}: {source}", path.display())]
    System {
        /// What failed, as "cannot open".
        what: &'static str,
        /// With which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Standard input is no JSON, or not whole.
    #[error("standard input cannot be read as a network configuration: {0}")]
    Input(serde_json::Error),
    /// The configuration has a mistake.
    #[error("{0}")]
    Configuration(String),
    /// Another call for the same attachment does not end.
    #[error("another call for this attachment still runs; try again when it has ended")]
    Busy,
    /// IPv4 does not pass in time.
    #[error("the CLAT is not ready: {0}")]
    NotReady(String),
    /// The translator cannot be run.
    #[error("cannot run {}: {why}; install the package diolkos, or put the program beside this plugin", program.display())]
    Unavailable {
        /// The program.
        program: PathBuf,
        /// Why.
        why: String,
    },
    /// CHECK: what ADD has made is not there.
    #[error("{0}")]
    Damaged(String),
}

impl CniError {
    /// The system refused something with a file.
    pub fn system(what: &'static str, path: &Path, source: impl Into<io::Error>) -> CniError {
        let (path, source) = (path.to_owned(), source.into());
        CniError::System { what, path, source }
    }

    /// A variable is wrong.
    pub fn environment(name: &'static str, why: impl Into<String>) -> CniError {
        let why = why.into();
        CniError::Environment { name, why }
    }

    /// Codes below 100 are the specification's.
    fn code(&self) -> u32 {
        match self {
            CniError::Version(_) => 1,
            CniError::Environment { .. } => 4,
            CniError::System { .. } => 5,
            CniError::Input(_) => 6,
            CniError::Configuration(_) => 7,
            // "Try again later"
            CniError::Busy | CniError::NotReady(_) => 11,
            // "The plugin is not available"
            CniError::Unavailable { .. } => 50,
            CniError::Damaged(_) => 100,
        }
    }

    /// What standard output gets; the version is that of the input, if it has one.
    pub fn told(&self, input: &[u8]) -> Value {
        let input: Value = serde_json::from_slice(input).unwrap_or_default();
        let version = input["cniVersion"].as_str().unwrap_or(NEWEST);
        json!({"cniVersion": version, "code": self.code(), "msg": self.to_string()})
    }
}
