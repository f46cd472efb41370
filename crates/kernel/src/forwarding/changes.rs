// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Determines the settings that must change so that the kernel forwards and neighbours see a router where there is one.
//!
//! Linux 6.17 and later can forward IPv6 for single interfaces (`force_forwarding`). Earlier kernels forward on all interfaces
//! or on none (`all/forwarding`), and a write to that setting sets `forwarding` of every interface.

use std::io;
use std::path::PathBuf;

use super::{is_off, name_of, names, read, setting, CONF4, CONF6};

/// The path of a setting, and the value to write.
pub(super) type Change = (PathBuf, String);

/// Returns true if the host is an IPv6 router already.
pub(super) fn forwards6() -> io::Result<bool> {
    Ok(read(&setting(CONF6, "all", "forwarding"))? != "0")
}

/// The changes for IPv6. `among` selects the interfaces that exchange packets with the TUN device; `is_router` selects those on
/// which neighbours must see a router. `bpf_fib_lookup` finds a route only for packets from the latter.
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
    // An interface that is no router's gets its previous value back.
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

/// The changes for IPv4, where forwarding is a setting of the interface by which a packet arrives.
pub(super) fn four(among: impl Fn(&str) -> bool, tun: &str) -> io::Result<Vec<Change>> {
    let names = names(CONF4)?.into_iter();
    let settings = names
        .filter(|name| name == tun || name != "lo" && among(name))
        .map(|name| setting(CONF4, &name, "forwarding"));
    Ok(switched_on(settings.filter(|path| is_off(path))))
}

/// When an interface becomes a router's in IPv6, the kernel deletes the default routes that router advertisements made on all
/// interfaces, except where even a router accepts advertisements (`accept_ra` 2). So each interface that accepted
/// advertisements as a host gets the value 2 and goes on to accept them.
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

/// The names of the interfaces that these changes make a router's.
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
