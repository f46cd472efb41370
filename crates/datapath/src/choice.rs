// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Decides whether there is a fast path, from the settings and the abilities of the machine.

use std::fmt::Display;

use diolkos_fastpath::{Attach, FastPath, FastPathError, Inline, Site};
use diolkos_sys::ethtool;
use diolkos_sys::kernel::{self, Correction};

use crate::error::DatapathError;
use crate::trace::FastPathKind;
use diolkos_config::{Datapath, Hook, Mode, Placement, Settings, Translator};

/// Starts a fast path unless the settings exclude it. With `auto`, a fast path that cannot be started is not a failure.
pub fn start<P, E: Display>(
    t: &Translator,
    start: impl FnOnce(Attach) -> Result<P, E>,
) -> Result<Option<P>, E> {
    if let Datapath::Tun | Datapath::P4 = t.datapath {
        return Ok(None);
    }
    match start(attach(t)) {
        Ok(path) => Ok(Some(path)),
        // The placement `xdp` requires the fast path.
        Err(error) if t.datapath == Datapath::Auto && t.placement != Placement::Xdp => {
            tracing::warn!("no fast path, continuing without it: {error}");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Starts the fast path of a router, with the drivers of interfaces where they should translate. With `auto`, a driver
/// that cannot is not a failure.
pub fn with_drivers<P>(
    t: &Translator,
    inline: &[Inline],
    mut start: impl FnMut(&[Inline]) -> Result<P, FastPathError>,
) -> Result<P, DatapathError> {
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
    done.map_err(DatapathError::from)
}

/// Returns how programs are attached, according to the settings.
pub fn attach(t: &Translator) -> Attach {
    match t.hook {
        Hook::Auto => Attach::Auto,
        Hook::Tcx => Attach::Tcx,
        Hook::Clsact => Attach::Clsact,
    }
}

/// Returns where the fast path of a router is attached.
pub fn site<'a>(t: &'a Translator, attach: Attach, inline: &'a [Inline]) -> Site<'a> {
    Site {
        attach,
        instance: &t.device,
        inline,
    }
}

/// Since this change, `bpf_skb_change_proto` marks what it has changed ("net: fix segmentation of forwarding fraglist
/// GRO"). Before, the segments of a list kept their old headers.
const WHOLE_LISTS: Correction = Correction {
    since: (6, 19),
    stable: &[(6, 1, 167), (6, 12, 69)],
};
/// Since this change, it releases the former route of the packet ("net: clear the dst when changing skb protocol").
/// Before, the helper that looks up another route leaked it.
const FREED_ROUTES: Correction = Correction {
    since: (6, 16),
    stable: &[(6, 1, 167), (6, 12, 35)],
};

/// Warns of interfaces whose super-packets the kernel may translate only in part.
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

/// Warns if the kernel of a CLAT leaks routes.
pub fn warn_of_routes() {
    if !FREED_ROUTES.is_here() {
        tracing::warn!(
            "Linux {} may never free a route that a UDP packet of this host took while more than one router leads to the \
             translation prefix; 6.1.167, 6.12.35 and 6.16 do",
            kernel::release()
        );
    }
}

/// Returns the chosen datapath, as `ready:` names it.
pub fn name(fast: Option<&FastPath>) -> String {
    match fast {
        Some(fast) => format!("tc ({})", fast.hook_name()),
        None => "tun".to_owned(),
    }
}

/// The same for a router, which may have a switch.
pub fn named(t: &Translator, fast: Option<&FastPath>) -> String {
    match t.datapath {
        Datapath::P4 => t.datapath.name().to_owned(),
        Datapath::Auto | Datapath::Tun | Datapath::Tc => name(fast),
    }
}

/// Returns the programs, for a trace.
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

/// Describes the programs, for clients that watch the status.
pub fn about(settings: &Settings, fast: Option<&FastPath>) -> Vec<(String, String)> {
    let t = &settings.translator;
    let mode = match t.mode {
        Mode::Clat => "clat",
        Mode::Siit => "siit",
        Mode::Nat64 => "nat64",
    };
    let placement = match t.placement {
        _ if settings.is_at_device() => "device",
        Placement::Device => "device",
        Placement::Inline => "inline",
        Placement::Direct => "direct",
        Placement::Xdp => "xdp",
        Placement::Auto => match fast {
            // Everything crosses the device.
            None => "device",
            Some(fast) if fast.used_hops().is_some() => "xdp",
            Some(_) => "direct",
        },
    };
    let about = [
        ("mode", mode.to_owned()),
        ("device", t.device.clone()),
        ("datapath", named(t, fast)),
        ("placement", placement.to_owned()),
    ];
    about.map(|(name, value)| (name.to_owned(), value)).into()
}
