// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The gateway that opens the bindings of a host (its home), and exceptions for single bindings. The session programs
//! and the forwarding program share these maps (`bpf/home.h`).

use std::io;
use std::net::Ipv6Addr;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};

use libbpf_rs::{ErrorKind, MapCore, MapFlags, MapHandle, OpenMapMut};

use super::Owner;
use diolkos_sys::mapped::Mapped;

/// The bit of `DIOLKOS_PORTLESS_HERE` in the value of a bucket.
const PORTLESS_HERE_AT: u32 = 32;

/// Number of subscriber buckets (`DIOLKOS_BUCKETS`).
pub const BUCKETS: usize = 1024;
/// Maximum number of interfaces to other gateways (`DIOLKOS_LINKS`).
pub const LINKS: usize = 16;
/// Maximum number of translation prefixes (`DIOLKOS_CLUSTER_PREF64S`).
const PREF64: usize = 16;

/// A host's port, or the identifier of an ICMP query.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct HostPort {
    /// The IPv4 protocol number: 1 (ICMP), 6 (TCP) or 17 (UDP).
    pub protocol: u8,
    /// The address of the host.
    pub addr: Ipv6Addr,
    /// Its port.
    pub port: u16,
}

/// The settings common to all gateways, and the interfaces to other gateways.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cluster {
    /// The key of the hash that maps a subscriber to its bucket.
    pub key: [u64; 2],
    /// Prefix length of a subscriber.
    pub source_prefix_len: u8,
    /// Translation prefixes with their lengths: at most 16.
    pub pref64: Vec<(Ipv6Addr, u8)>,
    /// Indices of the interfaces on which only other gateways send to this one: at most [`LINKS`]. Packets from them
    /// are never forwarded. In a VRF the kernel reports the index of the VRF instead.
    pub links: Vec<u32>,
}

/// The maps. Every method takes effect with the next packet.
#[derive(Debug)]
pub struct Homes {
    pub(super) cluster: MapHandle,
    pub(super) buckets: MapHandle,
    pub(super) away: MapHandle,
    /// This gateway's bindings of TCP and UDP, whose packets stay here.
    pub(super) bound: MapHandle,
    homes: Memory,
}

struct Memory(Mapped<AtomicU64>);

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Memory").finish_non_exhaustive()
    }
}

impl Homes {
    /// Creates the handle for programs with these maps.
    pub(super) fn of(
        cluster: MapHandle,
        buckets: MapHandle,
        away: MapHandle,
        bound: MapHandle,
    ) -> io::Result<Homes> {
        let homes = Mapped::of(buckets.as_fd(), BUCKETS)?;
        Ok(Homes {
            cluster,
            buckets,
            away,
            bound,
            homes: Memory(homes),
        })
    }

    /// Makes an object that is not loaded yet use these maps.
    pub(super) fn share(
        &self,
        cluster: &mut OpenMapMut<'_>,
        buckets: &mut OpenMapMut<'_>,
        away: &mut OpenMapMut<'_>,
    ) -> libbpf_rs::Result<()> {
        cluster.reuse_fd(self.cluster.as_fd())?;
        buckets.reuse_fd(self.buckets.as_fd())?;
        away.reuse_fd(self.away.as_fd())
    }

    /// Sets the cluster: programs then open bindings only for hosts with their home here, and forward other packets.
    /// Without a cluster they open all bindings and forward nothing. Fails (`InvalidInput`) if there are more links or
    /// prefixes than fit.
    pub fn set_cluster(&self, cluster: Option<&Cluster>) -> io::Result<()> {
        let value = cluster.map_or_else(|| Some(vec![0; SIZE]), Cluster::value);
        let value = value.ok_or(io::ErrorKind::InvalidInput)?;
        self.cluster
            .update(&0u32.to_ne_bytes(), &value, MapFlags::ANY)
            .map_err(io::Error::other)
    }

    /// Sets the home of a bucket, which must be below [`BUCKETS`]. Initially all buckets have this gateway. With
    /// `keeps_portless`, packets that show no port go to the slow path instead: fragments of bindings of this gateway,
    /// though it is not the home.
    pub fn set_home(&self, bucket: usize, home: Owner, keeps_portless: bool) {
        let flag = u64::from(keeps_portless) << PORTLESS_HERE_AT;
        let value = u64::from(home.byte()) | flag;
        self.homes.0.at(bucket).store(value, Ordering::Relaxed);
    }

    /// Records that another gateway, which is not the host's home, has a binding of this port. If the map is full, the
    /// least recently used entry is evicted.
    pub fn set_away(&self, port: HostPort, owner: Owner) -> io::Result<()> {
        self.away
            .update(
                &port.key(),
                &u32::from(owner.byte()).to_ne_bytes(),
                MapFlags::ANY,
            )
            .map_err(io::Error::other)
    }

    /// Removes the record of [`Homes::set_away`], if there is one.
    pub fn clear_away(&self, port: HostPort) -> io::Result<()> {
        match self.away.delete(&port.key()) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(io::Error::other(error)),
            _ => Ok(()),
        }
    }
}

/// Size in bytes of `struct diolkos_cluster`.
const SIZE: usize = 32 + 4 * LINKS + 24 * PREF64;

impl Cluster {
    /// The bytes of `struct diolkos_cluster`. None if not everything fits.
    fn value(&self) -> Option<Vec<u8>> {
        if self.links.len() > LINKS || self.pref64.len() > PREF64 {
            return None;
        }
        let mut value: Vec<u8> = self.key.into_iter().flat_map(u64::to_ne_bytes).collect();
        let numbers = [
            1,
            self.source_prefix_len.into(),
            self.pref64.len() as u32,
            self.links.len() as u32,
        ];
        let mut links = self.links.clone();
        links.resize(LINKS, 0);
        let words = numbers.into_iter().chain(links);
        value.extend(words.flat_map(u32::to_ne_bytes));
        for (network, len) in &self.pref64 {
            let bits = network.to_bits();
            value.extend(((bits >> 64) as u64).to_ne_bytes());
            value.extend((bits as u64).to_ne_bytes());
            value.extend(u32::from(*len).to_ne_bytes());
            value.extend([0; 4]);
        }
        value.resize(SIZE, 0);
        Some(value)
    }
}

impl HostPort {
    /// `struct diolkos_host_port`.
    fn key(self) -> [u8; 20] {
        let mut key = [0; 20];
        key[..16].copy_from_slice(&self.addr.octets());
        key[16..18].copy_from_slice(&self.port.to_be_bytes());
        key[18] = self.protocol;
        key
    }
}
