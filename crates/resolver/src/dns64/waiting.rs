// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Questions that wait for upstream, and who waits for each: bounded in all, for each client and for each question.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::rc::Rc;

use diolkos_dns64::{Full, Query, Shares, Ticket};
use tokio::task::AbortHandle;

use super::tally::Fate;
use super::waiter::Waiter;

/// Of all who wait, those for one question are a part of this many at most, …
const PART: u32 = 4;
/// … but so many may be in any case.
const LEAST: usize = 32;
/// Of the same host, so many may wait for the same question. More are the same query, sent again.
const EQUAL: usize = 32;

/// What tells questions apart, see [`Query::key`].
type Key = Rc<[u8]>;

/// Everybody who waits.
pub struct Waiting {
    shares: Shares<Key>,
    questions: HashMap<Key, Question>,
    of_question: usize,
}

struct Question {
    waiters: BTreeMap<Ticket, (Query, Waiter)>,
    task: AbortHandle,
}

/// Somebody who gets no answer, because there are too many.
pub struct Loser {
    /// What was asked.
    pub query: Query,
    /// Who asked.
    pub waiter: Waiter,
    /// Why.
    pub fate: Fate,
}

impl Waiting {
    /// Room for so many, and for so many of one client.
    pub fn new(most: u32, of_client: u32) -> Waiting {
        Waiting {
            shares: Shares::new(most, of_client),
            questions: HashMap::new(),
            of_question: ((most / PART) as usize).max(LEAST),
        }
    }

    /// Is an answer to this question on its way?
    pub fn has(&self, key: &[u8]) -> bool {
        self.questions.contains_key(key)
    }

    /// A new question, which `task` resolves. Somebody may have to make room for it, but not its own asker.
    pub fn begin(
        &mut self,
        key: &[u8],
        task: AbortHandle,
        client: IpAddr,
        query: Query,
        waiter: Waiter,
    ) -> Option<Loser> {
        let question = Question {
            waiters: BTreeMap::new(),
            task,
        };
        self.questions.insert(key.into(), question);
        self.join(key, client, query, waiter)
    }

    /// One more who waits for a question that is on its way. Somebody may have to make room.
    pub fn join(
        &mut self,
        key: &[u8],
        client: IpAddr,
        query: Query,
        waiter: Waiter,
    ) -> Option<Loser> {
        let Some((key, question)) = self.questions.get_key_value(key) else {
            let fate = Fate::BusyQuestion;
            return Some(Loser {
                query,
                waiter,
                fate,
            });
        };
        let key = key.clone();
        let mut equal = question.waiters.range(Ticket::of_host(client));
        let oldest = equal.next().map(|(ticket, _)| *ticket);
        let loser = match oldest.filter(|_| equal.count() + 1 >= EQUAL) {
            Some(oldest) => self.remove(&key, oldest, Fate::BusyEqual),
            None if question.waiters.len() >= self.of_question => {
                let fate = Fate::BusyQuestion;
                return Some(Loser {
                    query,
                    waiter,
                    fate,
                });
            }
            None => None,
        };
        let (ticket, evicted) = self.shares.take(client, key.clone());
        if let Some(question) = self.questions.get_mut(&key) {
            question.waiters.insert(ticket, (query, waiter));
        }
        let evicted = evicted.and_then(|evicted| {
            let fate = match evicted.full {
                Full::Client => Fate::BusyClient,
                Full::Network => Fate::BusyNetwork,
                Full::Everything => Fate::BusyFull,
            };
            self.remove(&evicted.held, evicted.ticket, fate)
        });
        // Whoever had to go as an equal left a place of the same host, so nobody else had to.
        loser.or(evicted)
    }

    /// Takes somebody away; a question for which nobody waits any more is given up.
    fn remove(&mut self, key: &Key, ticket: Ticket, fate: Fate) -> Option<Loser> {
        self.shares.give(ticket);
        let question = self.questions.get_mut(key)?;
        let (query, waiter) = question.waiters.remove(&ticket)?;
        if question.waiters.is_empty() && fate != Fate::BusyEqual {
            question.task.abort();
            self.questions.remove(key);
        }
        Some(Loser {
            query,
            waiter,
            fate,
        })
    }

    /// A question is answered: all who wait for it.
    pub fn end(&mut self, key: &[u8]) -> Vec<(Query, Waiter)> {
        let Some(question) = self.questions.remove(key) else {
            return Vec::new();
        };
        for ticket in question.waiters.keys() {
            self.shares.give(*ticket);
        }
        question.waiters.into_values().collect()
    }
}
