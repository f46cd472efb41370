// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fragments of packets that pass the tables (RFC 6146 section 3.4): only the first has ports, so they
//! are remembered for the others, and others that come before it are held. Nothing is reassembled.
//!
//! A flood of fragments finds bounds on packets followed, fragments and bytes held, and fragments held
//! of one source; each of them is a reason of its own.

use crate::config::nat64::Nat64Config;
use crate::session::key::Keys;
use crate::session::timer::{Clock, Millis};
use crate::verdict::Reason;
use crate::wire::{Ipv4, Ipv6};
use crate::xlat::payload::Numbers;
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

/// A fragment that waits.
pub type Held = Box<[u8]>;

/// On the average, a held fragment may have so many bytes.
const BYTES: usize = 2048;

/// What the fragments of one packet have in common (RFC 791 section 3.2, RFC 8200 section 4.5).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Key {
    src: u128,
    dst: u128,
    id: u32,
    protocol: u8,
    is_v6: bool,
}

impl Key {
    /// Of an IPv6 fragment.
    pub fn v6(ip: &Ipv6, id: u32, next_header: u8) -> Key {
        Key {
            src: ip.src.to_bits(),
            dst: ip.dst.to_bits(),
            id,
            protocol: next_header,
            is_v6: true,
        }
    }

    /// Of an IPv4 fragment.
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

/// One packet that comes in fragments.
#[derive(Debug)]
struct Followed {
    numbers: Option<Numbers>,
    held: Vec<Held>,
}

/// All of them.
#[derive(Debug)]
pub struct Fragments {
    packets: HashMap<Key, Followed, Keys>,
    /// In the order in which their time is over: all have the same.
    order: VecDeque<(Millis, Key)>,
    held_by_source: HashMap<(bool, u128), u32, Keys>,
    held: usize,
    held_bytes: usize,
    clock: Clock,
    timeout: Millis,
    max_packets: usize,
    max_held: usize,
    max_of_source: u32,
    source_mask: u128,
}

impl Fragments {
    /// Without fragments.
    pub fn new(config: &Nat64Config, key: [u64; 2]) -> Fragments {
        let mut fragments = Fragments {
            packets: HashMap::with_hasher(Keys(key)),
            order: VecDeque::new(),
            held_by_source: HashMap::with_hasher(Keys(key)),
            held: 0,
            held_bytes: 0,
            clock: Clock::new(),
            timeout: 0,
            max_packets: 0,
            max_held: 0,
            max_of_source: 0,
            source_mask: 0,
        };
        fragments.reconfigure(config);
        fragments
    }

    /// Follows another configuration.
    pub fn reconfigure(&mut self, config: &Nat64Config) {
        let limits = &config.limits;
        self.timeout = config.timeouts.fragments.as_millis() as Millis;
        self.max_packets = limits.fragmented_packets as usize;
        self.max_held = limits.held_fragments as usize;
        self.max_of_source = limits.held_fragments_per_source;
        let mask = u128::MAX << (128 - u32::from(limits.source_prefix_len));
        if mask != self.source_mask {
            // Whose they are would be counted two ways; they are few, and come again.
            self.forget();
            self.source_mask = mask;
        }
    }

    fn forget(&mut self) {
        self.packets.clear();
        self.order.clear();
        self.held_by_source.clear();
        (self.held, self.held_bytes) = (0, 0);
    }

    /// How many are held.
    pub fn held(&self) -> usize {
        self.held
    }

    /// The first fragment of a packet has come; returns those that waited for it, in the order of
    /// their coming. If there is no room to remember it, the others find nothing.
    pub fn first(&mut self, key: Key, numbers: Numbers, now: Duration) -> Vec<Held> {
        let now = self.clock.advance(now);
        if let Some(packet) = self.packets.get_mut(&key) {
            packet.numbers = Some(numbers);
            let held = std::mem::take(&mut packet.held);
            self.forget_held(key, &held);
            return held;
        }
        if self.packets.len() < self.max_packets {
            self.follow(key, Some(numbers), now);
        }
        Vec::new()
    }

    /// Another fragment has come: `bytes`, whole. Returns the ports that the first one had; if it has
    /// not come yet, None, and the fragment is held.
    pub fn later(
        &mut self,
        key: Key,
        bytes: &[u8],
        now: Duration,
    ) -> Result<Option<Numbers>, Reason> {
        let now = self.clock.advance(now);
        match self.packets.get(&key) {
            Some(Followed {
                numbers: Some(numbers),
                ..
            }) => return Ok(Some(*numbers)),
            None if self.packets.len() >= self.max_packets => return Err(Reason::FragmentLimit),
            _ => {}
        }
        if self.held >= self.max_held || self.held_bytes + bytes.len() > self.max_held * BYTES {
            return Err(Reason::FragmentLimit);
        }
        let source = self.source_of(&key);
        let of_source = self.held_by_source.entry(source).or_default();
        if *of_source >= self.max_of_source {
            if *of_source == 0 {
                self.held_by_source.remove(&source);
            }
            return Err(Reason::FragmentSourceLimit);
        }
        *of_source += 1;
        self.held += 1;
        self.held_bytes += bytes.len();
        if !self.packets.contains_key(&key) {
            self.follow(key, None, now);
        }
        if let Some(packet) = self.packets.get_mut(&key) {
            packet.held.push(bytes.into());
        }
        Ok(None)
    }

    /// Forgets packets whose time is over; returns how many fragments had waited in vain.
    pub fn expire(&mut self, now: Duration) -> usize {
        let now = self.clock.advance(now);
        let mut dropped = 0;
        while let Some(&(deadline, key)) = self.order.front() {
            if deadline > now {
                break;
            }
            self.order.pop_front();
            if let Some(packet) = self.packets.remove(&key) {
                self.forget_held(key, &packet.held);
                dropped += packet.held.len();
            }
        }
        dropped
    }

    fn follow(&mut self, key: Key, numbers: Option<Numbers>, now: Millis) {
        let held = Vec::new();
        self.packets.insert(key, Followed { numbers, held });
        self.order.push_back((now + self.timeout, key));
    }

    fn forget_held(&mut self, key: Key, held: &[Held]) {
        if held.is_empty() {
            return;
        }
        self.held -= held.len();
        self.held_bytes -= held.iter().map(|bytes| bytes.len()).sum::<usize>();
        let source = self.source_of(&key);
        if let Some(of_source) = self.held_by_source.get_mut(&source) {
            *of_source -= held.len() as u32;
            if *of_source == 0 {
                self.held_by_source.remove(&source);
            }
        }
    }

    fn source_of(&self, key: &Key) -> (bool, u128) {
        match key.is_v6 {
            true => (true, key.src & self.source_mask),
            false => (false, key.src),
        }
    }
}
