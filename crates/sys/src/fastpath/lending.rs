// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the controller of a NAT64 lets the programs open by themselves, and what they tell it (`bpf/open.h`): leases, in
//! an array of which both sides have the memory, and openings, in a ring buffer.
//!
//! The layout is that of `struct diolkos_lease` and `struct diolkos_opening`; the declarations below say where.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use libbpf_rs::{MapHandle, RingBuffer, RingBufferBuilder};

/// How many leases there can be: a node has the one place that its address says.
pub const LEASES: usize = 4096;
/// Ports of each parity that one lease can have.
pub const LEASE_PORTS: u32 = 128;

/// `struct diolkos_lease_ports`.
#[repr(C)]
struct Queue {
    head: AtomicU32,
    tail: AtomicU32,
    ports: [AtomicU16; LEASE_PORTS as usize],
}

/// `struct diolkos_lease`.
#[repr(C)]
struct Lease {
    node: [AtomicU64; 2],
    v4: AtomicU32,
    sessions: AtomicU32,
    parity: [Queue; 2],
}

const _: () = assert!(size_of::<Lease>() == 552 && size_of::<Opening>() >= 32);

/// What a program has done (`enum diolkos_told`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Told {
    /// It has opened a session of a node's port that was bound.
    Opened,
    /// It has opened a session, and bound the port to a leased one.
    Bound,
    /// It has taken a leased port, and has no use for it.
    Unwanted,
}

/// A UDP session that a program has opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Opening {
    /// What of it is new.
    pub told: Told,
    /// The node on the IPv6 side.
    pub node: (Ipv6Addr, u16),
    /// How the IPv4 side sees it.
    pub v4: (Ipv4Addr, u16),
    /// Who it talks to.
    pub peer: (Ipv4Addr, u16),
    /// By which of the prefixes it knows the peer.
    pub prefix: u8,
}

/// Leases and openings.
pub struct Lending {
    leases: NonNull<Lease>,
    /// Which node has which place.
    key: u64,
    ring_map: MapHandle,
    ring: RingBuffer<'static>,
    heard: Arc<Mutex<Vec<Opening>>>,
}

// SAFETY: the memory stays mapped as long as this lives, and all of it is used by atomic operations.
unsafe impl Send for Lending {}

/// Bytes of all leases, in whole pages as the kernel maps them.
const MAPPED: usize = (LEASES * size_of::<Lease>()).next_multiple_of(4096);

impl Lending {
    pub(super) fn new(lease_map: &MapHandle, ring_map: MapHandle, key: u64) -> io::Result<Lending> {
        // SAFETY: nothing is at the address that the kernel chooses; the map has this size and is open.
        let memory = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                MAPPED,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                lease_map.as_fd().as_raw_fd(),
                0,
            )
        };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let leases = NonNull::new(memory.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
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
        let ring = listen().map_err(io::Error::other);
        if ring.is_err() {
            // SAFETY: mapped above, and nobody has it.
            unsafe { libc::munmap(memory, MAPPED) };
        }
        Ok(Lending {
            leases,
            key,
            ring: ring?,
            ring_map,
            heard,
        })
    }

    /// Can be read when a program has opened something that was not drained yet.
    pub fn ready(&self) -> io::Result<OwnedFd> {
        self.ring_map.as_fd().try_clone_to_owned()
    }

    /// What programs have opened since the last call, in the order of their telling.
    pub fn drain(&self) -> Vec<Opening> {
        // An error is that of our own callback, which has none.
        let _ = self.ring.consume();
        std::mem::take(&mut *self.heard.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The place of a node, below [`LEASES`] (`lease_of` in `bpf/open.h`).
    pub fn place(&self, node: Ipv6Addr) -> usize {
        let mix = |hash: u64, word: u64| {
            let hash = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            hash ^ hash >> 32
        };
        let bits = node.to_bits();
        mix(mix(self.key, (bits >> 64) as u64), bits as u64) as usize % LEASES
    }

    /// Gives an empty place to a node, whose new bindings will be of this address.
    pub fn assign(&self, place: usize, node: Ipv6Addr, address: Ipv4Addr) {
        let lease = self.at(place);
        lease
            .v4
            .store(u32::from_ne_bytes(address.octets()), Ordering::Release);
        let octets = node.octets();
        for (word, octets) in lease.node.iter().zip(octets.chunks_exact(8)) {
            let octets = octets.first_chunk().copied().unwrap_or_default();
            word.store(u64::from_ne_bytes(octets), Ordering::Release);
        }
    }

    /// Sessions that the node of a place may still open.
    pub fn sessions(&self, place: usize) -> u32 {
        self.at(place).sessions.load(Ordering::Acquire)
    }

    /// Lets it open so many more.
    pub fn add_sessions(&self, place: usize, more: u32) {
        self.at(place).sessions.fetch_add(more, Ordering::AcqRel);
    }

    /// Ports of the parity of this one that a place still has, at most [`LEASE_PORTS`].
    pub fn ports(&self, place: usize, like: u16) -> u32 {
        let queue = &self.at(place).parity[usize::from(like % 2)];
        let tail = queue.tail.load(Ordering::Acquire);
        tail.wrapping_sub(queue.head.load(Ordering::Acquire))
    }

    /// Lends a port to a place, which must have fewer than [`LEASE_PORTS`] of its parity.
    pub fn add_port(&self, place: usize, port: u16) {
        let queue = &self.at(place).parity[usize::from(port % 2)];
        let tail = queue.tail.load(Ordering::Acquire);
        queue.ports[(tail % LEASE_PORTS) as usize].store(port, Ordering::Release);
        queue.tail.store(tail.wrapping_add(1), Ordering::Release);
    }

    /// Ends a lease. Returns the ports that no program has taken; of those taken, they will tell.
    pub fn end(&self, place: usize) -> Vec<u16> {
        let lease = self.at(place);
        lease.sessions.store(0, Ordering::Release);
        lease
            .node
            .iter()
            .for_each(|word| word.store(0, Ordering::Release));
        let mut left = Vec::new();
        for queue in &lease.parity {
            let tail = queue.tail.load(Ordering::Acquire);
            let taken = queue
                .head
                .fetch_update(Ordering::AcqRel, Ordering::Acquire, |_| Some(tail));
            let head = taken.unwrap_or(tail);
            left.extend((0..tail.wrapping_sub(head)).map(|n| {
                let at = head.wrapping_add(n) % LEASE_PORTS;
                queue.ports[at as usize].load(Ordering::Acquire)
            }));
        }
        left
    }

    /// Ends all leases, and forgets what programs have told: for what another run has lent. What they have opened stands
    /// in the maps.
    pub(super) fn reset(&self) {
        (0..LEASES).for_each(|place| drop(self.end(place)));
        drop(self.drain());
    }

    fn at(&self, place: usize) -> &Lease {
        assert!(place < LEASES);
        // SAFETY: the memory holds as many leases, is mapped as long as `self` lives, and begins at a page; zeros, and
        // whatever else stands there, are valid values of every field.
        unsafe { self.leases.add(place).as_ref() }
    }
}

impl Drop for Lending {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this length; no reference to it outlives `self`.
        unsafe { libc::munmap(self.leases.as_ptr().cast(), MAPPED) };
    }
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
        Some(Opening {
            told: match *bytes.get(31)? {
                0 => Told::Opened,
                1 => Told::Bound,
                _ => Told::Unwanted,
            },
            node: (node.into(), port(24)?),
            v4: (address(20)?, port(28)?),
            peer: (address(16)?, port(26)?),
            prefix: *bytes.get(30)?,
        })
    }
}
