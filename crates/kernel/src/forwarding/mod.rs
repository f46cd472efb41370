// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Forwarding between the TUN device and the other interfaces, which the kernel does for every packet that crosses the TUN
//! device: for both families with a router, for IPv6 only with a CLAT without eBPF.
//!
//! Neighbours can tell a router from a host. The kernel's neighbour advertisements say that their sender is a router if
//! `forwarding` of the interface is on, whatever else makes the kernel forward. A host deletes its default route through a
//! router that no longer says so (RFC 4861 section 7.2.5). So the interfaces of a router have `forwarding` on; the uplink of a
//! CLAT has it off, because the CLAT's host is a host.
//!
//! Settings do not end with the process that changed them. So their previous values are first written to a note, and restored
//! at the end, or by the next start if the process was killed.

mod changes;
mod forgotten;
mod note;

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use diolkos_sys::namespace::interface_index;

use crate::error::KernelError;
use crate::net::shown;
use diolkos_service::instance;

use changes::{forwards6, keep_advertisements, Change};
use note::Before;

const CONF4: &str = "/proc/sys/net/ipv4/conf";
const CONF6: &str = "/proc/sys/net/ipv6/conf";

/// The need of an instance for forwarding, and the settings that it changed. Dropping it restores them, unless another instance
/// in this network namespace needs them: then that instance restores them later.
#[derive(Debug)]
pub struct Forwarding {
    tun: String,
    need: Need,
    /// Interfaces besides the TUN device; empty: all interfaces.
    interfaces: Vec<String>,
    /// Interfaces on which forwarding was switched on, or was on already. A later interface is included only if the
    /// configuration names it.
    known: BTreeSet<u32>,
    /// Interfaces of `known` whose settings the kernel has forgotten, and which may not have new ones yet.
    forgotten: BTreeSet<u32>,
    /// Settings that were switched off on purpose.
    off: BTreeSet<PathBuf>,
    /// Interfaces of a router that the configuration does not name, and that the operator configured as a host's.
    hosts: BTreeSet<String>,
    /// The last error of switching it on again, so that it is logged once.
    failed: String,
    /// This instance must restore the values in the note: it changed the settings, or an earlier run did.
    inherits: bool,
    changed: bool,
    made_routers: Vec<String>,
    kept: bool,
}

/// The kind of forwarding that an instance needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Need {
    /// IPv6.
    Six,
    /// Both families, by a router with neighbours. `bpf_fib_lookup`, too, forwards only for such interfaces.
    Both,
}

/// A setting that an operator may switch off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum What {
    Forwarding4,
    Forwarding6,
    /// The neighbour advertisements that name this host a router.
    Router,
}

impl What {
    /// A sentence: it is off on these interfaces.
    fn on(self, interfaces: &str) -> String {
        match self {
            What::Forwarding4 => format!("IPv4 forwarding is off on {interfaces}"),
            What::Forwarding6 => format!("IPv6 forwarding is off on {interfaces}"),
            What::Router => format!(
                "hosts on {interfaces} delete their default route through this router, because IPv6 `forwarding` of the \
                 interface is 0"
            ),
        }
    }
}

/// Restores the settings that an earlier run with this device left changed, and returns true if there were any. The caller must
/// hold the instance lock of the device.
pub fn restore_leftovers(tun: &str) -> bool {
    let found = note::path(tun).is_ok_and(|note| note.exists());
    if found {
        tracing::info!("restoring the forwarding settings that an earlier run left");
        leave(tun);
    }
    found
}

/// Removes an instance's note and restores its values, or moves them to the note of an instance that is still there.
fn leave(tun: &str) {
    let Ok(own) = note::path(tun) else { return };
    let mut before = note::take(&own);
    for (device, note) in note::others(tun) {
        if instance::is_running(&device) || is_kept(&device) {
            before.extend(note::take(&note));
            let _ = fs::write(note, note::write(&before));
            return;
        }
        before.extend(note::take(&note));
    }
    note::restore(&before);
}

/// Returns true if the device of an instance is still there: even if its process does not run, the kernel goes on without it.
fn is_kept(tun: &str) -> bool {
    Path::new(CONF4).join(tun).exists()
}

impl Forwarding {
    /// Makes the kernel forward IPv6 between the uplink and the TUN device. Settings that are on already stay untouched.
    pub fn ipv6(uplink: &str, tun: &str) -> Result<Forwarding, KernelError> {
        Forwarding::begin(tun, Need::Six, &[uplink.to_owned()], false)
    }

    /// Makes the kernel forward both families between these interfaces and the TUN device; with an empty list, between all
    /// interfaces.
    ///
    /// `inherits`: an earlier run left forwarding switched on, and this instance must restore the settings.
    pub fn both(
        interfaces: &[String],
        tun: &str,
        inherits: bool,
    ) -> Result<Forwarding, KernelError> {
        Forwarding::begin(tun, Need::Both, interfaces, inherits)
    }

    fn begin(
        tun: &str,
        need: Need,
        interfaces: &[String],
        inherits: bool,
    ) -> Result<Forwarding, KernelError> {
        let mut forwarding = Forwarding {
            tun: tun.to_owned(),
            need,
            interfaces: interfaces.to_vec(),
            known: BTreeSet::new(),
            forgotten: BTreeSet::new(),
            off: BTreeSet::new(),
            hosts: BTreeSet::new(),
            failed: String::new(),
            inherits,
            changed: false,
            made_routers: Vec::new(),
            kept: false,
        };
        if forwarding.interfaces.is_empty() && forwards6().is_ok_and(|forwards| forwards) {
            let names = names(CONF6).unwrap_or_default().into_iter();
            let is_host = |name: &String| is_off(&setting(CONF6, name, "forwarding"));
            forwarding.hosts = names.filter(is_host).collect();
        }
        forwarding.switch_on()?;
        Ok(forwarding)
    }

    /// Switches on all settings that are off, after writing their values to the note. Returns true if there were any.
    pub fn switch_on(&mut self) -> Result<bool, KernelError> {
        let changes = self.changes().map_err(|e| self.refused(e))?;
        self.carry_out(&changes)?;
        self.made_routers = changes::made_routers(&changes);
        self.off.clear();
        self.known = self.indices().map_err(|e| self.refused(e))?;
        Ok(!changes.is_empty())
    }

    fn carry_out(&mut self, changes: &[Change]) -> Result<(), KernelError> {
        let changes = keep_advertisements(changes.to_vec()).map_err(|e| self.refused(e))?;
        self.note(&changes)?;
        self.inherits = true;
        self.change(&changes).map_err(|e| self.refused(e))
    }

    fn refused(&self, source: io::Error) -> KernelError {
        KernelError::Forwarding {
            tun: self.tun.clone(),
            source,
        }
    }

    fn is_named(&self, name: &str) -> bool {
        name == self.tun || self.interfaces.iter().any(|named| named == name)
    }

    fn changes(&self) -> io::Result<Vec<Change>> {
        let among =
            |name: &str| self.interfaces.is_empty() || self.interfaces.iter().any(|i| i == name);
        match self.need {
            Need::Six => changes::six(among, |_| false, &self.tun),
            Need::Both => {
                let is_router = |name: &str| among(name) && !self.hosts.contains(name);
                let mut changes = changes::six(among, is_router, &self.tun)?;
                changes.extend(changes::four(among, &self.tun)?);
                Ok(changes)
            }
        }
    }

    /// The settings that have been switched off since, in words. They stay off, because the operator may have done it on
    /// purpose.
    pub fn obstacles(&self) -> Vec<String> {
        let said = self.switched_off().into_iter();
        said.filter(|(_, paths)| !paths.is_empty())
            .map(|(what, paths)| {
                let mut names: Vec<String> =
                    paths.iter().filter_map(|path| name_of(path)).collect();
                names.sort();
                what.on(&shown(&names))
            })
            .collect()
    }

    /// Returns true if IPv6 packets from the TUN device are not forwarded. A write of 0 to `all/forwarding` resets
    /// `force_forwarding` of every interface, even if the value was 0 before, and the kernel sends no notification: callers
    /// must poll this.
    pub fn is_unforced(&self) -> bool {
        let forced = setting(CONF6, &self.tun, "force_forwarding");
        forwards6().is_ok_and(|forwards| !forwards) && is_off(&forced)
    }

    /// The needed settings that are off.
    fn switched_off(&self) -> Vec<(What, Vec<PathBuf>)> {
        let is_needed = |name: &String| match self.interfaces.is_empty() {
            false => *name == self.tun || self.interfaces.contains(name),
            true => interface_index(name).is_some_and(|index| self.known.contains(&index)),
        };
        let off = |conf: &str, key: &str| -> Vec<PathBuf> {
            let names = names(conf).unwrap_or_default().into_iter();
            let needed = names.filter(is_needed);
            needed
                .map(|name| setting(conf, &name, key))
                .filter(|path| !read(path).is_ok_and(|value| value != "0"))
                .collect()
        };
        let off6 = match forwards6() {
            Ok(false) => off(CONF6, "force_forwarding"),
            // A kernel without IPv6 has other obstacles.
            Ok(true) | Err(_) => Vec::new(),
        };
        if self.need == Need::Six {
            return vec![(What::Forwarding6, off6)];
        }
        let mut hosts = off(CONF6, "forwarding");
        hosts.retain(|path| {
            let name = name_of(path).unwrap_or_default();
            let is_said = off6.iter().any(|off| name_of(off).as_ref() == Some(&name));
            !is_said && name != self.tun && name != "lo" && !self.hosts.contains(&name)
        });
        vec![
            (What::Forwarding4, off(CONF4, "forwarding")),
            (What::Forwarding6, off6),
            (What::Router, hosts),
        ]
    }

    fn indices(&self) -> io::Result<BTreeSet<u32>> {
        let names = names(CONF4)?.into_iter().filter(|name| name != "lo");
        Ok(names.filter_map(|name| interface_index(&name)).collect())
    }

    /// Keeps all settings when this is dropped: the kernel goes on to forward, and the next start takes them over.
    pub fn keep(&mut self) {
        self.kept = true;
    }

    /// Returns true if settings of the kernel had to be changed.
    pub fn changed(&self) -> bool {
        self.changed
    }

    /// The names of the interfaces that were made a router's in IPv6.
    pub fn made_routers(&self) -> &[String] {
        &self.made_routers
    }

    /// Writes the values of the settings to the note before they are changed.
    fn note(&self, changes: &[Change]) -> Result<(), KernelError> {
        let path = note::path(&self.tun)?;
        let unwritten = |source| KernelError::Note {
            path: path.clone(),
            source,
        };
        let mut before = match self.inherits {
            true => note::read(&fs::read_to_string(&path).unwrap_or_default()),
            false => Vec::new(),
        };
        for (path, _) in changes {
            let value = read(path).map_err(unwritten)?;
            note::add(&mut before, Before::of(path, value));
        }
        // Even an empty note tells other instances that this one needs the settings that they changed.
        fs::write(&path, note::write(&before)).map_err(unwritten)
    }

    fn change(&mut self, changes: &[Change]) -> io::Result<()> {
        self.changed |= !changes.is_empty();
        changes
            .iter()
            .try_for_each(|(path, value)| fs::write(path, value))
    }
}

impl Drop for Forwarding {
    fn drop(&mut self) {
        if !self.kept {
            leave(&self.tun);
        }
    }
}

/// Returns true if the interface drops packets whose source is not routed to it (RFC 3704): the larger of the two settings
/// applies, and 1 is the strict mode.
pub fn has_strict_filter(interface: &str) -> bool {
    let value = |of: &str| read(&setting(CONF4, of, "rp_filter")).ok();
    let values = ["all", interface].map(|of| value(of).and_then(|text| text.trim().parse().ok()));
    values.into_iter().flatten().max() == Some(1u8)
}

/// Returns true if the kernel ignores routes through the device while it has no reader, which the kernel shows as a missing
/// carrier. The settings of the device itself belong to this program, and disappear with the device.
pub fn ignores_without_carrier(tun: &str) -> bool {
    const KEY: &str = "ignore_routes_with_linkdown";
    for conf in [CONF4, CONF6] {
        // On an error, the kernel's default stays.
        let _ = fs::write(setting(conf, tun, KEY), "0");
    }
    // For IPv4, either of the two settings is enough.
    read(&setting(CONF4, "all", KEY)).is_ok_and(|value| value != "0")
}

fn is_off(path: &Path) -> bool {
    read(path).is_ok_and(|value| value == "0")
}

fn setting(conf: &str, interface: &str, key: &str) -> PathBuf {
    Path::new(conf).join(interface).join(key)
}

fn read(path: &Path) -> io::Result<String> {
    Ok(fs::read_to_string(path)?.trim().to_owned())
}

/// The name of the interface that a setting belongs to.
fn name_of(setting: &Path) -> Option<String> {
    Some(setting.parent()?.file_name()?.to_str()?.to_owned())
}

/// The names of the interfaces that have settings.
fn names(conf: &str) -> io::Result<Vec<String>> {
    let entries = fs::read_dir(conf)?.flatten();
    Ok(entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name != "all" && name != "default")
        .collect())
}
