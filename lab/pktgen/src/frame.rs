// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The layout of a frame: Ethernet, IPv4 or IPv6, UDP, TCP or ICMP echo, signature, filler.
//!
//! shape → head with all constant fields, its checksums, offsets of the variable fields (a plan) → frame
//!
//! The sums are stored in native byte order: a checksum is the same in either byte order (RFC 1071 section 2(B)).

use std::net::IpAddr;

use crate::kernel::{Plan, HEAD, SIGNATURE};

use crate::failure::Failure;
use crate::flow::{bits_of, Flow};
use crate::signature::Signature;

/// Length of the frame check sequence, bytes. The frame sizes of RFC 2544 include it, but programs never see it.
pub const FCS: usize = 4;
const ETHERNET: usize = 14;
const IPV4: usize = 20;
const IPV6: usize = 40;
/// The longest IPv4 packet, bytes; about the same holds for an IPv6 packet without a jumbogram option.
const MOST: usize = 65535;
/// The initial TTL or hop limit (RFC 1812 section 4.2.2.9, RFC 4861).
const HOP_LIMIT: u8 = 64;

/// An Ethernet address.
pub type Mac = [u8; 6];

/// The protocol that carries the signature.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transport {
    /// Datagrams.
    Udp,
    /// Segments with these flags, without an open connection.
    Tcp(u8),
    /// Echo requests.
    Icmp,
}

/// Consecutive addresses: the first one, and their number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Block {
    /// The first address.
    pub first: IpAddr,
    /// The number of addresses; all differ in the last 32 bits only.
    pub count: u32,
}

/// Consecutive ports or identifiers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ports {
    /// The first.
    pub low: u16,
    /// The last.
    pub high: u16,
}

impl Ports {
    /// The number of ports.
    pub fn count(self) -> u32 {
        u32::from(self.high) - u32::from(self.low) + 1
    }
}

/// The properties of frames. Source and destination are of one family.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Ethernet addresses, source and destination.
    pub macs: (Mac, Mac),
    /// Source addresses.
    pub src: Block,
    /// Destination addresses.
    pub dst: Block,
    /// UDP, TCP or ICMP.
    pub transport: Transport,
    /// Source ports, or ICMP identifiers.
    pub sport: Ports,
    /// Destination ports, or ICMP sequence numbers.
    pub dport: Ports,
    /// Length of a frame in bytes, FCS included; `None`: the shortest.
    pub size: Option<usize>,
}

impl Shape {
    fn is_ipv4(&self) -> bool {
        self.dst.first.is_ipv4()
    }

    fn transport_len(&self) -> usize {
        match self.transport {
            Transport::Udp | Transport::Icmp => 8,
            Transport::Tcp(_) => 20,
        }
    }

    fn l4(&self) -> usize {
        ETHERNET + if self.is_ipv4() { IPV4 } else { IPV6 }
    }

    /// The shortest frame with a signature, bytes, FCS included.
    pub fn least_size(&self) -> usize {
        self.l4() + self.transport_len() + SIGNATURE + FCS
    }

    /// The number of 4-tuples; `None` if it overflows.
    pub fn space(&self) -> Option<u64> {
        [
            self.sport.count(),
            self.dport.count(),
            self.src.count,
            self.dst.count,
        ]
        .iter()
        .try_fold(1u64, |product, n| product.checked_mul(u64::from(*n)))
        .filter(|product| *product <= 1 << 62)
    }

    /// Fills in the part of a plan that describes the frames; the filler is zeros.
    pub fn plan(&self) -> Result<Plan, Failure> {
        let least = self.least_size();
        let size = self.size.unwrap_or(least);
        let most = ETHERNET + MOST + FCS;
        if size < least || size > most {
            return Err(Failure::usage(format!(
                "--size {size}: frames like these have {least} to {most} bytes, FCS included: their headers and the \
                 signature need that room"
            )));
        }
        let space = self.space().ok_or_else(|| {
            Failure::usage("more 4-tuples than anybody can count: give fewer addresses or ports")
        })?;
        let (l4, head_len) = (self.l4(), self.l4() + self.transport_len());
        let frame_len = size - FCS;
        let (src_at, dst_at) = match self.is_ipv4() {
            true => (ETHERNET + 12, ETHERNET + 16),
            false => (ETHERNET + 8 + 12, ETHERNET + 24 + 12),
        };
        let head = self.head(frame_len);
        let (pseudo, ip_sum_at) = match self.is_ipv4() {
            true => (&head[ETHERNET + 12..l4], ETHERNET + 10),
            false => (&head[ETHERNET + 8..l4], 0),
        };
        let icmp4 = self.is_ipv4() && self.transport == Transport::Icmp;
        let mut l4_sum = sum(&head[l4..head_len]);
        if !icmp4 {
            let rest = [(frame_len - l4) as u16, u16::from(self.protocol())];
            l4_sum += sum(pseudo) + rest.iter().map(|n| u64::from(n.to_be())).sum::<u64>();
        }
        Ok(Plan {
            count: u64::MAX,
            duration_ns: 0,
            begin_ns: 0,
            key: 0,
            interval_ns: 0,
            interval_rest: 0,
            interval_parts: 1,
            flows: 1,
            space,
            scatter: 0,
            space_bits: bits_of(space),
            burst: 1,
            batch: 1,
            ifindex: 0,
            thread: 0,
            stream: 0,
            sport_low: self.sport.low.into(),
            sports: self.sport.count(),
            dport_low: self.dport.low.into(),
            dports: self.dport.count(),
            src_low: low_bits(self.src.first),
            srcs: self.src.count,
            dst_low: low_bits(self.dst.first),
            dsts: self.dst.count,
            src_at: src_at as u32,
            dst_at: dst_at as u32,
            ip_sum_at: ip_sum_at as u32,
            ip_sum: sum(&head[ETHERNET..ETHERNET + IPV4]) as u32,
            ports_at: match self.transport {
                Transport::Icmp => l4 + 4,
                _ => l4,
            } as u32,
            l4_sum_at: match self.transport {
                Transport::Udp => l4 + 6,
                Transport::Tcp(_) => l4 + 16,
                Transport::Icmp => l4 + 2,
            } as u32,
            l4_sum: l4_sum as u32,
            l4_is_udp: (self.transport == Transport::Udp).into(),
            l4_has_ips: (!icmp4).into(),
            head_len: head_len as u32,
            filler_len: (frame_len - head_len - SIGNATURE) as u32,
            recalls: 0,
            head,
        })
    }

    fn protocol(&self) -> u8 {
        match self.transport {
            Transport::Udp => 17,
            Transport::Tcp(_) => 6,
            Transport::Icmp if self.is_ipv4() => 1,
            Transport::Icmp => 58,
        }
    }

    /// All headers. Checksums, ports and the last 32 bits of addresses are zero.
    fn head(&self, frame_len: usize) -> [u8; HEAD] {
        let mut head = [0; HEAD];
        let (source, destination) = self.macs;
        head[..6].copy_from_slice(&destination);
        head[6..12].copy_from_slice(&source);
        let l4_len = (frame_len - self.l4()) as u16;
        let ip = &mut head[ETHERNET..];
        match (self.src.first, self.dst.first) {
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                ip[0] = 0x60;
                ip[4..6].copy_from_slice(&l4_len.to_be_bytes());
                ip[6] = self.protocol();
                ip[7] = HOP_LIMIT;
                ip[8..20].copy_from_slice(&src.octets()[..12]);
                ip[24..36].copy_from_slice(&dst.octets()[..12]);
                head[12..14].copy_from_slice(&[0x86, 0xdd]);
            }
            _ => {
                ip[0] = 0x45;
                ip[2..4].copy_from_slice(&(l4_len + IPV4 as u16).to_be_bytes());
                // Don't Fragment is set, so the identification may be 0 (RFC 6864 section 4.1).
                ip[6] = 0x40;
                ip[8] = HOP_LIMIT;
                ip[9] = self.protocol();
                head[12..14].copy_from_slice(&[0x08, 0x00]);
            }
        }
        let l4 = &mut head[self.l4()..];
        match self.transport {
            Transport::Udp => l4[4..6].copy_from_slice(&l4_len.to_be_bytes()),
            Transport::Tcp(flags) => {
                // Sequence and acknowledgement number 1, no options, the largest window.
                l4[4..14].copy_from_slice(&[0, 0, 0, 1, 0, 0, 0, 1, 0x50, flags]);
                l4[14..16].copy_from_slice(&[0xff, 0xff]);
            }
            Transport::Icmp => l4[0] = if self.is_ipv4() { 8 } else { 128 },
        }
        head
    }
}

fn low_bits(address: IpAddr) -> u32 {
    match address {
        IpAddr::V4(a) => a.to_bits(),
        IpAddr::V6(a) => a.to_bits() as u32,
    }
}

/// The unfolded sum of 16-bit words (RFC 1071).
fn sum(bytes: &[u8]) -> u64 {
    let words = bytes.chunks(2).map(|w| match *w {
        [a, b] => u16::from_ne_bytes([a, b]),
        [a] => u16::from_ne_bytes([a, 0]),
        _ => 0,
    });
    words.map(u64::from).sum()
}

/// The length of a frame without FCS, bytes.
pub fn length(plan: &Plan) -> usize {
    plan.head_len as usize + SIGNATURE + plan.filler_len as usize
}

/// Writes a frame of [`length`] bytes, with the same bytes as the program in the kernel (`write_frame` in
/// `bpf/pktgen_send.bpf.c`).
pub fn write(plan: &Plan, signature: Signature, flow: Flow, frame: &mut [u8]) {
    let head_len = plan.head_len as usize;
    let ports = (flow.sport << 16 | flow.dport).to_be_bytes();
    let (src, dst) = (flow.src.to_be_bytes(), flow.dst.to_be_bytes());
    let signature = signature.write(plan.key);
    let mut put = |at: u32, bytes: &[u8]| {
        frame[at as usize..at as usize + bytes.len()].copy_from_slice(bytes);
    };
    put(0, &plan.head[..head_len]);
    put(plan.src_at, &src);
    put(plan.dst_at, &dst);
    put(plan.ports_at, &ports);
    let ips = sum(&src) + sum(&dst);
    if plan.ip_sum_at != 0 {
        let checksum = !fold(u64::from(plan.ip_sum) + ips);
        put(plan.ip_sum_at, &checksum.to_ne_bytes());
    }
    let ips = if plan.l4_has_ips == 1 { ips } else { 0 };
    let checksum = !fold(u64::from(plan.l4_sum) + ips + sum(&ports) + sum(&signature));
    let checksum = match checksum {
        // RFC 768: zero would mean that there is no checksum.
        0 if plan.l4_is_udp == 1 => 0xffff,
        checksum => checksum,
    };
    put(plan.l4_sum_at, &checksum.to_ne_bytes());
    put(plan.head_len, &signature);
    frame[head_len + SIGNATURE..].fill(0);
}

fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::flow_at;

    /// The first frame size of RFC 2544 section 9.1, and the corresponding size of RFC 8219 section 5.1.1 for IPv6.
    #[test]
    fn the_shortest_frames_of_the_rfcs_have_room_for_a_signature() {
        for (address, least) in [("198.18.0.1", 64), ("2001:2::1", 84)] {
            assert_eq!(shape(address, Transport::Udp, None).least_size(), least);
            assert_eq!(shape(address, Transport::Icmp, None).least_size(), least);
        }
    }

    #[test]
    fn checksums_add_up() {
        for address in ["198.18.0.1", "2001:2::1"] {
            for transport in [Transport::Udp, Transport::Tcp(2), Transport::Icmp] {
                for size in [None, Some(1517), Some(1518)] {
                    let plan = shape(address, transport, size).plan().expect("it fits");
                    for number in 0..300 {
                        checked(&plan, number);
                    }
                }
            }
        }
    }

    #[test]
    fn a_frame_that_is_too_short_is_refused_with_the_least_size() {
        let refused = shape("2001:2::1", Transport::Udp, Some(64)).plan();
        let text = refused.expect_err("too short").to_string();
        assert!(text.contains("84"), "{text}");
    }

    fn shape(address: &str, transport: Transport, size: Option<usize>) -> Shape {
        let first = address.parse().expect("an address");
        Shape {
            macs: ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]),
            src: Block { first, count: 16 },
            dst: Block { first, count: 1 },
            transport,
            sport: Ports {
                low: 1,
                high: 65535,
            },
            dport: Ports { low: 7, high: 99 },
            size,
        }
    }

    /// Verifies checksums as a receiver does, from the bytes alone (RFC 1071).
    fn checked(plan: &Plan, number: u64) {
        let mut frame = vec![0xff; length(plan)];
        let signature = Signature {
            stream: 0,
            seq: number,
            stamp_ns: number * 1000,
        };
        write(plan, signature, flow_at(plan, number), &mut frame);
        let (l4, addresses, protocol) = match frame[12..14] {
            [0x08, 0x00] => {
                assert_eq!(fold(sum(&frame[14..34])), 0xffff);
                assert_eq!(
                    usize::from(frame[16]) << 8 | usize::from(frame[17]),
                    frame.len() - 14
                );
                (34, &frame[26..34], frame[23])
            }
            _ => (54, &frame[22..54], frame[20]),
        };
        let mut pseudo = addresses.to_vec();
        pseudo.extend(((frame.len() - l4) as u16).to_be_bytes());
        pseudo.extend([0, protocol]);
        let pseudo = if protocol == 1 { 0 } else { sum(&pseudo) };
        assert_eq!(fold(sum(&frame[l4..]) + pseudo), 0xffff, "{frame:02x?}");
    }
}
