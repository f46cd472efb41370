// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Forwarding between the TUN device and the other interfaces, which the kernel does for every packet that crosses the
//! TUN device: of both families for a router; of IPv6 for a CLAT without eBPF.
//!
//! Settings are not objects that die with a process. What is changed is
//! written down first, put back at the end, and put back by the next start
//! when the end was sudden.

mod forgotten;
mod note;

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use diolkos_sys::namespace::interface_index;

use crate::failure::Failure;
use crate::instance;
use crate::net::shown;

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
    /// Why it could not be switched on again the last time, which is said once.
    failed: String,
    /// What stands in the note is this one's to put back: an earlier run changed it, or this one did.
    inherits: bool,
    changed: bool,
    kept: bool,
}

/// What has to be forwarded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Need {
    /// IPv6.
    Six,
    /// Both families.
    Both,
    /// Both, and `bpf_fib_lookup`, too, has to say where packets go.
    LookedUp,
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

    /// The same, so that `bpf_fib_lookup`, too, says where packets go. It looks at `forwarding` of the IPv6 interface from
    /// which a packet comes, of which the kernel's own forwarding knows nothing.
    pub fn looked_up(
        interfaces: &[String],
        tun: &str,
        inherits: bool,
    ) -> Result<Forwarding, Failure> {
        Forwarding::begin(tun, Need::LookedUp, interfaces, inherits)
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
            failed: String::new(),
            inherits,
            changed: false,
            kept: false,
        };
        forwarding.switch_on()?;
        Ok(forwarding)
    }

    /// Switches on what is off, which is noted first; true if there was anything.
    pub fn switch_on(&mut self) -> Result<bool, Failure> {
        let changes = self.changes().map_err(|e| self.refused(&e))?;
        self.carry_out(&changes)?;
        self.known = self.indices().map_err(|e| self.refused(&e))?;
        Ok(!changes.is_empty())
    }

    fn carry_out(&mut self, changes: &[Change]) -> Result<(), Failure> {
        self.note(changes)?;
        self.inherits = true;
        self.change(changes).map_err(|e| self.refused(&e))
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
        let mut changes = changes6(&self.interfaces, &self.tun)?;
        if self.need == Need::LookedUp && !forwards6()? {
            changes.extend(routers6(&self.interfaces));
        }
        if self.need != Need::Six {
            changes.extend(changes4(&self.interfaces, &self.tun)?);
        }
        Ok(changes)
    }

    /// What somebody else has switched off since, in words. To switch it on again is left to the operator, who may have
    /// done it.
    pub fn obstacles(&self) -> Vec<String> {
        self.switched_off()
            .into_iter()
            .filter(|(_, paths)| !paths.is_empty())
            .map(|(family, paths)| {
                let mut names: Vec<String> =
                    paths.iter().filter_map(|path| name_of(path)).collect();
                names.sort();
                format!("{family} forwarding is off on {}", shown(&names))
            })
            .collect()
    }

    /// Whether IPv6 packets from the TUN device are not forwarded. A write of 0 to `all/forwarding` that was 0 already
    /// resets `force_forwarding` of every interface, and the kernel tells nobody: this one setting is read again and again.
    pub fn is_unforced(&self) -> bool {
        let forced = setting(CONF6, &self.tun, "force_forwarding");
        forwards6().is_ok_and(|forwards| !forwards) && is_off(&forced)
    }

    /// What is off, by family.
    fn switched_off(&self) -> [(&'static str, Vec<PathBuf>); 2] {
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
        let off4 = match self.need {
            Need::Six => Vec::new(),
            Need::Both | Need::LookedUp => off(CONF4, "forwarding"),
        };
        let off6 = match forwards6() {
            Ok(false) => off(CONF6, "force_forwarding"),
            // Without IPv6 there are other obstacles.
            Ok(true) | Err(_) => Vec::new(),
        };
        [("IPv4", off4), ("IPv6", off6)]
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

/// A setting and its value.
type Change = (PathBuf, String);

/// Whether the host is an IPv6 router: then `forwarding` of an interface that is off is what somebody wants.
fn forwards6() -> io::Result<bool> {
    Ok(read(&setting(CONF6, "all", "forwarding"))? != "0")
}

/// What has to change for IPv6.
fn changes6(interfaces: &[String], tun: &str) -> io::Result<Vec<Change>> {
    if forwards6()? {
        return Ok(Vec::new());
    }
    // Linux 6.17 and later: per interface, without making a router of the host.
    let among = |name: &str| interfaces.is_empty() || interfaces.iter().any(|i| i == name);
    let narrow: Vec<PathBuf> = names(CONF6)?
        .iter()
        .filter(|name| name.as_str() == tun || name.as_str() != "lo" && among(name))
        .map(|name| setting(CONF6, name, "force_forwarding"))
        .collect();
    if narrow.iter().all(|path| path.exists()) {
        return Ok(switched_on(narrow.into_iter().filter(|path| is_off(path))));
    }
    // Writing `all` sets every interface and takes away the default routes that router advertisements made, unless
    // they are accepted from routers by a router too. Every other interface is set back to what it was.
    let mut changes: Vec<Change> = names(CONF6)?
        .iter()
        .map(|name| setting(CONF6, name, "accept_ra"))
        .filter(|path| read(path).is_ok_and(|value| value == "1"))
        .map(|path| (path, "2".to_owned()))
        .collect();
    changes.extend(switched_on([setting(CONF6, "all", "forwarding")]));
    let others = fs::read_dir(CONF6)?.flatten();
    for name in others.map(|entry| entry.file_name().to_string_lossy().into_owned()) {
        let path = setting(CONF6, &name, "forwarding");
        if let (true, Ok(value)) = (name != "all" && name != tun, read(&path)) {
            changes.push((path, value));
        }
    }
    Ok(changes)
}

/// What has to change for these to be a router's in IPv6. Each goes on to accept the router advertisements that it
/// accepted as a host's.
fn routers6(interfaces: &[String]) -> Vec<Change> {
    let of = |key| interfaces.iter().map(move |i| setting(CONF6, i, key));
    let mut changes: Vec<Change> = of("accept_ra")
        .filter(|path| read(path).is_ok_and(|value| value == "1"))
        .map(|path| (path, "2".to_owned()))
        .collect();
    changes.extend(switched_on(of("forwarding").filter(|path| is_off(path))));
    changes
}

/// What has to change for IPv4, where it is a setting of the interface that a packet comes from.
fn changes4(interfaces: &[String], tun: &str) -> io::Result<Vec<Change>> {
    let among = |name: &str| interfaces.is_empty() || interfaces.iter().any(|i| i == name);
    let settings: Vec<PathBuf> = names(CONF4)?
        .iter()
        .filter(|name| name.as_str() == tun || name.as_str() != "lo" && among(name))
        .map(|name| setting(CONF4, name, "forwarding"))
        .collect();
    Ok(switched_on(
        settings.into_iter().filter(|path| is_off(path)),
    ))
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

fn switched_on(paths: impl IntoIterator<Item = PathBuf>) -> Vec<Change> {
    paths
        .into_iter()
        .map(|path| (path, "1".to_owned()))
        .collect()
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
