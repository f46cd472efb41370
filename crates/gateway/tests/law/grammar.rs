// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packets for the law: everyday packets, packets at the edge of every rule, and the same with an odd property or some
//! changed bytes. All of them are derived from one seed.
//!
//! seed → recipe → bytes (`bytes`); and, when a packet breaks the law, recipe → simpler recipes.

mod bytes;
pub mod options;

use super::input::Way;
use super::setup::{Node, Setup};
use diolkos_fastpath::testrun::LONGEST;
use diolkos_xlat::addr::special;
use fastrand::Rng;
use std::net::Ipv4Addr;

/// The description of one packet.
#[derive(Clone, Debug)]
pub struct Recipe {
    way: Way,
    transport: Transport,
    /// Both ports, or identifier and sequence number.
    head: [u16; 2],
    /// A SYN's other flags, and its options in whole words of 32 bits; an ordinary segment has none.
    syn: Option<(u8, Vec<u8>)>,
    data_len: usize,
    fill: Fill,
    checksum: Checksum,
    class: u8,
    hops: u8,
    /// IPv4 identification or IPv6 flow label.
    label: u32,
    dont_fragment: bool,
    /// Selects the node on our side, and the prefix or mapping on the other side.
    picks: [u64; 2],
    /// The IPv4 node behind the prefix.
    peer: Ipv4Addr,
    /// From the other side to ours. A CLAT's programs see no such packet.
    turned: bool,
    gso_size: Option<u16>,
    odd: Vec<Oddity>,
    /// Bytes changed at the end: offsets and values.
    changed: Vec<(usize, u8)>,
    /// True if the checksum of the IPv4 header is recomputed after that.
    summed_again: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Transport {
    Tcp,
    Udp,
    EchoRequest,
    EchoReply,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fill {
    Zeros,
    Random(u64),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Checksum {
    Right,
    /// Right, and zero before it is written.
    RightAndZero,
    /// Right, and zero in the other family.
    BecomesZero,
    Is(u16),
}

/// A rare property. Those of the other family have no effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Oddity {
    Options([u8; 4]),
    Extension(u8),
    Fragment {
        offset: u16,
        more: bool,
    },
    ReservedFlag,
    HeaderChecksum(u16),
    Length(i16),
    Padding(usize),
    Cut(usize),
    UdpLength(i16),
    TcpDataOffset(u8),
    IcmpType(u8),
    IcmpCode(u8),
    Protocol(u8),
    /// Replaces the address of the node on our side by its own with these bits changed.
    OtherNode(u32),
    /// Flips the bits of an embedded address that carry no information, and perhaps others.
    PeerBits(u128),
    /// The node sends to itself.
    FromItself,
    Version(u8),
}

/// Addresses with a special meaning, and their neighbours without one.
const PEERS: [[u8; 4]; 36] = [
    [0, 0, 0, 0],
    [0, 1, 2, 3],
    [1, 0, 0, 0],
    [9, 255, 255, 255],
    [10, 0, 0, 1],
    [11, 0, 0, 0],
    [100, 63, 255, 255],
    [100, 64, 0, 1],
    [100, 127, 255, 255],
    [100, 128, 0, 0],
    [126, 255, 255, 255],
    [127, 0, 0, 1],
    [128, 0, 0, 0],
    [169, 253, 255, 255],
    [169, 254, 1, 1],
    [172, 15, 255, 255],
    [172, 16, 0, 1],
    [172, 31, 255, 255],
    [172, 32, 0, 0],
    [192, 0, 0, 1],
    [192, 0, 0, 8],
    [192, 0, 0, 9],
    [192, 0, 0, 10],
    [192, 0, 0, 170],
    [192, 0, 0, 171],
    [192, 0, 1, 0],
    [192, 0, 2, 1],
    [192, 88, 99, 1],
    [192, 168, 1, 1],
    [198, 17, 255, 255],
    [198, 18, 0, 1],
    [198, 51, 100, 2],
    [203, 0, 113, 5],
    [223, 255, 255, 255],
    [224, 0, 0, 1],
    [255, 255, 255, 255],
];

/// Bytes of TCP payload without the header, in front of which nothing grows.
const TCP_LEN: usize = 20;
const OTHERS_LEN: usize = 8;

impl Recipe {
    /// Creates a packet for this translator: half of them have no odd property.
    pub fn new(setup: &Setup, rng: &mut Rng) -> Recipe {
        let way = [Way::FourToSix, Way::SixToFour][rng.usize(..2)];
        let transport = match rng.u8(..10) {
            0..4 => Transport::Tcp,
            4..8 => Transport::Udp,
            8 => Transport::EchoRequest,
            _ => Transport::EchoReply,
        };
        let mut recipe = Recipe {
            way,
            transport,
            head: [rng.u16(..), rng.u16(..)],
            syn: None,
            data_len: data_len(setup, transport, rng),
            fill: match rng.u8(..4) {
                0 => Fill::Zeros,
                _ => Fill::Random(rng.u64(..)),
            },
            checksum: Checksum::Right,
            class: rng.u8(..),
            hops: rng.u8(2..),
            label: rng.u32(..),
            dont_fragment: rng.bool(),
            picks: [rng.u64(..), rng.u64(..)],
            peer: peer(setup, rng),
            turned: !setup.config.clat && rng.bool(),
            gso_size: None,
            odd: Vec::new(),
            changed: Vec::new(),
            summed_again: rng.bool(),
        };
        if way == Way::FourToSix {
            recipe.picks[1] = Setup::in_first_prefix(recipe.picks[1]);
        }
        if transport == Transport::Tcp && rng.u8(..4) == 0 {
            recipe.syn = Some((rng.u8(..), options::of_syn(setup.config.tcp_mss, rng)));
        }
        match rng.u8(..20) {
            0 => recipe.head = [0, 0],
            1 | 2 => recipe.checksum = Checksum::BecomesZero,
            3 => recipe.checksum = Checksum::RightAndZero,
            _ => {}
        }
        if transport.has_segments() && recipe.data_len > 1 && rng.u8(..10) == 0 {
            recipe.gso_size = Some(rng.u16(1..=recipe.data_len as u16));
        }
        match rng.u8(..10) {
            0..5 => {}
            5..8 => {
                for _ in 0..rng.u8(1..3) {
                    recipe.spoil(rng);
                }
            }
            _ => {
                for _ in 0..rng.u8(1..5) {
                    let byte = (rng.usize(..100), rng.u8(..));
                    recipe.changed.push(byte);
                }
            }
        }
        recipe
    }

    /// Adds an odd property.
    fn spoil(&mut self, rng: &mut Rng) {
        let small = |rng: &mut Rng| rng.i16(-24..24);
        let odd = match rng.u8(..21) {
            0 => Oddity::Options([rng.u8(..), rng.u8(..8), rng.u8(..8), 0]),
            1 => Oddity::Extension([0, 43, 44, 51, 60, 135][rng.usize(..6)]),
            2 => Oddity::Fragment {
                offset: [0, 0, 1, 185, rng.u16(..0x2000)][rng.usize(..5)],
                more: rng.bool(),
            },
            3 => Oddity::ReservedFlag,
            4 => Oddity::HeaderChecksum([0, 0xffff, rng.u16(..)][rng.usize(..3)]),
            5 => Oddity::Length(small(rng)),
            6 => Oddity::Padding(rng.usize(1..30)),
            7 => Oddity::Cut(rng.usize(1..60)),
            8 => Oddity::UdpLength(small(rng)),
            9 => Oddity::TcpDataOffset(rng.u8(..16)),
            10 => Oddity::IcmpType(rng.u8(..)),
            11 => Oddity::IcmpCode(rng.u8(1..)),
            12 => Oddity::Protocol([1, 2, 6, 17, 33, 47, 50, 58, 132, 136][rng.usize(..10)]),
            13 => Oddity::OtherNode(1 << rng.u8(..32)),
            14 => Oddity::PeerBits(1 << rng.u8(..128)),
            15 => Oddity::PeerBits(0xff << 56),
            16 => Oddity::FromItself,
            17 => Oddity::Version(rng.u8(..16)),
            18 => {
                self.peer = PEERS[rng.usize(..PEERS.len())].into();
                return;
            }
            19 => {
                self.hops = rng.u8(..2);
                return;
            }
            _ => {
                let checksums = [0, 1, 0xfffe, 0xffff, rng.u16(..)];
                self.checksum = Checksum::Is(checksums[rng.usize(..5)]);
                return;
            }
        };
        self.odd.push(odd);
    }

    /// Returns true for packets of which the fast path has to translate nearly every one: complete TCP, UDP or echo
    /// packets that fit, with correct fields, between addresses without special rules in any RFC.
    pub fn is_plain(&self, setup: &Setup) -> bool {
        let segment = self.header_len()
            + self
                .gso_size
                .map_or(self.data_len, |size| self.data_len.min(size.into()));
        let fits = match (self.way, self.dont_fragment) {
            (Way::FourToSix, true) => segment + 40 <= setup.config.mtu6 as usize,
            (Way::FourToSix, false) => segment + 40 <= setup.config.lowest_ipv6_mtu as usize,
            (Way::SixToFour, _) => segment + 20 <= setup.config.mtu4 as usize,
        };
        // RFC 1624 section 3: in an incremental update, the sum of nothing but zeros cannot be distinguished from
        // 0xffff.
        let zeros = self.transport == Transport::EchoReply && self.head == [0, 0];
        fits && !zeros
            && self.shows_mss(setup)
            && self.hops > 1
            && !matches!(self.checksum, Checksum::Is(_))
            && self.odd.is_empty()
            && self.changed.is_empty()
            && self
                .ends(setup)
                .iter()
                .all(|&node| is_plain_node(setup, self.way, node))
            && is_plain_peer(setup, self.peer)
    }

    /// Returns every recipe that is one step simpler.
    pub fn simpler(&self) -> Vec<Recipe> {
        let mut all = Vec::new();
        let mut step = |change: &dyn Fn(&mut Recipe)| {
            let mut simpler = self.clone();
            change(&mut simpler);
            // Debug prints every field, so recipes with equal output are equal.
            if format!("{simpler:?}") != format!("{self:?}") {
                all.push(simpler);
            }
        };
        for at in 0..self.odd.len() {
            step(&|r| {
                r.odd.remove(at);
            });
        }
        for at in 0..self.changed.len() {
            step(&|r| {
                r.changed.remove(at);
            });
        }
        step(&|r| r.syn = None);
        step(&|r| {
            if let Some((flags, _)) = &mut r.syn {
                *flags = 0;
            }
        });
        step(&|r| r.gso_size = None);
        step(&|r| r.data_len = 0);
        step(&|r| r.data_len /= 2);
        step(&|r| r.data_len = r.data_len.saturating_sub(1));
        step(&|r| r.fill = Fill::Zeros);
        step(&|r| r.checksum = Checksum::Right);
        step(&|r| r.class = 0);
        step(&|r| r.hops = 64);
        step(&|r| r.label = 0);
        step(&|r| r.dont_fragment = true);
        step(&|r| r.head = [1, 2]);
        step(&|r| r.picks[0] = 0);
        step(&|r| r.picks[1] = 0);
        step(&|r| r.peer = Ipv4Addr::new(8, 8, 8, 8));
        step(&|r| r.summed_again = false);
        all
    }

    /// Bytes of the transport header.
    fn header_len(&self) -> usize {
        self.transport.header_len() + self.syn.as_ref().map_or(0, |(_, options)| options.len())
    }

    /// Returns true unless the maximum segment size of a SYN matters and may stand behind other options.
    fn shows_mss(&self, setup: &Setup) -> bool {
        let first = self.syn.as_ref().map(|(_, options)| &options[..]);
        setup.config.tcp_mss.is_none() || matches!(first, None | Some([] | [2, 4, ..]))
    }

    fn near(&self, setup: &Setup) -> Node {
        setup.near(self.picks[0], self.noise())
    }

    /// Returns values for the bits of IPv6 addresses that carry no information.
    fn noise(&self) -> u128 {
        match self.way {
            Way::FourToSix => 0,
            Way::SixToFour => u128::from(self.picks[0]) << 64 | u128::from(self.picks[1]),
        }
    }

    /// Returns source and destination.
    fn ends(&self, setup: &Setup) -> [Node; 2] {
        let ends = [
            self.near(setup),
            setup.far(self.peer, self.picks[1], self.noise()),
        ];
        let from_us = match self.way {
            Way::FourToSix => !self.turned,
            // A CLAT sees the packets of the other direction.
            Way::SixToFour => self.turned ^ (!setup.config.clat),
        };
        match from_us {
            true => ends,
            false => [ends[1], ends[0]],
        }
    }
}

impl Transport {
    fn header_len(self) -> usize {
        match self {
            Transport::Tcp => TCP_LEN,
            _ => OTHERS_LEN,
        }
    }

    fn is_echo(self) -> bool {
        matches!(self, Transport::EchoRequest | Transport::EchoReply)
    }

    fn has_segments(self) -> bool {
        !self.is_echo()
    }
}

/// Mostly short, often on both sides of a limit, sometimes anything.
fn data_len(setup: &Setup, transport: Transport, rng: &mut Rng) -> usize {
    let header_len = transport.header_len();
    let longest = LONGEST - 100;
    let len = match rng.u8(..10) {
        0..4 => rng.usize(..64),
        4..8 => {
            let limits = [
                1240,      // 1280 of IPv6 less its header
                1260 - 20, // the largest IPv4 packet without DF
                setup.config.lowest_ipv6_mtu as usize - 40,
                setup.config.mtu6 as usize - 40,
                setup.config.mtu4 as usize - 20,
                1480,
            ];
            let limit = limits[rng.usize(..limits.len())].min(longest);
            (limit + rng.usize(..24)).saturating_sub(header_len + 12)
        }
        _ => rng.usize(..longest - header_len),
    };
    len.min(longest - header_len)
}

fn peer(setup: &Setup, rng: &mut Rng) -> Ipv4Addr {
    loop {
        let address = Ipv4Addr::from_bits(rng.u32(..));
        if setup.loops(address) && rng.u8(..) < 64 {
            return address;
        }
        if is_plain_peer(setup, address) || setup.config.pref64.is_empty() {
            return address;
        }
    }
}

/// Returns true for a peer without special rules in any RFC: unicast below class E, and with the well-known prefix
/// neither private nor, like the 6to4 relays, deprecated.
fn is_plain_peer(setup: &Setup, address: Ipv4Addr) -> bool {
    let global = special::is_global(address) && address.octets()[..3] != [192, 88, 99];
    is_plain_unicast(address)
        && !setup.maps(address)
        && !setup.loops(address)
        && (global || !setup.only_global())
        // Without a prefix, there is no node behind it.
        || setup.config.pref64.is_empty()
}

/// The same for a node with both its addresses.
fn is_plain_node(setup: &Setup, way: Way, (v4, v6): Node) -> bool {
    let mapped = setup.maps(v4);
    is_plain_unicast(v4)
        && (way == Way::FourToSix || special::kind_of_ipv6(v6) == special::AddressKind::Unicast)
        && setup.knows(v6)
        && (mapped || is_plain_peer(setup, v4))
}

fn is_plain_unicast(address: Ipv4Addr) -> bool {
    special::kind_of_ipv4(address) == special::AddressKind::Unicast && address.octets()[0] < 224
}
