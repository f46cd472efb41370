// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How far the fast path's copy of the tables can be relied on. Programs open sessions by themselves only while the
//! copy is whole: with a part of it they would give a node a second port, or open a session towards a node of ours.
//!
//! whole, incomplete ─► restoring, changing ─► whole, incomplete; each of them ─► left

/// The state of the copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// The copy has everything that a program must know before it opens a session.
    Whole,
    /// The copy lacks something. Known sessions are translated, and none is opened.
    Incomplete(Lack),
    /// Sessions and bindings of an earlier run are being restored. The lack is what is already known to be missing,
    /// if anything.
    Restoring(Option<Lack>),
    /// Another configuration is coming into force.
    Changing(Option<Lack>),
    /// The program ends. The copy stays as it is for the next start; no other phase follows.
    Left,
}

/// What the copy lacks. The first lack counts until the next change of the configuration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lack {
    /// A binding that the maps did not accept.
    Binding,
    /// An address that the operator has bound, and that is not in the configuration.
    Address,
    /// Whatever was still to come when a restore, or a change of the configuration, was broken off.
    Rest,
}

impl Phase {
    /// Returns true if programs may open sessions by themselves.
    pub fn may_open(self) -> bool {
        self == Phase::Whole
    }

    /// Notes that something is missing. Returns true if nothing was missing before.
    pub(super) fn lose(&mut self, lack: Lack) -> bool {
        let before = self.lack();
        let first = before.unwrap_or(lack);
        *self = match *self {
            Phase::Whole | Phase::Incomplete(_) => Phase::Incomplete(first),
            Phase::Restoring(_) => Phase::Restoring(Some(first)),
            Phase::Changing(_) => Phase::Changing(Some(first)),
            Phase::Left => Phase::Left,
        };
        before.is_none() && *self != Phase::Left
    }

    /// Begins a restore.
    pub(super) fn restore(&mut self) {
        self.begin(Phase::Restoring);
    }

    /// Begins a change of the configuration.
    pub(super) fn change(&mut self) {
        self.begin(Phase::Changing);
    }

    /// Forgets what is missing, to determine it anew during a restore or a change. Returns what it was.
    pub(super) fn search(&mut self) -> Option<Lack> {
        let lack = self.lack();
        *self = match *self {
            Phase::Restoring(_) => Phase::Restoring(None),
            Phase::Changing(_) => Phase::Changing(None),
            other => other,
        };
        lack
    }

    /// Ends a restore or a change.
    pub(super) fn end(&mut self) {
        *self = match *self {
            Phase::Restoring(lack) | Phase::Changing(lack) => {
                lack.map_or(Phase::Whole, Phase::Incomplete)
            }
            other => other,
        };
    }

    /// Notes that the program ends.
    pub(super) fn leave(&mut self) {
        *self = Phase::Left;
    }

    fn begin(&mut self, next: impl FnOnce(Option<Lack>) -> Phase) {
        if *self != Phase::Left {
            *self = next(self.lack());
        }
    }

    fn lack(self) -> Option<Lack> {
        match self {
            Phase::Whole | Phase::Left => None,
            Phase::Incomplete(lack) => Some(lack),
            Phase::Restoring(lack) | Phase::Changing(lack) => lack,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_missing_until_it_is_looked_for() {
        let mut phase = Phase::Whole;
        phase.restore();
        assert!(!phase.may_open());
        assert!(phase.lose(Lack::Binding), "it is new");
        assert!(!phase.lose(Lack::Address), "the first one counts");
        phase.end();
        assert_eq!(phase, Phase::Incomplete(Lack::Binding));

        phase.change();
        phase.end();
        assert_eq!(phase, Phase::Incomplete(Lack::Binding));

        phase.change();
        assert_eq!(phase.search(), Some(Lack::Binding));
        phase.end();
        assert_eq!(phase, Phase::Whole);
        assert!(phase.may_open());
    }

    #[test]
    fn nothing_leads_back_from_the_end() {
        let mut phase = Phase::Whole;
        phase.leave();
        phase.restore();
        phase.end();
        phase.change();
        assert!(!phase.lose(Lack::Rest));
        assert_eq!(phase.search(), None);
        phase.end();
        assert_eq!(phase, Phase::Left);
    }
}
