// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The fate of every datagram and of every mapping, by its name.

use super::message::Code;

/// What has happened so often.
#[derive(Clone, Default, Debug)]
pub struct Tally {
    pub mapped: u64,
    pub renewed: u64,
    pub deleted: u64,
    pub expired: u64,
    pub lost: u64,
    pub announced: u64,
    pub malformed: u64,
    pub too_fast: u64,
    /// By the number of the code.
    refused: [u64; Code::AddressMismatch as usize + 1],
}

impl Tally {
    pub fn refused(&mut self, code: Code) {
        self.refused[code as usize] += 1;
    }

    /// Each name with its number.
    pub fn named(&self) -> impl Iterator<Item = (String, u64)> + '_ {
        let own = [
            ("mapped", self.mapped),
            ("renewed", self.renewed),
            ("deleted", self.deleted),
            ("expired", self.expired),
            ("lost", self.lost),
            ("announced", self.announced),
            ("drop.malformed", self.malformed),
            ("drop.rate", self.too_fast),
        ];
        let refused = Code::ERRORS.into_iter().map(move |code| {
            let name = format!("pcp.refused.{}", code.name());
            (name, self.refused[code as usize])
        });
        let own = own.into_iter();
        own.map(|(name, count)| (format!("pcp.{name}"), count))
            .chain(refused)
    }
}
