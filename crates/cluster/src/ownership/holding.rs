// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a node knows of one slice: its entry, and how far the node has come with it.

use crate::entry::{NodeId, SliceEntry};
use crate::Revision;

/// As what a node speaks of the bindings of a slice. Each owner's entry has a higher revision than that of the owner before,
/// so revisions tell later words from earlier ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Title {
    /// Which of the node's lives.
    pub life: u64,
    /// Of the slice's entry that makes it the owner.
    pub revision: Revision,
}

/// What a message about the bindings of a slice counts for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// The entry that is known names the speaker.
    Owner,
    /// The speaker names another entry: an earlier owner, or one whose entry the feed has yet to bring.
    OtherOwner,
    /// This node in this life.
    Myself,
    /// The entry of that revision names another one.
    Stranger,
}

/// What is to be read before a slice is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Acquisition {
    /// Of the slice's entry: for [`super::Ownership::ready`].
    pub revision: Revision,
    /// Up to which message of the stream; 0: to the end that the stream has now.
    pub through: u64,
    /// Another node may have had the slice since this one installed its bindings. What this node still has of them is to be
    /// released first: it would be in the way of the other node's bindings.
    pub had_others: bool,
}

/// How an entry was lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Loss {
    /// The engine has none any more.
    Vanished,
    /// The engine has an unreadable one, or the mark of a removal.
    Unreadable,
}

/// What is known of one slice.
#[derive(Clone, Copy, Debug, Default)]
pub struct Holding {
    /// The last one that is known, even if the engine has it no more.
    pub entry: Option<SliceEntry>,
    /// Of this entry, or of what the engine has instead of it; 0: none is known.
    pub revision: Revision,
    /// What the engine has instead of the entry.
    loss: Option<Loss>,
    /// At this revision nothing more is opened: a write that gives the slice away may be on its way, and cannot be recalled.
    closed_at: Option<Revision>,
    /// At this revision the bindings of the owners before are installed.
    installed_at: Option<Revision>,
    /// Another node may have had the slice since then.
    had_others: bool,
}

impl Holding {
    /// Notes an entry, unless a later one is known. `own`: the write of this node that may be it, with the revision that it
    /// replaces.
    pub fn note(
        &mut self,
        revision: Revision,
        entry: SliceEntry,
        own: Option<(SliceEntry, Revision)>,
    ) {
        // One that is brought after all was there all the time.
        if revision == self.revision && self.loss == Some(Loss::Vanished) {
            self.loss = None;
        }
        if revision > self.revision {
            self.loss = None;
            // The feed may leave out entries, so only what this node has written over an entry of its own shows that there was
            // no other owner in between.
            let before = self.entry.map(|before| before.owner);
            let goes_on = own == Some((entry, self.revision)) && before == Some(entry.owner);
            self.had_others |= !goes_on;
            (self.entry, self.revision) = (Some(entry), revision);
        }
    }

    /// The engine has no entry any more. So another node that has never seen it may take the slice at once: the owner opens nothing
    /// in it before it has written the entry again.
    pub fn vanish(&mut self) {
        (self.loss, self.had_others) = (Some(Loss::Vanished), true);
    }

    /// The engine has an unreadable entry of this revision; as with [`Holding::vanish`], the owner has to write its own again.
    /// `false`: a later one is known.
    pub fn note_unreadable(&mut self, revision: Revision) -> bool {
        let is_new = revision > self.revision;
        if is_new || (revision == self.revision && self.loss == Some(Loss::Vanished)) {
            (self.loss, self.had_others, self.revision) = (Some(Loss::Unreadable), true, revision);
        }
        is_new
    }

    /// The engine does not have the entry that is known.
    pub fn is_lost(&self) -> bool {
        self.loss.is_some()
    }

    /// The revision that a write has to expect; 0: no entry.
    pub fn expected(&self) -> Revision {
        match self.loss {
            Some(Loss::Vanished) => 0,
            _ => self.revision,
        }
    }

    pub fn belongs_to(&self, node: NodeId, life: Option<u64>) -> bool {
        !self.is_lost() && self.last_belonged_to(node, life)
    }

    /// As [`Holding::belongs_to`], or it did when its entry was lost.
    pub fn last_belonged_to(&self, node: NodeId, life: Option<u64>) -> bool {
        self.entry
            .is_some_and(|entry| entry.owner == node && Some(entry.life) == life)
    }

    pub fn close(&mut self) {
        self.closed_at = Some(self.revision);
    }

    pub fn is_closed(&self) -> bool {
        self.closed_at == Some(self.revision)
    }

    pub fn install(&mut self) {
        self.installed_at = Some(self.revision);
        self.had_others = false;
    }

    pub fn is_installed(&self) -> bool {
        self.installed_at == Some(self.revision)
    }

    /// What is to be read and installed, if that has not been done.
    pub fn acquisition(&self) -> Option<Acquisition> {
        let entry = self.entry.filter(|_| !self.is_installed())?;
        Some(Acquisition {
            revision: self.revision,
            through: entry.through,
            had_others: self.had_others,
        })
    }

    pub fn standing(&self, node: NodeId, title: Title) -> Standing {
        if self.is_lost() || title.revision != self.revision {
            return Standing::OtherOwner;
        }
        match self.belongs_to(node, Some(title.life)) {
            true => Standing::Owner,
            false => Standing::Stranger,
        }
    }
}
