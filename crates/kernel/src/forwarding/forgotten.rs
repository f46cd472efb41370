// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Restores forwarding that the kernel has reset. The kernel forgets the IPv6 settings of an interface when its MTU falls below
//! 1280 bytes, and all settings together with an interface, which may appear again.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use diolkos_sys::namespace::{interface_index, interface_name};

use super::{is_off, name_of, Forwarding, Need, CONF4, CONF6};
use crate::error::KernelError;
use crate::net::shown;

impl Forwarding {
    /// Records that the kernel has forgotten the settings of the interface with this index.
    pub fn forgotten(&mut self, index: u32) {
        if self.known.contains(&index) {
            self.forgotten.insert(index);
        }
    }

    /// Switches forwarding on again where the kernel has reset it, and logs that. Returns the remaining obstacles, in words:
    /// settings that were switched off on purpose. They are recorded before they are reported, so a later reset is not confused
    /// with them.
    pub fn check(&mut self) -> Vec<String> {
        self.put_back();
        self.respect_changes();
        self.obstacles()
    }

    /// Returns true if the last check has left forwarding off somewhere.
    pub fn has_off(&self) -> bool {
        !self.off.is_empty()
    }

    fn put_back(&mut self) {
        match self.switch_on_again() {
            Ok(names) => {
                self.failed.clear();
                if !names.is_empty() {
                    tracing::warn!(
                        "the kernel had reset forwarding on {}: switching it on again",
                        shown(&names)
                    );
                }
            }
            Err(failure) => {
                let said = failure.to_string();
                if self.failed != said {
                    tracing::warn!("{said}");
                }
                self.failed = said;
            }
        }
    }

    /// A setting that is off now was switched off on purpose, because the kernel reports resets beforehand. It stays off.
    fn respect_changes(&mut self) {
        // A setting that does not exist now keeps its record. The same holds if the kernel has reset all settings of the
        // interface.
        self.off.retain(|path| !path.exists() || is_off(path));
        let off = self.switched_off().into_iter().flat_map(|(_, paths)| paths);
        // An operator switches off one setting. If both are off, the kernel has probably reset them, and its message may be on
        // its way.
        let is_all_off = |path: &PathBuf| {
            path.starts_with(CONF6)
                && ["forwarding", "force_forwarding"]
                    .iter()
                    .all(|key| is_off(&path.with_file_name(key)))
        };
        let off: Vec<_> = off
            .filter(|path| self.need == Need::Six || !is_all_off(path))
            .collect();
        self.off.extend(off);
    }

    /// Switches forwarding on where it is necessary, and returns the names of those interfaces.
    fn switch_on_again(&mut self) -> Result<Vec<String>, KernelError> {
        let changes = self.changes().map_err(|e| self.refused(e))?;
        let (mut names, mut lost) = (BTreeSet::new(), Vec::new());
        for change in changes {
            let name = name_of(&change.0);
            let index = name.as_deref().and_then(interface_index);
            let (Some(name), Some(index)) = (name, index) else {
                continue;
            };
            let is_new = self.is_named(&name) && !self.known.contains(&index);
            // If forwarding of a family was switched off on purpose, the interface should not look like a router's either.
            let is_off = self.off.iter().any(|off| off.parent() == change.0.parent());
            let is_lost = self.forgotten.contains(&index) && !is_off;
            if is_new || is_lost {
                names.insert(name);
                lost.push(change);
            }
        }
        if !lost.is_empty() {
            self.carry_out(&lost)?;
        }
        self.learn()?;
        Ok(names.into_iter().collect())
    }

    /// Updates which interfaces have their settings and which are gone.
    fn learn(&mut self) -> Result<(), KernelError> {
        let there = self.indices().map_err(|e| self.refused(e))?;
        // A later interface may have the same index.
        self.known.retain(|index| there.contains(index));
        self.forgotten.retain(|index| there.contains(index));
        let has_settings = |name: &String| {
            let confs = [CONF4, CONF6].into_iter();
            confs
                .map(|conf| Path::new(conf).join(name))
                .all(|path| path.exists())
        };
        for index in there {
            let Some(name) = interface_name(index).filter(has_settings) else {
                continue;
            };
            self.forgotten.remove(&index);
            if self.is_named(&name) {
                self.known.insert(index);
            }
        }
        Ok(())
    }
}
