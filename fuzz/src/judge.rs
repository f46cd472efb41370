// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What must hold for every packet, whatever becomes of it. It is read here a second time, without the translator's
//! code: checksums are added up word by word, lengths are taken from where the RFCs put them.
//!
//! packet → translator → verdict → [`Seen`]: one translated packet, its fragments, or our own error

use crate::common::{self, ones_sum, Outcome, World};
use crate::headers::walk;
use crate::setting::SCARCE_BURST;
use diolkos_core::{
    Checksum, Config, Gso, GsoKind, Offload, TrafficClass, Translator, UdpZeroChecksum, Verdict,
};

/// Translates the packet and panics if anything about the outcome cannot be.
pub fn judge(config: &Config, translator: &Translator, packet: &[u8], offload: Offload) -> Outcome {
    let mut world = World::new();
    let outcome = common::run_in(&mut world, translator, packet, offload);
    let before = Seen::of(packet);
    match outcome.verdict {
        Verdict::Forward => {
            assert_eq!(outcome.sent, [], "what is forwarded is all");
            let before = before.expect("only packets are forwarded");
            translated(config, &before, offload, &outcome.packet, outcome.offload);
        }
        Verdict::Emitted => {
            let before = before.expect("only packets are translated");
            pieces(config, &before, offload, &outcome.sent);
        }
        Verdict::Drop(_) => {
            // Of a super-packet that is cut, segments may have left before the one that is refused.
            assert!(outcome.sent.len() <= 1 || offload.gso.is_some());
            if offload.gso.is_none() {
                for (error, offload) in &outcome.sent {
                    assert_eq!(*offload, Offload::default());
                    own_error(
                        before.as_ref().expect("only packets are answered"),
                        packet,
                        error,
                    );
                }
                rate_limit(config, translator, &mut world, packet, outcome.sent.len());
            }
        }
        Verdict::Held => panic!("a translator without state holds nothing"),
    }
    outcome
}

/// A packet as it stands on the wire.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// The packet, without padding of the link.
    pub bytes: &'a [u8],
    version: u8,
    class: u8,
    hops: u8,
    dont_fragment: bool,
    /// Offset in bytes and whether more follows; None without a Fragment header, or without meaning in IPv4's.
    fragment: Option<(usize, bool)>,
    /// ICMP is the packet's own.
    protocol: u8,
    transport_at: usize,
}

impl<'a> Seen<'a> {
    /// None if it is no packet, or one that leads nowhere.
    pub fn of(bytes: &'a [u8]) -> Option<Seen<'a>> {
        match bytes.first()? >> 4 {
            4 => Seen::ipv4(bytes),
            6 => Seen::ipv6(bytes),
            _ => None,
        }
    }

    fn ipv4(bytes: &'a [u8]) -> Option<Seen<'a>> {
        let transport_at = usize::from(bytes[0] & 15) * 4;
        let bytes = bytes.get(..usize::from(word(bytes, 2)?))?;
        if transport_at < 20 || transport_at > bytes.len() {
            return None;
        }
        let flags_and_offset = word(bytes, 6)?;
        let more = flags_and_offset & 0x2000 != 0;
        let offset = usize::from(flags_and_offset & 0x1fff) * 8;
        Some(Seen {
            bytes,
            version: 4,
            class: bytes[1],
            hops: bytes[8],
            dont_fragment: flags_and_offset & 0x4000 != 0,
            fragment: (more || offset != 0).then_some((offset, more)),
            protocol: bytes[9],
            transport_at,
        })
    }

    fn ipv6(bytes: &'a [u8]) -> Option<Seen<'a>> {
        let bytes = bytes.get(..40 + usize::from(word(bytes, 4)?))?;
        let walked = walk(bytes)?;
        Some(Seen {
            bytes,
            version: 6,
            class: bytes[0] << 4 | bytes[1] >> 4,
            hops: bytes[7],
            dont_fragment: true,
            fragment: walked
                .fragment
                .map(|fragment| (usize::from(fragment.offset) * 8, fragment.more)),
            protocol: walked.protocol,
            transport_at: walked.at,
        })
    }

    fn transport(&self) -> &'a [u8] {
        &self.bytes[self.transport_at..]
    }

    fn is_whole(&self) -> bool {
        self.fragment.is_none_or(|fragment| fragment == (0, false))
    }

    fn is_icmp(&self) -> bool {
        self.protocol == if self.version == 4 { 1 } else { 58 }
    }

    /// RFC 792 and RFC 4443 section 2.1.
    pub fn is_icmp_error(&self) -> bool {
        let errors = match self.version {
            4 => [3, 4, 5, 11, 12].contains(self.transport().first().unwrap_or(&3)),
            _ => *self.transport().first().unwrap_or(&1) < 128,
        };
        self.is_icmp() && errors && self.fragment.is_none_or(|(offset, _)| offset == 0)
    }

    fn source(&self) -> &'a [u8] {
        if self.version == 4 {
            &self.bytes[12..16]
        } else {
            &self.bytes[8..24]
        }
    }

    fn destination(&self) -> &'a [u8] {
        if self.version == 4 {
            &self.bytes[16..20]
        } else {
            &self.bytes[24..40]
        }
    }

    /// The pseudo-header of a transport of `len` bytes; ICMPv4 has none.
    fn pseudo(&self, len: usize) -> Vec<u8> {
        if self.version == 4 && self.is_icmp() {
            return Vec::new();
        }
        let addresses = [self.source(), self.destination()].concat();
        [
            &addresses[..],
            &(len as u32).to_be_bytes(),
            &[0, self.protocol],
        ]
        .concat()
    }

    /// Is the transport checksum of `transport` right? None where there is none, or none to be known.
    fn checksum_of(&self, transport: &[u8]) -> Option<bool> {
        let at = checksum_at(self, transport)?;
        let covered = match self.protocol {
            17 => {
                let len = usize::from(word(transport, 4)?);
                if len < 8 || word(transport, at)? == 0 {
                    return None;
                }
                transport.get(..len)?
            }
            // RFC 3828 section 3.1: 0 covers all.
            136 => match usize::from(word(transport, 4)?) {
                0 => transport,
                1..8 => return None,
                len => transport.get(..len)?,
            },
            // RFC 4340 section 9.2: only a coverage of 0 covers all.
            33 if transport[5] & 15 != 0 => return None,
            _ => transport,
        };
        let len = if self.protocol == 17 {
            covered.len()
        } else {
            transport.len()
        };
        // Every pseudo-header is of whole words.
        Some(ones_sum(&[&self.pseudo(len), covered].concat()) == 0xffff)
    }

    fn checksum(&self) -> Option<bool> {
        self.is_whole()
            .then(|| self.checksum_of(self.transport()))?
    }

    /// By difference, zeros that sum to zero cannot be told from words that sum to 0xFFFF (RFC 1624 section 3).
    fn is_all_zero(&self) -> bool {
        self.is_icmp() && ones_sum(self.transport()) == 0
    }

    /// Bytes of the largest packet that it stands for.
    fn largest(&self, offload: Offload) -> usize {
        let Some(Gso { kind, size }) = offload.gso else {
            return self.bytes.len();
        };
        let header = match kind {
            GsoKind::Tcp => usize::from(self.transport()[12] >> 4) * 4,
            GsoKind::Udp => 8,
        };
        self.bytes
            .len()
            .min(self.transport_at + header + usize::from(size))
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]))
}

/// Where the transport has its checksum, if it has one and is long enough.
fn checksum_at(seen: &Seen<'_>, transport: &[u8]) -> Option<usize> {
    let (at, least) = match seen.protocol {
        6 => (16, 20),
        17 | 136 => (6, 8),
        33 => (6, 12),
        _ if seen.is_icmp() => (2, 8),
        _ => return None,
    };
    (transport.len() >= least).then_some(at)
}

/// The transport with what translation may change taken out: the checksum, and the type of an echo message.
fn unchanged(seen: &Seen<'_>, transport: &[u8]) -> Vec<u8> {
    let mut bytes = transport.to_vec();
    if seen.fragment.is_none_or(|(offset, _)| offset == 0) {
        if let Some(at) = checksum_at(seen, transport) {
            bytes[at..at + 2].fill(0);
        }
        if seen.is_icmp() && !bytes.is_empty() {
            bytes[0] = 0;
        }
    }
    bytes
}

/// Lengths, header checksum, hops: what holds for all that leaves.
fn well_formed(bytes: &[u8]) -> Seen<'_> {
    let seen = Seen::of(bytes).unwrap_or_else(|| panic!("no packet: {bytes:x?}"));
    assert_eq!(
        seen.bytes.len(),
        bytes.len(),
        "the length field is that of the packet"
    );
    if seen.version == 4 {
        assert_eq!(bytes[0], 0x45, "without options");
        assert_eq!(ones_sum(&bytes[..20]), 0xffff, "IPv4 header checksum");
        assert!(
            !(seen.dont_fragment && seen.fragment.is_some()),
            "a fragment that must not be one"
        );
    } else {
        assert!(seen.transport_at <= 48, "no extension header but Fragment");
    }
    assert!(seen.hops > 0);
    seen
}

/// A packet that was translated whole.
fn translated(
    config: &Config,
    before: &Seen<'_>,
    offered: Offload,
    bytes: &[u8],
    offload: Offload,
) {
    let after = well_formed(bytes);
    assert!(
        after.version != before.version || before.version == 6,
        "only IPv6 packets turn"
    );
    assert_eq!(after.hops + 1, before.hops, "one hop further");
    let class = match config.traffic_class {
        TrafficClass::Copy => before.class,
        TrafficClass::Zero => 0,
    };
    assert_eq!(after.class, class);
    fits(config, before, &after, offload);

    if before.is_icmp_error() {
        assert_eq!(offload, Offload::default());
        assert_eq!(after.checksum(), Some(true), "an error is summed anew");
        if offered.checksum == Checksum::Complete {
            assert_eq!(before.checksum(), Some(true), "and only a right one");
        }
        return;
    }
    assert_eq!(
        unchanged(&after, after.transport()),
        unchanged(before, before.transport())
    );
    let (first, second) = (before.fragment, after.fragment);
    assert_eq!(
        first.filter(|f| *f != (0, false)),
        second,
        "the same part of a datagram"
    );
    assert_eq!(offload.gso, offered.gso);
    let is_seed = |seen: &Seen<'_>| {
        let at = checksum_at(seen, seen.transport()).expect("a seed stands somewhere");
        let field = word(seen.transport(), at).expect("within the header");
        let len = match seen.protocol {
            17 => usize::from(word(seen.transport(), 4).expect("within the header")),
            _ => seen.transport().len(),
        };
        // 0 and 0xFFFF are one number.
        field % 0xffff == ones_sum(&seen.pseudo(len)) % 0xffff
    };
    match (offered.checksum, offload.checksum) {
        (Checksum::Complete, Checksum::Complete) => {
            match before.checksum().filter(|_| !before.is_all_zero()) {
                None => assert_ne!(after.checksum(), Some(false), "none, or computed"),
                right => assert_eq!(after.checksum(), right, "as right as it was"),
            }
        }
        (Checksum::Partial, Checksum::Partial) => {
            assert!(
                is_seed(&after) || !is_seed(before),
                "the sum of the new pseudo-header"
            );
        }
        (Checksum::Complete, Checksum::Partial) => {
            // The segments of UDP without checksum get one each.
            assert!(
                after.protocol == 17
                    && offload.gso.is_some()
                    && config.udp_zero_checksum == UdpZeroChecksum::Compute
            );
            assert!(is_seed(&after));
        }
        (Checksum::Partial, Checksum::Complete) => {
            panic!("what was left to the device is left to it")
        }
    }
}

/// No segment is above an MTU, and DF is set on what must not be fragmented on its way (RFC 7915 sections 4.1 and 5).
fn fits(config: &Config, before: &Seen<'_>, after: &Seen<'_>, offload: Offload) {
    let largest = after.largest(offload);
    if after.version == 4 {
        assert!(largest <= config.mtu4 as usize, "{largest} bytes of IPv4");
        if before.version == 6 && before.fragment.is_none() {
            assert_eq!(after.dont_fragment, largest > 1260, "DF of {largest} bytes");
        }
    } else {
        assert!(largest <= config.mtu6 as usize, "{largest} bytes of IPv6");
        if before.version == 4 && !before.dont_fragment {
            assert!(
                largest <= config.lowest_ipv6_mtu.max(1280) as usize,
                "{largest} bytes without DF"
            );
        }
    }
}

/// Fragments, or the segments of a super-packet, or the fragments of those: what they carry is what the packet carried.
fn pieces(config: &Config, before: &Seen<'_>, offered: Offload, sent: &[(Vec<u8>, Offload)]) {
    let mut datagrams: Vec<(Seen<'_>, Vec<u8>)> = Vec::new();
    let (begin, continues) = before.fragment.unwrap_or((0, false));
    let (mut at, mut ended) = (begin, true);
    for (bytes, offload) in sent {
        let piece = well_formed(bytes);
        assert_eq!(*offload, Offload::default());
        assert_eq!(piece.hops + 1, before.hops);
        fits(config, before, &piece, *offload);
        if ended {
            datagrams.push((piece, Vec::new()));
            at = begin;
        }
        let (offset, more) = piece.fragment.unwrap_or((0, false));
        assert_eq!(offset, at, "fragments follow each other");
        assert!(
            more || !continues,
            "what was not the end of a datagram is none now"
        );
        assert!(!more || piece.transport().len() % 8 == 0);
        let (_, transport) = datagrams.last_mut().expect("one was pushed");
        transport.extend(piece.transport());
        at += piece.transport().len();
        ended = !more;
    }
    assert_eq!(ended, !continues, "the last fragment");
    if offered.gso.is_none() {
        let [(first, transport)] = &datagrams[..] else {
            panic!("{} datagrams out of one", datagrams.len());
        };
        assert_eq!(
            unchanged(first, transport),
            unchanged(before, before.transport())
        );
    }
    for (first, transport) in &datagrams {
        let was_right = offered.gso.is_some() || before.checksum() == Some(true);
        if before.is_whole() && was_right && offered.checksum == Checksum::Complete {
            assert_ne!(
                first.checksum_of(transport),
                Some(false),
                "as right as it was"
            );
        }
    }
}

/// RFC 4443 section 2.4 and RFC 1812 section 4.3.2: to the sender, about the packet, not about an error.
fn own_error(before: &Seen<'_>, packet: &[u8], bytes: &[u8]) {
    let error = well_formed(bytes);
    assert_eq!(error.version, before.version);
    assert!(error.is_icmp_error() && error.is_whole());
    assert_eq!(error.checksum(), Some(true));
    assert_eq!(error.destination(), before.source());
    assert!(!before.is_icmp_error(), "an error about an error");
    assert!(before
        .fragment
        .is_none_or(|(offset, _)| offset == 0 || before.version == 6));
    let longest = if before.version == 4 {
        576 - 28
    } else {
        1280 - 48
    };
    let quote = &error.transport()[8..];
    assert_eq!(
        quote.len(),
        before.bytes.len().min(longest),
        "as much as may be quoted"
    );
    assert_eq!(quote, &packet[..quote.len()], "as it was received");
}

/// RFC 4443 section 2.4(f): no more at once than configured. Time stands still here.
fn rate_limit(
    config: &Config,
    translator: &Translator,
    world: &mut World,
    packet: &[u8],
    mut sent: usize,
) {
    if config.icmp.rate == 0 {
        assert_eq!(sent, 0, "none are sent");
    } else if config.icmp.burst == SCARCE_BURST && sent > 0 {
        for _ in 0..SCARCE_BURST + 2 {
            sent += common::run_in(world, translator, packet, Offload::default())
                .sent
                .len();
        }
        assert_eq!(sent, SCARCE_BURST as usize);
    }
}
