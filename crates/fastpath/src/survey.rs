// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lists all sessions in the maps, for each direction, with the stamps of the programs; and all bindings.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use libbpf_rs::{MapCore, MapFlags, MapHandle};

use super::known_sessions::last_use;
use super::{NodePort, Owner, Sent, Session, Sessions};
use diolkos_sys::bpf::{read, Position};

/// Entries per system call.
const BATCH: u32 = 4096;

/// A session; the time (CLOCK_MONOTONIC) at which the fast path last translated a packet of it in one direction, if it
/// did; and, for packets of peers, the flags that each side has sent.
pub type Seen = (Session, Option<Duration>, Sent);

/// A node's port, its IPv4 transport address, and the owner of the binding.
pub type Bound = (NodePort, (Ipv4Addr, u16), Owner);

impl Sessions {
    /// The sessions for packets of nodes, except UDP. Returned entries may be removed during the walk.
    pub fn outward(&self) -> impl Iterator<Item = io::Result<Seen>> + '_ {
        Entries::of(&self.outward, of_outward)
    }

    /// The sessions for packets of peers; these are all sessions.
    pub fn inward(&self) -> impl Iterator<Item = io::Result<Seen>> + '_ {
        Entries::of(&self.inward, of_inward)
    }

    /// The bindings of UDP and TCP.
    pub fn bound(&self) -> impl Iterator<Item = io::Result<Bound>> + '_ {
        Entries::of(&self.bound, of_bound)
    }

    /// Returns true if a session is in every map that should have it.
    pub fn has(&self, session: &Session) -> io::Result<bool> {
        let has = |map: &MapHandle, key: &[u8]| map.lookup(key, MapFlags::ANY).map(|v| v.is_some());
        let inward = has(&self.inward, &session.inward_key()).map_err(io::Error::other)?;
        if session.is_udp() {
            return Ok(inward);
        }
        Ok(inward && has(&self.outward, &session.outward_key()).map_err(io::Error::other)?)
    }
}

/// A walk through a hash map. The kernel returns whole buckets, so a batch may be smaller than requested.
struct Entries<'map, T> {
    map: &'map MapHandle,
    read: fn(&[u8], &[u8]) -> Option<T>,
    keys: Vec<u8>,
    values: Vec<u8>,
    /// The position at which the kernel continues. None at the beginning.
    next: Option<Position>,
    /// Number of entries in this batch, and number of entries returned from it.
    batch: (usize, usize),
    done: bool,
}

impl<'map, T> Entries<'map, T> {
    fn of(map: &'map MapHandle, read: fn(&[u8], &[u8]) -> Option<T>) -> Entries<'map, T> {
        let mut entries = Entries {
            map,
            read,
            keys: Vec::new(),
            values: Vec::new(),
            next: None,
            batch: (0, 0),
            done: false,
        };
        entries.make_room(BATCH as usize);
        entries
    }

    fn make_room(&mut self, entries: usize) {
        self.keys.resize(entries * self.map.key_size() as usize, 0);
        self.values
            .resize(entries * self.map.value_size() as usize, 0);
    }

    fn load(&mut self) -> io::Result<()> {
        loop {
            let room = self.keys.len() / self.map.key_size() as usize;
            let next = self.next.as_mut();
            let (count, next) = match read(self.map, next, &mut self.keys, &mut self.values) {
                // A bucket is larger than the buffer.
                Err(error) if error.raw_os_error() == Some(libc::ENOSPC) => {
                    self.make_room(room * 2);
                    continue;
                }
                Err(error) if error.raw_os_error() == Some(libc::EINTR) => continue,
                found => found?,
            };
            self.done = next.is_none();
            (self.next, self.batch) = (next, (count, 0));
            return Ok(());
        }
    }
}

impl<T> Iterator for Entries<'_, T> {
    type Item = io::Result<T>;

    fn next(&mut self) -> Option<io::Result<T>> {
        loop {
            let (there, given) = self.batch;
            if given < there {
                self.batch.1 += 1;
                let (key, value) = (self.map.key_size() as usize, self.map.value_size() as usize);
                let key = &self.keys[given * key..][..key];
                let value = &self.values[given * value..][..value];
                if let Some(entry) = (self.read)(key, value) {
                    return Some(Ok(entry));
                }
            } else if self.done {
                return None;
            } else if let Err(error) = self.load() {
                (self.done, self.batch) = (true, (0, 0));
                return Some(Err(error));
            }
        }
    }
}

/// `struct diolkos_session6_key` and `struct diolkos_session6`.
fn of_outward(key: &[u8], value: &[u8]) -> Option<Seen> {
    let session = Session {
        protocol: *key.get(24)?,
        node: (v6(key, 0)?, port(key, 20)?),
        v4: (v4(value, 8)?, port(value, 12)?),
        peer: (v4(key, 16)?, port(key, 22)?),
        prefix: *value.get(14)?,
        owner: Owner::of_byte(*value.get(15)?)?,
    };
    Some((session, stamp(value)?, Sent::default()))
}

/// `struct diolkos_session4_key` and `struct diolkos_session4`.
fn of_inward(key: &[u8], value: &[u8]) -> Option<Seen> {
    let session = Session {
        protocol: *key.get(12)?,
        node: (v6(value, 8)?, port(value, 24)?),
        v4: (v4(key, 0)?, port(key, 8)?),
        peer: (v4(key, 4)?, port(key, 10)?),
        prefix: *value.get(26)?,
        owner: Owner::of_byte((u32::from_ne_bytes(array(value, 28)?) >> 24) as u8)?,
    };
    Some((session, stamp(value)?, Sent(*value.get(27)?)))
}

/// `struct diolkos_bib_key` and `struct diolkos_bib_entry`.
fn of_bound(key: &[u8], value: &[u8]) -> Option<Bound> {
    let node = NodePort {
        protocol: *key.get(18)?,
        addr: v6(key, 0)?,
        port: port(key, 16)?,
    };
    let owner = Owner::of_byte(*value.get(6)?)?;
    Some((node, (v4(value, 0)?, port(value, 4)?), owner))
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

fn v6(bytes: &[u8], at: usize) -> Option<Ipv6Addr> {
    array::<16>(bytes, at).map(Ipv6Addr::from)
}

fn v4(bytes: &[u8], at: usize) -> Option<Ipv4Addr> {
    array::<4>(bytes, at).map(Ipv4Addr::from)
}

fn port(bytes: &[u8], at: usize) -> Option<u16> {
    array(bytes, at).map(u16::from_be_bytes)
}

fn stamp(value: &[u8]) -> Option<Option<Duration>> {
    Some(last_use(u64::from_ne_bytes(array(value, 0)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_what_is_put() {
        let session = Session {
            protocol: 6,
            node: ("2001:db8::5".parse().expect("an address"), 4711),
            v4: (Ipv4Addr::new(192, 0, 2, 1), 1024),
            peer: (Ipv4Addr::new(198, 51, 100, 2), 443),
            prefix: 3,
            owner: Owner::node(63).expect("there is one"),
        };
        let outward = of_outward(&session.outward_key(), &session.outward_to());
        assert_eq!(outward, Some((session, None, Sent::default())));
        let sent = Sent(Sent::SYN6 | Sent::SYN4);
        let mut to = session.inward_to(sent);
        to[..8].copy_from_slice(&7u64.to_ne_bytes());
        // It may have been used until the end of the first window of 2^27 ns.
        let inward = of_inward(&session.inward_key(), &to);
        assert_eq!(
            inward,
            Some((session, Some(Duration::from_nanos(1 << 27)), sent))
        );
    }
}
