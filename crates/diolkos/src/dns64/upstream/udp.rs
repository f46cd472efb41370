// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Questions by UDP, each from one of several ports that change, with an identification that nobody can guess
//! (RFC 5452 section 9.2, RFC 6056).
//!
//! A port is a socket that is connected to the resolver, so the kernel lets nothing in from elsewhere. It is used for a
//! while and then given up; a new one gets its number from the kernel, which draws it.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::Rc;

use diolkos_dns64::exchange::{answers, id, write};
use diolkos_dns64::{Ask, Message};
use tokio::net::UdpSocket;
use tokio::sync::{oneshot, Notify};

use crate::dns64::tally::{Fate, Tally};

use super::ids::Ids;

/// Ports in use at the same time; each question draws one.
const PORTS: usize = 16;
/// A port is used for so many questions, and for up to as many more, as is drawn for each.
const USES: u16 = 64;
/// The longest datagram that is ever asked for, bytes (`dns64.udp_size`).
const LONGEST: usize = 4096;

/// The ports from which one resolver is asked.
pub struct Ports {
    resolver: SocketAddr,
    ports: RefCell<[Option<Rc<Port>>; PORTS]>,
    ids: Rc<Ids>,
    tally: Rc<Tally>,
}

struct Port {
    socket: UdpSocket,
    waiting: RefCell<HashMap<u16, Waiting>>,
    uses_left: Cell<u16>,
    /// Nobody waits any more, and nobody will.
    over: Notify,
}

struct Waiting {
    ask: Ask,
    reply: oneshot::Sender<Vec<u8>>,
}

/// A place among those who wait, left when it is dropped.
struct Place {
    port: Rc<Port>,
    id: u16,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut waiting = self.port.waiting.borrow_mut();
        waiting.remove(&self.id);
        if waiting.is_empty() && self.port.uses_left.get() == 0 {
            self.port.over.notify_one();
        }
    }
}

impl Ports {
    /// Ports to a resolver; each is opened when it is first drawn.
    pub fn new(resolver: SocketAddr, ids: Rc<Ids>, tally: Rc<Tally>) -> Ports {
        Ports {
            resolver,
            ports: RefCell::default(),
            ids,
            tally,
        }
    }

    /// Asks, and waits for the answer. Whoever calls sets the time that it may take.
    pub async fn exchange(&self, ask: &Ask, udp_size: u16) -> io::Result<Vec<u8>> {
        let port = self.port()?;
        let (place, reply) = port.wait(ask, &self.ids);
        let mut query = Vec::with_capacity(128);
        write(ask, place.id, udp_size, &mut query);
        port.socket.send(&query).await?;
        reply
            .await
            .map_err(|_| io::Error::from(io::ErrorKind::ConnectionRefused))
    }

    /// One of the ports, drawn.
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
        let port = Rc::new(Port {
            socket: UdpSocket::from_std(socket)?,
            waiting: RefCell::default(),
            uses_left: Cell::new(USES + self.ids.next() % USES),
            over: Notify::new(),
        });
        tokio::task::spawn_local(read(port.clone(), self.tally.clone()));
        self.ports.borrow_mut()[at] = Some(port.clone());
        Ok(port)
    }

    /// The port in a place, if there is one, which is given up with its last use.
    fn use_up(&self, at: usize) -> Option<Rc<Port>> {
        let place = &mut self.ports.borrow_mut()[at];
        let port = place.clone()?;
        port.uses_left.set(port.uses_left.get().saturating_sub(1));
        if port.uses_left.get() == 0 {
            *place = None;
        }
        Some(port)
    }
}

impl Port {
    /// A place among those who wait, under an identification that is drawn.
    fn wait(self: &Rc<Port>, ask: &Ask, ids: &Ids) -> (Place, oneshot::Receiver<Vec<u8>>) {
        let mut waiting = self.waiting.borrow_mut();
        // A port has at most 2 * USES questions, so most are free.
        let mut id = ids.next();
        while waiting.contains_key(&id) {
            id = ids.next();
        }
        let (sender, reply) = oneshot::channel();
        let one = Waiting {
            ask: ask.clone(),
            reply: sender,
        };
        waiting.insert(id, one);
        let port = self.clone();
        (Place { port, id }, reply)
    }

    /// Gives a datagram to who waits for it; false if nobody does.
    fn deliver(&self, datagram: &[u8]) -> bool {
        let mut waiting = self.waiting.borrow_mut();
        let Some(id) = id(datagram) else { return false };
        let expected = waiting.get(&id).is_some_and(|one| {
            Message::parse(datagram).is_ok_and(|message| answers(&one.ask, &message))
        });
        if !expected {
            return false;
        }
        waiting
            .remove(&id)
            .is_some_and(|one| one.reply.send(datagram.to_vec()).is_ok())
    }
}

/// Reads what comes to a port until it is given up.
async fn read(port: Rc<Port>, tally: Rc<Tally>) {
    let mut buffer = vec![0; LONGEST];
    loop {
        let received = tokio::select! {
            received = port.socket.recv(&mut buffer) => received,
            () = port.over.notified() => return,
        };
        match received {
            Ok(length) => {
                if !port.deliver(&buffer[..length]) {
                    tally.count(Fate::UpstreamUnexpected);
                }
            }
            // Nobody listens there (ICMP): who waits shall ask another.
            Err(_) => port.waiting.borrow_mut().clear(),
        }
    }
}
