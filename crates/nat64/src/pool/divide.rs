// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Divides the pool into port blocks, each given to one source as a whole (RFC 6888 REQ-14, RFC 7422 section 2). A
//! block is the same ports of one address for every protocol.
//!
//! Each unowned block of an address has one bit. Each free port of a block is equally likely.

use super::block::Parity;
use super::Pool;
use crate::config::{Endpoint4, Mapping, Mappings, PoolId, Protocol};
use crate::key::Keys;
use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Blocks begin after the well-known ports.
const FIRST_USER_PORT: u32 = 1024;
/// Words of bits for the smallest blocks: 1024 blocks of 64 ports.
const WORDS: usize = 65536 / 64 / 64;

type Bits = [u64; WORDS];

/// The identity of a block.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct BlockId {
    /// Its address.
    pub addr: Ipv4Addr,
    /// Its first port.
    pub first: u16,
}

/// The number of port blocks.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct BlockCount {
    /// Those without an owner.
    pub free: u64,
    /// All of them.
    pub all: u64,
}

/// The port blocks of the pool.
#[derive(Debug)]
pub struct Division {
    /// Ports of a block that is not fixed.
    size: u16,
    /// The owners of the fixed blocks, which no other source gets.
    mappings: Option<Arc<Mappings>>,
    /// The blocks of an address, by its kind, fixed ports included.
    of_kind: Vec<Bits>,
    /// The index of the first block after the fixed ports, for each of the pools.
    least: Vec<usize>,
    /// The unowned blocks of each address; None if all are unowned.
    free: Vec<Option<Box<Bits>>>,
    /// One bit for each address with an unowned block.
    with_free: Vec<u64>,
    /// For each of the pools.
    counts: Vec<BlockCount>,
    /// Blocks with resting ports, which are not given to any source.
    resting: HashMap<BlockId, Resting, Keys>,
}

/// The resting ports of a block.
#[derive(Debug)]
struct Resting {
    ports: u32,
    /// True if the block has an owner or cannot be given to one.
    is_owned: bool,
}

impl Division {
    /// The block of a port. A port between the fixed blocks and the first other one is in no block.
    fn first_of(&self, v4: Endpoint4) -> Option<u16> {
        let first = v4.port & !(self.size - 1);
        match self.mapping_of(v4.addr) {
            None => Some(first),
            Some(mapping) => mapping
                .first_of(v4.port)
                .or_else(|| (u32::from(first) >= mapping.fixed_end()).then_some(first)),
        }
    }

    fn size_of(&self, place: BlockId) -> u16 {
        let fixed = self.mapping_of(place.addr);
        match fixed.filter(|mapping| mapping.first_of(place.first).is_some()) {
            Some(mapping) => mapping.figures().ports_per_source,
            None => self.size,
        }
    }

    /// The mapping of the pool of an address.
    fn mapping_of(&self, addr: Ipv4Addr) -> Option<&Mapping> {
        self.mappings.as_ref()?.of_address(addr)
    }

    /// The blocks of an address of this kind and pool.
    fn whole(&self, kind: usize, pool: usize) -> Bits {
        let mut bits = self.of_kind[kind];
        let least = self.least[pool];
        bits[..least / 64].fill(0);
        if let Some(word) = bits.get_mut(least / 64) {
            *word &= !0 << (least % 64);
        }
        bits
    }
}

impl Pool {
    /// Divides the pool into blocks of `size` ports, a power of two from 64 to 4096. With mappings, each source has a
    /// fixed block, and the other blocks of its pool follow the fixed ones, unless `size` is 0.
    pub fn divide(&mut self, size: u16, mappings: Option<Arc<Mappings>>) {
        let is_free = size > 0;
        let size = size.max(64);
        let fixed_end = |pool| {
            let mapping = mappings.as_ref().and_then(|all| all.of_pool(pool));
            mapping.map_or(0, Mapping::fixed_end)
        };
        let least = (0..self.parts.len() as PoolId)
            .map(|pool| fixed_end(pool).div_ceil(size.into()) as usize)
            .collect();
        let of_kind: Vec<Bits> = self
            .kinds
            .iter()
            .map(|kind| {
                let mut bits = [0; WORDS];
                for index in 0..65536 / u32::from(size) {
                    let (first, last) =
                        (index * u32::from(size), (index + 1) * u32::from(size) - 1);
                    let has = |ports: &RangeInclusive<u16>| {
                        u32::from(*ports.start()) <= last && u32::from(*ports.end()) >= first
                    };
                    let is_any = kind.ranges.iter().flatten().any(has);
                    if is_free && first >= FIRST_USER_PORT && is_any {
                        bits[index as usize / 64] |= 1 << (index % 64);
                    }
                }
                bits
            })
            .collect();
        let count = |bits: &Bits| {
            bits.iter()
                .map(|word| u64::from(word.count_ones()))
                .sum::<u64>()
        };
        let mut division = Division {
            size,
            mappings,
            of_kind,
            least,
            free: self.addresses.iter().map(|_| None).collect(),
            with_free: vec![0; self.addresses.len().div_ceil(64)],
            counts: vec![BlockCount::default(); self.parts.len()],
            resting: HashMap::with_hasher(Keys(self.key)),
        };
        for (pool, part) in self.parts.iter().enumerate() {
            for at in part.addresses.clone() {
                let its = count(&division.whole(self.addresses[at].kind as usize, pool));
                division.counts[pool].all += its;
                division.counts[pool].free += its;
                division.with_free[at / 64] |= u64::from(its > 0) << (at % 64);
            }
        }
        self.division = Some(division);
    }

    /// The number of blocks; 0 if ports are not divided.
    pub fn blocks(&self) -> BlockCount {
        let counts = self.division.iter().flat_map(|division| &division.counts);
        counts.fold(BlockCount::default(), |sum, of| BlockCount {
            free: sum.free + of.free,
            all: sum.all + of.all,
        })
    }

    /// The number of blocks in one of the pools.
    pub fn blocks_of(&self, pool: PoolId) -> BlockCount {
        let division = self.division.as_ref();
        division.map_or(BlockCount::default(), |of| of.counts[pool as usize])
    }

    /// The owners of the fixed blocks, if there are any.
    pub fn mappings(&self) -> Option<&Arc<Mappings>> {
        self.division.as_ref()?.mappings.as_ref()
    }

    /// Number of ports of a block.
    pub fn size_of(&self, place: BlockId) -> u16 {
        let division = self.division.as_ref();
        division.map_or(0, |division| division.size_of(place))
    }

    /// The block of a port, whether owned or not. None if the port is in no block.
    pub fn place_of(&self, v4: Endpoint4) -> Option<BlockId> {
        let first = self.division.as_ref()?.first_of(v4)?;
        Some(BlockId {
            addr: v4.addr,
            first,
        })
    }

    /// Takes an unowned block of this address; with `only` false, also of the next address of its pool that has one.
    pub fn take_block(
        &mut self,
        address: Ipv4Addr,
        only: bool,
        mut random: impl FnMut() -> u64,
    ) -> Option<BlockId> {
        let at = match only {
            true => self.position(address)? as usize,
            false => self.next_with_block(address)?,
        };
        let kind = self.addresses[at].kind as usize;
        let division = self.division.as_ref()?;
        let bits = match division.free[at].as_deref() {
            Some(bits) => *bits,
            None => division.whole(kind, self.pool_at(at)),
        };
        let free: u32 = bits.iter().map(|word| word.count_ones()).sum();
        let mut n = random().checked_rem(u64::from(free))? as u32;
        for (word, &bits) in bits.iter().enumerate() {
            let here = bits.count_ones();
            if n < here {
                let mut bits = bits;
                (0..n).for_each(|_| bits &= bits - 1);
                let index = word as u32 * 64 + bits.trailing_zeros();
                let first = (index * u32::from(division.size)) as u16;
                let place = BlockId {
                    addr: self.addresses[at].addr,
                    first,
                };
                return self.mark(place, false).then_some(place);
            }
            n -= here;
        }
        None
    }

    /// The address from which [`Pool::take_block`] would take a block.
    pub fn would_take_block(&self, address: Ipv4Addr) -> Option<Ipv4Addr> {
        let at = self.next_with_block(address)?;
        Some(self.addresses[at].addr)
    }

    fn next_with_block(&self, address: Ipv4Addr) -> Option<usize> {
        let start = self.position(address)? as usize;
        let words = &self.division.as_ref()?.with_free;
        let at = super::parts::next_in(words, start, self.around(start))?;
        Some(at as usize)
    }

    /// Takes a given block for the source of a host. Returns false if the pool does not have the block, if it has an
    /// owner, if it is of a pool for other sources, or if one of its ports rests for another subscriber.
    pub fn claim_block(&mut self, place: BlockId, host: Ipv6Addr) -> bool {
        let at = self.position(place.addr);
        if at.is_some_and(|at| !self.is_for(at, host)) {
            return false;
        }
        let resting = self.resting_in(place);
        if resting.is_none_or(|resting| resting.is_owned) {
            return self.mark(place, false);
        }
        if !self.rests_only_for(place, self.subscriber(host)) {
            return false;
        }
        if let Some(resting) = self.resting_in(place) {
            resting.is_owned = true;
        }
        true
    }

    /// Returns a block to the pool.
    pub fn put_back_block(&mut self, place: BlockId) {
        match self.resting_in(place) {
            Some(resting) => resting.is_owned = false,
            None => {
                self.mark(place, true);
            }
        }
    }

    fn resting_in(&mut self, place: BlockId) -> Option<&mut Resting> {
        self.division.as_mut()?.resting.get_mut(&place)
    }

    /// Records that a port rests.
    pub(super) fn note_rest(&mut self, v4: Endpoint4) {
        let Some(place) = self.place_of(v4) else {
            return;
        };
        if let Some(resting) = self.resting_in(place) {
            resting.ports += 1;
            return;
        }
        let is_owned = !self.mark(place, false);
        if let Some(division) = &mut self.division {
            let ports = 1;
            division.resting.insert(place, Resting { ports, is_owned });
        }
    }

    /// Records that a port no longer rests.
    pub(super) fn note_rest_over(&mut self, v4: Endpoint4) {
        let Some(place) = self.place_of(v4) else {
            return;
        };
        let Some(resting) = self.resting_in(place) else {
            return;
        };
        resting.ports -= 1;
        if resting.ports > 0 {
            return;
        }
        let division = self.division.as_mut();
        let gone = division.and_then(|division| division.resting.remove(&place));
        if gone.is_some_and(|gone| !gone.is_owned) {
            self.mark(place, true);
        }
    }

    /// Marks a block as unowned or owned. Returns false if it already is, or if there is no such block.
    fn mark(&mut self, place: BlockId, is_free: bool) -> bool {
        let Some(at) = self.position(place.addr) else {
            return false;
        };
        let at = at as usize;
        let kind = self.addresses[at].kind as usize;
        let pool = self.pool_at(at);
        let Some(division) = &mut self.division else {
            return false;
        };
        let index = usize::from(place.first / division.size);
        let (word, bit) = (index / 64, 1u64 << (index % 64));
        let all = division.whole(kind, pool);
        let bits = division.free[at].get_or_insert_with(|| Box::new(all));
        if all[word] & bit == 0 || (bits[word] & bit != 0) == is_free {
            return false;
        }
        bits[word] ^= bit;
        let has_free = bits.iter().any(|word| *word != 0);
        if **bits == all {
            division.free[at] = None;
        }
        let bit = 1 << (at % 64);
        match has_free {
            true => division.with_free[at / 64] |= bit,
            false => division.with_free[at / 64] &= !bit,
        }
        match is_free {
            true => division.counts[pool].free += 1,
            false => division.counts[pool].free -= 1,
        }
        true
    }

    /// Takes a free port of a block: `best`, or one with the parity of `like`, or with `any` also one of the
    /// other parity.
    pub fn take_in(
        &mut self,
        protocol: Protocol,
        place: BlockId,
        best: Option<u16>,
        like: u16,
        any: bool,
        random: impl FnMut() -> u64,
    ) -> Option<u16> {
        let at = self.position(place.addr)?;
        let size = self.division.as_ref()?.size_of(place);
        let block = self.block(protocol, at);
        let ports = place.first..=place.first + (size - 1);
        let is_there = |port: &u16| ports.contains(port) && block.is_free(*port);
        let parity = if any { Parity::Any } else { Parity::of(like) };
        let port = match best.filter(is_there) {
            Some(best) => best,
            None => block.draw_in(place.first, size, parity, random)?,
        };
        self.take_for(protocol, at, port);
        Some(port)
    }

    /// Lends a port of a block with the parity of the port `like`.
    pub fn lend_in(
        &mut self,
        protocol: Protocol,
        place: BlockId,
        like: u16,
        random: impl FnMut() -> u64,
    ) -> Option<u16> {
        let at = self.position(place.addr)?;
        let size = self.division.as_ref()?.size_of(place);
        let block = self.block(protocol, at);
        let port = block.draw_in(place.first, size, Parity::of(like), random)?;
        block.lend(port);
        self.note_taken(protocol, at);
        Some(port)
    }

    /// Number of free ports of a protocol in a block.
    pub fn free_in(&self, protocol: Protocol, place: BlockId) -> u32 {
        let (Some(at), Some(division)) = (self.position(place.addr), &self.division) else {
            return 0;
        };
        match &self.addresses[at as usize].blocks[protocol.index()] {
            Some(block) => block.free_in(place.first, division.size_of(place), Parity::Any),
            None => u32::from(division.size_of(place)),
        }
    }

    /// Number of lent ports of a protocol in a block.
    pub fn lent_in(&self, protocol: Protocol, place: BlockId) -> u32 {
        let (Some(at), Some(division)) = (self.position(place.addr), &self.division) else {
            return 0;
        };
        let block = self.addresses[at as usize].blocks[protocol.index()].as_ref();
        block.map_or(0, |block| {
            block.lent_in(place.first, division.size_of(place))
        })
    }

    /// Returns true if any port of a block is bound, lent or resting.
    pub fn is_used(&self, place: BlockId) -> bool {
        let (Some(at), Some(division)) = (self.position(place.addr), &self.division) else {
            return false;
        };
        if division.resting.contains_key(&place) {
            return true;
        }
        let blocks = self.addresses[at as usize].blocks.iter().flatten();
        blocks
            .map(|block| block.taken_in(place.first, division.size_of(place)))
            .sum::<u32>()
            > 0
    }
}
