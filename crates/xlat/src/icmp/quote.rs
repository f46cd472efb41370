// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The part of an ICMP error after its header: the quoted packet and, if the header gives the
//! length of the quote, extensions (RFC 4884).

use crate::verdict::Reason;
use crate::wire::icmp::{v4, v6, ICMP_LEN};
use crate::wire::{IPV4_LEN, IPV6_LEN};

/// Minimum length in bytes of a quote that is followed by extensions; shorter quotes are padded
/// (RFC 4884 section 4).
pub const LEAST_QUOTE: usize = 128;

/// The length field of an ICMP header: its offset, and the unit of the quote length (RFC 4884
/// sections 4 and 5.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LengthField {
    pub at: usize,
    pub unit: usize,
    /// Bytes after the ICMP header in the longest message with extensions.
    pub room: usize,
}

/// "The total length of the ICMP message, including extensions, MUST NOT exceed the minimum
/// reassembly buffer size", which is 576 bytes for ICMPv4 and 1280 for ICMPv6 (RFC 4884 sections 7
/// and 5.3).
const ROOM_4: usize = 576 - IPV4_LEN - ICMP_LEN;
const ROOM_6: usize = 1280 - IPV6_LEN - ICMP_LEN;

/// Returns the length field of the ICMPv4 errors that can have extensions. It counts words of 32
/// bits.
pub fn length_field_of_icmpv4(icmp_type: u8) -> Option<LengthField> {
    matches!(
        icmp_type,
        v4::UNREACHABLE | v4::TIME_EXCEEDED | v4::PARAMETER_PROBLEM
    )
    .then_some(LengthField {
        at: 5,
        unit: 4,
        room: ROOM_4,
    })
}

/// Returns the length field of the ICMPv6 errors that can have extensions. It counts words of 64
/// bits.
pub fn length_field_of_icmpv6(icmp_type: u8) -> Option<LengthField> {
    matches!(icmp_type, v6::UNREACHABLE | v6::TIME_EXCEEDED).then_some(LengthField {
        at: 4,
        unit: 8,
        room: ROOM_6,
    })
}

/// The body of an ICMP error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Body<'a> {
    /// The quoted packet.
    pub quote: &'a [u8],
    /// The extensions (RFC 4884), which may be empty.
    pub extensions: &'a [u8],
}

/// Splits the body of an ICMP error with this header.
///
/// Quotes shorter than [`LEAST_QUOTE`] are accepted, because some routers do not pad.
pub fn split<'a>(
    header: &[u8],
    body: &'a [u8],
    field: Option<LengthField>,
) -> Result<Body<'a>, Reason> {
    let len = field.map_or(0, |field| usize::from(header[field.at]) * field.unit);
    let (quote, extensions) = match len {
        0 => (body, &[][..]),
        len => body.split_at_checked(len).ok_or(Reason::IcmpExtension)?,
    };
    Ok(Body { quote, extensions })
}

/// The layout of a quote of `quote` bytes and its extensions in a message with `room` bytes after
/// the ICMP header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plan {
    /// Bytes of the quoted packet to keep.
    pub quote: usize,
    /// Zero bytes after the quote.
    pub padding: usize,
    /// Bytes of extensions: all of them or 0.
    pub extensions: usize,
    /// The value of the length field.
    pub length: u8,
}

/// Keeps the extensions if the message can have them (`field`) and the room also holds a quote of
/// the minimum length.
pub fn plan(quote: usize, extensions: usize, room: usize, field: Option<LengthField>) -> Plan {
    let without = Plan {
        quote: quote.min(room),
        padding: 0,
        extensions: 0,
        length: 0,
    };
    let (
        Some(LengthField {
            unit,
            room: with_extensions,
            ..
        }),
        1..,
    ) = (field, extensions)
    else {
        return without;
    };
    // The length field has 8 bits; no room has 256 units.
    let largest = room.min(with_extensions).saturating_sub(extensions) / unit * unit;
    if largest < LEAST_QUOTE {
        return without;
    }
    let padded = quote.next_multiple_of(unit).clamp(LEAST_QUOTE, largest);
    let quote = quote.min(padded);
    Plan {
        quote,
        padding: padded - quote,
        extensions,
        length: (padded / unit) as u8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V4: Option<LengthField> = Some(LengthField {
        at: 5,
        unit: 4,
        room: ROOM_4,
    });
    const V6: Option<LengthField> = Some(LengthField {
        at: 4,
        unit: 8,
        room: ROOM_6,
    });

    #[test]
    fn splitting() {
        let body = [7; 200];
        let header = |length| [11, 0, 0, 0, 0, length, 0, 0];
        assert_eq!(
            split(&header(0), &body, V4).map(|body| (body.quote.len(), body.extensions.len())),
            Ok((200, 0))
        );
        assert_eq!(
            split(&header(32), &body, V4).map(|body| (body.quote.len(), body.extensions.len())),
            Ok((128, 72))
        );
        assert_eq!(
            split(&header(7), &body, V4).map(|body| (body.quote.len(), body.extensions.len())),
            Ok((28, 172))
        );
        assert_eq!(
            split(&header(50), &body, V4).map(|body| (body.quote.len(), body.extensions.len())),
            Ok((200, 0))
        );
        assert_eq!(split(&header(51), &body, V4), Err(Reason::IcmpExtension));
        assert_eq!(
            split(&header(51), &body, None).map(|body| (body.quote.len(), body.extensions.len())),
            Ok((200, 0))
        );
    }

    #[test]
    fn planning() {
        let of = |quote, padding, extensions, length| Plan {
            quote,
            padding,
            extensions,
            length,
        };
        assert_eq!(plan(148, 12, 1232, V6), of(148, 4, 12, 19));
        assert_eq!(plan(48, 12, 1232, V6), of(48, 80, 12, 16));
        assert_eq!(plan(108, 12, 1232, V4), of(108, 20, 12, 32));
        assert_eq!(plan(500, 0, 1232, V6), of(500, 0, 0, 0));
        assert_eq!(plan(500, 12, 1232, None), of(500, 0, 0, 0));
        assert_eq!(plan(1240, 12, 1232, V6), of(1216, 0, 12, 152));
        assert_eq!(
            plan(1240, 1105, 1232, V6),
            of(1232, 0, 0, 0),
            "127 bytes left"
        );
        assert_eq!(
            plan(1200, 12, 1232, V4),
            of(536, 0, 12, 134),
            "576 bytes in all"
        );
        assert_eq!(
            plan(1200, 421, 1232, V4),
            of(1200, 0, 0, 0),
            "127 bytes left"
        );
    }
}
