// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The note of an instance: the settings that it changed, with their previous values. The file is in the folder of the
//! instances.

use std::fs;
use std::path::{Path, PathBuf};

use diolkos_sys::namespace::{interface_index, interface_name};

use super::{CONF4, CONF6};
use crate::error::KernelError;
use diolkos_service::instance;

/// The file name extension of notes.
const NOTE: &str = "forwarding";
/// The only settings that the program ever changes.
const KEYS: [&str; 3] = ["forwarding", "force_forwarding", "accept_ra"];

/// A setting that was changed, with its previous value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Before {
    path: PathBuf,
    value: String,
    /// Index of its interface, which may have another name when the setting is restored. 0: no interface.
    index: u32,
}

impl Before {
    /// The setting of the interface that has this name now.
    pub fn of(path: &Path, value: String) -> Before {
        let interface = path.parent().and_then(Path::file_name);
        let index = interface.and_then(|name| interface_index(name.to_str()?));
        Before {
            path: path.to_owned(),
            value,
            index: index.unwrap_or(0),
        }
    }

    /// The path of the setting now. `None`: the interface is gone, and its settings with it.
    fn place(&self) -> Option<PathBuf> {
        if self.index == 0 {
            return Some(self.path.clone());
        }
        let conf = self.path.parent()?.parent()?;
        Some(
            conf.join(interface_name(self.index)?)
                .join(self.path.file_name()?),
        )
    }
}

/// Adds a setting, unless the list has it already: the value before the first change is the one to restore.
pub fn add(before: &mut Vec<Before>, new: Before) {
    let place = new.place();
    if !before.iter().any(|b| b.place() == place) {
        before.push(new);
    }
}

/// Reads a note and removes it.
pub fn take(note: &Path) -> Vec<Before> {
    let text = fs::read_to_string(note).unwrap_or_default();
    let _ = fs::remove_file(note);
    read(&text)
}

/// The notes of other instances in this network namespace, each with the name of its device.
pub fn others(tun: &str) -> Vec<(String, PathBuf)> {
    let Some(entries) = instance::folder().ok().and_then(|f| fs::read_dir(f).ok()) else {
        return Vec::new();
    };
    entries
        .flatten()
        .map(|entry| entry.path())
        .filter_map(|note| {
            let name = note.file_name()?.to_str()?;
            let device = name.strip_suffix(NOTE)?.strip_suffix('.')?.to_owned();
            (device != tun).then_some((device, note))
        })
        .collect()
}

/// Restores settings. `accept_ra` comes last: a host accepts router advertisements with the value 1, a router does not.
pub fn restore(before: &[Before]) {
    let accepts = |setting: &&Before| setting.path.ends_with("accept_ra");
    let first = before.iter().filter(|setting| !accepts(setting));
    for setting in first.chain(before.iter().filter(accepts)) {
        if let Some(path) = setting.place() {
            let _ = fs::write(path, &setting.value);
        }
    }
}

/// The path of an instance's note.
pub fn path(tun: &str) -> Result<PathBuf, KernelError> {
    Ok(instance::folder()?.join(format!("{tun}.{NOTE}")))
}

/// The text of a note.
pub fn write(before: &[Before]) -> String {
    let line = |b: &Before| format!("{}\t{}\t{}\n", b.path.display(), b.value, b.index);
    before.iter().map(line).collect()
}

/// Reads a note, and accepts only lines that `write` can have written: a known setting, a number, and an index.
pub fn read(text: &str) -> Vec<Before> {
    let read = |line: &str| {
        let (path, rest) = line.split_once('\t')?;
        let (value, index) = rest.split_once('\t')?;
        let path = PathBuf::from(path);
        let is_setting = (path.starts_with(CONF4) || path.starts_with(CONF6))
            && !path.components().any(|c| c.as_os_str() == "..")
            && KEYS.contains(&path.file_name()?.to_str()?)
            && matches!(value, "0" | "1" | "2");
        is_setting.then_some(Before {
            path,
            value: value.to_owned(),
            index: index.parse().ok()?,
        })
    };
    text.lines().filter_map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::super::setting;
    use super::*;

    #[test]
    fn the_first_value_is_the_one_that_was_before() {
        let all = setting(CONF6, "all", "forwarding");
        let mut before = vec![Before::of(&all, "0".to_owned())];
        add(&mut before, Before::of(&all, "1".to_owned()));
        let other = Before::of(&setting(CONF4, "lo", "forwarding"), "1".to_owned());
        add(&mut before, other.clone());
        assert_eq!(before, [Before::of(&all, "0".to_owned()), other]);
    }

    #[test]
    fn a_note_reads_back_and_trusts_nothing_else() {
        let before = [
            setting(CONF6, "all", "forwarding"),
            setting(CONF6, "eth0", "force_forwarding"),
            setting(CONF4, "lo", "forwarding"),
        ];
        let before = before.map(|path| Before::of(&path, "0".to_owned()));
        assert_eq!(read(&write(&before)), before);
        for evil in [
            "/etc/passwd\t0\t0\n",
            "/proc/sys/net/ipv6/conf/../../../kernel/forwarding\t1\t0\n",
            "/proc/sys/net/ipv6/conf/all/forwarding\t7\t0\n",
            "/proc/sys/net/ipv6/conf/all/forwarding\t1\tlo\n",
            "/proc/sys/net/ipv6/conf/all/forwarding\t1\n",
            "x\n",
        ] {
            assert_eq!(read(evil), [], "{evil:?}");
        }
    }

    #[test]
    fn a_setting_follows_its_interface() {
        let index = interface_index("lo").expect("every namespace has it");
        let before = Before {
            index,
            ..Before::of(&setting(CONF4, "renamed", "forwarding"), "0".to_owned())
        };
        assert_eq!(before.place(), Some(setting(CONF4, "lo", "forwarding")));
        let gone = Before {
            index: u32::MAX,
            ..before
        };
        assert_eq!(gone.place(), None);
        let all = setting(CONF6, "all", "forwarding");
        assert_eq!(Before::of(&all, "0".to_owned()).place(), Some(all));
    }
}
