// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which settings have to change so that the kernel forwards, and so that neighbours see a router where there is one.
//!
//! Linux 6.17 and later forward IPv6 by interface (`force_forwarding`). Earlier kernels forward on all interfaces or on
//! none (`all/forwarding`), and a write there sets `forwarding` of every interface.

use std::io;
use std::path::PathBuf;

use super::{is_off, name_of, names, read, setting, CONF4, CONF6};

/// A setting and its value.
pub(super) type Change = (PathBuf, String);

/// Whether the host is an IPv6 router already.
pub(super) fn forwards6() -> io::Result<bool> {
    Ok(read(&setting(CONF6, "all", "forwarding"))? != "0")
}

/// What has to change for IPv6. `among`: between which interfaces and the TUN device packets are forwarded; `is_router`:
/// which of them are a router's to their neighbours. `bpf_fib_lookup` finds no way for packets from any other.
pub(super) fn six(
    among: impl Fn(&str) -> bool,
    is_router: impl Fn(&str) -> bool,
    tun: &str,
) -> io::Result<Vec<Change>> {
    let names = names(CONF6)?;
    let others = || names.iter().filter(|name| *name != tun && *name != "lo");
    let routers = || {
        let routers = others().filter(|name| is_router(name));
        let settings = routers.map(|name| setting(CONF6, name, "forwarding"));
        switched_on(settings.filter(|path| is_off(path)))
    };
    if forwards6()? {
        return Ok(routers());
    }
    let forced = others().filter(|name| among(name)).map(String::as_str);
    let narrow: Vec<PathBuf> = forced
        .chain([tun])
        .map(|name| setting(CONF6, name, "force_forwarding"))
        .collect();
    if narrow.iter().all(|path| path.exists()) {
        let mut changes = switched_on(narrow.into_iter().filter(|path| is_off(path)));
        changes.extend(routers());
        return Ok(changes);
    }
    // Every interface that is no router's is set back to what it was.
    let mut changes = switched_on([setting(CONF6, "all", "forwarding")]);
    for name in names.iter().map(String::as_str).chain(["default"]) {
        let path = setting(CONF6, name, "forwarding");
        if let (true, Ok(before)) = (name != tun, read(&path)) {
            let value = match name != "lo" && name != "default" && is_router(name) {
                true => "1".to_owned(),
                false => before,
            };
            changes.push((path, value));
        }
    }
    Ok(changes)
}

/// What has to change for IPv4, where it is a setting of the interface that a packet comes from.
pub(super) fn four(among: impl Fn(&str) -> bool, tun: &str) -> io::Result<Vec<Change>> {
    let names = names(CONF4)?.into_iter();
    let settings = names
        .filter(|name| name == tun || name != "lo" && among(name))
        .map(|name| setting(CONF4, &name, "forwarding"));
    Ok(switched_on(settings.filter(|path| is_off(path))))
}

/// Whoever makes an interface a router's in IPv6 takes away the default routes that router advertisements made on all
/// interfaces, unless a router, too, accepts advertisements there (`accept_ra` 2). So each interface goes on to accept the
/// advertisements that it accepted as a host's.
pub(super) fn keep_advertisements(changes: Vec<Change>) -> io::Result<Vec<Change>> {
    if !changes.iter().any(makes_a_router) {
        return Ok(changes);
    }
    let names = names(CONF6)?.into_iter();
    let accepted = names
        .map(|name| setting(CONF6, &name, "accept_ra"))
        .filter(|path| read(path).is_ok_and(|value| value == "1"));
    let mut all: Vec<Change> = accepted.map(|path| (path, "2".to_owned())).collect();
    all.extend(changes);
    Ok(all)
}

fn makes_a_router((path, value): &Change) -> bool {
    path.starts_with(CONF6)
        && path.file_name().is_some_and(|key| key == "forwarding")
        && value == "1"
}

/// The interfaces that these changes make a router's, by name.
pub(super) fn made_routers(changes: &[Change]) -> Vec<String> {
    let made = changes.iter().filter(|change| makes_a_router(change));
    let mut names: Vec<String> = made.filter_map(|(path, _)| name_of(path)).collect();
    names.retain(|name| name != "all");
    names.sort();
    names
}

fn switched_on(paths: impl IntoIterator<Item = PathBuf>) -> Vec<Change> {
    let on = |path| (path, "1".to_owned());
    paths.into_iter().map(on).collect()
}
