// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether there is a fast path: what the settings ask for, and what the machine can do.

use diolkos_sys::ethtool;
use diolkos_sys::fastpath::{Attach, FastPath, FastPathError, Inline, Site};
use diolkos_sys::kernel::{self, Correction};

use crate::files;
use crate::trace::FastPathKind;
use diolkos_config::{Datapath, Hook, Mode, Placement, Settings, Translator};
use diolkos_service::failure::Failure;
use diolkos_service::privilege::{self, PERFMON, SYS_ADMIN};

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
        // Who says `xdp` insists.
        Err(failure) if t.datapath == Datapath::Auto && t.placement != Placement::Xdp => {
            tracing::warn!("no fast path, continuing without it: {failure}");
            Ok(None)
        }
        Err(failure) => Err(failure),
    }
}

/// Starts the fast path of a router, with the drivers of interfaces where they are to translate. Where that is left to the
/// program, one that cannot is not a failure.
pub fn with_drivers<P>(
    t: &Translator,
    inline: &[Inline],
    mut start: impl FnMut(&[Inline]) -> Result<P, FastPathError>,
) -> Result<P, Failure> {
    let has_drivers = inline.iter().any(|inline| inline.driver.is_some());
    let done = match start(inline) {
        Err(error) if has_drivers && t.placement == Placement::Auto && !error.lacks_files() => {
            tracing::warn!("placement auto: direct: {error}");
            let behind = inline.iter().map(|inline| Inline {
                driver: None,
                ..*inline
            });
            start(&behind.collect::<Vec<_>>())
        }
        done => done,
    };
    done.map_err(failure)
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
    if error.lacks_files() {
        return files::exhausted();
    }
    if let FastPathError::Load { what, log } = &error {
        tracing::debug!("{log}");
        // Without it the verifier refuses what it else accepts, in many words. CAP_SYS_ADMIN stands for all that came later.
        if privilege::missing(&[PERFMON, SYS_ADMIN]).len() == 2 {
            return Failure::missing(format!(
                "the kernel refuses the BPF programs ({what}), because CAP_PERFMON is missing: run as root, or with \
                 CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN"
            ));
        }
    }
    Failure::from(error)
}

/// `bpf_skb_change_proto` marks what it has changed ("net: fix segmentation of forwarding fraglist GRO"). Before, the
/// segments of a list kept their old headers.
const WHOLE_LISTS: Correction = Correction {
    since: (6, 19),
    stable: &[(6, 1, 167), (6, 12, 69)],
};
/// It lets go of the route of the packet as it was ("net: clear the dst when changing skb protocol"). Before, the helper
/// that looks another route up forgot it.
const FREED_ROUTES: Correction = Correction {
    since: (6, 16),
    stable: &[(6, 1, 167), (6, 12, 35)],
};

/// Warns of interfaces whose super-packets the kernel may translate by halves.
pub fn warn_of_lists<'a>(interfaces: impl IntoIterator<Item = &'a str>) {
    if WHOLE_LISTS.is_here() {
        return;
    }
    for interface in interfaces {
        if ethtool::is_on(interface, ethtool::GRO_FRAGLIST).unwrap_or(false) {
            tracing::warn!(
                "{interface} has {feature} on: Linux {release} may send parts of large packets untranslated; \
                 `ethtool -K {interface} {feature} off` prevents it",
                feature = ethtool::GRO_FRAGLIST,
                release = kernel::release(),
            );
        }
    }
}

/// Warns of a CLAT's kernel that forgets routes.
pub fn warn_of_routes() {
    if !FREED_ROUTES.is_here() {
        tracing::warn!(
            "Linux {} may never free a route that a UDP packet of this host took while more than one router leads to the \
             translation prefix; 6.1.167, 6.12.35 and 6.16 do",
            kernel::release()
        );
    }
}

/// The datapath that was chosen, as `ready:` names it.
pub fn datapath(fast: Option<&FastPath>) -> String {
    match fast {
        Some(fast) => format!("tc ({})", fast.hook_name()),
        None => "tun".to_owned(),
    }
}

/// The programs, for a trace.
pub fn kind(settings: &Settings, fast: Option<&FastPath>) -> Option<FastPathKind> {
    let of = |name: &str| {
        about(settings, fast)
            .into_iter()
            .find(|(its, _)| its == name)
    };
    fast.is_some().then(|| FastPathKind {
        name: ["datapath", "placement"]
            .map(|name| {
                of(name).map_or_else(String::new, |(name, value)| format!("{name} {value}"))
            })
            .join(", "),
        is_stateful: settings.translator.mode == Mode::Nat64,
    })
}

/// What the program is, for those who watch it.
pub fn about(settings: &Settings, fast: Option<&FastPath>) -> Vec<(String, String)> {
    let t = &settings.translator;
    let mode = match t.mode {
        Mode::Clat => "clat",
        Mode::Siit => "siit",
        Mode::Nat64 => "nat64",
    };
    let placement = match t.placement {
        Placement::Device => "device",
        Placement::Inline => "inline",
        Placement::Direct => "direct",
        Placement::Xdp => "xdp",
        Placement::Auto => "auto",
    };
    let about = [
        ("mode", mode.to_owned()),
        ("device", t.device.clone()),
        ("datapath", datapath(fast)),
        ("placement", placement.to_owned()),
    ];
    about.map(|(name, value)| (name.to_owned(), value)).into()
}
