// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The cache of answers, with a bound on memory; answers are kept no longer than their TTLs allow.
//!
//! Eviction depends on how often an answer was requested (S3-FIFO), so a flood of names that are requested once does
//! not evict popular ones.

use std::rc::Rc;

use quick_cache::unsync;
use quick_cache::Weighter;

use crate::answer::Answer;
use crate::query::rtype_of;
use crate::wire::Rtype;

/// Approximate overhead of the map for each answer, in bytes.
const OVERHEAD: usize = 96;

/// A cache entry.
#[derive(Clone)]
struct Kept {
    answer: Rc<Answer>,
    since_s: u64,
}

#[derive(Clone)]
struct Bytes;

impl Weighter<Box<[u8]>, Kept> for Bytes {
    fn weight(&self, key: &Box<[u8]>, kept: &Kept) -> u64 {
        (key.len() + kept.answer.weight() + OVERHEAD) as u64
    }
}

/// Answers by [`crate::Query::key`]. Times are seconds since a fixed moment.
pub struct Cache(unsync::Cache<Box<[u8]>, Kept, Bytes>);

impl std::fmt::Debug for Cache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Cache({} answers)", self.0.len())
    }
}

impl Cache {
    /// Creates a cache of this size in bytes.
    pub fn new(bytes: u64) -> Cache {
        const TYPICAL: u64 = 512;
        let items = usize::try_from(bytes / TYPICAL).unwrap_or(usize::MAX);
        Cache(unsync::Cache::with_weighter(items, bytes, Bytes))
    }

    /// Returns a cached answer that is still valid, and its age in seconds.
    pub fn get(&self, key: &[u8], now_s: u64) -> Option<(Rc<Answer>, u32)> {
        let kept = self.0.get(key)?;
        let age = u32::try_from(now_s.saturating_sub(kept.since_s)).unwrap_or(u32::MAX);
        (age < kept.answer.lifetime).then(|| (kept.answer.clone(), age))
    }

    /// Stores an answer, if it may be cached.
    pub fn put(&mut self, key: &[u8], answer: Rc<Answer>, now_s: u64) {
        if answer.lifetime > 0 {
            let kept = Kept {
                answer,
                since_s: now_s,
            };
            self.0.insert(key.into(), kept);
        }
    }

    /// Removes the answers to questions of these types.
    pub fn forget(&mut self, types: &[Rtype]) {
        self.0.retain(|key, _| !types.contains(&rtype_of(key)));
    }

    /// Removes all answers.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Number of cached answers.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if the cache is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Memory of the answers in bytes.
    pub fn bytes(&self) -> u64 {
        self.0.weight()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::Origin;
    use crate::query::Query;
    use crate::testing::query;
    use crate::wire::OptRcode;

    fn answer(lifetime: u32) -> Rc<Answer> {
        Rc::new(Answer::empty(OptRcode::NOERROR, Origin::Passed, lifetime))
    }

    #[test]
    fn an_answer_is_kept_for_its_lifetime() {
        let mut cache = Cache::new(1 << 20);
        cache.put(b"a", answer(10), 100);
        assert_eq!(cache.get(b"a", 100).map(|(_, age)| age), Some(0));
        assert_eq!(cache.get(b"a", 109).map(|(_, age)| age), Some(9));
        assert!(cache.get(b"a", 110).is_none());
        assert!(cache.get(b"b", 100).is_none());
    }

    #[test]
    fn what_may_not_be_kept_is_not() {
        let mut cache = Cache::new(1 << 20);
        cache.put(b"a", answer(0), 100);
        assert!(cache.is_empty());
    }

    #[test]
    fn the_answers_of_a_type_can_be_forgotten() {
        let mut cache = Cache::new(1 << 20);
        let key = |rtype: u16| {
            let query = query("AAAA.example", rtype, 0x0110, Some((1232, true)));
            let mut key = Vec::new();
            let query = Query::parse(&query).expect("a query");
            query.key(&mut key);
            key
        };
        for rtype in [1, 12, 28] {
            cache.put(&key(rtype), answer(60), 0);
        }
        cache.forget(&[Rtype::AAAA, Rtype::PTR]);
        let kept = [1, 12, 28].map(|rtype| cache.get(&key(rtype), 0).is_some());
        assert_eq!(kept, [true, false, false]);
    }

    #[test]
    fn memory_is_bounded() {
        let mut cache = Cache::new(1 << 16);
        for number in 0..100_000u32 {
            cache.put(&number.to_be_bytes(), answer(1000), 0);
        }
        assert!(cache.bytes() <= 1 << 16, "{}", cache.bytes());
        assert!(cache.len() > 100);
    }
}
