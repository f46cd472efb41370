// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Asks the upstream resolvers: one after another, each for a bounded time, by UDP and, if the answer is too long for that, by
//! TCP; or by TLS, and then by nothing else.

mod connection;
mod ids;
mod tls;
mod tls_server;
mod udp;

use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use diolkos_dns64::wire::OptRcode;
use diolkos_dns64::{Ask, Message};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::dns_over_tcp;
use crate::error::ResolverError;
use diolkos_config::Dns64;
use diolkos_service::supervise::Watch;

use super::tally::{Fate, QueryCounters};
use ids::Ids;
use tls::TlsResolver;
use udp::{Heard, UpstreamPorts};

/// A resolver that did not answer is asked last for this time.
const PENALTY: Duration = Duration::from_secs(10);
/// Concurrent connections to resolvers; a further question waits, within the time limit of its try.
const CONNECTIONS: usize = 64;
/// The number of ports that an attacker may detect and attack before the question goes by TCP, where guessing does not succeed
/// (RFC 5452 section 9).
const PORTS_TRIED: usize = 2;

/// The most sockets towards resolvers.
pub fn files(dns64: &Dns64) -> usize {
    let by_tls = dns64.upstream.iter().filter(|one| one.tls.is_some());
    let by_tls = tls::CONNECTIONS * by_tls.count();
    CONNECTIONS + by_tls + udp::files(dns64.upstream.len(), dns64.max_outstanding as usize)
}

/// The upstream resolvers.
pub struct Upstream {
    resolvers: Vec<Resolver>,
    timeout: Duration,
    tries: usize,
    udp_size: u16,
    ids: Rc<Ids>,
    connections: Semaphore,
    tally: Rc<QueryCounters>,
    /// True if the configuration has others now.
    is_retired: Cell<bool>,
}

/// One upstream resolver.
struct Resolver {
    /// As the configuration has it.
    name: String,
    way: Way,
    /// Until this time, other resolvers are preferred.
    penalised: Cell<Option<Instant>>,
    /// Until this time, the log does not report it again, so that a client that alternates between slow and fast names cannot
    /// fill the log.
    told: Cell<Option<Instant>>,
}

/// How a resolver is asked.
enum Way {
    Plain(SocketAddr, UpstreamPorts),
    Tls(TlsResolver),
}

impl Upstream {
    /// Prepares to ask; nothing is sent yet.
    pub fn new(
        dns64: &Dns64,
        tally: Rc<QueryCounters>,
        watch: Watch,
    ) -> Result<Upstream, ResolverError> {
        let ids =
            Ids::new().map_err(|e| ResolverError::Random(std::io::Error::other(e.to_string())))?;
        let ids = Rc::new(ids);
        let timeout = Duration::from_millis(u64::from(dns64.timeout_ms));
        let config = dns64.authorities().map(tls_server::config).transpose()?;
        let resolver = |one: &diolkos_config::Upstream| Resolver {
            name: one.to_string(),
            way: match one.tls.as_ref().zip(config.as_ref()) {
                Some((name, config)) => Way::Tls(TlsResolver::new(
                    (one.address, name.clone()),
                    config.clone(),
                    (timeout, dns64.max_outstanding as usize),
                    (ids.clone(), tally.clone(), watch.clone()),
                )),
                // There is a `config` if one of them has a name.
                None => {
                    let (tally, watch) = (tally.clone(), watch.clone());
                    let ports = UpstreamPorts::new(one.address, ids.clone(), tally, watch);
                    Way::Plain(one.address, ports)
                }
            },
            penalised: Cell::default(),
            told: Cell::default(),
        };
        Ok(Upstream {
            resolvers: dns64.upstream.iter().map(resolver).collect(),
            timeout,
            tries: (dns64.tries as usize).max(dns64.upstream.len()),
            udp_size: dns64.udp_size,
            ids: ids.clone(),
            connections: Semaphore::new(CONNECTIONS),
            tally,
            is_retired: Cell::default(),
        })
    }

    /// Asks nothing any more, but for what was sent before.
    pub fn retire(&self) {
        self.is_retired.set(true);
    }

    /// The longest time that a question may take.
    pub fn patience(&self) -> Duration {
        self.timeout * self.tries as u32
    }

    /// The reply to a question: of the first resolver that has one, otherwise the error of the last; `None` if there is none.
    pub async fn ask(&self, ask: &Ask) -> Option<Vec<u8>> {
        let mut error = None;
        let order = self.order();
        for turn in 0..self.tries {
            if self.is_retired.get() {
                return None;
            }
            let resolver = &self.resolvers[order[turn % order.len()]];
            let reply = match self.exchange(resolver, ask).await {
                Ok(reply) => reply,
                Err(why) if why.kind() == io::ErrorKind::TimedOut => {
                    self.tally.count(Fate::UpstreamTimeout);
                    self.penalise(resolver, "no answer");
                    continue;
                }
                Err(why) => {
                    self.tally.count(Fate::UpstreamUnreachable);
                    self.penalise(resolver, &why.to_string());
                    continue;
                }
            };
            resolver.penalised.set(None);
            if !is_refusal(&reply) {
                return Some(reply);
            }
            error = Some(reply);
            // Asking the same resolver again would give the same error.
            if turn + 1 >= order.len() {
                break;
            }
            self.tally.count(Fate::UpstreamError);
        }
        error
    }

    /// The resolvers in the order in which they are asked: as configured, with those that did not answer lately at the end.
    fn order(&self) -> Vec<usize> {
        let now = Instant::now();
        let mut order: Vec<usize> = (0..self.resolvers.len()).collect();
        order.sort_by_key(|&at| {
            self.resolvers[at]
                .penalised
                .get()
                .is_some_and(|end| end > now)
        });
        order
    }

    fn penalise(&self, resolver: &Resolver, why: &str) {
        let now = Instant::now();
        resolver.penalised.set(Some(now + PENALTY));
        if resolver.told.get().is_none_or(|end| end < now) {
            resolver.told.set(Some(now + PENALTY));
            tracing::warn!("the resolver {} failed: {why}", resolver.name);
        }
    }

    /// Asks one resolver, within the time limit.
    async fn exchange(&self, resolver: &Resolver, ask: &Ask) -> io::Result<Vec<u8>> {
        match &resolver.way {
            Way::Plain(address, ports) => {
                let asked = self.exchange_plain(*address, ports, ask);
                let late = |_| Err(io::ErrorKind::TimedOut.into());
                timeout(self.timeout, asked).await.unwrap_or_else(late)
            }
            Way::Tls(server) => server.exchange(ask, self.udp_size).await,
        }
    }

    async fn exchange_plain(
        &self,
        address: SocketAddr,
        ports: &UpstreamPorts,
        ask: &Ask,
    ) -> io::Result<Vec<u8>> {
        for _ in 0..PORTS_TRIED {
            self.tally.count(Fate::UpstreamUdp);
            match ports.exchange(ask, self.udp_size).await? {
                Heard::Reply(reply) if !is_truncated(&reply) => return Ok(reply),
                Heard::Reply(_) => break,
                Heard::Lies => {}
            }
        }
        // The semaphore is never closed.
        let _place = self.connections.acquire().await;
        self.tally.count(Fate::UpstreamTcp);
        let stream = TcpStream::connect(address).await?;
        dns_over_tcp::exchange(stream, ask, self.udp_size, self.ids.next()).await
    }
}

fn is_truncated(reply: &[u8]) -> bool {
    const TC: u8 = 0x02;
    reply.get(2).is_some_and(|flags| flags & TC != 0)
}

/// Returns true if another resolver might have an answer.
fn is_refusal(reply: &[u8]) -> bool {
    let code = Message::parse(reply).map_or(OptRcode::FORMERR, |message| message.rcode());
    !matches!(code, OptRcode::NOERROR | OptRcode::NXDOMAIN)
}
