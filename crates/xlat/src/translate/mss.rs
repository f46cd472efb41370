// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lowers the maximum segment size that a TCP SYN announces (RFC 9293 section 3.7.1), for paths that are narrower than
//! the links of both ends and lose the ICMP errors that would say so.
//!
//! RFC 7915 does not demand it, and routers do the same. The option is lowered and never raised. It is never added
//! either: without it, a peer sends segments of 536 (IPv4) or 1220 (IPv6) bytes, which fit. A list of options that
//! does not parse up to the option stays as it is.

use super::payload::PayloadKind;
use super::Translator;
use crate::csum;
use crate::packet::{Checksum, ClampedMss, Outbox, Packet};
use crate::wire::protocol;
use std::ops::Range;

const DATA_OFFSET_AT: usize = 12;
const FLAGS_AT: usize = 13;
const CHECKSUM_AT: usize = 16;
const OPTIONS_AT: usize = 20;
const SYN: u8 = 1 << 1;
/// Kinds of options, and the length of the one that is looked for (RFC 9293 section 3.2).
const END_OF_LIST: u8 = 0;
const NO_OPERATION: u8 = 1;
const MAXIMUM_SEGMENT_SIZE: u8 = 2;
const MSS_LEN: usize = 4;

/// Lowers the option of the transport part, which begins at byte `at` of the packet and whose addresses have been
/// changed already. A fragment is changed only if it has the whole header.
#[inline]
pub(super) fn clamp(
    t: &Translator,
    (number, kind): (u8, PayloadKind),
    packet: &mut Packet<'_>,
    at: usize,
    out: &mut impl Outbox,
) {
    let Some(most) = t.tcp_mss else { return };
    // A later fragment has no header, and is opaque.
    if number != protocol::TCP || !matches!(kind, PayloadKind::Checksummed { .. }) {
        return;
    }
    let checksum = packet.offload.checksum;
    if let Some(mss) = lower(&mut packet.bytes_mut()[at..], most, checksum) {
        out.clamped(mss);
    }
}

/// Lowers the option of a segment with at least a minimal header.
fn lower(segment: &mut [u8], most: u16, checksum: Checksum) -> Option<ClampedMss> {
    if segment[FLAGS_AT] & SYN == 0 {
        return None;
    }
    let value = value_of(segment)?;
    let from = csum::field(segment, value.start);
    if from <= most {
        return None;
    }
    // The words in which it lies: behind an odd number of other bytes, it is a half of each of two.
    let words = value.start & !1..(value.end + 1) & !1;
    let old = csum::sum(&segment[words.clone()]);
    segment[value].copy_from_slice(&most.to_be_bytes());
    let new = csum::sum(&segment[words]);
    // The seed of a partial checksum does not cover the options.
    if checksum == Checksum::Complete {
        let before = csum::field(segment, CHECKSUM_AT);
        csum::set_field(segment, CHECKSUM_AT, csum::update(before, old, new));
    }
    Some(ClampedMss { from, to: most })
}

/// The two bytes of the size in the first such option. None: there is none, or an option before it, or itself, has an
/// impossible length, or the header is not whole.
fn value_of(segment: &[u8]) -> Option<Range<usize>> {
    let header_len = usize::from(segment[DATA_OFFSET_AT] >> 4) * 4;
    let header = segment.get(..header_len)?;
    let mut at = OPTIONS_AT;
    loop {
        let kind = *header.get(at)?;
        match kind {
            END_OF_LIST => return None,
            NO_OPERATION => at += 1,
            _ => {
                let len = usize::from(*header.get(at + 1)?);
                if len < 2 || at + len > header.len() {
                    return None;
                }
                if kind == MAXIMUM_SEGMENT_SIZE {
                    return (len == MSS_LEN).then_some(at + 2..at + MSS_LEN);
                }
                at += len;
            }
        }
    }
}
