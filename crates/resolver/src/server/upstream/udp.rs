// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Questions by UDP, each from one of several changing ports, with an unpredictable identification (RFC 5452 section 9.2, RFC
//! 6056).
//!
//! A port is a socket that is connected to the resolver, so the kernel accepts datagrams from nowhere else. It is used for a
//! while and then closed; the kernel draws the number of a new one. A port that receives too many datagrams that answer no
//! question is closed at once: an attacker may have found it, and may be guessing identifications.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use diolkos_dns64::exchange::{answers, id, write};
use diolkos_dns64::{Ask, Message};
use tokio::net::UdpSocket;
use tokio::sync::{oneshot, Notify};
use tokio::time::{sleep_until, Instant};

use crate::server::tally::{Fate, QueryCounters};
use diolkos_service::supervise::Watch;

use super::ids::Ids;

/// Ports in use at the same time; one is drawn for each question.
const PORTS: usize = 16;
/// A port is used for this many questions, plus a number up to the same that is drawn for each port.
const USES: u16 = 64;
/// No question is asked from a port that is older.
const AGE: Duration = Duration::from_secs(30);
/// A port that has been idle for this time is closed.
const IDLE: Duration = Duration::from_secs(5);
/// A port is closed after this many datagrams that answer no question.
const MOST_WRONG: u32 = 8;
/// The longest datagram that may be requested, bytes (`dns64.udp_size`).
const LONGEST: usize = 4096;

/// The most ports that are open towards `resolvers` resolvers while `waiting` questions wait. A port that is too old or used up
/// stays open beside its successor while a question waits.
pub fn files(resolvers: usize, waiting: usize) -> usize {
    2 * PORTS * resolvers + waiting.div_ceil(usize::from(USES))
}

/// The ports from which one resolver is asked.
pub struct UpstreamPorts {
    resolver: SocketAddr,
    ports: Rc<RefCell<[Option<Rc<Port>>; PORTS]>>,
    ids: Rc<Ids>,
    tally: Rc<QueryCounters>,
    watch: Watch,
}

/// The result of a question.
#[derive(Debug)]
pub enum Heard {
    /// The reply.
    Reply(Vec<u8>),
    /// No answer that can be trusted; the port was closed.
    Lies,
}

struct Port {
    socket: UdpSocket,
    asked: RefCell<HashMap<u16, Asked>>,
    /// The number of questions that are not over.
    open: Cell<u32>,
    uses_left: Cell<u16>,
    opened: Instant,
    used: Cell<Instant>,
    wrong: Cell<u32>,
    /// No question is asked from this port any more.
    is_over: Cell<bool>,
    /// It is over, and no question waits.
    over: Notify,
}

/// A question from this port. Questions that are over stay in the map, so that a late or repeated answer does not count as an
/// attack.
struct Asked {
    ask: Ask,
    reply: Option<oneshot::Sender<Heard>>,
}

/// A waiting question; dropping it ends the wait.
struct PendingQuestion {
    port: Rc<Port>,
    id: u16,
}

impl Drop for PendingQuestion {
    fn drop(&mut self) {
        if let Some(asked) = self.port.asked.borrow_mut().get_mut(&self.id) {
            asked.reply = None;
        }
        self.port.open.set(self.port.open.get() - 1);
        self.port.end_if_done();
    }
}

impl UpstreamPorts {
    /// Ports to a resolver; each is opened when it is first drawn.
    pub fn new(
        resolver: SocketAddr,
        ids: Rc<Ids>,
        tally: Rc<QueryCounters>,
        watch: Watch,
    ) -> UpstreamPorts {
        UpstreamPorts {
            resolver,
            ports: Rc::default(),
            ids,
            tally,
            watch,
        }
    }

    /// Asks and waits for the answer. The caller sets the time limit.
    pub async fn exchange(&self, ask: &Ask, udp_size: u16) -> io::Result<Heard> {
        let port = self.port()?;
        let (place, reply) = port.wait(ask, &self.ids);
        let mut query = Vec::with_capacity(128);
        write(ask, place.id, udp_size, &mut query);
        port.socket.send(&query).await?;
        reply
            .await
            .map_err(|_| io::Error::from(io::ErrorKind::ConnectionRefused))
    }

    /// One of the ports, drawn at random.
    fn port(&self) -> io::Result<Rc<Port>> {
        let at = usize::from(self.ids.next()) % PORTS;
        if let Some(port) = self.use_up(at) {
            return Ok(port);
        }
        let own = match self.resolver {
            SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        let socket = std::net::UdpSocket::bind((own, 0))?;
        socket.set_nonblocking(true)?;
        socket.connect(self.resolver)?;
        let now = Instant::now();
        let port = Rc::new(Port {
            socket: UdpSocket::from_std(socket)?,
            asked: RefCell::default(),
            open: Cell::default(),
            uses_left: Cell::new(USES + self.ids.next() % USES),
            opened: now,
            used: Cell::new(now),
            wrong: Cell::default(),
            is_over: Cell::default(),
            over: Notify::new(),
        });
        self.ports.borrow_mut()[at] = Some(port.clone());
        let (ports, tally, opened) = (self.ports.clone(), self.tally.clone(), port.clone());
        let work = async move {
            read(&opened, &tally).await;
            let place = &mut ports.borrow_mut()[at];
            if place.as_ref().is_some_and(|one| Rc::ptr_eq(one, &opened)) {
                *place = None;
            }
        };
        self.watch.local("a port towards upstream", work);
        Ok(port)
    }

    /// The port at an index, if it may be used. Its last use takes it out of the list.
    fn use_up(&self, at: usize) -> Option<Rc<Port>> {
        let place = &mut self.ports.borrow_mut()[at];
        let port = place.clone()?;
        if port.is_over.get() || port.ends() <= Instant::now() {
            return None;
        }
        port.used.set(Instant::now());
        port.uses_left.set(port.uses_left.get().saturating_sub(1));
        if port.uses_left.get() == 0 {
            port.is_over.set(true);
            *place = None;
        }
        Some(port)
    }
}

impl Port {
    /// The time at which it is closed if it is not used again.
    fn ends(&self) -> Instant {
        (self.used.get() + IDLE).min(self.opened + AGE)
    }

    fn end_if_done(&self) {
        if self.is_over.get() && self.open.get() == 0 {
            self.over.notify_one();
        }
    }

    /// Registers a waiting question under an identification that is drawn.
    fn wait(self: &Rc<Port>, ask: &Ask, ids: &Ids) -> (PendingQuestion, oneshot::Receiver<Heard>) {
        let mut asked = self.asked.borrow_mut();
        // A port has at most 2 * USES questions, so most identifications are free.
        let mut id = ids.next();
        while asked.contains_key(&id) {
            id = ids.next();
        }
        let (sender, reply) = oneshot::channel();
        let one = Asked {
            ask: ask.clone(),
            reply: Some(sender),
        };
        asked.insert(id, one);
        self.open.set(self.open.get() + 1);
        let port = self.clone();
        (PendingQuestion { port, id }, reply)
    }

    /// Delivers a datagram to the question that waits for it, or returns its fate if there is none.
    fn deliver(&self, datagram: &[u8]) -> Result<(), Fate> {
        let mut asked = self.asked.borrow_mut();
        let one = id(datagram).and_then(|id| asked.get_mut(&id));
        let one = one.filter(|one| {
            Message::parse(datagram).is_ok_and(|message| answers(&one.ask, &message))
        });
        let one = one.ok_or(Fate::UpstreamUnexpected)?;
        let reply = one.reply.take().ok_or(Fate::UpstreamLate)?;
        reply
            .send(Heard::Reply(datagram.to_vec()))
            .map_err(|_| Fate::UpstreamLate)
    }

    /// Ends all questions, with a result or without any.
    fn end_all(&self, heard: impl Fn() -> Option<Heard>) {
        for asked in self.asked.borrow_mut().values_mut() {
            if let (Some(reply), Some(heard)) = (asked.reply.take(), heard()) {
                let _ = reply.send(heard);
            }
        }
    }
}

/// Reads the datagrams of a port until it is closed.
async fn read(port: &Port, tally: &QueryCounters) {
    let mut buffer = vec![0; LONGEST];
    loop {
        let received = tokio::select! {
            received = port.socket.recv(&mut buffer) => received,
            () = port.over.notified() => return,
            () = sleep_until(port.ends()), if !port.is_over.get() => {
                // It may have been used meanwhile.
                if port.ends() <= Instant::now() {
                    tally.count(Fate::UpstreamPortAged);
                    port.is_over.set(true);
                    port.end_if_done();
                }
                continue;
            }
        };
        match received.map(|length| port.deliver(&buffer[..length])) {
            Ok(Ok(())) => {}
            Ok(Err(fate)) => {
                tally.count(fate);
                let is_wrong = fate == Fate::UpstreamUnexpected;
                port.wrong.set(port.wrong.get() + u32::from(is_wrong));
            }
            // No resolver listens there (ICMP), so the questions go to another one.
            Err(_) => port.end_all(|| None),
        }
        if port.wrong.get() >= MOST_WRONG {
            tally.count(Fate::UpstreamPortSuspect);
            port.is_over.set(true);
            port.end_all(|| Some(Heard::Lies));
            return;
        }
    }
}

#[cfg(test)]
mod tests;
