// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The bindings that each slice really has, under any owner, and those of them that its next owner has to know.

use std::collections::BTreeMap;

use diolkos_cluster::{Change, Message, Revision, SliceId, Title};
use diolkos_core::config::nat64::Binding;

/// What a slice has in truth.
#[derive(Default)]
struct Slice {
    /// Of the entry that makes a node the owner. A node that does not know yet that it is not goes unheard.
    revision: Revision,
    /// By port; whether its owner knows that the stream has it.
    bindings: BTreeMap<u16, (Binding, bool)>,
}

#[derive(Default)]
pub struct Truth {
    slices: BTreeMap<SliceId, Slice>,
    /// Bindings that an owner had to inherit and did.
    pub inherited: usize,
}

impl Truth {
    /// A node opens a slice, with these bindings.
    pub fn begin(
        &mut self,
        (slice, revision): (SliceId, Revision),
        installed: &BTreeMap<u16, Binding>,
    ) -> Result<(), String> {
        let known = self.slices.entry(slice).or_default();
        let before = &mut known.bindings;
        for (port, (binding, is_told)) in before.iter() {
            if *is_told && installed.get(port) != Some(binding) {
                let has = installed.get(port);
                return Err(format!(
                    "slice {slice}: {binding:?} was told, the heir has {has:?}"
                ));
            }
            self.inherited += usize::from(*is_told);
        }
        // A binding that its owner closed too late for others to hear is installed; other nodes need not know it.
        let was_told = |port, binding| before.get(port) == Some(&(binding, true));
        let now = installed
            .iter()
            .map(|(port, binding)| (*port, (*binding, was_told(port, *binding))));
        *before = now.collect();
        known.revision = revision;
        Ok(())
    }

    /// Its owner has opened or closed a binding.
    pub fn change(&mut self, slice: SliceId, title: Title, change: Change) {
        let Some(bindings) = self.of_owner(slice, title) else {
            return;
        };
        match change {
            Change::Opened(binding) => bindings.insert(binding.v4.port, (binding, false)),
            Change::Closed { port, .. } => bindings.remove(&port),
        };
    }

    /// The owner knows that the stream has a message of its own.
    pub fn acknowledged(&mut self, message: &Message) {
        let Some(bindings) = self.of_owner(message.slice, message.title) else {
            return;
        };
        for change in &message.changes {
            if let Change::Opened(told) = change {
                let known = bindings.get_mut(&told.v4.port);
                if let Some((_, is_told)) = known.filter(|(is, _)| is == told) {
                    *is_told = true;
                }
            }
        }
    }

    /// The owner gives a slice away: its heir has to know everything.
    pub fn all_told(&mut self, slice: SliceId, title: Title) {
        let bindings = self.of_owner(slice, title);
        for (_, is_told) in bindings.into_iter().flat_map(BTreeMap::values_mut) {
            *is_told = true;
        }
    }

    fn of_owner(
        &mut self,
        slice: SliceId,
        title: Title,
    ) -> Option<&mut BTreeMap<u16, (Binding, bool)>> {
        let known = self.slices.get_mut(&slice)?;
        (known.revision == title.revision).then_some(&mut known.bindings)
    }
}
