// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How far a store is known, over all sessions, and whether it is still the same one.

use async_nats::jetstream::stream::Info;

/// What a node knows of a store.
#[derive(Debug, Default)]
pub(crate) struct Place {
    /// When the store was made: nanoseconds since 1970.
    created: Option<i128>,
    /// The highest sequence that was given, skipped or acknowledged.
    known: u64,
    /// The last sequence that was given or skipped.
    given: u64,
    /// The store is another one, and the caller does not know yet.
    reset: bool,
}

/// What a store turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// The first one, or the one from before.
    Same,
    /// Made at another time.
    Other,
    /// Made at the same time, but what was known is no longer there. Right after a change of leaders, this passes.
    Backwards,
}

impl Place {
    pub(crate) fn compare(&self, created: i128, last: u64) -> Found {
        match self.created {
            Some(before) if before != created => Found::Other,
            Some(_) if last < self.known => Found::Backwards,
            _ => Found::Same,
        }
    }

    /// Takes the store for the known one from now on.
    pub(crate) fn accept(&mut self, created: i128) {
        self.created = Some(created);
    }

    /// Forgets everything but when the store was made.
    pub(crate) fn reset(&mut self, created: i128) {
        *self = Self {
            created: Some(created),
            reset: true,
            ..Self::default()
        };
    }

    /// Whether to report a reset to the caller. True once for each.
    pub(crate) fn take_reset(&mut self) -> bool {
        std::mem::take(&mut self.reset)
    }

    /// Everything is to be given again.
    pub(crate) fn rewind(&mut self) {
        self.given = 0;
    }

    pub(crate) fn given(&self) -> u64 {
        self.given
    }

    /// A message was given or skipped. Returns how many were missing between it and the one before.
    pub(crate) fn give(&mut self, sequence: u64) -> u64 {
        let missing = if self.given == 0 {
            0
        } else {
            sequence.saturating_sub(self.given + 1)
        };
        self.given = self.given.max(sequence);
        self.known(sequence);
        missing
    }

    /// The store has this sequence.
    pub(crate) fn known(&mut self, sequence: u64) {
        self.known = self.known.max(sequence);
    }
}

/// When a store was made: nanoseconds since 1970.
pub(crate) fn created(info: &Info) -> i128 {
    info.created.unix_timestamp_nanos()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_store_is_told_by_its_birth_and_by_its_last_sequence() {
        let mut place = Place::default();
        assert_eq!(place.compare(7, 0), Found::Same);
        place.accept(7);
        assert_eq!(place.give(4), 0);
        assert_eq!(place.give(7), 2);
        place.known(9);
        assert_eq!(place.compare(7, 9), Found::Same);
        assert_eq!(place.compare(7, 8), Found::Backwards);
        assert_eq!(place.compare(8, 20), Found::Other);
        place.rewind();
        assert_eq!((place.given(), place.compare(7, 8)), (0, Found::Backwards));
        place.reset(8);
        assert_eq!(place.compare(8, 0), Found::Same);
        assert!(place.take_reset() && !place.take_reset());
    }
}
