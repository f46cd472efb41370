// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Forwarding that nobody has switched off, and that is off all the same. The kernel forgets the IPv6 settings of an
//! interface when its MTU falls below 1280 bytes, and all of them with the interface, which may come again.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use diolkos_sys::namespace::{interface_index, interface_name};

use super::{is_off, name_of, Forwarding, Need, CONF4, CONF6};
use crate::net::shown;
use diolkos_service::failure::Failure;

impl Forwarding {
    /// The kernel has forgotten the settings of the interface with this index.
    pub fn forgotten(&mut self, index: u32) {
        if self.known.contains(&index) {
            self.forgotten.insert(index);
        }
    }

    /// Switches on again what nobody has switched off, and says so. What stands in the way all the same, in words: somebody
    /// has switched it off, which is noted before anybody hears of it and changes more.
    pub fn check(&mut self) -> Vec<String> {
        self.put_back();
        self.respect_changes();
        self.obstacles()
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

    /// What is off now somebody has switched off, for what the kernel has forgotten was told before. It stays off.
    fn respect_changes(&mut self) {
        // Of what is not there now, nobody has said anything else; nor if all is off because the kernel has forgotten it, too.
        self.off.retain(|path| !path.exists() || is_off(path));
        let off = self.switched_off().into_iter().flat_map(|(_, paths)| paths);
        // Somebody switches one setting off. Where all are off, the kernel's message that it forgot them may be on its way.
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

    /// The interfaces on which that was necessary.
    fn switch_on_again(&mut self) -> Result<Vec<String>, Failure> {
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
        self.learn()?;
        Ok(names.into_iter().collect())
    }

    /// Which interfaces have their settings, and which are gone.
    fn learn(&mut self) -> Result<(), Failure> {
        let there = self.indices().map_err(|e| self.refused(&e))?;
        // The next interface may have the same index.
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
