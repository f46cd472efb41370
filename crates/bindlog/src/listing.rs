// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Decides when a log lists the existing entries, and tracks the progress of a list: everything at the start and after records
//! were lost, and the mapping once a day (RFC 7422 section 3), so that it can be found in a log whose older files are gone.

use std::time::{Duration, Instant};

/// Least time between two full lists.
const AGAIN: Duration = Duration::from_secs(60);
/// Time between two lists of the mapping.
const MAPPING_AGAIN: Duration = Duration::from_secs(24 * 60 * 60);
/// The longest wait if nothing is due.
pub const IDLE: Duration = Duration::from_secs(600);

/// The progress of a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ListPosition {
    /// At this index of the mapping's source prefixes, and then of the pool.
    Mapping(u32),
    /// At this index of the list of blocks.
    Blocks(u32),
    /// At this index of the table of bindings; the second number counts the bindings so far.
    Bindings(u32, u64),
    /// At this index of the table of sessions; the second number counts the bindings.
    Sessions(u32, u64),
    /// Complete; the number counts the bindings.
    End(u64),
}

/// The lists of one log.
#[derive(Debug)]
pub struct Listing {
    /// The position of the current list.
    at: Option<ListPosition>,
    /// The current list is a full one, not only the mapping.
    is_whole: bool,
    /// The start time of the next full list, if one is wanted.
    whole: Option<Instant>,
    /// The earliest start time of the next full list.
    earliest: Instant,
    mapping: Instant,
}

impl Listing {
    /// A listing whose full list is due.
    pub fn new(now: Instant) -> Listing {
        Listing {
            at: None,
            is_whole: false,
            whole: Some(now),
            earliest: now,
            mapping: now + MAPPING_AGAIN,
        }
    }

    /// The position at which to continue a list, or to start one that is due.
    pub fn due(&mut self, now: Instant) -> Option<ListPosition> {
        if self.at.is_none() {
            let is_whole = self.whole.is_some_and(|time| time <= now);
            if !is_whole && self.mapping > now {
                return None;
            }
            self.is_whole = is_whole;
            self.whole.take_if(|_| is_whole);
            self.mapping = now + MAPPING_AGAIN;
            self.at = Some(ListPosition::Mapping(0));
        }
        self.at
    }

    /// The time until something is due, at most [`IDLE`].
    pub fn wait(&self, now: Instant) -> Duration {
        let next = self
            .whole
            .map_or(self.mapping, |whole| whole.min(self.mapping));
        next.saturating_duration_since(now).min(IDLE)
    }

    /// Records that the list has come as far as `next`; `None`: there is nothing left to list. Returns the number of existing
    /// bindings when a full list is complete.
    pub fn note(&mut self, next: Option<ListPosition>, now: Instant) -> Option<u64> {
        self.at = match next {
            Some(ListPosition::End(bindings)) if self.is_whole => {
                (self.at, self.earliest) = (None, now + AGAIN);
                return Some(bindings);
            }
            Some(ListPosition::Mapping(_)) => next,
            Some(_) if self.is_whole => next,
            _ => None,
        };
        None
    }

    /// Notes that records were lost: everything must be listed, from the beginning.
    pub fn note_lost(&mut self, now: Instant) {
        if self.at.take().is_some() && self.is_whole {
            self.earliest = now + AGAIN;
        }
        self.whole = Some(self.earliest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const DAY: Duration = Duration::from_secs(86_400);

    /// Lists everything from its beginning; returns the number of bindings that were listed.
    fn list_all(listing: &mut Listing, now: Instant) -> Option<u64> {
        assert_eq!(listing.due(now), Some(ListPosition::Mapping(0)));
        for next in [
            ListPosition::Mapping(512),
            ListPosition::Blocks(0),
            ListPosition::Bindings(0, 0),
        ] {
            assert_eq!(listing.note(Some(next), now), None);
            assert_eq!(listing.due(now), Some(next));
        }
        listing.note(Some(ListPosition::End(7)), now)
    }

    #[test]
    fn everything_is_listed_at_the_beginning_and_the_mapping_each_day() {
        let start = Instant::now();
        let mut listing = Listing::new(start);
        assert_eq!(listing.wait(start), Duration::ZERO);
        assert_eq!(list_all(&mut listing, start), Some(7));
        assert_eq!(listing.due(start), None);
        assert_eq!(listing.wait(start), IDLE);
        assert_eq!(listing.wait(start + DAY - SECOND), SECOND);
        assert_eq!(listing.due(start + DAY - SECOND), None);
        for day in 1..4 {
            let now = start + DAY * day;
            assert_eq!(listing.due(now), Some(ListPosition::Mapping(0)));
            assert_eq!(listing.note(Some(ListPosition::Mapping(512)), now), None);
            assert_eq!(listing.due(now), Some(ListPosition::Mapping(512)));
            assert_eq!(listing.note(Some(ListPosition::Blocks(0)), now), None);
            assert_eq!(listing.due(now), None);
        }
    }

    #[test]
    fn lost_records_have_everything_listed_but_once_a_minute() {
        let start = Instant::now();
        let mut listing = Listing::new(start);
        list_all(&mut listing, start);
        listing.note_lost(start + SECOND);
        assert_eq!(listing.wait(start + SECOND), 59 * SECOND);
        assert_eq!(listing.due(start + 59 * SECOND), None);
        assert_eq!(list_all(&mut listing, start + 60 * SECOND), Some(7));

        // A list that is interrupted begins again a minute later.
        let later = start + 600 * SECOND;
        listing.note_lost(later);
        assert_eq!(listing.due(later), Some(ListPosition::Mapping(0)));
        listing.note(Some(ListPosition::Blocks(0)), later);
        listing.note_lost(later);
        assert_eq!(listing.due(later + 59 * SECOND), None);
        assert_eq!(list_all(&mut listing, later + 60 * SECOND), Some(7));
    }

    /// A list of the mapping is no full list, so it is not reported as complete.
    #[test]
    fn records_lost_in_the_mapping_of_a_day_have_everything_listed() {
        let start = Instant::now();
        let mut listing = Listing::new(start);
        list_all(&mut listing, start);
        assert_eq!(listing.due(start + DAY), Some(ListPosition::Mapping(0)));
        listing.note_lost(start + DAY);
        assert_eq!(list_all(&mut listing, start + DAY), Some(7));
    }
}
