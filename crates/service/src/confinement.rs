// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether the threads of this process are confined to the system calls of their work, which the environment decides.
//!
//! `DIOLKOS_SECCOMP` → [`Confinement`] → [`confine`], for each thread; what is in force → log, status.

use std::env;
use std::io;
use std::sync::OnceLock;

use diolkos_sys::seccomp::{Calls, Filter, Otherwise};
use nix::errno::Errno;

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
    /// The same, although nobody asked for it: no filter could be installed. [`trouble`] says why.
    Unavailable,
}

/// Decided by the first thread that is confined, for all.
static DECIDED: OnceLock<Confinement> = OnceLock::new();
/// Why no filter could be installed.
static REASON: OnceLock<String> = OnceLock::new();

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

/// Whether the environment switches confinement off.
pub fn is_off() -> Result<bool, Failure> {
    Ok(wanted()? == Confinement::Off)
}

fn wanted() -> Result<Confinement, Failure> {
    let value = env::var_os(VARIABLE).map(|v| v.to_string_lossy().into_owned());
    Confinement::of(value.as_deref())
}

/// Confines this thread, and those that it starts, to these system calls. Where the first thread cannot be confined, the
/// process runs without filters, and [`trouble`] says why.
pub fn confine(calls: &[Calls]) -> Result<(), Failure> {
    let wanted = match DECIDED.get() {
        Some(decided) => *decided,
        None => wanted()?,
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
            REASON.get_or_init(|| reason(&error));
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
        Some(Confinement::Unavailable) => {
            if let Some(trouble) = trouble() {
                tracing::warn!("{trouble}");
            }
        }
        None => {}
    }
}

/// What is wrong with the confinement, for the log, the status and the service manager. None if it is as was asked for.
pub fn trouble() -> Option<String> {
    match Confinement::in_force()? {
        Confinement::Unavailable => Some(format!(
            "threads are not confined to the system calls of their work: {}",
            REASON
                .get()
                .map_or("no filter was installed", String::as_str)
        )),
        Confinement::Enforce | Confinement::Log | Confinement::Off => None,
    }
}

/// What a service does, with that trouble, for a service manager.
pub fn with_trouble(text: &str) -> String {
    trouble().map_or_else(
        || text.to_owned(),
        |trouble| format!("{text}; wrong: {trouble}"),
    )
}

/// Why the kernel took no filter, and what to do. A filter that is already around this process answers in the kernel's place:
/// a unit's or a container's that does not list seccomp(2) makes it fail with EPERM, some with ENOSYS.
fn reason(error: &io::Error) -> String {
    let (name, why) = match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::EPERM) => (
            "EPERM",
            "a filter of the service manager or container forbids it; add `seccomp` to SystemCallFilter= of the unit, or to \
             the container's profile",
        ),
        Some(Errno::ENOSYS) => (
            "ENOSYS",
            "the kernel lacks CONFIG_SECCOMP, or a container's filter hides the call; allow seccomp(2) in its profile",
        ),
        Some(Errno::EINVAL) => (
            "EINVAL",
            "the kernel lacks CONFIG_SECCOMP_FILTER; use a kernel that has it",
        ),
        Some(Errno::ENOMEM) => (
            "ENOMEM",
            "the filters around this process are too long together; shorten those of the unit or container",
        ),
        _ => return error.to_string(),
    };
    format!("seccomp(2) failed with {name}: {why}")
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

    #[test]
    fn a_filter_around_the_process_is_not_taken_for_a_kernel_without_filters() {
        let said = |errno: Errno| reason(&io::Error::from_raw_os_error(errno as i32));
        assert!(said(Errno::EPERM).contains("EPERM"));
        assert!(said(Errno::EPERM).contains("SystemCallFilter="));
        assert!(!said(Errno::EPERM).contains("kernel lacks"));
        assert!(said(Errno::EINVAL).contains("CONFIG_SECCOMP_FILTER"));
        assert!(said(Errno::ENOSYS).contains("ENOSYS"));
        assert!(said(Errno::EACCES).contains("denied"));
    }
}
