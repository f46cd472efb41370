// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The sessions that programs of a NAT64 may open by themselves, and their reports (`bpf/open.h`): leases in an array
//! in shared memory, and openings in a ring buffer.
//!
//! The declarations below have the layout of `struct diolkos_lease` and `struct diolkos_opening`.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use libbpf_rs::{MapCore, MapHandle, RingBufferBuilder};

use super::leases::{Lease, Leases};
use super::mix::mix;
use super::openings::Openings;
use super::unbound_ports::UnboundPorts;

pub use super::leases::{places_for, LeaseSize, LEASE_WAYS, WIDE_PORTS};

/// `DIOLKOS_FROM_PEER`.
const FROM_PEER: u32 = 0x100;

/// The kind of a program's report (`enum diolkos_report`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Report {
    /// A session of a bound port was opened.
    Opened,
    /// A session was opened, and the node's port was bound to a leased one.
    Bound,
    /// A leased port was taken but is not needed.
    Unwanted,
    /// A node's port was bound to a leased one. The session did not fit in the map, so the controller has to open it.
    Alone,
    /// A segment that may change the state of a known TCP session was translated.
    Moved {
        /// True if the peer has sent it, false if the node has.
        is_from_peer: bool,
        /// Byte 13 of its TCP header.
        flags: u8,
    },
}

/// A session that a program has opened or reports about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Opening {
    /// The kind of report.
    pub report: Report,
    /// The IPv4 protocol number: 6 (TCP) or 17 (UDP).
    pub protocol: u8,
    /// The node on the IPv6 side.
    pub node: (Ipv6Addr, u16),
    /// Its IPv4 transport address.
    pub v4: (Ipv4Addr, u16),
    /// The peer.
    pub peer: (Ipv4Addr, u16),
    /// Index of the translation prefix in which the node sees the peer.
    pub prefix: u8,
    /// The term of the lease with which it was opened. Meaningless for [`Report::Moved`].
    pub term: u32,
}

/// The maps of leases and openings.
#[derive(Debug)]
pub(super) struct LeaseMaps {
    pub leases: MapHandle,
    pub wide: MapHandle,
    pub openings: MapHandle,
    pub unbound: MapHandle,
}

/// Leases and openings.
pub struct Lending {
    leases: Leases,
    /// Selects the set of each node.
    key: u64,
    ring_map: MapHandle,
    ring: Mutex<Openings>,
    heard: Arc<Mutex<Vec<Opening>>>,
    unbound: UnboundPorts,
}

impl Lending {
    pub(super) fn new(maps: LeaseMaps, key: u64) -> io::Result<Lending> {
        let LeaseMaps {
            leases,
            wide,
            openings: ring_map,
            unbound,
        } = maps;
        let unbound = UnboundPorts::of(unbound.as_fd(), unbound.max_entries(), key)?;
        let leases = Leases::of(leases.as_fd(), wide.as_fd(), leases.max_entries())?;
        let heard: Arc<Mutex<Vec<Opening>>> = Arc::default();
        let hears = heard.clone();
        let listen = || {
            let mut builder = RingBufferBuilder::new();
            builder.add(&ring_map, move |bytes| {
                let mut heard = hears.lock().unwrap_or_else(PoisonError::into_inner);
                heard.extend(Opening::read(bytes));
                0
            })?;
            builder.build()
        };
        let ring = listen().map_err(io::Error::other)?;
        Ok(Lending {
            leases,
            key,
            ring: Mutex::new(Openings::new(ring)),
            ring_map,
            heard,
            unbound,
        })
    }

    /// A descriptor that becomes readable when there are undrained openings.
    pub fn ready(&self) -> io::Result<OwnedFd> {
        self.ring_map.as_fd().try_clone_to_owned()
    }

    /// The openings since the last call, in the order in which the programs began them. Waits for openings in progress;
    /// see [`Lending::unheard`].
    pub fn drain(&self) -> Vec<Opening> {
        let mut ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        ring.drain();
        std::mem::take(&mut *self.heard.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Number of times that [`Lending::drain`] gave up waiting: a CPU stalled during an opening.
    pub fn unheard(&self) -> u64 {
        self.ring
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .unheard()
    }

    /// The number of places.
    pub fn places(&self) -> usize {
        self.leases.count()
    }

    /// The places of which a node may have one (`lease_of` in `bpf/open.h`).
    pub fn set_of(&self, node: Ipv6Addr) -> Range<usize> {
        let first = set(self.key, node, self.places() / LEASE_WAYS) * LEASE_WAYS;
        first..first + LEASE_WAYS
    }

    /// Assigns an empty place of its set to a node; its new bindings get this address. Returns the term of the lease,
    /// which no other of the node has.
    pub fn assign(&self, place: usize, node: Ipv6Addr, address: Ipv4Addr, size: LeaseSize) -> u32 {
        let v4 = u32::from_ne_bytes(address.octets());
        self.leases.assign(place, halves(node), v4, size);
        self.at(place).term()
    }

    /// Maximum number of ports in each queue of a place, [`WIDE_PORTS`] or less.
    pub fn most_ports(&self, place: usize) -> u32 {
        self.leases.most_ports(place)
    }

    /// Number of sessions that the node of a place may still open.
    pub fn sessions(&self, place: usize) -> u32 {
        self.at(place).sessions()
    }

    /// Allows the node of a place this many more sessions.
    pub fn add_sessions(&self, place: usize, more: u32) {
        self.at(place).add_sessions(more);
    }

    /// Number of ports left in a queue of a place, at most [`Lending::most_ports`].
    pub fn ports(&self, place: usize, queue: usize) -> u32 {
        self.at(place).ports(queue)
    }

    /// Lends a port to a place, whose queue must have fewer than [`Lending::most_ports`].
    pub fn add_port(&self, place: usize, queue: usize, port: u16) {
        self.leases.add_port(place, queue, port);
    }

    /// Ends a lease. Returns the ports that no program has taken, with their queues; programs report the taken ones.
    pub fn end(&self, place: usize) -> Vec<(usize, u16)> {
        self.leases.end(place)
    }

    /// Notes that a port of the pool is bound or lent. Call it before; a port that is both is occupied twice.
    pub fn occupy(&self, protocol: u8, v4: (Ipv4Addr, u16)) {
        self.unbound.occupy(protocol, v4);
    }

    /// Reverses one call of [`Lending::occupy`].
    pub fn vacate(&self, protocol: u8, v4: (Ipv4Addr, u16)) {
        self.unbound.vacate(protocol, v4);
    }

    /// Has the programs drop packets from outside to ports that are not occupied, until [`Lending::hide_unbound`]. Does
    /// nothing if they do so already. `occupied` has each port, with its protocol, as often as it is bound or lent.
    pub fn tell_unbound(&self, occupied: impl Iterator<Item = (u8, (Ipv4Addr, u16))>) {
        self.unbound.tell(occupied);
    }

    /// Has them drop nothing any more.
    pub fn hide_unbound(&self) {
        self.unbound.be_silent();
    }

    /// Ends all leases, discards pending reports and hides all unbound ports, to remove what another run has left. The
    /// sessions that programs have opened are in the maps.
    pub(super) fn reset(&self) {
        self.leases.reset();
        self.unbound.be_silent();
        drop(self.drain());
    }

    fn at(&self, place: usize) -> &Lease {
        self.leases.at(place)
    }
}

/// The set of a node among so many, which are a power of two, selected by a secret key.
fn set(key: u64, node: Ipv6Addr, sets: usize) -> usize {
    let bits = node.to_bits();
    mix(mix(key, (bits >> 64) as u64), bits as u64) as usize % sets
}

/// An address as a lease stores it, in memory byte order.
pub fn halves(node: Ipv6Addr) -> [u64; 2] {
    let octets = node.octets();
    [0, 8].map(|at| {
        let half = octets[at..].first_chunk().copied().unwrap_or_default();
        u64::from_ne_bytes(half)
    })
}

impl fmt::Debug for Lending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lending").finish_non_exhaustive()
    }
}

impl Opening {
    /// `struct diolkos_opening`.
    fn read(bytes: &[u8]) -> Option<Opening> {
        let address = |at: usize| bytes.get(at..)?.first_chunk().copied().map(Ipv4Addr::from);
        let port = |at: usize| {
            bytes
                .get(at..)?
                .first_chunk()
                .copied()
                .map(u16::from_be_bytes)
        };
        let node: [u8; 16] = bytes.first_chunk().copied()?;
        let term = u32::from_ne_bytes(bytes.get(32..)?.first_chunk().copied()?);
        Some(Opening {
            report: match *bytes.get(31)? {
                0 => Report::Opened,
                1 => Report::Bound,
                2 => Report::Unwanted,
                3 => Report::Alone,
                _ => Report::Moved {
                    is_from_peer: term & FROM_PEER != 0,
                    flags: term as u8,
                },
            },
            node: (node.into(), port(24)?),
            v4: (address(20)?, port(28)?),
            peer: (address(16)?, port(26)?),
            prefix: *bytes.get(30)?,
            protocol: *bytes.get(36)?,
            term,
        })
    }
}
