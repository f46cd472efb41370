// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ensures that only one running program uses a state file: two would overwrite each other's sessions.
//!
//! The lock is a file of its own, `FILE.lock`, because each write replaces the state file by another one. The kernel
//! releases the lock when the process ends for whatever reason, and in whatever namespaces the processes run.

use std::path::Path;

use diolkos_sys::lock::Claim;

use super::backup;
use crate::error::GatewayError;

/// The owner of a state file. The file is free when this is dropped.
#[derive(Debug)]
pub struct Owner {
    _claim: Option<Claim>,
}

impl Owner {
    /// Becomes the owner of a state file. `device` is for the error message of a second program. The error names the
    /// process that owns the file; in another PID namespace, that process has another number. If no lock is possible (a
    /// file system without locks, a read-only folder), the log says so.
    pub fn claim(state: &Path, device: &str) -> Result<Owner, GatewayError> {
        let path = backup::beside(state, ".lock");
        let whose = format!("process {}, device {device}", std::process::id());
        match Claim::take(&path, &whose) {
            Ok(Ok(claim)) => Ok(Owner {
                _claim: Some(claim),
            }),
            Ok(Err(owner)) => Err(GatewayError::Owned {
                path: state.to_owned(),
                owner,
            }),
            Err(error) => {
                tracing::warn!(
                    "{} cannot be locked ({error}): nothing keeps a second diolkos from overwriting the state file; use it \
                     in one translator only",
                    path.display()
                );
                Ok(Owner { _claim: None })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_program_has_it_and_the_next_hears_who() {
        let state = std::env::temp_dir().join(format!("diolkos-{}-owned", std::process::id()));
        let lock = backup::beside(&state, ".lock");
        // A killed owner has left it.
        std::fs::write(&lock, "4194304\nnat0").expect("a new file");
        let owner = Owner::claim(&state, "nat1").expect("it is free");
        let refused = Owner::claim(&state, "nat2").expect_err("it is taken");
        let own = format!("(process {}, device nat1)", std::process::id());
        assert!(refused.to_string().contains(&own), "{refused}");
        drop(owner);
        assert!(!lock.exists());
        drop(Owner::claim(&state, "nat2").expect("it is free"));
    }

    #[test]
    fn a_folder_that_takes_no_lock_is_said_and_used() {
        let state = Path::new("/proc/self/nothing/nat64.state");
        assert!(Owner::claim(state, "nat0").is_ok());
    }
}
