// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tracks fragmented packets, with a total bound and a bound for each source.
//!
//! Fragments of a packet mostly arrive together, so old entries have the least value. A source at its bound loses its
//! own oldest packet. When the store is full, a source with more than its part of the store loses one, otherwise the
//! oldest packet of all is evicted. Spoofed sources thus evict each other, and a packet whose fragments arrive together
//! is complete before it is evicted.

use super::whole::{self, HeldPacket, Sum};
use crate::config::Limits;
use crate::key::Keys;
use crate::session::clock::Millis;
use diolkos_xlat::packet::Packet;
use diolkos_xlat::translate::payload::Numbers;
use diolkos_xlat::verdict::Reason;
use diolkos_xlat::wire::{Ipv4, Ipv6};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Average size in bytes that a held fragment may have.
const BYTES: usize = 2048;

/// A source with more than this fraction (1/n) of a full store is evicted first.
const CROWD: usize = 64;

/// The common key of the fragments of a packet (RFC 791 section 3.2, RFC 8200 section 4.5).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Key {
    pub src: u128,
    dst: u128,
    id: u32,
    protocol: u8,
    pub is_v6: bool,
}

impl Key {
    /// The key of an IPv6 fragment.
    pub fn v6(ip: &Ipv6, id: u32, next_header: u8) -> Key {
        Key {
            src: ip.src.to_bits(),
            dst: ip.dst.to_bits(),
            id,
            protocol: next_header,
            is_v6: true,
        }
    }

    /// The key of an IPv4 fragment.
    pub fn v4(ip: &Ipv4) -> Key {
        Key {
            src: ip.src.to_bits().into(),
            dst: ip.dst.to_bits().into(),
            id: ip.id.into(),
            protocol: ip.protocol,
            is_v6: false,
        }
    }
}

/// The result for a first fragment.
#[derive(PartialEq, Eq, Debug)]
pub struct Released {
    /// The fragments that waited for it, in order of arrival.
    pub held: Vec<HeldPacket>,
    /// Number of fragments of other packets that were evicted.
    pub lost: usize,
}

/// The result for a fragment of a packet that is reassembled. `lost`: number of fragments evicted for it.
#[derive(Debug)]
pub enum Gathered {
    /// The fragment waits.
    Waits { lost: usize },
    /// It was the last missing one: the packet, and its fragments.
    Whole {
        packet: HeldPacket,
        pieces: Vec<HeldPacket>,
        lost: usize,
    },
    /// It contradicts the others, which are refused with it.
    Spoilt {
        reason: Reason,
        refused: usize,
        lost: usize,
    },
}

/// A tracked packet.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Followed {
    /// Sequence number; timeouts expire in this order.
    number: u64,
    source: u128,
    deadline: Millis,
    numbers: Option<Numbers>,
    held: Vec<HeldPacket>,
    fate: Fate,
}

/// How the fragments of a packet are translated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    /// One by one, with the ports of the first.
    Apart,
    /// As one packet, once all of them have arrived.
    Together,
    /// Not at all, including those still to arrive (RFC 5722 section 4).
    Spoilt,
}

/// The counts of a source.
#[derive(Default, Debug)]
struct Has {
    packets: usize,
    held: usize,
}

/// The tracked packets of one family.
#[derive(Debug)]
pub struct Store {
    packets: HashMap<Key, Followed, Keys>,
    by_age: BTreeMap<u64, Key>,
    by_source: BTreeMap<(u128, u64), Key>,
    /// Packets with held fragments, by age.
    waiting: BTreeMap<u64, Key>,
    sources: HashMap<u128, Has, Keys>,
    /// Sources by number of packets.
    by_size: BTreeSet<(usize, u128)>,
    next: u64,
    held: usize,
    held_bytes: usize,
    max_packets: usize,
    max_packets_of_source: usize,
    max_held: usize,
    max_held_of_source: usize,
}

impl Store {
    pub fn new(keys: Keys) -> Store {
        Store {
            packets: HashMap::with_hasher(keys),
            by_age: BTreeMap::new(),
            by_source: BTreeMap::new(),
            waiting: BTreeMap::new(),
            sources: HashMap::with_hasher(keys),
            by_size: BTreeSet::new(),
            next: 0,
            held: 0,
            held_bytes: 0,
            max_packets: 0,
            max_packets_of_source: 0,
            max_held: 0,
            max_held_of_source: 0,
        }
    }

    pub fn set_limits(&mut self, limits: &Limits) {
        self.max_packets = limits.fragmented_packets as usize / 2;
        self.max_packets_of_source = limits.fragmented_packets_per_source as usize;
        self.max_held = limits.held_fragments as usize / 2;
        self.max_held_of_source = limits.held_fragments_per_source as usize;
    }

    pub fn forget(&mut self) {
        self.packets.clear();
        self.by_age.clear();
        self.by_source.clear();
        self.waiting.clear();
        self.sources.clear();
        self.by_size.clear();
        (self.held, self.held_bytes) = (0, 0);
    }

    pub fn held(&self) -> usize {
        self.held
    }

    pub fn len(&self) -> usize {
        self.packets.len()
    }

    pub fn numbers(&self, key: &Key) -> Option<Numbers> {
        self.packets.get(key)?.numbers
    }

    /// Remembers the ports of a packet.
    pub fn first(
        &mut self,
        key: Key,
        source: u128,
        numbers: Numbers,
        deadline: Millis,
    ) -> Released {
        if let Some(packet) = self.packets.get_mut(&key) {
            packet.numbers = Some(numbers);
            let held = std::mem::take(&mut packet.held);
            self.waiting.remove(&packet.number);
            self.note_released(source, &held);
            return Released { held, lost: 0 };
        }
        let lost = self.make_room(source);
        self.follow(key, source, Some(numbers), deadline);
        let held = Vec::new();
        Released { held, lost }
    }

    /// Returns true if the fragments of the packet are to be reassembled.
    pub fn gathers(&self, key: &Key) -> bool {
        let packet = self.packets.get(key);
        packet.is_some_and(|packet| packet.fate != Fate::Apart)
    }

    /// Holds a fragment until its packet is complete, and reassembles the packet.
    pub fn gather(
        &mut self,
        key: Key,
        source: u128,
        fragment: &Packet<'_>,
        deadline: Millis,
    ) -> Result<Gathered, Reason> {
        if self
            .packets
            .get(&key)
            .is_some_and(|p| p.fate == Fate::Spoilt)
        {
            return Err(Reason::FragmentOverlap);
        }
        let lost = self.hold(key, source, fragment, deadline)?;
        let Some(packet) = self.packets.get_mut(&key) else {
            return Err(Reason::FragmentLimit);
        };
        packet.fate = Fate::Together;
        match whole::sum(&packet.held) {
            Sum::Incomplete => Ok(Gathered::Waits { lost }),
            Sum::Whole(packet) => {
                let pieces = self.remove(&key);
                Ok(Gathered::Whole {
                    packet,
                    pieces,
                    lost,
                })
            }
            Sum::Spoilt(reason) => {
                let refused = self.spoil(&key) - 1;
                Ok(Gathered::Spoilt {
                    reason,
                    refused,
                    lost,
                })
            }
        }
    }

    /// Drops the fragments of a packet and refuses those still to arrive. Returns the number of dropped fragments.
    fn spoil(&mut self, key: &Key) -> usize {
        let Some(packet) = self.packets.get_mut(key) else {
            return 0;
        };
        packet.fate = Fate::Spoilt;
        let (source, number) = (packet.source, packet.number);
        let held = std::mem::take(&mut packet.held);
        self.waiting.remove(&number);
        self.note_released(source, &held);
        held.len()
    }

    /// Holds a fragment. Returns the number of evicted others.
    pub fn hold(
        &mut self,
        key: Key,
        source: u128,
        fragment: &Packet<'_>,
        deadline: Millis,
    ) -> Result<usize, Reason> {
        let (bytes, label) = (fragment.bytes(), fragment.offload.label);
        let has = self.sources.get(&source).map_or(0, |has| has.held);
        if has >= self.max_held_of_source {
            return Err(Reason::FragmentSourceLimit);
        }
        if self.max_held == 0 || bytes.len() > self.max_held * BYTES {
            return Err(Reason::FragmentLimit);
        }
        let mut lost = 0;
        while self.held >= self.max_held || self.held_bytes + bytes.len() > self.max_held * BYTES {
            let Some((_, &oldest)) = self.waiting.first_key_value() else {
                break;
            };
            lost += self.remove(&oldest).len();
        }
        if !self.packets.contains_key(&key) {
            lost += self.make_room(source);
            self.follow(key, source, None, deadline);
        }
        if let Some(packet) = self.packets.get_mut(&key) {
            packet.held.push(HeldPacket {
                bytes: bytes.into(),
                label,
            });
            self.waiting.insert(packet.number, key);
            self.held += 1;
            self.held_bytes += bytes.len();
            self.sources.entry(source).or_default().held += 1;
        }
        Ok(lost)
    }

    /// Forgets a packet. Returns its held fragments.
    pub fn remove(&mut self, key: &Key) -> Vec<HeldPacket> {
        let Some(packet) = self.packets.remove(key) else {
            return Vec::new();
        };
        self.by_age.remove(&packet.number);
        self.by_source.remove(&(packet.source, packet.number));
        self.waiting.remove(&packet.number);
        self.note_released(packet.source, &packet.held);
        self.note_size(packet.source, |packets| packets - 1);
        packet.held
    }

    /// The earliest timeout of a packet. None if no packet is tracked.
    pub fn next(&self) -> Option<Millis> {
        let (_, key) = self.by_age.first_key_value()?;
        self.packets.get(key).map(|packet| packet.deadline)
    }

    /// Forgets packets whose timeout has expired. Returns the number of their held fragments.
    pub fn expire(&mut self, now: Millis) -> usize {
        let mut dropped = 0;
        while let Some((_, &key)) = self.by_age.first_key_value() {
            if self.packets.get(&key).is_some_and(|p| p.deadline > now) {
                break;
            }
            dropped += self.remove(&key).len();
        }
        dropped
    }

    /// Makes room for another packet of a source. Returns the number of evicted fragments.
    fn make_room(&mut self, source: u128) -> usize {
        let has = self.sources.get(&source).map_or(0, |has| has.packets);
        let from = if has >= self.max_packets_of_source {
            source
        } else if self.packets.len() < self.max_packets {
            return 0;
        } else {
            let (most, largest) = self.by_size.last().copied().unwrap_or_default();
            if most <= self.max_packets / CROWD {
                let oldest = self.by_age.first_key_value().map(|(_, &key)| key);
                return oldest.map_or(0, |key| self.remove(&key).len());
            }
            largest
        };
        let oldest = self.by_source.range((from, 0)..=(from, u64::MAX)).next();
        let oldest = oldest.map(|(_, &key)| key);
        oldest.map_or(0, |key| self.remove(&key).len())
    }

    fn follow(&mut self, key: Key, source: u128, numbers: Option<Numbers>, deadline: Millis) {
        let number = self.next;
        self.next += 1;
        let followed = Followed {
            number,
            source,
            deadline,
            numbers,
            held: Vec::new(),
            fate: Fate::Apart,
        };
        self.packets.insert(key, followed);
        self.by_age.insert(number, key);
        self.by_source.insert((source, number), key);
        self.note_size(source, |packets| packets + 1);
    }

    fn note_size(&mut self, source: u128, change: impl FnOnce(usize) -> usize) {
        let has = self.sources.entry(source).or_default();
        self.by_size.remove(&(has.packets, source));
        has.packets = change(has.packets);
        if has.packets > 0 {
            self.by_size.insert((has.packets, source));
        } else {
            self.sources.remove(&source);
        }
    }

    fn note_released(&mut self, source: u128, held: &[HeldPacket]) {
        self.held -= held.len();
        self.held_bytes -= held.iter().map(|held| held.bytes.len()).sum::<usize>();
        if let Some(has) = self.sources.get_mut(&source) {
            has.held -= held.len();
        }
    }
}
