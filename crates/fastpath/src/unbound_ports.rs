// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The ports of the pool that no node has, in memory shared with the programs (`bpf/unbound.h`): packets from outside to
//! these are dropped there.
//!
//! Each port has a place, which it may share with others, and each place a bit. The bit is set while none of its ports is
//! occupied, so a port that is occupied never looks unbound, and one that is not mostly does. Until
//! [`UnboundPorts::tell`] no bit is set.

use std::collections::hash_map::{Entry, HashMap};
use std::fmt;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{fence, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use diolkos_sys::mapped::Mapped;

use super::mix::mix;

/// Places for each binding that there is room for. When the table of bindings is full, four of five unbound ports have a
/// place without an occupied port.
const PLACES_OF_BINDING: u32 = 4;
/// Bounds of the number of places: a word, and 32 MiB of bits.
const PLACES: [u32; 2] = [64, 1 << 28];

/// Bits of a word.
const WORD: usize = u64::BITS as usize;

/// Number of places for a maximum number of bindings: a power of two.
pub(super) fn places_of_ports(max_bindings: u32) -> u32 {
    let wanted = max_bindings.saturating_mul(PLACES_OF_BINDING);
    wanted.clamp(PLACES[0], PLACES[1]).next_power_of_two()
}

/// Number of words in the map.
pub(super) fn words_of_ports(max_bindings: u32) -> u32 {
    places_of_ports(max_bindings) / u64::BITS
}

/// The places. Dropping it unmaps the memory.
pub(super) struct UnboundPorts {
    words: Mapped<AtomicU64>,
    places: u32,
    key: u64,
    /// The counts from [`UnboundPorts::tell`] to [`UnboundPorts::be_silent`]; None otherwise.
    occupied: Mutex<Option<Occupied>>,
}

/// Tables of occupied places. A table moves all its entries when it grows, so the tables are kept small.
const SHARDS: usize = 64;

/// The number of occupied ports of each place that has any. Places are everywhere, so an array of all would soon have all
/// its memory.
struct Occupied([HashMap<u32, u32>; SHARDS]);

impl Occupied {
    fn shard(&mut self, place: usize) -> &mut HashMap<u32, u32> {
        &mut self.0[place % SHARDS]
    }

    fn add(&mut self, place: usize) {
        *self.shard(place).entry(place as u32).or_default() += 1;
    }

    /// Returns true if the place has no more occupied port.
    fn take(&mut self, place: usize) -> bool {
        let Entry::Occupied(mut ports) = self.shard(place).entry(place as u32) else {
            debug_assert!(false, "place {place} is vacated and was not occupied");
            return false;
        };
        *ports.get_mut() -= 1;
        if *ports.get() > 0 {
            return false;
        }
        ports.remove();
        true
    }
}

impl UnboundPorts {
    /// Maps the array of `words` words, a power of two, of programs that have this key of leases.
    pub fn of(map: BorrowedFd<'_>, words: u32, key: u64) -> io::Result<UnboundPorts> {
        Ok(UnboundPorts {
            words: Mapped::of(map, words as usize)?,
            places: words * u64::BITS,
            key,
            occupied: Mutex::new(None),
        })
    }

    /// Says of all ports but these that they are unbound, and follows changes from now on. Does nothing if it has said so
    /// already. `occupied` has a port as often as it is occupied.
    pub fn tell(&self, occupied: impl Iterator<Item = (u8, (Ipv4Addr, u16))>) {
        let mut told = self.lock();
        if told.is_some() {
            return;
        }
        let mut ports = Occupied(std::array::from_fn(|_| HashMap::new()));
        let mut bits = vec![!0u64; self.places as usize / WORD];
        for (protocol, v4) in occupied {
            let place = self.place_of(protocol, v4);
            ports.add(place);
            bits[place / WORD] &= !(1 << (place % WORD));
        }
        self.each_word(|at| bits[at]);
        *told = Some(ports);
    }

    /// Says of no port any more that it is unbound.
    pub fn be_silent(&self) {
        let mut told = self.lock();
        *told = None;
        self.each_word(|_| 0);
    }

    /// A port is bound, or lent. No program that begins after this call takes it for unbound.
    pub fn occupy(&self, protocol: u8, v4: (Ipv4Addr, u16)) {
        let mut told = self.lock();
        let Some(ports) = &mut *told else { return };
        let place = self.place_of(protocol, v4);
        ports.add(place);
        let (word, bit) = self.bit(place);
        word.fetch_and(!bit, Ordering::SeqCst);
    }

    /// Reverses one call of [`UnboundPorts::occupy`].
    pub fn vacate(&self, protocol: u8, v4: (Ipv4Addr, u16)) {
        let mut told = self.lock();
        let Some(ports) = &mut *told else { return };
        let place = self.place_of(protocol, v4);
        if ports.take(place) {
            let (word, bit) = self.bit(place);
            word.fetch_or(bit, Ordering::SeqCst);
        }
    }

    /// `is_unbound`: where the program looks.
    fn place_of(&self, protocol: u8, (addr, port): (Ipv4Addr, u16)) -> usize {
        let addr_be = u32::from_ne_bytes(addr.octets());
        let rest = u32::from(port.to_be()) << 16 | u32::from(protocol);
        let hash = mix(mix(self.key, addr_be.into()), rest.into());
        (hash as u32 & (self.places - 1)) as usize
    }

    fn bit(&self, place: usize) -> (&AtomicU64, u64) {
        (self.words.at(place / WORD), 1 << (place % WORD))
    }

    /// Writes each word, by its number.
    fn each_word(&self, word: impl Fn(usize) -> u64) {
        for at in 0..self.places as usize / WORD {
            self.words.at(at).store(word(at), Ordering::Relaxed);
        }
        fence(Ordering::SeqCst);
    }

    fn lock(&self) -> MutexGuard<'_, Option<Occupied>> {
        self.occupied.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for UnboundPorts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnboundPorts").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_powers_of_two_of_whole_words() {
        for (bindings, places) in [
            (0, 64),
            (1, 64),
            (17, 128),
            (65_536, 1 << 18),
            (4_000_000, 1 << 24),
            (u32::MAX, 1 << 28),
        ] {
            assert_eq!(places_of_ports(bindings), places, "{bindings}");
            assert_eq!(words_of_ports(bindings) * 64, places);
        }
    }
}
