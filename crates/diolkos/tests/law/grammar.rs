// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packets for the law: what a translator sees all day, the same at the edge of every rule, and then with something odd about
//! it or some bytes changed. All of it follows from one seed.
//!
//! seed → recipe → bytes; and, when a packet breaks the law, recipe → simpler recipes.

use super::configurations::{Node, Setup};
use super::paths::{Given, Way};
use diolkos_core::addr::special;
use diolkos_sys::fastpath::testrun::LONGEST;
use fastrand::Rng;
use std::net::{Ipv4Addr, Ipv6Addr};

/// One packet, in words.
#[derive(Clone, Debug)]
pub struct Recipe {
    way: Way,
    transport: Transport,
    /// Both ports, or identifier and sequence number.
    head: [u16; 2],
    data_len: usize,
    fill: Fill,
    checksum: Checksum,
    class: u8,
    hops: u8,
    /// Identification or flow label.
    label: u32,
    dont_fragment: bool,
    /// Which of the nodes on our side; which of the prefixes or mappings on the other.
    picks: [u64; 2],
    /// The IPv4 node beyond the prefix.
    peer: Ipv4Addr,
    /// From the other side to ours. A CLAT's programs see no such packet.
    turned: bool,
    gso_size: Option<u16>,
    odd: Vec<Oddity>,
    /// Bytes changed in the end: where, and to what.
    changed: Vec<(usize, u8)>,
    /// Sum up the IPv4 header again after that.
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

/// Something that few packets have. Those of the other family do nothing.
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
    /// Not the address of the node on our side, but its own with these bits changed.
    OtherNode(u32),
    /// In the bits of an embedded address that carry nothing, and maybe in the others.
    PeerBits(u128),
    /// The node talks to itself.
    FromItself,
    Version(u8),
}

/// Addresses with a meaning, and their neighbours without.
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
    /// A packet for this translator: half of them without anything odd.
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

    /// Makes something odd about it.
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

    /// A packet of which the fast path has to translate nearly every one: TCP, UDP or echo, whole, everything about it
    /// right, between addresses about which no RFC has more to say, that fits.
    pub fn is_plain(&self, setup: &Setup) -> bool {
        let segment = self.transport.header_len()
            + self
                .gso_size
                .map_or(self.data_len, |size| self.data_len.min(size.into()));
        let fits = match (self.way, self.dont_fragment) {
            (Way::FourToSix, true) => segment + 40 <= setup.config.mtu6 as usize,
            (Way::FourToSix, false) => segment + 40 <= setup.config.lowest_ipv6_mtu as usize,
            (Way::SixToFour, _) => segment + 20 <= setup.config.mtu4 as usize,
        };
        // RFC 1624 section 3: by difference, the sum of nothing but zeros cannot be told from 0xffff.
        let zeros = self.transport == Transport::EchoReply && self.head == [0, 0];
        // The segments of a UDP super-packet may be those of a tunnel.
        let opaque = self.gso_size.is_some() && self.transport != Transport::Tcp;
        fits && !zeros
            && !opaque
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

    /// Every recipe that is one step simpler.
    pub fn simpler(&self) -> Vec<Recipe> {
        let mut all = Vec::new();
        let mut step = |change: &dyn Fn(&mut Recipe)| {
            let mut simpler = self.clone();
            change(&mut simpler);
            // Every field is shown by Debug, and two recipes that show alike are alike.
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

    fn near(&self, setup: &Setup) -> Node {
        setup.near(self.picks[0], self.noise())
    }

    /// What IPv6 nodes may have in the bits of their addresses that carry nothing.
    fn noise(&self) -> u128 {
        match self.way {
            Way::FourToSix => 0,
            Way::SixToFour => u128::from(self.picks[0]) << 64 | u128::from(self.picks[1]),
        }
    }

    /// Source and destination.
    fn ends(&self, setup: &Setup) -> [Node; 2] {
        let ends = [
            self.near(setup),
            setup.far(self.peer, self.picks[1], self.noise()),
        ];
        let from_us = match self.way {
            Way::FourToSix => !self.turned,
            // A CLAT sees what comes back.
            Way::SixToFour => self.turned ^ (!setup.config.clat),
        };
        match from_us {
            true => ends,
            false => [ends[1], ends[0]],
        }
    }

    /// The packet.
    pub fn given(&self, setup: &Setup) -> Given {
        let near = self.near(setup);
        let mut ends = self.ends(setup);
        for end in &mut ends {
            let (v4, v6) = *end;
            *end = if self.odd.contains(&Oddity::FromItself) {
                near
            } else if *end == near {
                (
                    Ipv4Addr::from_bits(v4.to_bits() ^ self.other_node()),
                    Ipv6Addr::from_bits(v6.to_bits() ^ u128::from(self.other_node())),
                )
            } else {
                (v4, Ipv6Addr::from_bits(v6.to_bits() ^ self.peer_bits()))
            };
        }
        let v4 = ends.map(|(v4, _)| v4.octets()).concat();
        let v6 = ends.map(|(_, v6)| v6.octets()).concat();
        let (here, there) = match self.way {
            Way::FourToSix => (v4, v6),
            Way::SixToFour => (v6, v4),
        };
        let l4 = self.transport_bytes(&here, &there);
        let mut bytes = match self.way {
            Way::FourToSix => self.ipv4(&here, l4),
            Way::SixToFour => self.ipv6(&here, l4),
        };
        for odd in &self.odd {
            match *odd {
                Oddity::Padding(len) => bytes.extend(vec![0x5a; len]),
                Oddity::Cut(len) => bytes.truncate(bytes.len().saturating_sub(len).max(1)),
                _ => {}
            }
        }
        for &(at, value) in &self.changed {
            let at = at % bytes.len();
            bytes[at] = value;
        }
        if self.summed_again && self.way == Way::FourToSix && !self.changed.is_empty() {
            sum_header(&mut bytes);
        }
        Given {
            way: self.way,
            bytes,
            gso_size: self.gso_size,
        }
    }

    fn other_node(&self) -> u32 {
        let bits = self.odd.iter().map(|odd| match odd {
            Oddity::OtherNode(bits) => *bits,
            _ => 0,
        });
        bits.fold(0, |a, b| a ^ b)
    }

    fn peer_bits(&self) -> u128 {
        let bits = self.odd.iter().map(|odd| match odd {
            Oddity::PeerBits(bits) => *bits,
            _ => 0,
        });
        bits.fold(0, |a, b| a ^ b)
    }

    /// Transport header and data. `here`: the addresses as they stand in the packet; `there`: those of the other family.
    fn transport_bytes(&self, here: &[u8], there: &[u8]) -> Vec<u8> {
        let [first, second] = self.head.map(u16::to_be_bytes);
        let len = self.transport.header_len() + self.data_len;
        let (types, protocols) = match self.transport {
            Transport::Tcp => ([0; 2], [6, 6]),
            Transport::Udp => ([0; 2], [17, 17]),
            Transport::EchoRequest => ([8, 128], [1, 58]),
            Transport::EchoReply => ([0, 129], [1, 58]),
        };
        let mut l4 = match self.transport {
            Transport::Tcp => [&first[..], &second, &[0, 0, 0, 1, 0, 0, 0, 2]].concat(),
            Transport::Udp => [first, second, (len as u16).to_be_bytes()].concat(),
            Transport::EchoRequest | Transport::EchoReply => {
                [[0, 0], [0, 0], first, second].concat()
            }
        };
        match self.transport {
            Transport::Tcp => l4.extend([0x50, 0x18, 0xff, 0xff, 0, 0, 0, 0]),
            Transport::Udp => l4.extend([0, 0]),
            _ => {}
        }
        match self.fill {
            Fill::Zeros => l4.resize(len, 0),
            Fill::Random(seed) => {
                let mut rng = Rng::with_seed(seed);
                l4.extend((0..self.data_len).map(|_| rng.u8(..)));
            }
        }
        self.sum_transport(&mut l4, types, protocols, here, there);
        for odd in &self.odd {
            match (*odd, self.transport) {
                (Oddity::UdpLength(by), Transport::Udp) => {
                    let wrong = (len as u16).wrapping_add_signed(by);
                    l4[4..6].copy_from_slice(&wrong.to_be_bytes());
                }
                (Oddity::TcpDataOffset(words), Transport::Tcp) => l4[12] = words << 4,
                (Oddity::IcmpType(kind), _) if self.transport.is_echo() => l4[0] = kind,
                (Oddity::IcmpCode(code), _) if self.transport.is_echo() => l4[1] = code,
                _ => {}
            }
        }
        l4
    }

    /// Writes type and checksum, `types` and `protocols` being those of IPv4 and IPv6.
    fn sum_transport(
        &self,
        l4: &mut [u8],
        types: [u8; 2],
        protocols: [u8; 2],
        here: &[u8],
        there: &[u8],
    ) {
        let (own, other) = match self.way {
            Way::FourToSix => (0, 1),
            Way::SixToFour => (1, 0),
        };
        let (checksum_at, word_at) = match self.transport {
            Transport::Tcp => (16, 2),
            Transport::Udp => (6, 2),
            _ => (2, 6),
        };
        let pseudo = |addresses: &[u8], protocol: u8, len: usize| match (protocol, addresses.len())
        {
            (1, _) => Vec::new(),
            _ => [addresses, &[0, 0, 0, protocol], &(len as u32).to_be_bytes()].concat(),
        };
        let sum = |l4: &mut [u8], family: usize, addresses: &[u8]| {
            if self.transport.is_echo() {
                l4[0] = types[family];
            }
            let pseudo = pseudo(addresses, protocols[family], l4.len());
            ones_sum(&[&pseudo, &*l4].concat())
        };
        // One word is free to be chosen so that the checksum comes out as zero.
        let zero_in = match self.checksum {
            Checksum::RightAndZero => Some((own, here)),
            Checksum::BecomesZero => Some((other, there)),
            _ => None,
        };
        if let Some((family, addresses)) = zero_in {
            l4[word_at..word_at + 2].fill(0);
            let word = !sum(l4, family, addresses);
            l4[word_at..word_at + 2].copy_from_slice(&word.to_be_bytes());
        }
        let right = match (!sum(l4, own, here), self.transport) {
            (0, Transport::Udp) => 0xffff,
            (right, _) => right,
        };
        let checksum = match self.checksum {
            Checksum::Is(checksum) => checksum,
            _ => right,
        };
        l4[checksum_at..checksum_at + 2].copy_from_slice(&checksum.to_be_bytes());
    }

    fn protocol(&self, icmp: u8) -> u8 {
        let odd = self.odd.iter().find_map(|odd| match odd {
            Oddity::Protocol(protocol) => Some(*protocol),
            _ => None,
        });
        odd.unwrap_or(match self.transport {
            Transport::Tcp => 6,
            Transport::Udp => 17,
            Transport::EchoRequest | Transport::EchoReply => icmp,
        })
    }

    fn ipv4(&self, addresses: &[u8], l4: Vec<u8>) -> Vec<u8> {
        let (mut flags, mut version) = (if self.dont_fragment { 0x4000 } else { 0 }, 4);
        let (mut options, mut len_by, mut sum_by) = (Vec::new(), 0, 0);
        for odd in &self.odd {
            match *odd {
                Oddity::Options(bytes) => options.extend(bytes),
                Oddity::Fragment { offset, more } => flags |= offset | u16::from(more) << 13,
                Oddity::ReservedFlag => flags |= 0x8000,
                Oddity::Length(by) => len_by = by,
                Oddity::HeaderChecksum(bits) => sum_by = bits,
                Oddity::Version(odd) => version = odd,
                _ => {}
            }
        }
        let header_len = 20 + options.len();
        let total_len = ((header_len + l4.len()) as u16).wrapping_add_signed(len_by);
        let mut bytes = vec![version << 4 | (header_len / 4) as u8, self.class];
        bytes.extend(total_len.to_be_bytes());
        bytes.extend((self.label as u16).to_be_bytes());
        bytes.extend(flags.to_be_bytes());
        bytes.extend([self.hops, self.protocol(1), 0, 0]);
        bytes.extend(addresses);
        bytes.extend(options);
        sum_header(&mut bytes);
        let checksum = u16::from_be_bytes([bytes[10], bytes[11]]) ^ sum_by;
        bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
        bytes.extend(l4);
        bytes
    }

    fn ipv6(&self, addresses: &[u8], l4: Vec<u8>) -> Vec<u8> {
        let (mut next_header, mut payload) = (self.protocol(58), l4);
        let (mut version, mut len_by) = (6, 0);
        for odd in &self.odd {
            let (kind, rest) = match *odd {
                Oddity::Extension(kind) => (kind, [0; 6]),
                Oddity::Fragment { offset, more } => {
                    let [high, low] = (offset << 3 | u16::from(more)).to_be_bytes();
                    (44, [high, low, 0, 0, 0, 7])
                }
                Oddity::Length(by) => {
                    len_by = by;
                    continue;
                }
                Oddity::Version(odd) => {
                    version = odd;
                    continue;
                }
                _ => continue,
            };
            payload = [&[next_header, 0][..], &rest, &payload].concat();
            next_header = kind;
        }
        let first = u32::from(version) << 28 | u32::from(self.class) << 20 | self.label & 0xf_ffff;
        let mut bytes = first.to_be_bytes().to_vec();
        bytes.extend(
            (payload.len() as u16)
                .wrapping_add_signed(len_by)
                .to_be_bytes(),
        );
        bytes.extend([next_header, self.hops]);
        bytes.extend(addresses);
        bytes.extend(payload);
        bytes
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
        if is_plain_peer(setup, address) || setup.config.pref64.is_empty() {
            return address;
        }
    }
}

/// No RFC has anything to say about it: unicast below class E, and with the well-known prefix neither private nor, like
/// the relays of 6to4, deprecated.
fn is_plain_peer(setup: &Setup, address: Ipv4Addr) -> bool {
    let global = special::is_global(address) && address.octets()[..3] != [192, 88, 99];
    is_plain_unicast(address)
        && !setup.maps(address)
        && (global || !setup.only_global())
        // Where there is no prefix, there is nobody behind it.
        || setup.config.pref64.is_empty()
}

/// The same about a node with both its addresses.
fn is_plain_node(setup: &Setup, way: Way, (v4, v6): Node) -> bool {
    let mapped = setup.maps(v4);
    is_plain_unicast(v4)
        && (way == Way::FourToSix || special::kind_of_ipv6(v6) == special::Kind::Unicast)
        && setup.knows(v6)
        && (mapped || is_plain_peer(setup, v4))
}

fn is_plain_unicast(address: Ipv4Addr) -> bool {
    special::kind_of_ipv4(address) == special::Kind::Unicast && address.octets()[0] < 224
}

/// Fills in the checksum of the IPv4 header at the front, as far as there is one.
fn sum_header(bytes: &mut [u8]) {
    let len = usize::from(bytes[0] & 15).max(5) * 4;
    if bytes.len() >= len {
        bytes[10..12].fill(0);
        let checksum = !ones_sum(&bytes[..len]);
        bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
    }
}

/// The one's complement sum, word by word with end-around carry (RFC 1071 section 1).
pub fn ones_sum(bytes: &[u8]) -> u16 {
    let mut sum = 0u16;
    for pair in bytes.chunks(2) {
        let word = u16::from_be_bytes([pair[0], *pair.get(1).unwrap_or(&0)]);
        let (added, carry) = sum.overflowing_add(word);
        sum = added + u16::from(carry);
    }
    sum
}
