// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Confines the threads of this process to the system calls of their work, unless the environment says otherwise.
//!
//! `DIOLKOS_SECCOMP` → [`Confinement`] → [`confine`], for each thread; the mode in force → log, status.

use std::env;
use std::io;
use std::sync::OnceLock;

use diolkos_sys::seccomp::{Calls, Filter, Otherwise};
use nix::errno::Errno;

use crate::error::{ServiceError, VARIABLE};

/// The treatment of system calls that are not part of a thread's work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Confinement {
    /// They fail, and the kernel logs them.
    Enforce,
    /// They succeed, and the kernel logs them.
    Log,
    /// They succeed.
    Off,
    /// They succeed although `off` was not requested: no filter could be installed. [`trouble`] gives the reason.
    Unavailable,
}

/// The mode in force. The first thread that is confined decides it for all.
static DECIDED: OnceLock<Confinement> = OnceLock::new();
/// The reason why no filter could be installed.
static REASON: OnceLock<String> = OnceLock::new();

impl Confinement {
    fn of(value: Option<&str>) -> Result<Confinement, ServiceError> {
        match value {
            None | Some("enforce") => Ok(Confinement::Enforce),
            Some("log") => Ok(Confinement::Log),
            Some("off") => Ok(Confinement::Off),
            Some(other) => Err(ServiceError::Confinement(other.to_owned())),
        }
    }

    /// The mode in force; `None` before any thread is confined.
    pub fn in_force() -> Option<Confinement> {
        DECIDED.get().copied()
    }

    /// The name for the status.
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

/// Returns true if the environment switches confinement off.
pub fn is_off() -> Result<bool, ServiceError> {
    Ok(wanted()? == Confinement::Off)
}

fn wanted() -> Result<Confinement, ServiceError> {
    let value = env::var_os(VARIABLE).map(|v| v.to_string_lossy().into_owned());
    Confinement::of(value.as_deref())
}

/// Confines this thread, and the threads that it starts, to these system calls. If the first thread cannot be confined, the
/// process runs without filters, and [`trouble`] gives the reason.
pub fn confine(calls: &[Calls]) -> Result<(), ServiceError> {
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
        // The first thread has shown that filters work, so a thread without one would be a fault.
        Err(error) if DECIDED.get().is_some() => Err(ServiceError::Unconfined(error)),
        Err(error) => {
            REASON.get_or_init(|| reason(&error));
            DECIDED.get_or_init(|| Confinement::Unavailable);
            Ok(())
        }
    }
}

/// Logs the mode in force. Call it only after a successful start: a start that fails prints one sentence.
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

/// The fault of the confinement, for the log, the status and the service manager. `None` if the requested mode is in force.
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

/// The status text for a service manager, with the fault of the confinement appended.
pub fn with_trouble(text: &str) -> String {
    trouble().map_or_else(
        || text.to_owned(),
        |trouble| format!("{text}; wrong: {trouble}"),
    )
}

/// Explains why the kernel accepted no filter, and what to do. A filter that surrounds this process already may answer in the
/// kernel's place: the filter of a unit or container that does not allow seccomp(2) makes the call fail with EPERM, or in some
/// cases with ENOSYS.
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
    use crate::failure::Classified;

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
        assert_eq!(failure.exit() as u8, 2);
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
