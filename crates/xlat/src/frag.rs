// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Splits one packet into several in its buffer: into fragments, or into the segments of a
//! super-packet that must be fragmented.
//!
//! Pieces are sent in order. The headers of each piece are written in front of its bytes, over the
//! bytes of the previous piece, which has already been sent. Only headers are copied.

use crate::csum::{self, Sum};
use crate::packet::{Gso, GsoKind, Outbox, Packet};
use crate::wire::UDP_CHECKSUM_AT;

/// One fragment: its place in the payload of the datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// Offset in units of 8 bytes from the beginning of the packet that is cut.
    pub offset: u16,
    /// Length in bytes.
    pub len: usize,
    /// True for the last piece of the packet.
    pub last: bool,
}

/// Sends the payload of `packet`, which begins at byte `payload_at`, in pieces of at most `largest`
/// bytes. `head` writes a header of `header_len` bytes in front of each piece. The buffer must have
/// room for the first header.
pub fn cut(
    packet: &mut Packet<'_>,
    payload_at: usize,
    header_len: usize,
    largest: usize,
    out: &mut impl Outbox,
    mut head: impl FnMut(&mut [u8], Piece),
) {
    let total = packet.bytes().len() - payload_at;
    // All pieces but the last are multiples of 8 bytes (RFC 791 section 2.3, RFC 8200 section 4.5).
    let step = largest / 8 * 8;
    let offload = packet.offload.of_part();
    for at in (0..total).step_by(step) {
        let len = step.min(total - at);
        let piece = Piece {
            offset: (at / 8) as u16,
            len,
            last: at + len == total,
        };
        let bytes = packet.with_room(payload_at + at, len, header_len);
        head(bytes, piece);
        out.emit(bytes, offload);
    }
}

/// Length in bytes of the longest TCP header.
const MAX_TCP_LEN: usize = 60;

// TCP flags (RFC 9293 section 3.1, RFC 3168 section 6.1).
const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const CWR: u8 = 0x80;

/// Length in bytes of the transport header of a super-packet. None if `transport` cannot be cut.
#[inline]
pub fn transport_header_len(kind: GsoKind, transport: &[u8]) -> Option<usize> {
    let (len, least) = match kind {
        GsoKind::Tcp => (usize::from(transport.get(12)? >> 4) * 4, 20),
        GsoKind::Udp => (8, 8),
    };
    (len >= least && len <= transport.len()).then_some(len)
}

/// Makes a packet of every segment of the super-packet `packet`, whose transport begins at byte
/// `transport_at`, and gives it to `send`. In front of the transport header, `ip` writes a new IP
/// header of `ip_len` bytes for a given number of transport bytes, and returns the pseudo-header.
/// The preceding argument is the index of the segment.
pub(crate) fn segments<E>(
    packet: &mut Packet<'_>,
    transport_at: usize,
    gso: Gso,
    ip_len: usize,
    mut ip: impl FnMut(&mut [u8], u16, usize) -> Sum,
    mut send: impl FnMut(&mut Packet<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let mut template = [0; MAX_TCP_LEN];
    let transport = &packet.bytes()[transport_at..];
    let Some(header_len) = transport_header_len(gso.kind, transport) else {
        return Ok(());
    };
    let template = &mut template[..header_len];
    template.copy_from_slice(&transport[..header_len]);
    let data = transport.len() - header_len;
    let step = usize::from(gso.size);
    let mut number = 0u16;
    let mut at = 0;
    loop {
        let len = step.min(data - at);
        let last = at + len == data;
        let headers = ip_len + header_len;
        let bytes = packet.with_room(transport_at + header_len + at, len, headers);
        let pseudo = ip(bytes, number, header_len + len);
        let segment = &mut bytes[ip_len..];
        segment[..header_len].copy_from_slice(template);
        match gso.kind {
            GsoKind::Tcp => {
                let sequence = u32::from_be_bytes([segment[4], segment[5], segment[6], segment[7]]);
                segment[4..8].copy_from_slice(&sequence.wrapping_add(at as u32).to_be_bytes());
                segment[13] &= if last { !0 } else { !(FIN | PSH) };
                segment[13] &= if at == 0 { !0 } else { !CWR };
                csum::fill_in(segment, 16, pseudo);
            }
            GsoKind::Udp => {
                segment[4..6].copy_from_slice(&((header_len + len) as u16).to_be_bytes());
                csum::fill_in(segment, UDP_CHECKSUM_AT, pseudo);
                let checksum = csum::never_zero(csum::field(segment, UDP_CHECKSUM_AT));
                csum::set_field(segment, UDP_CHECKSUM_AT, checksum);
            }
        }
        send(&mut packet.part(transport_at + header_len + at, len, headers))?;
        if last {
            return Ok(());
        }
        at += len;
        number = number.wrapping_add(1);
    }
}
