// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why a switch cannot be the fast path.

use std::io;
use std::path::PathBuf;

use diolkos_service::failure::{Classified, Exit};

use crate::connection::Broken;

/// Why a switch cannot be the fast path.
#[derive(thiserror::Error, Debug)]
#[non_exhaustive]
pub enum P4Error {
    /// A switch is there and does not answer: it may still have sessions of an earlier run, whose ports must not be used.
    #[error("the switch at {path} cannot be emptied ({broken}): stop it, or correct translator.switch", path = path.display())]
    NotEmptied {
        /// The socket.
        path: PathBuf,
        /// What happened.
        broken: Broken,
    },
    /// A thread cannot be started.
    #[error("cannot start the thread that writes the tables of the switch: {0}")]
    Thread(#[source] io::Error),
}

impl Classified for P4Error {
    fn exit(&self) -> Exit {
        Exit::RunTime
    }
}
