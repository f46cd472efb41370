// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether there is a fast path: what the settings ask for, and what the machine can do.

use diolkos_sys::fastpath::{Attach, FastPath, FastPathError, Inline, Site};

use crate::config::{Datapath, Hook, Translator};
use crate::failure::Failure;
use crate::privilege::{self, PERFMON, SYS_ADMIN};

/// Starts a fast path unless the settings want none. Where they leave it to the program, one that cannot be had is not
/// a failure.
pub fn start<P>(
    t: &Translator,
    start: impl FnOnce(Attach) -> Result<P, Failure>,
) -> Result<Option<P>, Failure> {
    if t.datapath == Datapath::Tun {
        return Ok(None);
    }
    match start(attach(t)) {
        Ok(path) => Ok(Some(path)),
        Err(failure) if t.datapath == Datapath::Auto => {
            tracing::warn!("no fast path, going on without: {failure}");
            Ok(None)
        }
        Err(failure) => Err(failure),
    }
}

/// How the settings want programs attached.
pub fn attach(t: &Translator) -> Attach {
    match t.hook {
        Hook::Auto => Attach::Auto,
        Hook::Tcx => Attach::Tcx,
        Hook::Clsact => Attach::Clsact,
    }
}

/// Where the fast path of a router goes.
pub fn site<'a>(t: &'a Translator, attach: Attach, inline: &'a [Inline]) -> Site<'a> {
    Site {
        attach,
        instance: &t.device,
        inline,
    }
}

/// The failure in one line; what the verifier said goes to those who look for it.
pub fn failure(error: FastPathError) -> Failure {
    if let FastPathError::Load { what, log } = &error {
        tracing::debug!("{log}");
        // CAP_SYS_ADMIN stands for all that came later.
        let is_refusal = what.contains("(os error 13)");
        if is_refusal && privilege::missing(&[PERFMON, SYS_ADMIN]).len() == 2 {
            return Failure::missing(format!(
                "the kernel refuses the BPF programs ({what}), for CAP_PERFMON is missing: run as root, or with \
                 CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN"
            ));
        }
    }
    Failure::from(error)
}

/// The datapath that was chosen, as `ready:` names it.
pub fn datapath(fast: Option<&FastPath>) -> String {
    match fast {
        Some(fast) => format!("tc ({})", fast.hook_name()),
        None => "tun".to_owned(),
    }
}
