// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Types, codes, pointers and MTUs of ICMP errors (RFC 7915 sections 4.2 and 5.2).

use crate::verdict::Reason;
use crate::wire::icmp::{v4, v6};

/// The first word of an ICMP error, without its checksum, and the second word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    pub icmp_type: u8,
    pub code: u8,
    /// Bytes 4 to 7: unused, pointer, MTU or length of the quoted packet.
    pub rest: [u8; 4],
}

/// MTUs in bytes of the next hops of both sides.
#[derive(Clone, Copy, Debug)]
pub struct Mtus {
    pub mtu4: usize,
    pub mtu6: usize,
}

/// The smallest MTU of IPv6 (RFC 8200 section 5).
const MIN_MTU_6: usize = 1280;
/// The smallest MTU of IPv4 (RFC 791 section 3.2).
const MIN_MTU_4: usize = 68;
/// Length in bytes by which an IPv6 header exceeds an IPv4 header.
const DIFFERENCE: usize = 20;
/// Length in bytes that a Fragment header adds.
const FRAGMENT: usize = 8;

/// Common MTUs in bytes, for routers that do not report theirs (RFC 1191 section 7.1).
const PLATEAUS: [usize; 11] = [
    65535, 32000, 17914, 8166, 4352, 2002, 1492, 1006, 508, 296, 68,
];

/// Translates the head of an ICMPv4 error to ICMPv6. `quoted_len` is the total length in bytes of the
/// packet it quotes.
pub fn to_icmpv6(head: Head, quoted_len: usize, mtus: Mtus) -> Result<Head, Reason> {
    let new = |icmp_type, code| {
        Ok(Head {
            icmp_type,
            code,
            rest: [0; 4],
        })
    };
    match (head.icmp_type, head.code) {
        (v4::UNREACHABLE, code) => match code {
            // Net, host; source route failed; net, host unknown; isolated; net, host unreachable
            // for this type of service.
            0 | 1 | 5 | 6 | 7 | 8 | 11 | 12 => new(v6::UNREACHABLE, NO_ROUTE),
            // Protocol unreachable: IPv6 reports an erroneous Next Header field.
            2 => Ok(Head {
                rest: 6u32.to_be_bytes(),
                ..new(v6::PARAMETER_PROBLEM, UNRECOGNIZED_NEXT_HEADER)?
            }),
            3 => new(v6::UNREACHABLE, PORT),
            FRAGMENTATION_NEEDED => {
                let told = u16::from_be_bytes([head.rest[2], head.rest[3]]);
                let mtu = mtu_to_ipv6(usize::from(told), quoted_len, mtus);
                Ok(Head {
                    rest: (mtu as u32).to_be_bytes(),
                    ..new(v6::PACKET_TOO_BIG, 0)?
                })
            }
            // Net, host, all administratively prohibited; precedence cutoff.
            9 | 10 | 13 | 15 => new(v6::UNREACHABLE, PROHIBITED),
            _ => Err(Reason::IcmpType), // 14, host precedence violation, among them.
        },
        // "The Code is unchanged", for every code.
        (v4::TIME_EXCEEDED, code) => new(v6::TIME_EXCEEDED, code),
        (v4::PARAMETER_PROBLEM, 0 | 2) => {
            let pointer = pointer_to_ipv6(head.rest[0]).ok_or(Reason::IcmpPointer)?;
            Ok(Head {
                rest: pointer.to_be_bytes(),
                ..new(v6::PARAMETER_PROBLEM, ERRONEOUS_FIELD)?
            })
        }
        _ => Err(Reason::IcmpType),
    }
}

/// Translates the head of an ICMPv6 error to ICMPv4. `quoted_fragment` is true if the packet it
/// quotes has a Fragment header.
pub fn to_icmpv4(head: Head, quoted_fragment: bool, mtus: Mtus) -> Result<Head, Reason> {
    let new = |icmp_type, code| {
        Ok(Head {
            icmp_type,
            code,
            rest: [0; 4],
        })
    };
    match (head.icmp_type, head.code) {
        // No route, beyond scope of the source, address.
        (v6::UNREACHABLE, NO_ROUTE | 2 | 3) => new(v4::UNREACHABLE, 1),
        (v6::UNREACHABLE, PROHIBITED) => new(v4::UNREACHABLE, 10),
        (v6::UNREACHABLE, PORT) => new(v4::UNREACHABLE, 3),
        (v6::PACKET_TOO_BIG, _) => {
            let mtu = mtu_to_ipv4(
                u32::from_be_bytes(head.rest) as usize,
                quoted_fragment,
                mtus,
            );
            let [high, low] = (mtu as u16).to_be_bytes();
            Ok(Head {
                rest: [0, 0, high, low],
                ..new(v4::UNREACHABLE, FRAGMENTATION_NEEDED)?
            })
        }
        (v6::TIME_EXCEEDED, code) => new(v4::TIME_EXCEEDED, code),
        (v6::PARAMETER_PROBLEM, ERRONEOUS_FIELD) => {
            let pointer =
                pointer_to_ipv4(u32::from_be_bytes(head.rest)).ok_or(Reason::IcmpPointer)?;
            Ok(Head {
                rest: [pointer, 0, 0, 0],
                ..new(v4::PARAMETER_PROBLEM, 0)?
            })
        }
        (v6::PARAMETER_PROBLEM, UNRECOGNIZED_NEXT_HEADER) => new(v4::UNREACHABLE, 2),
        _ => Err(Reason::IcmpType),
    }
}

// Codes of ICMPv6 errors (RFC 4443 section 3), and one of ICMPv4.
const NO_ROUTE: u8 = 0;
const PROHIBITED: u8 = 1;
const PORT: u8 = 4;
const ERRONEOUS_FIELD: u8 = 0;
const UNRECOGNIZED_NEXT_HEADER: u8 = 1;
const FRAGMENTATION_NEEDED: u8 = 4;

/// RFC 7915 figure 3.
fn pointer_to_ipv6(pointer: u8) -> Option<u32> {
    match pointer {
        0 => Some(0),       // version, header length -> version, traffic class
        1 => Some(1),       // type of service -> traffic class, flow label
        2 | 3 => Some(4),   // total length -> payload length
        8 => Some(7),       // time to live -> hop limit
        9 => Some(6),       // protocol -> next header
        12..=15 => Some(8), // source
        16..=19 => Some(24),
        _ => None, // identification, flags, fragment offset, header checksum, options
    }
}

/// RFC 7915 figure 6.
fn pointer_to_ipv4(pointer: u32) -> Option<u8> {
    match pointer {
        0 => Some(0),
        1 => Some(1),
        4 | 5 => Some(2),
        6 => Some(9),
        7 => Some(8),
        8..=23 => Some(12),
        24..=39 => Some(16),
        _ => None, // flow label, extension headers
    }
}

/// The smallest of the reported MTU plus 20, the MTU of the IPv4 next hop plus 20, and the MTU of the
/// IPv6 next hop, but at least 1280. If the router reports no MTU, the greatest plateau value below
/// the length of its packet replaces it (RFC 7915 section 4.2).
fn mtu_to_ipv6(told: usize, quoted_len: usize, mtus: Mtus) -> usize {
    let told = match told {
        0 => PLATEAUS
            .into_iter()
            .find(|&plateau| plateau < quoted_len)
            .unwrap_or(0),
        told => told,
    };
    (told + DIFFERENCE)
        .min(mtus.mtu6)
        .min(mtus.mtu4 + DIFFERENCE)
        .max(MIN_MTU_6)
}

/// The smallest of the reported MTU less 20, the MTU of the IPv6 next hop less 20, and the MTU of the
/// IPv4 next hop, "taking into account whether or not the packet in error includes a Fragment Header"
/// (RFC 7915 section 5.2).
fn mtu_to_ipv4(told: usize, quoted_fragment: bool, mtus: Mtus) -> usize {
    let difference = DIFFERENCE + if quoted_fragment { FRAGMENT } else { 0 };
    told.min(mtus.mtu6)
        .saturating_sub(difference)
        .min(mtus.mtu4)
        .max(MIN_MTU_4)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MTUS: Mtus = Mtus {
        mtu4: 1500,
        mtu6: 1500,
    };

    fn to6(icmp_type: u8, code: u8, rest: [u8; 4]) -> Result<(u8, u8, [u8; 4]), Reason> {
        to_icmpv6(
            Head {
                icmp_type,
                code,
                rest,
            },
            1500,
            MTUS,
        )
        .map(|h| (h.icmp_type, h.code, h.rest))
    }

    fn to4(icmp_type: u8, code: u8, rest: [u8; 4]) -> Result<(u8, u8, [u8; 4]), Reason> {
        to_icmpv4(
            Head {
                icmp_type,
                code,
                rest,
            },
            false,
            MTUS,
        )
        .map(|h| (h.icmp_type, h.code, h.rest))
    }

    #[test]
    fn every_icmpv4_unreachable() {
        let codes = [0, 0, 255, 4, 254, 0, 0, 0, 0, 1, 1, 0, 0, 1, 253, 1];
        for (code, expected) in (0u8..).zip(codes) {
            let expected = match expected {
                255 => Ok((4, 1, [0, 0, 0, 6])),
                254 => Ok((2, 0, 1420u32.to_be_bytes())),
                253 => Err(Reason::IcmpType),
                code => Ok((1, code, [0; 4])),
            };
            let rest = if code == 4 {
                [0, 0, 0x05, 0x78]
            } else {
                [0; 4]
            };
            assert_eq!(to6(3, code, rest), expected, "code {code}");
        }
        assert_eq!(to6(3, 16, [0; 4]), Err(Reason::IcmpType));
    }

    #[test]
    fn the_other_icmpv4_errors() {
        assert_eq!(to6(11, 0, [0; 4]), Ok((3, 0, [0; 4])));
        assert_eq!(to6(11, 1, [0; 4]), Ok((3, 1, [0; 4])));
        assert_eq!(to6(12, 1, [0; 4]), Err(Reason::IcmpType));
        assert_eq!(to6(12, 2, [9, 0, 0, 0]), Ok((4, 0, [0, 0, 0, 6])));
        let expected = [
            0, 1, 4, 4, 255, 255, 255, 255, 7, 6, 255, 255, 8, 8, 8, 8, 24, 24, 24, 24, 255,
        ];
        for (pointer, expected) in (0u8..).zip(expected) {
            let expected = if expected == 255 {
                Err(Reason::IcmpPointer)
            } else {
                Ok((4, 0, [0, 0, 0, expected]))
            };
            assert_eq!(
                to6(12, 0, [pointer, 0, 0, 0]),
                expected,
                "pointer {pointer}"
            );
        }
    }

    #[test]
    fn every_icmpv6_error() {
        for (code, expected) in [(0, 1), (1, 10), (2, 1), (3, 1), (4, 3)] {
            assert_eq!(to4(1, code, [0; 4]), Ok((3, expected, [0; 4])));
        }
        assert_eq!(to4(1, 5, [0; 4]), Err(Reason::IcmpType));
        assert_eq!(
            to4(2, 0, 1400u32.to_be_bytes()),
            Ok((3, 4, [0, 0, 0x05, 0x64]))
        );
        assert_eq!(to4(3, 0, [0; 4]), Ok((11, 0, [0; 4])));
        assert_eq!(to4(3, 1, [0; 4]), Ok((11, 1, [0; 4])));
        assert_eq!(to4(4, 1, [0, 0, 0, 6]), Ok((3, 2, [0; 4])));
        assert_eq!(to4(4, 2, [0; 4]), Err(Reason::IcmpType));
        let expected = [
            (0, 0),
            (1, 1),
            (4, 2),
            (5, 2),
            (6, 9),
            (7, 8),
            (8, 12),
            (23, 12),
            (24, 16),
            (39, 16),
        ];
        for (pointer, expected) in expected {
            assert_eq!(
                to4(4, 0, [0, 0, 0, pointer]),
                Ok((12, 0, [expected, 0, 0, 0])),
                "pointer {pointer}"
            );
        }
        for pointer in [[0, 0, 0, 2], [0, 0, 0, 3], [0, 0, 0, 40], [1, 0, 0, 6]] {
            assert_eq!(to4(4, 0, pointer), Err(Reason::IcmpPointer));
        }
    }

    #[test]
    fn mtus_from_ipv4() {
        assert_eq!(mtu_to_ipv6(1480, 1500, MTUS), 1500);
        assert_eq!(
            mtu_to_ipv6(1500, 1500, MTUS),
            1500,
            "not above the next hop's"
        );
        assert_eq!(mtu_to_ipv6(576, 1500, MTUS), 1280, "not below 1280");
        assert_eq!(
            mtu_to_ipv6(
                65535,
                65535,
                Mtus {
                    mtu4: 1280,
                    mtu6: 9000
                }
            ),
            1300
        );
        assert_eq!(
            mtu_to_ipv6(
                0,
                9000,
                Mtus {
                    mtu4: 9000,
                    mtu6: 9000
                }
            ),
            8186,
            "plateau 8166"
        );
        assert_eq!(
            mtu_to_ipv6(
                0,
                1493,
                Mtus {
                    mtu4: 9000,
                    mtu6: 9000
                }
            ),
            1512,
            "plateau 1492"
        );
        assert_eq!(
            mtu_to_ipv6(
                0,
                1492,
                Mtus {
                    mtu4: 9000,
                    mtu6: 9000
                }
            ),
            1280,
            "plateau 1006"
        );
        assert_eq!(mtu_to_ipv6(0, 20, MTUS), 1280);
    }

    #[test]
    fn mtus_from_ipv6() {
        assert_eq!(mtu_to_ipv4(1280, false, MTUS), 1260);
        assert_eq!(mtu_to_ipv4(1280, true, MTUS), 1252);
        assert_eq!(mtu_to_ipv4(9000, false, MTUS), 1480);
        assert_eq!(
            mtu_to_ipv4(
                9000,
                false,
                Mtus {
                    mtu4: 1400,
                    mtu6: 9000
                }
            ),
            1400
        );
        assert_eq!(mtu_to_ipv4(0, false, MTUS), 68);
        assert_eq!(mtu_to_ipv4(u32::MAX as usize, true, MTUS), 1472);
    }

    /// `proofs/test_mtus.py` proves these results for all values.
    #[test]
    fn mtus_as_they_are_proven() {
        let mtus = |numbers: &[u128]| Mtus {
            mtu4: numbers[2] as usize,
            mtu6: numbers[3] as usize,
        };
        for (numbers, result) in crate::proven::rows("mtu_to_ipv6") {
            let mtu = mtu_to_ipv6(numbers[0] as usize, numbers[1] as usize, mtus(&numbers));
            assert_eq!(mtu as u128, result, "{numbers:x?}");
        }
        for (numbers, result) in crate::proven::rows("mtu_to_ipv4") {
            let mtu = mtu_to_ipv4(numbers[0] as usize, numbers[1] == 1, mtus(&numbers));
            assert_eq!(mtu as u128, result, "{numbers:x?}");
        }
    }
}
