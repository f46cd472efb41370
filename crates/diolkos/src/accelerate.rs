// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether there is a fast path: what the settings ask for, and what the machine can do.

use diolkos_sys::fastpath::{Attach, FastPath, FastPathError, Inline, Site};
use diolkos_sys::{ethtool, kernel};

use crate::config::{Datapath, Hook, Translator};
use crate::failure::Failure;

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
    if let FastPathError::Load { log, .. } = &error {
        tracing::debug!("{log}");
    }
    Failure::from(error)
}

/// Warns of interfaces whose super-packets the kernel may translate by halves: the segments of a list keep their old
/// headers on kernels whose `bpf_skb_change_proto` does not mark them (before 426ca15c7f6c, of which stable kernels have
/// copies; nothing tells from outside whether this one has).
pub fn warn_of_lists<'a>(interfaces: impl IntoIterator<Item = &'a str>) {
    if kernel::is_at_least(6, 19) {
        return;
    }
    for interface in interfaces {
        if ethtool::is_on(interface, ethtool::GRO_FRAGLIST).unwrap_or(false) {
            tracing::warn!(
                "{interface} has {feature} on: Linux {release} may send parts of large TCP packets untranslated; \
                 `ethtool -K {interface} {feature} off` prevents it",
                feature = ethtool::GRO_FRAGLIST,
                release = kernel::release(),
            );
        }
    }
}

/// The datapath that was chosen, as `ready:` names it.
pub fn datapath(fast: Option<&FastPath>) -> String {
    match fast {
        Some(fast) => format!("tc ({})", fast.hook_name()),
        None => "tun".to_owned(),
    }
}
