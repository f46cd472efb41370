// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why the binding log cannot be kept.

use std::io;
use std::path::PathBuf;

use diolkos_service::error::ServiceError;
use diolkos_service::failure::{Classified, Exit};

/// Why the binding log cannot be kept.
#[derive(thiserror::Error, Debug)]
#[non_exhaustive]
pub enum BindlogError {
    /// The file of a collector.
    #[error("log.bindings \"{collector}\": {path} cannot be written: {source}", path = path.display())]
    File {
        /// The name of the collector.
        collector: String,
        /// The file.
        path: PathBuf,
        /// The kernel's error, or what is wrong with the file.
        source: io::Error,
    },
    /// The thread of a collector.
    #[error(transparent)]
    Service(#[from] ServiceError),
}

impl Classified for BindlogError {
    fn exit(&self) -> Exit {
        match self {
            BindlogError::File { .. } => Exit::RunTime,
            BindlogError::Service(error) => error.exit(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use super::*;

    #[test]
    fn a_file_is_named_with_its_collector() {
        let error = BindlogError::File {
            collector: "disk".to_owned(),
            path: "/var/log/x".into(),
            source: io::ErrorKind::StorageFull.into(),
        };
        let sentence = "log.bindings \"disk\": /var/log/x cannot be written: no storage space";
        assert_eq!(error.to_string(), sentence);
        assert!(error.source().is_some() && !error.is_transient());
        assert_eq!(error.exit(), Exit::RunTime);
    }
}
