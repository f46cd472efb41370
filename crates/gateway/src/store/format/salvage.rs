// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads what can be kept of a state that is damaged, or of another version: the operator's bindings and the pool's
//! secret. In every version they are in sections of the same name, and an entry begins as in this one.

use std::io::Read;

use diolkos_nat64::config::Binding;

use super::fields::{Fields, BINDING};
use super::head::Salvage;
use super::malformed::Malformed;
use super::read::secret;
use super::section::{self, Section, END, OPERATOR, POOL};

/// Reads what can be kept. The checksum of every returned byte is right.
pub fn salvage(mut input: impl Read) -> Salvage {
    let mut kept = Salvage::default();
    match section::beginning(&mut input) {
        // A wrong version or checksum of the beginning does not mean that the sections are damaged.
        Ok(_) | Err(Malformed::Corrupted(_)) => {}
        Err(_) => return kept,
    }
    // Skip the seal.
    if section::array::<1>(&mut input).is_err() {
        return kept;
    }
    let mut whole = true;
    while let Ok(section) = section::take(&mut input) {
        match (section.is_whole, section.name) {
            (true, OPERATOR) => whole &= bindings(&section, &mut kept.bindings).is_ok(),
            (true, POOL) => kept.secret = secret(&section).ok(),
            (true, END) => {
                let number = Fields(&section.body).u32().ok();
                let found = u32::try_from(kept.bindings.len()).ok();
                kept.is_complete = whole && number.is_some() && number == found;
                break;
            }
            // Sessions, sections that only other versions know, and damaged sections are skipped; the number in the
            // end shows whether a binding is missing.
            _ => {}
        }
    }
    kept
}

/// Entries may be longer than those of this version, and begin in the same way.
fn bindings(section: &Section, to: &mut Vec<Binding>) -> Result<(), Malformed> {
    let mut fields = Fields(&section.body);
    let size = usize::from(fields.u16()?);
    if size < BINDING {
        return Err(Malformed::Corrupted("a binding is too short"));
    }
    for entry in fields.0.chunks(size) {
        to.push(Fields(entry).binding()?);
    }
    Ok(())
}
