// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Forwarding that nobody has switched off, and that is off all the same. The kernel forgets the IPv6 settings of an
//! interface when its MTU falls below 1280 bytes, and all of them with the interface, which may come again.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use diolkos_sys::namespace::{interface_index, interface_name};

use super::{name_of, Forwarding, CONF4, CONF6};
use crate::failure::Failure;
use crate::net::shown;

impl Forwarding {
    /// The kernel has forgotten the settings of the interface with this index.
    pub fn forgotten(&mut self, index: u32) {
        if self.known.contains(&index) {
            self.forgotten.insert(index);
        }
    }

    /// Switches on again what nobody has switched off, and says so. What stands in the way all the same, in words.
    pub fn check(&mut self) -> Vec<String> {
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
        self.obstacles()
    }

    /// What is off now somebody has switched off, for what the kernel has forgotten was told before. It stays off.
    pub fn respect_changes(&mut self) {
        // What has come back since the last look is nobody's doing.
        let is_forgotten = |path: &PathBuf| {
            let index = name_of(path).as_deref().and_then(interface_index);
            index.is_some_and(|index| self.forgotten.contains(&index))
        };
        let off = self.switched_off().into_iter().flat_map(|(_, paths)| paths);
        let off: Vec<_> = off.filter(|path| !is_forgotten(path)).collect();
        // Of what is not there now, or was not a moment ago, nobody has said anything else.
        let mut before = std::mem::take(&mut self.off);
        before.retain(|path| !path.exists() || is_forgotten(path));
        self.off = before;
        self.off.extend(off);
    }

    /// The interfaces on which that was necessary.
    fn switch_on_again(&mut self) -> Result<Vec<String>, Failure> {
        // What comes back while this looks is for the next look, which the kernel's message about it brings.
        let there = self.with_settings().map_err(|e| self.refused(&e))?;
        let changes = self.changes().map_err(|e| self.refused(&e))?;
        let (mut names, mut lost) = (BTreeSet::new(), Vec::new());
        for change in changes {
            let name = name_of(&change.0);
            let index = name.as_deref().and_then(interface_index);
            let (Some(name), Some(index)) = (name, index) else {
                continue;
            };
            let is_new = self.is_named(&name) && !self.known.contains(&index);
            // Who switches forwarding off in a family wants no router there, either.
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
        self.learn(&there)?;
        Ok(names.into_iter().collect())
    }

    /// The interfaces that have settings of both families, with their names.
    fn with_settings(&self) -> io::Result<Vec<(u32, String)>> {
        let has_settings = |name: &String| {
            let confs = [CONF4, CONF6].into_iter();
            confs
                .map(|conf| Path::new(conf).join(name))
                .all(|path| path.exists())
        };
        let named = self.indices()?.into_iter().filter_map(|index| {
            let name = interface_name(index).filter(has_settings)?;
            Some((index, name))
        });
        Ok(named.collect())
    }

    /// Which interfaces had their settings, and which are gone.
    fn learn(&mut self, settled: &[(u32, String)]) -> Result<(), Failure> {
        let there = self.indices().map_err(|e| self.refused(&e))?;
        // The next interface may have the same index.
        self.known.retain(|index| there.contains(index));
        self.forgotten.retain(|index| there.contains(index));
        for (index, name) in settled {
            self.forgotten.remove(index);
            if there.contains(index) && self.is_named(name) {
                self.known.insert(*index);
            }
        }
        Ok(())
    }
}
