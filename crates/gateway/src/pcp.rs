// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Bindings that nodes ask for (PCP, RFC 6887): the sockets, each with a thread, and their way to the tables.
//!
//! datagram ─► thread of its address ─► [`Server`], which has one lock ─► controller ─► answer to the source
//!
//! A node's flood waits in the socket, where the kernel drops what is too much; the server drops what its link may not ask.

use std::io;
use std::net::{Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use diolkos_nat64::config::{Binding, Endpoint6, Protocol};
use diolkos_nat64::session::{GrantError, Granted, Wish};
use diolkos_pcp::message::LONGEST;
use diolkos_pcp::{Server, Settings, Tables, PORT};
use diolkos_sys::clock;
use diolkos_sys::event::{Bell, Wake};
use socket2::{Domain, Socket, Type};

use super::controller::{Controller, BREATH};
use super::error::GatewayError;
use diolkos_figures::counters::Counter;
use diolkos_service::ordered::{Guard, Ordered, Rank};
use diolkos_service::privilege;
use diolkos_service::random::random;
use diolkos_service::supervise::Watch;

/// Datagrams that a thread handles before it lets others have the server.
const BATCH: usize = 64;
/// Mappings end at most so much later than they should.
const PAUSE: Duration = Duration::from_millis(500);
/// Receive buffer, bytes, of which the kernel grants as much as its limit allows: some thousand requests of others wait there
/// beside those of a flood.
const RECEIVE_BUFFER: usize = 4 << 20;
/// See [`super::controller`].
const HALF_CHANGED: &str = "a thread panicked while it changed the mappings";

/// The PCP server of a NAT64. Its threads end with it; mappings stay.
pub struct Pcp {
    server: Arc<Ordered<Server>>,
    controller: Arc<Controller>,
    threads: Vec<Thread>,
    watch: Watch,
}

/// Sockets for the addresses of a configuration that nobody listens at yet.
pub struct NewSockets(Vec<(Ipv6Addr, UdpSocket)>);

struct Thread {
    address: Ipv6Addr,
    bell: Arc<Bell>,
    thread: Option<JoinHandle<()>>,
}

impl NewSockets {
    /// Binds the addresses at which `there` does not listen. At the start an address may be missing, and come later: Duplicate
    /// Address Detection takes up to two seconds (RFC 4862 section 5.4), and translation does not wait for it.
    pub fn bind(
        addresses: &[Ipv6Addr],
        there: Option<&Pcp>,
        is_start: bool,
    ) -> Result<NewSockets, GatewayError> {
        let is_there = |address: &Ipv6Addr| {
            there.is_some_and(|pcp| pcp.threads.iter().any(|its| its.address == *address))
        };
        let new = addresses.iter().filter(|address| !is_there(address));
        let bound = new.map(|&address| {
            let bound = socket(address, is_start);
            let bound = bound.map_err(|source| GatewayError::Pcp { address, source });
            bound.map(|socket| (address, socket))
        });
        bound.collect::<Result<_, _>>().map(NewSockets)
    }
}

/// `may_miss`: the host need not have the address.
fn socket(address: Ipv6Addr, may_miss: bool) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::IPV6, Type::DGRAM.cloexec(), None)?;
    socket.set_freebind_v6(may_miss)?;
    socket.bind(&SocketAddr::from((address, PORT)).into())?;
    let _ = socket.set_recv_buffer_size(RECEIVE_BUFFER);
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

impl Pcp {
    /// Begins to answer.
    pub fn start(
        settings: Settings,
        sockets: NewSockets,
        controller: Arc<Controller>,
        watch: &Watch,
    ) -> Result<Pcp, GatewayError> {
        let server = Server::new(settings, random(), clock::kernel_boottime());
        let mut pcp = Pcp {
            server: Arc::new(Ordered::new(Rank::Mappings, server)),
            controller,
            threads: Vec::new(),
            watch: watch.clone(),
        };
        pcp.listen(sockets)?;
        Ok(pcp)
    }

    /// Applies other settings, after the tables have followed theirs. `addresses`: all that it listens at from now on.
    pub fn follow(
        &mut self,
        settings: Settings,
        addresses: &[Ipv6Addr],
        sockets: NewSockets,
    ) -> Result<(), GatewayError> {
        self.threads.retain(|its| addresses.contains(&its.address));
        {
            let server = &mut *lock(&self.server);
            server.follow(settings);
            server.compare(clock::kernel_boottime(), &mut Asking(&self.controller));
        }
        self.listen(sockets)
    }

    /// Ends all mappings, since nobody can renew them any more.
    pub fn finish(mut self) {
        self.threads.clear();
        while !lock(&self.server).end_some(&mut Asking(&self.controller)) {
            thread::sleep(BREATH);
        }
    }

    /// What has become of datagrams and mappings.
    pub fn counters(&self) -> Vec<Counter> {
        let counts = lock(&self.server).counts();
        let counter = |(name, packets)| Counter {
            name,
            packets,
            bytes: None,
        };
        counts.into_iter().map(counter).collect()
    }

    fn listen(&mut self, sockets: NewSockets) -> Result<(), GatewayError> {
        for (address, socket) in sockets.0 {
            let failed = |source| GatewayError::Pcp { address, source };
            let bell = Arc::new(Bell::new().map_err(failed)?);
            let (rung, server) = (bell.clone(), self.server.clone());
            let (controller, beat) = (self.controller.clone(), self.watch.beat("pcp"));
            let mut is_done = true;
            let answer = move || loop {
                beat.beat();
                let most = match is_done {
                    true => beat.every().map_or(PAUSE, |every| every.min(PAUSE)),
                    false => BREATH,
                };
                match rung.wait_readable(socket.as_fd(), Some(most)) {
                    Ok(Wake::Bell) => return Ok(()),
                    Ok(Wake::Readable) => answer_all(&socket, &server, &controller),
                    Ok(Wake::Nothing) => {}
                    Err(source) => return Err(GatewayError::Pcp { address, source }.into()),
                }
                let now = clock::kernel_boottime();
                is_done = lock(&server).expire(now, &mut Asking(&controller));
            };
            let thread = self.watch.thread_with(privilege::PCP, "pcp", answer);
            self.threads.push(Thread {
                address,
                bell,
                thread: Some(thread.map_err(failed)?),
            });
        }
        Ok(())
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.bell.ring();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Answers what waits in the socket, up to a batch.
fn answer_all(socket: &UdpSocket, server: &Ordered<Server>, controller: &Controller) {
    // One more than the longest message, so that a longer one is seen as such.
    let mut bytes = [0; LONGEST + 1];
    for _ in 0..BATCH {
        // An error of the socket is that of one datagram: of what an earlier answer has met on its way.
        let Ok((len, source)) = socket.recv_from(&mut bytes) else {
            return;
        };
        let SocketAddr::V6(from) = source else {
            continue;
        };
        let now = clock::kernel_boottime();
        let mut asking = Asking(controller);
        let answer = lock(server).answer(*from.ip(), &bytes[..len], now, &mut asking);
        if let Some(answer) = answer {
            // A client whose answer is lost asks again (RFC 6887 section 8.1.1).
            let _ = socket.send_to(&answer, source);
        }
    }
}

fn lock(server: &Ordered<Server>) -> Guard<'_, Server> {
    server.lock().expect(HALF_CHANGED)
}

/// The tables, as the server asks them.
struct Asking<'a>(&'a Controller);

impl Tables for Asking<'_> {
    fn grant(
        &mut self,
        protocol: Protocol,
        v6: Endpoint6,
        wish: Wish,
    ) -> Result<Granted, GrantError> {
        self.0.grant(protocol, v6, wish)
    }

    fn is_granted(&mut self, binding: &Binding) -> bool {
        self.0.look(|nat64| nat64.state().is_granted(binding))
    }

    fn withdraw(&mut self, binding: &Binding) {
        self.0.withdraw(binding);
    }
}

#[cfg(test)]
mod tests {
    use super::socket;
    use std::io::ErrorKind;

    #[test]
    fn an_address_may_come_later() {
        let nobodys = "2001:db8:ffff::5351".parse().unwrap();
        let refused = socket(nobodys, false).map(|_| ()).map_err(|e| e.kind());
        assert_eq!(refused, Err(ErrorKind::AddrNotAvailable));
        let bound = socket(nobodys, true).unwrap();
        assert_eq!(bound.local_addr().unwrap().ip(), nobodys);
    }
}
