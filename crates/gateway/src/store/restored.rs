// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counts what was restored from an earlier run.

use std::collections::BTreeMap;
use std::fmt;

use diolkos_service::counted::{agreeing, counted};

/// Numbers of restored and refused entries.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Restored {
    /// Bindings of the operator.
    pub bindings: u32,
    /// Sessions of the file.
    pub sessions: u32,
    /// Sessions that only the maps had.
    pub from_maps: u32,
    /// Sessions whose lifetime was over.
    pub expired: u32,
    /// Sessions of the file that the maps have newer knowledge of.
    pub outdated: u32,
    /// Entries that the configuration, or the machine, no longer allows, by the name of the reason.
    pub refused: BTreeMap<&'static str, u32>,
}

impl fmt::Display for Restored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Restored {
            bindings, sessions, ..
        } = self;
        write!(
            f,
            "{} and {} of the operator restored",
            counted(*sessions, "session"),
            counted(*bindings, "binding")
        )?;
        for (number, what) in [
            (self.from_maps, "more from the kernel's maps"),
            (self.expired, "had expired"),
            (
                self.outdated,
                agreeing(self.outdated, "was outdated", "were outdated"),
            ),
        ] {
            if number > 0 {
                write!(f, ", {number} {what}")?;
            }
        }
        if !self.refused.is_empty() {
            let reasons = self.refused.iter();
            let reasons: Vec<_> = reasons
                .map(|(name, number)| format!("{number} {name}"))
                .collect();
            write!(f, "; no longer allowed: {}", reasons.join(", "))?;
        }
        Ok(())
    }
}
