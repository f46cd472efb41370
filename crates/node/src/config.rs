// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The cluster configuration: the nodes, the owners of addresses, and times. It is the same on all nodes, except for
//! which of them this one is.

use std::hash::Hasher;
use std::net::Ipv4Addr;
use std::time::Duration;

use ipnet::{Ipv4Net, Ipv6Net};
use siphasher::sip::SipHasher13;

use crate::Moment;

/// A node (one gateway of the cluster), by its position in the file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(pub u8);

impl NodeId {
    /// Returns its index in a list of all nodes.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// Maximum number of nodes in a cluster: each sends its bindings to all others.
pub const MOST_NODES: usize = 64;

/// A node of the file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Member {
    /// The name, which is that of its certificate.
    pub name: String,
    /// The addresses that it permanently owns.
    pub pool4: Vec<Ipv4Net>,
}

/// Addresses that only some hosts have. Hosts without such a pool have all other addresses.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct SourcePool {
    /// The prefixes of these hosts, sorted.
    pub sources: Vec<Ipv6Net>,
    /// The first and the last address of each range, in ascending order, of all nodes.
    pub addresses: Vec<(Ipv4Addr, Ipv4Addr)>,
}

/// Times. All nodes have the same ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timing {
    /// How long copies may be used after the owner confirmed them, counted from the clock reading that it returned.
    pub term: Duration,
    /// How long copies may be used after the start of a read of the owner's record that does not call them void.
    pub proof: Duration,
    /// Maximum difference between the speeds of two clocks, in parts per million.
    pub margin_ppm: u32,
    /// How long a port rests after the last node could use it for its former subscriber.
    pub rest: Duration,
    /// Interval between two beats.
    pub beat: Duration,
    /// A node is reachable if it has answered within this time.
    pub reachable: Duration,
    /// After this time without an answer, the copies of a node that blocks ports are declared void, if ports are
    /// needed.
    pub patience: Duration,
}

impl Default for Timing {
    fn default() -> Timing {
        Timing {
            term: Duration::from_secs(6),
            proof: Duration::from_secs(3),
            margin_ppm: 100_000,
            rest: Duration::from_secs(1),
            beat: Duration::from_millis(200),
            reachable: Duration::from_millis(1000),
            patience: Duration::from_secs(2),
        }
    }
}

impl Timing {
    /// Returns how long this node has to wait until `time` is over on every other node's clock.
    pub fn over(&self, time: Duration) -> Duration {
        time + time * self.margin_ppm / 1_000_000 + Duration::from_millis(1)
    }
}

/// The bounds on what a node keeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds {
    /// Number of changes that a slow connection may lag behind. Beyond that it is closed, and a snapshot follows.
    pub changes: usize,
    /// With more resting ports than this, the copies of nodes that do not acknowledge are declared void.
    pub resting: usize,
}

/// The configuration of one node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// This node.
    pub me: NodeId,
    /// All nodes, in the order of the file.
    pub members: Vec<Member>,
    /// Prefix length that identifies a subscriber.
    pub source_prefix_len: u8,
    /// Secret key of the hash that distributes subscribers to nodes.
    pub key: [u64; 2],
    /// The pools by source of all nodes, sorted.
    pub pools: Vec<SourcePool>,
    /// Translation prefixes.
    pub pref64: Vec<Ipv6Net>,
    /// Lifetimes of sessions, in seconds.
    pub lifetimes_s: Vec<u32>,
    /// Times.
    pub timing: Timing,
    /// With this, the first packet of a binding waits until another node knows the binding, and a node that
    /// acknowledges changes of others does so at once. Nodes may differ in this setting.
    pub defer: bool,
    /// The bounds on what it keeps.
    pub bounds: Bounds,
}

/// The reason why a configuration is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fault {
    /// There are no nodes, more than [`MOST_NODES`], or this one is not among them.
    Nodes,
    /// Two nodes have this name.
    Name(String),
    /// Two nodes have this address.
    Shared(Ipv4Addr),
    /// A node has no address.
    NoAddress(String),
    /// A time is zero, the times violate beat < reachable < term, or the prefix has more than 128 bits.
    Timing,
}

/// The format of messages that this code reads and writes; nodes compare it first. A hello begins with it in every
/// format ([`crate::message`]), so nodes of two versions can report the difference.
pub const FORMAT: u8 = 1;

/// The parts of a configuration that all nodes have to share, in the order of [`Config::digests`].
pub const PARTS: [&str; 5] = ["format", "nodes", "sources", "lifetimes", "times"];

/// Index in [`PARTS`] of the format, which determines how the other parts are read.
pub(crate) const MESSAGES: usize = 0;

/// Index in [`PARTS`] of the owners of addresses.
pub const NODES: usize = 1;

/// Index in [`PARTS`] of the times for which copies are used.
pub const TIMES: usize = 4;

/// A digest of each of [`PARTS`].
pub type Digests = [u64; PARTS.len()];

/// Returns a hash of everything that nodes compare of a file; never 0.
pub fn file(digests: &Digests) -> u64 {
    let mut hasher = SipHasher13::new_with_keys(0, 0);
    digests.iter().for_each(|digest| hasher.write_u64(*digest));
    hasher.finish().max(1)
}

/// The owners of addresses.
#[derive(Clone, Debug)]
pub struct Owners(Vec<(u32, u32, NodeId)>);

impl Owners {
    /// Returns the node that owns an address.
    pub fn of(&self, addr: Ipv4Addr) -> Option<NodeId> {
        let addr = addr.to_bits();
        let at = self.0.partition_point(|(first, ..)| *first <= addr);
        let (_, last, node) = self.0[..at].last()?;
        (addr <= *last).then_some(*node)
    }
}

impl Config {
    /// Returns the owners of addresses, unless the configuration contradicts itself.
    pub fn check(&self) -> Result<Owners, Fault> {
        let count = self.members.len();
        if count > MOST_NODES || self.me.index() >= count {
            return Err(Fault::Nodes);
        }
        let t = &self.timing;
        let is_rising = !t.beat.is_zero() && t.beat < t.reachable && t.reachable < t.term;
        if !is_rising || t.proof.is_zero() || self.source_prefix_len > 128 {
            return Err(Fault::Timing);
        }
        let mut names: Vec<&str> = self.members.iter().map(|m| m.name.as_str()).collect();
        names.sort_unstable();
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(Fault::Name(pair[0].to_owned()));
        }
        let mut all = Vec::new();
        for (at, member) in (0..).zip(&self.members) {
            if member.pool4.is_empty() {
                return Err(Fault::NoAddress(member.name.clone()));
            }
            let ends = |net: &Ipv4Net| (net.network().to_bits(), net.broadcast().to_bits());
            let nets = member.pool4.iter().map(ends);
            all.extend(nets.map(|(first, last)| (first, last, NodeId(at))));
        }
        all.sort_unstable();
        match all.windows(2).find(|pair| pair[0].1 >= pair[1].0) {
            Some(pair) => Err(Fault::Shared(Ipv4Addr::from_bits(pair[1].0))),
            None => Ok(Owners(all)),
        }
    }

    /// Returns what the nodes compare when they connect.
    pub fn digests(&self) -> Digests {
        let of = |say: &dyn Fn(&mut SipHasher13)| {
            let mut hasher = SipHasher13::new_with_keys(0, 0);
            say(&mut hasher);
            hasher.finish()
        };
        let prefixes = |hasher: &mut SipHasher13, nets: &[Ipv6Net]| {
            for net in nets {
                hasher.write_u128(net.network().to_bits());
                hasher.write_u8(net.prefix_len());
            }
        };
        let time = |hasher: &mut SipHasher13, time: Moment| hasher.write_u128(time.as_nanos());
        [
            u64::from(FORMAT),
            of(&|hasher| {
                for member in &self.members {
                    hasher.write(member.name.as_bytes());
                    hasher.write_u8(0xff);
                    for net in &member.pool4 {
                        hasher.write_u32(net.network().to_bits());
                        hasher.write_u8(net.prefix_len());
                    }
                    hasher.write_u8(0xfe);
                }
            }),
            of(&|hasher| {
                hasher.write_u8(self.source_prefix_len);
                self.key.iter().for_each(|half| hasher.write_u64(*half));
                prefixes(hasher, &self.pref64);
                for pool in &self.pools {
                    hasher.write_u8(0xff);
                    prefixes(hasher, &pool.sources);
                    hasher.write_u8(0xfe);
                    for (first, last) in &pool.addresses {
                        hasher.write_u32(first.to_bits());
                        hasher.write_u32(last.to_bits());
                    }
                }
            }),
            of(&|hasher| self.lifetimes_s.iter().for_each(|t| hasher.write_u32(*t))),
            of(&|hasher| {
                time(hasher, self.timing.term);
                time(hasher, self.timing.proof);
                hasher.write_u32(self.timing.margin_ppm);
            }),
        ]
    }

    /// Returns the first of [`PARTS`] that differs in a file with these digests. A running node cannot change to such a
    /// file alone.
    pub fn differs(&self, digests: &Digests) -> Option<usize> {
        let ours = self.digests();
        (0..PARTS.len()).find(|&part| ours[part] != digests[part])
    }

    /// Returns the digest of what must be equal on any two nodes that serve: the owners of addresses, and how long
    /// copies are used.
    pub fn deal(&self) -> u64 {
        let digests = self.digests();
        let mut hasher = SipHasher13::new_with_keys(0, 0);
        hasher.write_u64(digests[NODES]);
        hasher.write_u64(digests[TIMES]);
        hasher.finish()
    }

    /// Returns the hash of everything that nodes compare of this file.
    pub fn file(&self) -> u64 {
        file(&self.digests())
    }

    /// Returns the prefix that identifies a host's subscriber.
    pub fn subscriber(&self, addr: std::net::Ipv6Addr) -> u128 {
        match self.source_prefix_len {
            0 => 0,
            len => addr.to_bits() & (u128::MAX << (128 - u32::from(len.min(128)))),
        }
    }
}
