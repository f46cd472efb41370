// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where a question is taken in and its answer given out: may the client ask, is the answer kept, is somebody waiting
//! for the same one already? What is none of that is resolved, once, for all who wait.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use diolkos_dns64::answer::LONGEST;
use diolkos_dns64::{write_refusal, Answer, Cache, Limiter, Message, Origin, Policy, Query};
use diolkos_dns64::{Refusal, Resolution, Step};
use hickory_proto::op::ResponseCode;
use hickory_proto::rr::RecordType;
use ipnet::IpNet;
use tokio::sync::mpsc;

use crate::config::Dns64;
use crate::failure::Failure;

use super::tally::{Fate, Tally};
use super::tcp::framed;
use super::udp::{Datagrams, Return};
use super::upstream::Upstream;

/// How a question came, and its answer has to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// In a datagram, which has its limits and a source that may be forged.
    Udp,
    /// On a connection.
    Tcp,
}

/// Who waits for an answer.
pub enum Waiter {
    /// The sender of a datagram.
    Datagram(Rc<Datagrams>, Return),
    /// A connection.
    Connection(mpsc::Sender<Vec<u8>>),
}

/// All who wait for the same answer, each with its own query.
type Waiters = Vec<(Query, Waiter)>;

/// Buffers that are used again and again.
#[derive(Default)]
pub struct Scratch {
    key: Vec<u8>,
    /// The answer to send, once [`Desk::take`] says so.
    pub answer: Vec<u8>,
}

/// The desk.
pub struct Desk {
    policy: Policy,
    upstream: Upstream,
    cache: RefCell<Cache>,
    limiter: RefCell<Limiter>,
    /// Of questions beyond the limit, every second one is answered.
    slip: Cell<bool>,
    secret: RandomState,
    clients: Vec<IpNet>,
    udp_size: u16,
    /// Who waits for an answer that is on its way, by the key of the question.
    waiting: RefCell<HashMap<Box<[u8]>, Waiters>>,
    outstanding: Cell<u32>,
    max_outstanding: u32,
    /// How long a resolution may take: several questions to upstream, each with its tries.
    patience: Duration,
    started: Instant,
    /// What happened.
    pub tally: Rc<Tally>,
}

impl Desk {
    /// Opens it.
    pub fn new(dns64: &Dns64) -> Result<Desk, Failure> {
        let tally = Rc::new(Tally::default());
        let upstream = Upstream::new(dns64, tally.clone())?;
        Ok(Desk {
            policy: Policy::new(dns64.rules()),
            cache: RefCell::new(Cache::new(dns64.cache_bytes)),
            limiter: RefCell::new(Limiter::new(dns64.rate, dns64.burst)),
            slip: Cell::default(),
            secret: RandomState::new(),
            clients: dns64.clients.clone(),
            udp_size: dns64.udp_size,
            waiting: RefCell::default(),
            outstanding: Cell::default(),
            max_outstanding: dns64.max_outstanding,
            // The AAAA question, the one that tells a validation failure, and the A question.
            patience: upstream.patience() * 3,
            upstream,
            started: Instant::now(),
            tally,
        })
    }

    /// Takes a message of a client's. True: `scratch.answer` is to be sent now. Otherwise there is no answer, or it comes
    /// later to `waiter`.
    pub fn take(
        self: &Rc<Desk>,
        bytes: &[u8],
        client: IpAddr,
        by: Transport,
        scratch: &mut Scratch,
        waiter: impl FnOnce() -> Waiter,
    ) -> bool {
        self.tally.count(match by {
            Transport::Udp => Fate::QueryUdp,
            Transport::Tcp => Fate::QueryTcp,
        });
        let limited = self.is_limited(client, by);
        if limited && !self.slip.replace(!self.slip.get()) {
            self.tally.count(Fate::LimitedDropped);
            return false;
        }
        let query = match Query::parse(bytes) {
            Ok(query) => query,
            Err(refusal) => {
                self.tally.count(Fate::RefusedForm);
                return self.refuse(&refusal, scratch);
            }
        };
        if limited {
            // Nobody is flooded with this, and a real client comes by TCP.
            self.tally.count(Fate::LimitedTruncated);
            let nothing = Answer::empty(ResponseCode::NoError, Origin::Failed, 0);
            nothing.write(&query, 0, 0, self.udp_size, &mut scratch.answer);
            return true;
        }
        if let Some(fate) = self.refusal(&query, client) {
            self.tally.count(fate);
            let refused = Answer::empty(ResponseCode::Refused, Origin::Failed, 0);
            self.write(&refused, 0, &query, by, &mut scratch.answer);
            return true;
        }
        query.key(&mut scratch.key);
        let kept = self.cache.borrow().get(&scratch.key, self.now_s());
        if let Some((answer, age)) = kept {
            self.tally.count(Fate::CacheHit);
            self.write(&answer, age, &query, by, &mut scratch.answer);
            return true;
        }
        self.tally.count(Fate::CacheMiss);
        self.resolve(query, by, scratch, waiter)
    }

    /// A client asks too much by UDP. By TCP it cannot pretend to be another, and each connection waits for its answers.
    fn is_limited(&self, client: IpAddr, by: Transport) -> bool {
        let hash = |network: u64| self.secret.hash_one(network);
        let now_ms = self.started.elapsed().as_millis() as u64;
        by == Transport::Udp && !self.limiter.borrow_mut().allows(client, hash, now_ms)
    }

    fn refuse(&self, refusal: &Refusal, scratch: &mut Scratch) -> bool {
        write_refusal(refusal, self.udp_size, &mut scratch.answer)
    }

    /// Why a query that is one is not answered.
    fn refusal(&self, query: &Query, client: IpAddr) -> Option<Fate> {
        let client = client.to_canonical();
        if !self.clients.iter().any(|net| net.contains(&client)) {
            return Some(Fate::RefusedClient);
        }
        if !query.recursion_desired {
            return Some(Fate::RefusedNotRecursive);
        }
        // Zones are not transferred through a resolver.
        matches!(query.question.rtype, RecordType::AXFR | RecordType::IXFR)
            .then_some(Fate::RefusedForm)
    }

    /// Resolves a question that is not in the cache, or waits with others for its answer.
    fn resolve(
        self: &Rc<Desk>,
        query: Query,
        by: Transport,
        scratch: &mut Scratch,
        waiter: impl FnOnce() -> Waiter,
    ) -> bool {
        if self.outstanding.get() >= self.max_outstanding {
            self.tally.count(Fate::Busy);
            self.write(&Answer::failure(), 0, &query, by, &mut scratch.answer);
            return true;
        }
        if let Some(waiting) = self.waiting.borrow_mut().get_mut(&*scratch.key) {
            self.tally.count(Fate::Coalesced);
            self.outstanding.set(self.outstanding.get() + 1);
            waiting.push((query, waiter()));
            return false;
        }
        let (resolution, step) = Resolution::begin(
            &self.policy,
            query.question.clone(),
            query.dnssec_ok(),
            query.checking_disabled,
        );
        if let Step::Done(answer) = step {
            let answer = self.keep(&scratch.key, answer);
            self.write(&answer, 0, &query, by, &mut scratch.answer);
            return true;
        }
        let key: Box<[u8]> = scratch.key.as_slice().into();
        self.outstanding.set(self.outstanding.get() + 1);
        let first = vec![(query, waiter())];
        self.waiting.borrow_mut().insert(key.clone(), first);
        tokio::task::spawn_local(self.clone().run(key, resolution, step));
        false
    }

    /// Asks upstream until the question is answered, and tells all who wait.
    async fn run(self: Rc<Desk>, key: Box<[u8]>, resolution: Resolution, step: Step) {
        let asking = self.ask(resolution, step);
        let answer = tokio::time::timeout(self.patience, asking).await;
        let answer = self.keep(&key, answer.unwrap_or_else(|_| Answer::failure()));
        let waiting = self.waiting.borrow_mut().remove(&key).unwrap_or_default();
        let mut out = Vec::with_capacity(512);
        for (query, waiter) in waiting {
            self.outstanding.set(self.outstanding.get() - 1);
            match waiter {
                Waiter::Datagram(datagrams, to) => {
                    self.write(&answer, 0, &query, Transport::Udp, &mut out);
                    if datagrams.send(to, &out).is_err() {
                        self.tally.count(Fate::SendFailed);
                    }
                }
                Waiter::Connection(answers) => {
                    self.write(&answer, 0, &query, Transport::Tcp, &mut out);
                    // One that does not read its answers does not get this one either.
                    if answers.try_send(framed(&out)).is_err() {
                        self.tally.count(Fate::SendFailed);
                    }
                }
            }
        }
    }

    async fn ask(&self, mut resolution: Resolution, mut step: Step) -> Answer {
        loop {
            let ask = match step {
                Step::Done(answer) => return answer,
                Step::Ask(ask) => ask,
            };
            let bytes = self.upstream.ask(&ask).await;
            let message = bytes.as_ref().and_then(|bytes| Message::parse(bytes).ok());
            step = resolution.reply(&self.policy, message.as_ref());
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

    fn write(&self, answer: &Answer, age: u32, query: &Query, by: Transport, out: &mut Vec<u8>) {
        let limit = match by {
            Transport::Udp => query.udp_limit(self.udp_size),
            Transport::Tcp => LONGEST,
        };
        answer.write(query, age, limit, self.udp_size, out);
        const TC: u8 = 0x02;
        if out[2] & TC != 0 {
            self.tally.count(Fate::Truncated);
        }
    }

    fn now_s(&self) -> u64 {
        self.started.elapsed().as_secs()
    }
}
