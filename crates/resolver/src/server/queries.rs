// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Handles a query: whether the client may ask, whether the answer is cached, and whether the same question is being resolved
//! already. Otherwise the question is resolved, once for all clients that wait for it.

use std::cell::{Cell, RefCell};
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use diolkos_dns64::answer::LONGEST;
use diolkos_dns64::wire::{OptRcode, Rtype};
use diolkos_dns64::{write_refusal, Age, Answer, Cache, Limiter, Message, Origin, Query};
use diolkos_dns64::{Resolution, ResolutionStep};
use ipnet::IpNet;

use crate::error::ResolverError;
use diolkos_config::Dns64;
use diolkos_service::supervise::Watch;

use super::prefix::{Findings, InForce, DEPENDENT};
use super::query_log::QueryLogger;
use super::tally::{Fate, QueryCounters};
use super::upstream::Upstream;
use super::waiter::{Transport, Waiter};
use super::waiting::{Loser, Waiting};

/// Buffers that are reused.
#[derive(Default)]
pub struct Scratch {
    key: Vec<u8>,
    answer: Vec<u8>,
}

/// Handles queries.
pub struct QueryHandler {
    rules: InForce,
    /// A reload makes other ones; questions in flight keep theirs.
    upstream: RefCell<Rc<Upstream>>,
    query_log: QueryLogger,
    cache: RefCell<Cache>,
    limiter: RefCell<Limiter>,
    /// TCP has a limiter of its own, so that an attacker who forges datagrams from a client's address cannot stop the client's
    /// connections.
    tcp_limiter: RefCell<Limiter>,
    /// The time that a question by TCP waits before the limit is checked again.
    tcp_pause: Duration,
    /// Every second question beyond the limit gets a truncated answer.
    slip: Cell<bool>,
    secret: RandomState,
    clients: Vec<IpNet>,
    udp_size: u16,
    waiting: RefCell<Waiting>,
    watch: Watch,
    started: Instant,
    /// The counters.
    pub tally: Rc<QueryCounters>,
}

impl QueryHandler {
    /// Prepares the handler.
    pub fn new(
        dns64: &Dns64,
        tally: Rc<QueryCounters>,
        watch: Watch,
    ) -> Result<QueryHandler, ResolverError> {
        let upstream = Upstream::new(dns64, tally.clone(), watch.clone())?;
        Ok(QueryHandler {
            rules: InForce::new(dns64),
            cache: RefCell::new(Cache::new(dns64.cache_bytes)),
            limiter: RefCell::new(Limiter::new(dns64.rate, dns64.burst)),
            tcp_limiter: RefCell::new(Limiter::new(dns64.rate, dns64.burst)),
            tcp_pause: Duration::from_millis(u64::from((1000 / dns64.rate.max(1)).max(1))),
            slip: Cell::default(),
            secret: RandomState::new(),
            clients: dns64.clients.clone(),
            udp_size: dns64.udp_size,
            waiting: RefCell::new(Waiting::new(
                dns64.max_outstanding,
                dns64.max_outstanding_of_client,
            )),
            watch,
            upstream: RefCell::new(Rc::new(upstream)),
            query_log: QueryLogger::new(dns64),
            started: Instant::now(),
            tally,
        })
    }

    /// Takes the findings about the network's prefix. After a change of the prefix, cached answers that may depend on it are
    /// dropped.
    pub fn take_prefix(&self, findings: Findings) {
        if self.rules.take(findings) {
            self.cache.borrow_mut().forget(&DEPENDENT);
        }
    }

    /// Takes another configuration, of which only the keys that a reload may change differ. On an error nothing has changed.
    /// The cache is emptied, and resolutions in flight begin again.
    pub fn reconfigure(&self, new: &Dns64) -> Result<(), ResolverError> {
        // The file of the authorities may be another one under the same name.
        let upstream = Upstream::new(new, self.tally.clone(), self.watch.clone())?;
        self.upstream.replace(Rc::new(upstream)).retire();
        self.query_log.configure(new);
        self.rules.configure(new);
        // What may have come from resolvers that are not trusted any more is not worth telling apart.
        self.cache.borrow_mut().clear();
        Ok(())
    }

    /// The rules in force.
    pub fn rules(&self) -> &InForce {
        &self.rules
    }

    /// Handles a message of a client. The answer, if there is one, goes to `waiter`, now or later.
    pub fn take(
        self: &Rc<QueryHandler>,
        bytes: &[u8],
        client: IpAddr,
        waiter: Waiter,
        scratch: &mut Scratch,
    ) {
        let by = waiter.transport();
        self.tally.count(match by {
            Transport::Udp => Fate::QueryUdp,
            Transport::Tcp => Fate::QueryTcp,
        });
        // By TCP, questions beyond the limit have waited already (`wait_for_rate`).
        let limited = by == Transport::Udp && !self.may_ask(&self.limiter, client);
        if limited && !self.slip.replace(!self.slip.get()) {
            self.tally.count(Fate::LimitedDropped);
            return;
        }
        let query = match Query::parse(bytes) {
            Ok(query) => query,
            Err(refusal) => {
                self.tally.count(Fate::RefusedForm);
                if write_refusal(&refusal, self.udp_size, &mut scratch.answer) {
                    self.send(waiter, &scratch.answer);
                }
                return;
            }
        };
        if limited {
            // A truncated answer cannot flood a victim, and a real client retries by TCP.
            self.tally.count(Fate::LimitedTruncated);
            let nothing = Answer::empty(OptRcode::NOERROR, Origin::Failed, 0);
            nothing.write(&query, 0, 0, self.udp_size, &mut scratch.answer);
            self.send(waiter, &scratch.answer);
            return;
        }
        if let Some(fate) = self.refusal(&query, client) {
            self.tally.count(fate);
            let refused = Answer::empty(OptRcode::REFUSED, Origin::Failed, 0);
            self.answer(waiter, &query, &refused, 0, &mut scratch.answer);
            return;
        }
        query.key(&mut scratch.key);
        let kept = self.cache.borrow().get(&scratch.key, self.now_s());
        if let Some((answer, age)) = kept {
            self.tally.count(Fate::CacheHit);
            self.answer(waiter, &query, &answer, age, &mut scratch.answer);
            return;
        }
        self.tally.count(Fate::CacheMiss);
        self.resolve(query, client, waiter, scratch);
    }

    /// Waits until the client may ask by TCP.
    pub async fn wait_for_rate(&self, client: IpAddr) {
        if self.may_ask(&self.tcp_limiter, client) {
            return;
        }
        self.tally.count(Fate::LimitedDelayed);
        loop {
            tokio::time::sleep(self.tcp_pause).await;
            if self.may_ask(&self.tcp_limiter, client) {
                return;
            }
        }
    }

    fn may_ask(&self, limiter: &RefCell<Limiter>, client: IpAddr) -> bool {
        let hash = |network: u64| self.secret.hash_one(network);
        let now_ms = self.started.elapsed().as_millis() as u64;
        limiter.borrow_mut().allows(client, hash, now_ms)
    }

    /// The reason for refusing a well-formed query.
    fn refusal(&self, query: &Query, client: IpAddr) -> Option<Fate> {
        let client = client.to_canonical();
        if !self.clients.iter().any(|net| net.contains(&client)) {
            return Some(Fate::RefusedClient);
        }
        if !query.recursion_desired {
            return Some(Fate::RefusedNotRecursive);
        }
        // Zone transfers do not go through a resolver.
        matches!(query.rtype(), Rtype::AXFR | Rtype::IXFR).then_some(Fate::RefusedForm)
    }

    /// Resolves a question that is not in the cache, or lets it wait for the resolution that is under way.
    fn resolve(
        self: &Rc<QueryHandler>,
        query: Query,
        client: IpAddr,
        waiter: Waiter,
        scratch: &mut Scratch,
    ) {
        if self.waiting.borrow().has(&scratch.key) {
            self.tally.count(Fate::Coalesced);
            let mut waiting = self.waiting.borrow_mut();
            let loser = waiting.join(&scratch.key, client, query, waiter);
            drop(waiting);
            self.lose(loser, scratch);
            return;
        }
        let (resolution, step) = Resolution::begin(
            &self.rules.policy(),
            query.question(),
            query.dnssec_ok(),
            query.checking_disabled,
        );
        if let ResolutionStep::Done(answer) = step {
            let answer = self.keep(&scratch.key, answer);
            self.answer(waiter, &query, &answer, 0, &mut scratch.answer);
            return;
        }
        let key: Box<[u8]> = scratch.key.as_slice().into();
        let changes = self.rules.changes();
        let work = self.clone().run(key, resolution, step, changes);
        let task = self.watch.local("a resolution", work);
        let mut waiting = self.waiting.borrow_mut();
        let loser = waiting.begin(&scratch.key, task, client, query, waiter);
        drop(waiting);
        self.lose(loser, scratch);
    }

    /// Answers a waiter that had to make room, with SERVFAIL.
    fn lose(&self, loser: Option<Loser>, scratch: &mut Scratch) {
        let Some(loser) = loser else { return };
        self.tally.count(loser.fate);
        let failure = Answer::failure();
        self.answer(loser.waiter, &loser.query, &failure, 0, &mut scratch.answer);
    }

    /// Asks upstream until the question is answered, and sends the answer to all clients that wait.
    async fn run(
        self: Rc<QueryHandler>,
        key: Box<[u8]>,
        mut resolution: Resolution,
        step: ResolutionStep,
        changes: u64,
    ) {
        // The AAAA question, the one that detects a validation failure, and the A question, each with its tries.
        let patience = self.upstream.borrow().patience() * 3;
        let asking = self.ask(&mut resolution, step, changes);
        let answer = tokio::time::timeout(patience, asking).await;
        let answer = self.keep(&key, answer.unwrap_or_else(|_| Answer::failure()));
        let waiting = self.waiting.borrow_mut().end(&key);
        let mut out = Vec::with_capacity(512);
        for (query, waiter) in waiting {
            self.answer(waiter, &query, &answer, 0, &mut out);
        }
    }

    /// `changes`: the number of changes of the rules when the resolution began.
    async fn ask(
        &self,
        resolution: &mut Resolution,
        mut step: ResolutionStep,
        mut changes: u64,
    ) -> Answer {
        loop {
            let ask = match step {
                ResolutionStep::Done(answer) => return answer,
                ResolutionStep::Ask(ask) => ask,
            };
            let upstream = self.upstream.borrow().clone();
            let bytes = upstream.ask(&ask).await;
            let policy = self.rules.policy();
            // A resolution that began with another prefix, without one, or with another configuration begins again.
            if changes != self.rules.changes() {
                changes = self.rules.changes();
                step = resolution.restart(&policy);
                continue;
            }
            let message = bytes.as_ref().and_then(|bytes| Message::parse(bytes).ok());
            step = resolution.reply(&policy, message.as_ref());
        }
    }

    fn keep(&self, key: &[u8], answer: Answer) -> Rc<Answer> {
        self.tally.resolved(answer.origin);
        let answer = Rc::new(answer);
        self.cache
            .borrow_mut()
            .put(key, answer.clone(), self.now_s());
        answer
    }

    fn answer(&self, to: Waiter, query: &Query, answer: &Answer, age: u32, out: &mut Vec<u8>) {
        let limit = match to.transport() {
            Transport::Udp => query.udp_limit(self.udp_size),
            Transport::Tcp => LONGEST,
        };
        let (now_s, asked) = (self.now_s(), (to.client(), to.transport()));
        // Those who may not ask could take all lines of it.
        if answer.code != OptRcode::REFUSED {
            self.query_log
                .note(asked, query, answer, now_s, &self.tally);
        }
        let age = Age {
            seconds: age,
            most_ttl: self.rules.most_ttl(query.rtype(), answer.origin),
        };
        answer.write(query, age, limit, self.udp_size, out);
        const TC: u8 = 0x02;
        if out[2] & TC != 0 {
            self.tally.count(Fate::Truncated);
        }
        self.send(to, out);
    }

    fn send(&self, to: Waiter, answer: &[u8]) {
        if !to.answer(answer) {
            self.tally.count(Fate::SendFailed);
        }
    }

    fn now_s(&self) -> u64 {
        self.started.elapsed().as_secs()
    }
}
