// SPDX-License-Identifier: Apache-2.0 OR MIT
//! IPv6 forwarding between the uplink and the TUN device, which `tun` alone
//! needs: without eBPF it is the kernel that carries packets from one to the
//! other.
//!
//! Settings are not objects that die with a process. What is changed is
//! written down first, put back at the end, and put back by the next start
//! when the end was sudden.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::failure::Failure;

const CONF: &str = "/proc/sys/net/ipv6/conf";
const NOTES: &str = "/run/diolkos";

/// The settings as they were; put back when dropped.
#[derive(Debug)]
pub struct Forwarding {
    before: Vec<(PathBuf, String)>,
    note: PathBuf,
}

/// Puts back what a killed run with this device left changed. Whoever calls this is the one instance for the device.
pub fn restore_leftovers(tun: &str) {
    if let Ok(note) = note_path(tun) {
        if let Ok(text) = fs::read_to_string(&note) {
            tracing::info!("putting back the forwarding settings that a killed run left");
            put_back(&read_note(&text));
            let _ = fs::remove_file(&note);
        }
    }
}

impl Forwarding {
    /// Makes the kernel forward between the two; nothing is changed where it does already.
    pub fn enable(uplink: &str, tun: &str) -> Result<Forwarding, Failure> {
        let mut forwarding = Forwarding {
            before: Vec::new(),
            note: note_path(tun).map_err(|e| {
                Failure::run_time(format!("the network namespace has no name: {e}"))
            })?,
        };
        if read(&setting("all", "forwarding")).is_ok_and(|v| v == "1") {
            return Ok(forwarding);
        }
        // Linux 6.17 and later: per interface, without making a router of the host.
        let narrow = [
            setting(uplink, "force_forwarding"),
            setting(tun, "force_forwarding"),
        ];
        let result = if narrow.iter().all(|path| path.exists()) {
            forwarding.change(&narrow.map(|path| (path, "1".to_owned())))
        } else {
            // Writing `all` sets every interface. A router ignores the router advertisements that made the uplink's
            // addresses, so every other interface is set back to what it was.
            let mut changes = vec![(setting("all", "forwarding"), "1".to_owned())];
            changes.extend(as_they_are(tun));
            forwarding.change(&changes)
        };
        result.map_err(|e| {
            Failure::missing(format!(
                "IPv6 forwarding cannot be switched on ({e}), which the datapath `tun` needs: \
                 set net.ipv6.conf.all.forwarding=1, or use the datapath `tc`"
            ))
        })?;
        Ok(forwarding)
    }

    /// True if the kernel's settings had to be changed.
    pub fn changed(&self) -> bool {
        !self.before.is_empty()
    }

    fn change(&mut self, changes: &[(PathBuf, String)]) -> io::Result<()> {
        for (path, _) in changes {
            self.before.push((path.clone(), read(path)?));
        }
        fs::create_dir_all(NOTES)?;
        fs::write(&self.note, write_note(&self.before))?;
        for (path, value) in changes {
            fs::write(path, value)?;
        }
        Ok(())
    }
}

impl Drop for Forwarding {
    fn drop(&mut self) {
        if self.changed() {
            put_back(&self.before);
            let _ = fs::remove_file(&self.note);
        }
    }
}

fn setting(interface: &str, key: &str) -> PathBuf {
    Path::new(CONF).join(interface).join(key)
}

fn read(path: &Path) -> io::Result<String> {
    Ok(fs::read_to_string(path)?.trim().to_owned())
}

/// Every interface but the TUN device, with its own setting.
fn as_they_are(tun: &str) -> Vec<(PathBuf, String)> {
    let Ok(entries) = fs::read_dir(CONF) else {
        return Vec::new();
    };
    entries
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| !["all", tun].contains(&name.as_str()))
        .map(|name| setting(&name, "forwarding"))
        .filter_map(|path| read(&path).ok().map(|value| (path, value)))
        .collect()
}

fn put_back(before: &[(PathBuf, String)]) {
    for (path, value) in before {
        // An interface that is gone took its settings along.
        let _ = fs::write(path, value);
    }
}

/// One note for each instance.
fn note_path(tun: &str) -> io::Result<PathBuf> {
    let namespace = diolkos_sys::namespace::cookie()?;
    Ok(Path::new(NOTES).join(format!("forwarding-{namespace}-{tun}")))
}

fn write_note(before: &[(PathBuf, String)]) -> String {
    before
        .iter()
        .map(|(path, value)| format!("{}\t{value}\n", path.display()))
        .collect()
}

/// Only what `change` can have written: a forwarding setting and a number.
fn read_note(text: &str) -> Vec<(PathBuf, String)> {
    text.lines()
        .filter_map(|line| line.split_once('\t'))
        .map(|(path, value)| (PathBuf::from(path), value.to_owned()))
        .filter(|(path, value)| {
            path.starts_with(CONF)
                && !path.components().any(|c| c.as_os_str() == "..")
                && path
                    .file_name()
                    .is_some_and(|name| name == "forwarding" || name == "force_forwarding")
                && matches!(value.as_str(), "0" | "1" | "2")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_reads_back_and_trusts_nothing_else() {
        let before = vec![
            (setting("all", "forwarding"), "0".to_owned()),
            (setting("eth0", "force_forwarding"), "0".to_owned()),
        ];
        assert_eq!(read_note(&write_note(&before)), before);
        for evil in [
            "/etc/passwd\t0\n",
            "/proc/sys/net/ipv6/conf/../../../kernel/forwarding\t1\n",
            "x\n",
        ] {
            assert_eq!(read_note(evil), [], "{evil:?}");
        }
        assert_eq!(read_note("/proc/sys/net/ipv6/conf/all/forwarding\t7\n"), []);
    }
}
