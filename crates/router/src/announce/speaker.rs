// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Speaks on one Ethernet interface for the addresses that are answered for there: probes for them, has the program
//! answer, announces them, and detects other claims.
//!
//! sockets and groups → what is due ([`Claims`]) or received → send it, have it answered, log it; again when the link
//! comes back

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, Ipv6Addr, UdpSocket};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use diolkos_fastpath::Served;
use diolkos_sys::ethtool;
use diolkos_sys::packet::{DiscoverySocket, Hears};
use ipnet::IpNet;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::arp;
use super::claims::{ClaimAction, Claims, Clash, Mac, Spoke};
use super::tally::SpeakerCounters;
use diolkos_control::service::until;
use diolkos_kernel::neighbour;
use diolkos_service::counted::counted;
use diolkos_service::random::random;

/// Maximum size of a received message in bytes.
const LONGEST: usize = 1500;
/// Delay before the sockets are reopened, or a link is checked again.
const RETRY: Duration = Duration::from_secs(1);
/// With more groups than these, the card passes on all packets. The kernel reports joined groups to routers and
/// switches.
const MOST_GROUPS: usize = 64;
/// At most one conflict on the interface is logged in this time.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// The speaker of one interface.
pub struct Speaker {
    pub interface: String,
    pub ifindex: u32,
    pub mac: [u8; 6],
    /// Link-layer addresses of all interfaces that announce: their packets are no conflict.
    pub own: Arc<Mutex<BTreeSet<[u8; 6]>>>,
    /// Networks that are answered for as a whole.
    pub whole: Vec<IpNet>,
    /// Addresses for which echo requests are answered.
    pub echo: BTreeSet<IpAddr>,
    pub claims: Arc<Mutex<Claims>>,
    /// Notified when other code has changed the claims.
    pub changed: Arc<Notify>,
    /// Notified when an address is answered for, or left to another node.
    pub moved: Arc<Notify>,
    pub served: Arc<Served>,
    pub tally: Arc<SpeakerCounters>,
}

struct Sockets {
    arp: Option<DiscoverySocket>,
    neighbours: Option<DiscoverySocket>,
    /// Keeps the groups joined.
    _groups: Option<UdpSocket>,
}

struct Log {
    next: Option<Instant>,
    unsaid: u64,
}

impl Speaker {
    /// Speaks for ever: a link that is down may come up again.
    pub async fn speak(self) -> Infallible {
        let mut log = Log {
            next: None,
            unsaid: 0,
        };
        let mut before = String::new();
        loop {
            if let Err(error) = self.speak_while_up(&mut log).await {
                let said = error.to_string();
                if said != before {
                    tracing::warn!(
                        "{}: cannot receive from neighbours now: {said}; retrying",
                        self.interface
                    );
                }
                before = said;
            }
            tokio::time::sleep(RETRY).await;
            self.claims().announce_again(Instant::now());
        }
    }

    async fn speak_while_up(&self, log: &mut Log) -> io::Result<()> {
        let sockets = self.open()?;
        let (mut of_arp, mut of_neighbours) = ([0; LONGEST], [0; LONGEST]);
        loop {
            let next = self.claims().next();
            tokio::select! {
                () = until(next) => {
                    let steps = self.claims().due(Instant::now(), random);
                    // A failed step must not prevent the steps after it.
                    let done = steps.into_iter().map(|step| self.take(step, &sockets));
                    done.fold(Ok(()), io::Result::and)?;
                }
                () = self.changed.notified() => {}
                heard = receive(sockets.arp.as_ref(), &mut of_arp) => {
                    let (len, _) = heard?;
                    if let Some(heard) = arp::parse(&of_arp[..len]) {
                        self.heard_arp(heard, &sockets, log)?;
                    }
                }
                heard = receive(sockets.neighbours.as_ref(), &mut of_neighbours) => {
                    let (len, from) = heard?;
                    let from = <[u8; 6]>::try_from(from.as_slice());
                    if let (Some(message), Ok(from)) = (neighbour::parse(&of_neighbours[..len]), from) {
                        self.heard_neighbour(&message, from, &sockets, log)?;
                    }
                }
            }
        }
    }

    fn open(&self) -> io::Result<Sockets> {
        let is_of = |wants4: bool| {
            self.whole.iter().any(|net| net.addr().is_ipv4() == wants4)
                || self.addresses().iter().any(|a| a.is_ipv4() == wants4)
        };
        let arp = match is_of(true) {
            true => Some(DiscoverySocket::open(self.ifindex, Hears::Arp)?),
            false => None,
        };
        if !is_of(false) {
            return Ok(Sockets {
                arp,
                neighbours: None,
                _groups: None,
            });
        }
        let neighbours = DiscoverySocket::open(self.ifindex, Hears::Neighbours)?;
        let groups = self.join()?;
        if groups.is_none() {
            neighbours.hear_all_groups()?;
        }
        Ok(Sockets {
            arp,
            neighbours: Some(neighbours),
            _groups: groups,
        })
    }

    /// Joins the multicast groups of the addresses. Returns None if they are too many, or the kernel refuses.
    fn join(&self) -> io::Result<Option<UdpSocket>> {
        let addresses = self.addresses();
        let groups: BTreeSet<Ipv6Addr> = addresses
            .iter()
            .filter_map(|address| match address {
                IpAddr::V6(address) => Some(neighbour::solicited_node(*address)),
                IpAddr::V4(_) => None,
            })
            .collect();
        let is_whole = self.whole.iter().any(|net| net.addr().is_ipv6());
        if is_whole || groups.len() > MOST_GROUPS {
            return Ok(None);
        }
        let socket = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0))?;
        for group in &groups {
            if let Err(error) = socket.join_multicast_v6(group, self.ifindex) {
                tracing::debug!(
                    "{}: the group {group} cannot be joined: {error}",
                    self.interface
                );
                return Ok(None);
            }
        }
        Ok(Some(socket))
    }

    fn take(&self, step: ClaimAction, sockets: &Sockets) -> io::Result<()> {
        match step {
            ClaimAction::Probe(address) => {
                // Without a link, no node can object. A driver that does not report the link counts as having one.
                if !ethtool::has_link(&self.interface).unwrap_or(true) {
                    self.claims().ask_again(address, Instant::now() + RETRY);
                    return Ok(());
                }
                self.tally.probes.add();
                self.ask(address, None, sockets)
            }
            ClaimAction::Poll(address, owner) => {
                self.tally.polls.add();
                self.ask(address, Some(owner), sockets)
            }
            ClaimAction::Hold(address) => {
                serve(
                    &self.served,
                    self.ifindex,
                    address.into(),
                    self.echo.contains(&address),
                )?;
                tracing::info!("{}: answering for {address}", self.interface);
                self.moved.notify_one();
                Ok(())
            }
            ClaimAction::Announce(address) => self.announce(address, sockets),
        }
    }

    /// Asks all nodes, or one, for the owner of an address, without claiming it. RFC 6085: a packet to a group may go
    /// to one node's link-layer address.
    fn ask(&self, address: IpAddr, only: Option<Mac>, sockets: &Sockets) -> io::Result<()> {
        match address {
            IpAddr::V4(v4) => {
                let to = only.unwrap_or(arp::BROADCAST);
                send(&sockets.arp, &arp::probe(self.mac, v4), &to)
            }
            IpAddr::V6(v6) => {
                let group = neighbour::solicited_node(v6);
                let to = only.unwrap_or_else(|| neighbour::multicast_mac(group));
                send(
                    &sockets.neighbours,
                    &neighbour::solicitation(v6, group),
                    &to,
                )
            }
        }
    }

    fn announce(&self, address: IpAddr, sockets: &Sockets) -> io::Result<()> {
        self.tally.announcements.add();
        match address {
            IpAddr::V4(v4) => send(
                &sockets.arp,
                &arp::announcement(self.mac, v4),
                &arp::BROADCAST,
            ),
            IpAddr::V6(v6) => {
                let all = neighbour::ALL_NODES;
                let packet = neighbour::advertisement(v6, all, neighbour::FLAG_OVERRIDE, &self.mac);
                send(&sockets.neighbours, &packet, &neighbour::multicast_mac(all))
            }
        }
    }

    /// RFC 5227 sections 2.1.1 and 2.4.
    fn heard_arp(&self, heard: arp::Heard, sockets: &Sockets, log: &mut Log) -> io::Result<()> {
        let (address, spoke) = match heard.sender.is_unspecified() {
            true if heard.releases => (heard.target, Spoke::Releases),
            true => (heard.target, Spoke::Probes),
            false => (heard.sender, Spoke::Claims),
        };
        self.heard(address.into(), spoke, heard.mac, sockets, log)
    }

    /// RFC 4862 sections 5.4.3 and 5.4.4.
    fn heard_neighbour(
        &self,
        message: &neighbour::Message,
        from: [u8; 6],
        sockets: &Sockets,
        log: &mut Log,
    ) -> io::Result<()> {
        let spoke = match message.kind {
            neighbour::ADVERTISEMENT => Spoke::Claims,
            _ if message.source.is_unspecified() => Spoke::Probes,
            // A solicitation, from an address that may be ours.
            _ => return self.heard(message.source.into(), Spoke::Claims, from, sockets, log),
        };
        self.heard(message.target.into(), spoke, from, sockets, log)
    }

    fn heard(
        &self,
        address: IpAddr,
        spoke: Spoke,
        from: [u8; 6],
        sockets: &Sockets,
        log: &mut Log,
    ) -> io::Result<()> {
        if self
            .own
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .contains(&from)
        {
            return Ok(());
        }
        let now = Instant::now();
        let is_one = self.claims().has(address);
        let clash = match is_one {
            true => self.claims().heard(address, spoke, from, now),
            // There is no state for single addresses of a network, so none of them is defended.
            false => {
                let is_ours = self.whole.iter().any(|net| net.contains(&address));
                (is_ours && spoke == Spoke::Claims).then_some(Clash::Undefended)
            }
        };
        let Some(clash) = clash else { return Ok(()) };
        self.tally.conflicts.add();
        if clash == Clash::Taken {
            self.moved.notify_one();
        }
        log.write_damped(now, |unsaid| {
            let what = match clash {
                Clash::Taken => {
                    ": diolkos does not answer for it, and retries when that node is gone"
                }
                Clash::Defended | Clash::Undefended => ": diolkos keeps answering for it",
            };
            tracing::warn!(
                "{}: {} has {address}, too{what}{unsaid}",
                self.interface,
                shown(from)
            );
        });
        if clash == Clash::Defended {
            self.tally.defences.add();
            self.announce(address, sockets)?;
        }
        Ok(())
    }

    fn claims(&self) -> MutexGuard<'_, Claims> {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn addresses(&self) -> Vec<IpAddr> {
        self.claims().all().collect()
    }
}

impl Log {
    /// Writes a line at a limited rate, because other nodes can cause it without end.
    fn write_damped(&mut self, now: Instant, write: impl FnOnce(String)) {
        if self.next.is_some_and(|next| now < next) {
            self.unsaid += 1;
            return;
        }
        self.next = Some(now + LOG_INTERVAL);
        write(match std::mem::take(&mut self.unsaid) {
            0 => String::new(),
            unsaid => format!(
                " ({} since the last one that was logged)",
                counted(unsaid, "more conflict")
            ),
        });
    }
}

/// Announces that IPv4 addresses of an interface are free, after the program has stopped answering for them.
pub fn release(ifindex: u32, mac: Mac, addresses: &[IpAddr]) -> io::Result<()> {
    let socket = DiscoverySocket::open(ifindex, Hears::Arp)?;
    for address in addresses {
        if let IpAddr::V4(address) = address {
            socket.send(&arp::release(mac, *address), &arp::BROADCAST)?;
        }
    }
    Ok(())
}

/// Has the program answer for addresses of an interface.
pub fn serve(served: &Served, ifindex: u32, net: IpNet, echo: bool) -> io::Result<()> {
    match net {
        IpNet::V4(net) => served.serve4(ifindex, (net.network(), net.prefix_len()), echo),
        IpNet::V6(net) => served.serve6(ifindex, (net.network(), net.prefix_len()), echo),
    }
}

/// Formats a link-layer address.
fn shown(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

fn send(socket: &Option<DiscoverySocket>, packet: &[u8], to: &[u8]) -> io::Result<()> {
    match socket {
        Some(socket) => socket.send(packet, to),
        None => Ok(()),
    }
}

async fn receive(
    socket: Option<&DiscoverySocket>,
    buffer: &mut [u8],
) -> io::Result<(usize, Vec<u8>)> {
    match socket {
        Some(socket) => socket.receive(buffer).await,
        None => std::future::pending().await,
    }
}
