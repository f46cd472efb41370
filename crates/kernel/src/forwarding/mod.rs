// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Forwarding between the TUN device and the other interfaces, which the kernel does for every packet that crosses the
//! TUN device: of both families for a router; of IPv6 for a CLAT without eBPF.
//!
//! Neighbours see the difference between the two. The kernel's neighbour advertisements say that their sender is a router
//! if `forwarding` of the interface is on, whatever else makes it forward. A host deletes its default route through a
//! router that no longer says so (RFC 4861 section 7.2.5). So interfaces of a router have `forwarding`, and the uplink of
//! a CLAT does not: its host is a host.
//!
//! Settings are not objects that die with a process. What is changed is
//! written down first, put back at the end, and put back by the next start
//! when the end was sudden.

mod changes;
mod forgotten;
mod note;

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use diolkos_sys::namespace::interface_index;

use crate::net::shown;
use diolkos_service::failure::Failure;
use diolkos_service::instance;

use changes::{forwards6, keep_advertisements, Change};
use note::Before;

const CONF4: &str = "/proc/sys/net/ipv4/conf";
const CONF6: &str = "/proc/sys/net/ipv6/conf";

/// That an instance needs forwarding, and what it changed for it. Dropped, the settings are put back, unless another
/// instance in this network namespace needs them: then that one is left to do it.
#[derive(Debug)]
pub struct Forwarding {
    tun: String,
    need: Need,
    /// Besides the TUN device; empty: all that there are.
    interfaces: Vec<String>,
    /// Where it was switched on, or was on already. An interface that comes later is nobody's here unless it is named.
    known: BTreeSet<u32>,
    /// Of these, those whose settings the kernel has forgotten, and which may not have them again yet.
    forgotten: BTreeSet<u32>,
    /// Settings that somebody has switched off.
    off: BTreeSet<PathBuf>,
    /// Interfaces of a router that nobody has named, and that its operator keeps from being a router's.
    hosts: BTreeSet<String>,
    /// Why it could not be switched on again the last time, which is said once.
    failed: String,
    /// What stands in the note is this one's to put back: an earlier run changed it, or this one did.
    inherits: bool,
    changed: bool,
    made_routers: Vec<String>,
    kept: bool,
}

/// What has to be forwarded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Need {
    /// IPv6.
    Six,
    /// Both families, by a router to its neighbours. `bpf_fib_lookup`, too, forwards only for these.
    Both,
}

/// What somebody may switch off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum What {
    Forwarding4,
    Forwarding6,
    /// That neighbours are told that a router answers.
    Router,
}

impl What {
    /// That it is off on these, in words.
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

/// Puts back what an earlier run with this device left changed; true if there was anything. Whoever calls this is the one
/// instance for the device.
pub fn restore_leftovers(tun: &str) -> bool {
    let found = note::path(tun).is_ok_and(|note| note.exists());
    if found {
        tracing::info!("restoring the forwarding settings that an earlier run left");
        leave(tun);
    }
    found
}

/// Takes an instance's note away and puts back what stands in it, or adds that to the note of an instance that goes on.
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

/// The device of an instance is still there: if it does not run, the kernel goes on without it.
fn is_kept(tun: &str) -> bool {
    Path::new(CONF4).join(tun).exists()
}

impl Forwarding {
    /// Makes the kernel forward IPv6 between the two; nothing is changed where it does already.
    pub fn ipv6(uplink: &str, tun: &str) -> Result<Forwarding, Failure> {
        Forwarding::begin(tun, Need::Six, &[uplink.to_owned()], false)
    }

    /// Makes the kernel forward both families between all of these and the TUN device; without any, between all there are.
    ///
    /// `inherits`: an earlier run has left it switched on, and this one is to put it back.
    pub fn both(interfaces: &[String], tun: &str, inherits: bool) -> Result<Forwarding, Failure> {
        Forwarding::begin(tun, Need::Both, interfaces, inherits)
    }

    fn begin(
        tun: &str,
        need: Need,
        interfaces: &[String],
        inherits: bool,
    ) -> Result<Forwarding, Failure> {
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

    /// Switches on what is off, which is noted first; true if there was anything.
    pub fn switch_on(&mut self) -> Result<bool, Failure> {
        let changes = self.changes().map_err(|e| self.refused(&e))?;
        self.carry_out(&changes)?;
        self.made_routers = changes::made_routers(&changes);
        self.off.clear();
        self.known = self.indices().map_err(|e| self.refused(&e))?;
        Ok(!changes.is_empty())
    }

    fn carry_out(&mut self, changes: &[Change]) -> Result<(), Failure> {
        let changes = keep_advertisements(changes.to_vec()).map_err(|e| self.refused(&e))?;
        self.note(&changes)?;
        self.inherits = true;
        self.change(&changes).map_err(|e| self.refused(&e))
    }

    fn refused(&self, error: &io::Error) -> Failure {
        Failure::missing(format!(
            "forwarding cannot be switched on ({error}), which packets through {} need: \
             switch it on before (net.ipv6.conf.all.forwarding=1; for a router net.ipv4.ip_forward=1 too)",
            self.tun
        ))
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

    /// What somebody else has switched off since, in words. To switch it on again is left to the operator, who may have
    /// done it.
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

    /// Whether IPv6 packets from the TUN device are not forwarded. A write of 0 to `all/forwarding` that was 0 already
    /// resets `force_forwarding` of every interface, and the kernel tells nobody: this one setting is read again and again.
    pub fn is_unforced(&self) -> bool {
        let forced = setting(CONF6, &self.tun, "force_forwarding");
        forwards6().is_ok_and(|forwards| !forwards) && is_off(&forced)
    }

    /// What is off.
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
            // Without IPv6 there are other obstacles.
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

    /// Leaves everything as it is when this is dropped: the kernel goes on, and the next start inherits it.
    pub fn keep(&mut self) {
        self.kept = true;
    }

    /// True if the kernel's settings had to be changed.
    pub fn changed(&self) -> bool {
        self.changed
    }

    /// The interfaces that were made a router's in IPv6, by name.
    pub fn made_routers(&self) -> &[String] {
        &self.made_routers
    }

    /// Writes down what the settings are before they are changed.
    fn note(&self, changes: &[Change]) -> Result<(), Failure> {
        let path = note::path(&self.tun)?;
        let unwritten = |e| {
            Failure::missing(format!(
                "{}, which records the settings to restore, cannot be written ({e}): make its folder writable",
                path.display()
            ))
        };
        let mut before = match self.inherits {
            true => note::read(&fs::read_to_string(&path).unwrap_or_default()),
            false => Vec::new(),
        };
        for (path, _) in changes {
            let value = read(path).map_err(unwritten)?;
            note::add(&mut before, Before::of(path, value));
        }
        // An empty note, too, says that there is one who needs what others have changed.
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

/// Whether packets whose source is not routed to the interface are dropped there (RFC 3704): the larger of two settings
/// counts, and 1 is the strict one.
pub fn has_strict_filter(interface: &str) -> bool {
    let value = |of: &str| read(&setting(CONF4, of, "rp_filter")).ok();
    let values = ["all", interface].map(|of| value(of).and_then(|text| text.trim().parse().ok()));
    values.into_iter().flatten().max() == Some(1u8)
}

/// Whether routes through the device are passed over while it has no reader, which the kernel shows as no carrier. The
/// device's own settings are ours, and go with it.
pub fn ignores_without_carrier(tun: &str) -> bool {
    const KEY: &str = "ignore_routes_with_linkdown";
    for conf in [CONF4, CONF6] {
        // Where it is refused, it is as the kernel has it.
        let _ = fs::write(setting(conf, tun, KEY), "0");
    }
    // Of IPv4, one of the two is enough.
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

/// Whose setting it is.
fn name_of(setting: &Path) -> Option<String> {
    Some(setting.parent()?.file_name()?.to_str()?.to_owned())
}

/// The interfaces that have settings.
fn names(conf: &str) -> io::Result<Vec<String>> {
    let entries = fs::read_dir(conf)?.flatten();
    Ok(entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name != "all" && name != "default")
        .collect())
}
