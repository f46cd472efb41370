// SPDX-License-Identifier: Apache-2.0 OR MIT
//! ICMP errors by name: the types and codes of RFC 792, RFC 1812 section 5.2.7.1 and RFC 4443.

/// What the four bytes behind the checksum say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// Nothing.
    Unused,
    /// `mtu BYTES`, which must be said.
    Mtu,
    /// `pointer BYTE`, which is 0 if it is not said.
    Pointer,
}

/// A type.
#[derive(Debug)]
pub struct Type {
    pub name: &'static str,
    pub number: u8,
    /// By number. None: the type has the code 0 only, which is not written.
    pub codes: Option<&'static [&'static str]>,
}

/// Destination Unreachable of IPv4, whose code 4 has a field.
const UNREACHABLE_4: u8 = 3;
const FRAGMENTATION_NEEDED: u8 = 4;
const PARAMETER_PROBLEM_4: u8 = 12;
const PACKET_TOO_BIG: u8 = 2;
const PARAMETER_PROBLEM_6: u8 = 4;

const IPV4: [Type; 3] = [
    Type {
        name: "unreachable",
        number: UNREACHABLE_4,
        codes: Some(&[
            "net",
            "host",
            "protocol",
            "port",
            "fragmentation-needed",
            "source-route-failed",
            "net-unknown",
            "host-unknown",
            "host-isolated",
            "net-prohibited",
            "host-prohibited",
            "net-tos",
            "host-tos",
            "prohibited",
            "precedence-violation",
            "precedence-cutoff",
        ]),
    },
    Type {
        name: "time-exceeded",
        number: 11,
        codes: Some(&["transit", "reassembly"]),
    },
    Type {
        name: "parameter-problem",
        number: PARAMETER_PROBLEM_4,
        codes: Some(&["erroneous-field", "missing-option", "bad-length"]),
    },
];

const IPV6: [Type; 4] = [
    Type {
        name: "unreachable",
        number: 1,
        codes: Some(&[
            "no-route",
            "prohibited",
            "beyond-scope",
            "address",
            "port",
            "policy",
            "reject-route",
        ]),
    },
    Type {
        name: "too-big",
        number: PACKET_TOO_BIG,
        codes: None,
    },
    Type {
        name: "time-exceeded",
        number: 3,
        codes: Some(&["transit", "reassembly"]),
    },
    Type {
        name: "parameter-problem",
        number: PARAMETER_PROBLEM_6,
        codes: Some(&[
            "erroneous-field",
            "unrecognized-next-header",
            "unrecognized-option",
        ]),
    },
];

/// All of a family.
pub fn types(is_v4: bool) -> &'static [Type] {
    match is_v4 {
        true => &IPV4,
        false => &IPV6,
    }
}

/// The field of an error.
pub fn field(is_v4: bool, icmp_type: u8, code: u8) -> Field {
    match (is_v4, icmp_type, code) {
        (true, UNREACHABLE_4, FRAGMENTATION_NEEDED) | (false, PACKET_TOO_BIG, _) => Field::Mtu,
        (true, PARAMETER_PROBLEM_4, _) | (false, PARAMETER_PROBLEM_6, _) => Field::Pointer,
        _ => Field::Unused,
    }
}

/// The greatest value of a field that is not unused: 16 bits for the MTU and 8 for the pointer of IPv4 (RFC 1191 section 4,
/// RFC 792), 32 bits in IPv6.
pub fn greatest(is_v4: bool, field: Field) -> u32 {
    match (is_v4, field) {
        (false, _) => u32::MAX,
        (true, Field::Pointer) => u8::MAX.into(),
        (true, _) => u16::MAX.into(),
    }
}

/// Where the lowest bit of a field's value stands among the four bytes, which are one number in network byte order.
pub fn shift(is_v4: bool, field: Field) -> u32 {
    match (is_v4, field) {
        (true, Field::Pointer) => 24,
        _ => 0,
    }
}
