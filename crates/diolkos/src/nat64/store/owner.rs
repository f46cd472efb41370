// SPDX-License-Identifier: Apache-2.0 OR MIT
//! That one running program has a state file: two would overwrite each other's sessions.
//!
//! The lock is a file of its own, `FILE.lock`, because each writing puts another file in the place of the state. The kernel
//! releases it with its process, however that ends, and in whatever namespaces both run.

use std::path::Path;

use diolkos_sys::lock::{Held, Lock};

use super::backup;
use crate::failure::Failure;

/// Dropped, the state file is free.
#[derive(Debug)]
pub struct Owner {
    _lock: Option<Lock>,
}

impl Owner {
    /// Becomes the owner of a state file. `device`: for the message to the next one. The error names the process that has
    /// it. Where no lock can be had (a file system without locks, a folder that is full or read-only), the log says so.
    pub fn claim(state: &Path, device: &str) -> Result<Owner, Failure> {
        let path = backup::beside(state, ".lock");
        match Lock::take(&path) {
            Ok(Some(lock)) => {
                if let Err(error) = lock.leave_word(device) {
                    tracing::debug!("{}: {error}", path.display());
                }
                Ok(Owner { _lock: Some(lock) })
            }
            Ok(None) => Err(Failure::run_time(format!(
                "the state file {} belongs to another running diolkos{}: stop that one, or give each translator a state \
                 file of its own (nat64.state)",
                state.display(),
                who(&path)
            ))),
            Err(error) => {
                tracing::warn!(
                    "{} cannot be locked ({error}): nothing keeps a second diolkos from overwriting the state file; use it \
                     in one translator only",
                    path.display()
                );
                Ok(Owner { _lock: None })
            }
        }
    }
}

/// Process and device of the owner, as far as they are known. In another PID namespace, the process has another number here.
fn who(lock: &Path) -> String {
    let Ok(Some(held)) = Held::find(lock) else {
        return String::new();
    };
    let pid = held.pid().unwrap_or_default();
    match held.word() {
        Ok(Some(device)) => format!(" (process {pid}, device {device})"),
        _ => format!(" (process {pid})"),
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
