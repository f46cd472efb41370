// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether the threads of this process are confined to the system calls of their work, which the environment decides.
//!
//! `DIOLKOS_SECCOMP` → [`Confinement`] → [`confine`], for each thread; what is in force → log, status.

use std::env;
use std::sync::OnceLock;

use diolkos_sys::seccomp::{Calls, Filter, Otherwise};

use crate::failure::Failure;

/// The variable that decides.
const VARIABLE: &str = "DIOLKOS_SECCOMP";

/// What becomes of a system call that is no part of a thread's work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Confinement {
    /// It is refused, and the kernel logs it.
    Enforce,
    /// It is made, and the kernel logs it.
    Log,
    /// It is made.
    Off,
    /// The same: this kernel or this architecture has no filters.
    Unavailable,
}

/// Decided by the first thread that is confined, for all.
static DECIDED: OnceLock<Confinement> = OnceLock::new();

impl Confinement {
    fn of(value: Option<&str>) -> Result<Confinement, Failure> {
        match value {
            None | Some("enforce") => Ok(Confinement::Enforce),
            Some("log") => Ok(Confinement::Log),
            Some("off") => Ok(Confinement::Off),
            Some(other) => Err(Failure::usage(format!(
                "{VARIABLE}: {other:?} is none of \"enforce\", \"log\" and \"off\""
            ))),
        }
    }

    /// What is in force; None before any thread is confined.
    pub fn in_force() -> Option<Confinement> {
        DECIDED.get().copied()
    }

    /// For the status.
    pub fn name(self) -> &'static str {
        match self {
            Confinement::Enforce => "enforce",
            Confinement::Log => "log",
            Confinement::Off => "off",
            Confinement::Unavailable => "unavailable",
        }
    }

    fn otherwise(self) -> Option<Otherwise> {
        match self {
            Confinement::Enforce => Some(Otherwise::Refuse),
            Confinement::Log => Some(Otherwise::Log),
            Confinement::Off | Confinement::Unavailable => None,
        }
    }
}

/// Confines this thread, and those that it starts, to these system calls. Without filters in the kernel, the process runs
/// without them.
pub fn confine(calls: &[Calls]) -> Result<(), Failure> {
    let wanted = match DECIDED.get() {
        Some(decided) => *decided,
        None => Confinement::of(
            env::var_os(VARIABLE)
                .map(|v| v.to_string_lossy().into_owned())
                .as_deref(),
        )?,
    };
    let Some(otherwise) = wanted.otherwise() else {
        DECIDED.get_or_init(|| wanted);
        return Ok(());
    };
    match Filter::of(calls, otherwise).and_then(|filter| filter.install()) {
        Ok(()) => {
            DECIDED.get_or_init(|| wanted);
            Ok(())
        }
        // The first thread has found out that there are filters: one without would be no accident.
        Err(error) if DECIDED.get().is_some() => Err(Failure::run_time(format!(
            "a thread cannot be confined to its system calls: {error}; {VARIABLE}=off runs without that"
        ))),
        Err(error) => {
            tracing::debug!("no filter of system calls: {error}");
            DECIDED.get_or_init(|| Confinement::Unavailable);
            Ok(())
        }
    }
}

/// Has the log say what is in force. Not before the start has succeeded: one that fails says one sentence.
pub fn log_mode() {
    match Confinement::in_force() {
        Some(Confinement::Enforce) => tracing::info!(
            "each thread is confined to the system calls of its work (seccomp); others fail, and the kernel's log names them"
        ),
        Some(Confinement::Log) => tracing::warn!(
            "{VARIABLE}=log: threads may make every system call; the kernel's log names those that are no part of their work"
        ),
        Some(Confinement::Off) => {
            tracing::warn!("{VARIABLE}=off: threads may make every system call");
        }
        Some(Confinement::Unavailable) => tracing::warn!(
            "this kernel has no filters of system calls (CONFIG_SECCOMP_FILTER): threads may make every system call"
        ),
        None => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_one_of_three() {
        assert_eq!(Confinement::of(None).ok(), Some(Confinement::Enforce));
        for (value, means) in [
            ("enforce", Confinement::Enforce),
            ("log", Confinement::Log),
            ("off", Confinement::Off),
        ] {
            assert_eq!(Confinement::of(Some(value)).ok(), Some(means));
            assert_eq!(means.name(), value);
        }
        let failure = Confinement::of(Some("no")).expect_err("it is unknown");
        assert_eq!(failure.kind as u8, 2);
        assert!(failure.to_string().contains("\"no\""));
    }
}
