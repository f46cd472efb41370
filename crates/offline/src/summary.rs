// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counts packets by outcome.

use std::collections::BTreeMap;

use diolkos_nat64::session::Counts;
use diolkos_xlat::{Reason, Verdict};

use super::lines::Fate;

/// The summary of a whole capture.
#[derive(Default)]
pub struct Summary {
    read: u64,
    skipped: u64,
    forwarded: u64,
    emitted: u64,
    held: u64,
    dropped: BTreeMap<Reason, u64>,
}

impl Summary {
    /// Counts a packet, or an expiry.
    pub fn count(&mut self, fate: Fate) {
        self.read += u64::from(fate != Fate::Expired);
        match fate {
            Fate::Expired => {}
            Fate::Skipped => self.skipped += 1,
            Fate::Judged(Verdict::Forward) => self.forwarded += 1,
            Fate::Judged(Verdict::Emitted) => self.emitted += 1,
            Fate::Judged(Verdict::Held) => self.held += 1,
            Fate::Judged(Verdict::Elsewhere(_)) => self.drop(Reason::Elsewhere),
            Fate::Judged(Verdict::Drop(reason)) => self.drop(reason),
        }
    }

    /// Counts a held packet that is dropped. It counts as both held and dropped, as in a running translator.
    pub fn drop(&mut self, reason: Reason) {
        *self.dropped.entry(reason).or_default() += 1;
    }

    /// A table for people. `counts`: the entries of a NAT64 at the end.
    pub fn text(&self, written: u64, counts: Option<Counts>) -> String {
        let mut lines = vec![
            ("read".to_owned(), self.read),
            ("skipped (not IP)".to_owned(), self.skipped),
            ("forward".to_owned(), self.forwarded),
            ("emitted".to_owned(), self.emitted),
            ("held".to_owned(), self.held),
        ];
        let drops = self.dropped.iter();
        lines.extend(drops.map(|(reason, count)| (format!("drop.{}", reason.name()), *count)));
        if let Some(counts) = counts {
            lines.push(("sessions at the end".to_owned(), counts.sessions.into()));
            lines.push(("bindings at the end".to_owned(), counts.bindings.into()));
        }
        lines.push(("written".to_owned(), written));
        let shown = lines
            .iter()
            .filter(|(name, count)| *count > 0 || name == "read" || name == "written");
        shown
            .map(|(name, count)| format!("{name:32} {count:>12}\n"))
            .collect()
    }
}
