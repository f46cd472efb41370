// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What must hold for every packet, whatever becomes of it.
//!
//! packet → translator → verdict → [`Seen`]: one translated packet, its fragments, or our own error

use crate::common::{self, ones_sum, Outcome, World};
use crate::seen::Seen;
use crate::setting::SCARCE_BURST;
use diolkos_xlat::{Checksum, Config, Offload, TrafficClass, Translator, UdpZeroChecksum, Verdict};

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
        Verdict::Held | Verdict::Elsewhere(_) => {
            panic!("a translator without state holds nothing, and is alone")
        }
    }
    outcome
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
        after.unchanged(after.transport()),
        before.unchanged(before.transport())
    );
    let (first, second) = (before.fragment, after.fragment);
    assert_eq!(
        first.filter(|f| *f != (0, false)),
        second,
        "the same part of a datagram"
    );
    assert_eq!(offload.gso, offered.gso);
    match (offered.checksum, offload.checksum) {
        (Checksum::Complete, Checksum::Complete) => {
            match before.checksum().filter(|_| !before.is_all_zero()) {
                None => assert_ne!(after.checksum(), Some(false), "none, or computed"),
                right => assert_eq!(after.checksum(), right, "as right as it was"),
            }
        }
        (Checksum::Partial, Checksum::Partial) => {
            assert!(
                after.is_seed() || !before.is_seed(),
                "the sum of the new pseudo-header"
            );
        }
        (Checksum::Complete, Checksum::Partial) => {
            // The segments of UDP without checksum get one each.
            assert!(
                after.protocol == 17
                    && offload.gso.is_some()
                    && config.udp_zero_checksum == Some(UdpZeroChecksum::Compute)
            );
            assert!(after.is_seed());
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
        assert!(!more || piece.transport().len().is_multiple_of(8));
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
            first.unchanged(transport),
            before.unchanged(before.transport())
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
