// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the controller of a NAT64 lets the programs open by themselves, and what they tell it (`bpf/open.h`): leases, in
//! an array of which both sides have the memory, and openings, in a ring buffer.
//!
//! The layout is that of `struct diolkos_lease` and `struct diolkos_opening`; the declarations below say where.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use libbpf_rs::{MapHandle, RingBufferBuilder};

use super::leases::{Lease, Leases};
use super::openings::Openings;

pub use super::leases::{LEASES, LEASE_PORTS};

/// `DIOLKOS_FROM_PEER`.
const FROM_PEER: u32 = 0x100;

/// What a program has done (`enum diolkos_report`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Report {
    /// It has opened a session of a node's port that was bound.
    Opened,
    /// It has opened a session, and bound the port to a leased one.
    Bound,
    /// It has taken a leased port, and has no use for it.
    Unwanted,
    /// It has bound the port to a leased one; the session did not fit into the map, and is the controller's to open.
    Alone,
    /// It has translated a segment of a known session of TCP that may move its state.
    Moved {
        /// The peer has sent it, and not the node.
        is_from_peer: bool,
        /// Byte 13 of its header.
        flags: u8,
    },
}

/// A session that a program has opened, or of which it tells something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Opening {
    /// What of it is new.
    pub report: Report,
    /// IPv4's number: 6 (TCP) or 17 (UDP).
    pub protocol: u8,
    /// The node on the IPv6 side.
    pub node: (Ipv6Addr, u16),
    /// How the IPv4 side sees it.
    pub v4: (Ipv4Addr, u16),
    /// Who it talks to.
    pub peer: (Ipv4Addr, u16),
    /// By which of the prefixes it knows the peer.
    pub prefix: u8,
    /// The term of the lease by which it was opened. Of what has only moved there is none.
    pub term: u32,
}

/// Leases and openings.
pub struct Lending {
    leases: Leases,
    /// Which node has which place.
    key: u64,
    ring_map: MapHandle,
    ring: Mutex<Openings>,
    heard: Arc<Mutex<Vec<Opening>>>,
}

impl Lending {
    pub(super) fn new(lease_map: &MapHandle, ring_map: MapHandle, key: u64) -> io::Result<Lending> {
        let leases = Leases::of(lease_map.as_fd())?;
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
        })
    }

    /// Can be read when a program has opened something that was not drained yet.
    pub fn ready(&self) -> io::Result<OwnedFd> {
        self.ring_map.as_fd().try_clone_to_owned()
    }

    /// What programs have opened since the last call, in the order in which they began to. It waits for those that are
    /// opening something at this moment; see [`Lending::unheard`].
    pub fn drain(&self) -> Vec<Opening> {
        let mut ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        ring.drain();
        std::mem::take(&mut *self.heard.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// How often [`Lending::drain`] has not waited to the end: a CPU stood still in the middle of an opening.
    pub fn unheard(&self) -> u64 {
        self.ring
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .unheard()
    }

    /// The place of a node, below [`LEASES`] (`lease_of` in `bpf/open.h`).
    pub fn place(&self, node: Ipv6Addr) -> usize {
        place(self.key, node)
    }

    /// Gives an empty place to a node, whose new bindings will be of this address. Returns the term of its lease.
    pub fn assign(&self, place: usize, node: Ipv6Addr, address: Ipv4Addr) -> u32 {
        let v4 = u32::from_ne_bytes(address.octets());
        self.at(place).assign(halves(node), v4);
        self.at(place).term()
    }

    /// Sessions that the node of a place may still open.
    pub fn sessions(&self, place: usize) -> u32 {
        self.at(place).sessions()
    }

    /// Lets it open so many more.
    pub fn add_sessions(&self, place: usize, more: u32) {
        self.at(place).add_sessions(more);
    }

    /// Ports of a queue that a place still has, at most [`LEASE_PORTS`].
    pub fn ports(&self, place: usize, queue: usize) -> u32 {
        self.at(place).ports(queue)
    }

    /// Lends a port to a place, in whose queue there must be fewer than [`LEASE_PORTS`].
    pub fn add_port(&self, place: usize, queue: usize, port: u16) {
        self.at(place).add_port(queue, port);
    }

    /// Ends a lease. Returns the ports that no program has taken, with their queues; of those taken, they will tell.
    pub fn end(&self, place: usize) -> Vec<(usize, u16)> {
        self.at(place).end()
    }

    /// Ends all leases, and forgets what programs have report: for what another run has lent. What they have opened stands
    /// in the maps.
    pub(super) fn reset(&self) {
        (0..LEASES).for_each(|place| drop(self.end(place)));
        drop(self.drain());
    }

    fn at(&self, place: usize) -> &Lease {
        self.leases.at(place)
    }
}

/// The place of a node, by a secret key.
pub fn place(key: u64, node: Ipv6Addr) -> usize {
    let bits = node.to_bits();
    mix(mix(key, (bits >> 64) as u64), bits as u64) as usize % LEASES
}

/// An address as a lease has it, in the order of its bytes.
pub fn halves(node: Ipv6Addr) -> [u64; 2] {
    let octets = node.octets();
    [0, 8].map(|at| {
        let half = octets[at..].first_chunk().copied().unwrap_or_default();
        u64::from_ne_bytes(half)
    })
}

/// `mix` in `bpf/session.h`.
pub(super) fn mix(hash: u64, word: u64) -> u64 {
    let hash = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash ^ hash >> 32
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
