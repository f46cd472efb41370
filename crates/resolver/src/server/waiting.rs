// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The questions that wait for upstream, and the clients that wait for each: bounded in all, for each client and for each
//! question.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::rc::Rc;

use diolkos_dns64::{Full, Query, Shares, Ticket};
use tokio::task::AbortHandle;

use super::tally::Fate;
use super::waiter::Waiter;

/// One question may have at most the total number of waiting clients divided by this, …
const PART: u32 = 4;
/// … but always at least this many.
const LEAST: usize = 32;
/// The most times that one host may wait for the same question. More are repetitions of the same query.
const EQUAL: usize = 32;

/// The identity of a question, see [`Query::key`].
type Key = Rc<[u8]>;

/// All waiting clients.
pub struct Waiting {
    shares: Shares<Key>,
    questions: HashMap<Key, Question>,
    of_question: usize,
}

struct Question {
    waiters: BTreeMap<Ticket, (Query, Waiter)>,
    task: AbortHandle,
}

/// A waiter that gets no answer, because there are too many.
pub struct Loser {
    /// Its query.
    pub query: Query,
    /// The waiter.
    pub waiter: Waiter,
    /// The reason.
    pub fate: Fate,
}

impl Waiting {
    /// Room for `most` waiters, and for `of_client` of one client.
    pub fn new(most: u32, of_client: u32) -> Waiting {
        Waiting {
            shares: Shares::new(most, of_client),
            questions: HashMap::new(),
            of_question: ((most / PART) as usize).max(LEAST),
        }
    }

    /// Returns true if this question is being resolved already.
    pub fn has(&self, key: &[u8]) -> bool {
        self.questions.contains_key(key)
    }

    /// Adds a new question, which `task` resolves. Another waiter may have to make room for it, but not its own client.
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

    /// Adds a waiter to a question that is being resolved. A waiter may have to make room.
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
        // If a waiter of the same host had to go, it has freed a place, so no other waiter had to.
        loser.or(evicted)
    }

    /// Removes a waiter. A question without waiters is no longer resolved.
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

    /// Ends a question that has been answered, and returns all its waiters.
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
