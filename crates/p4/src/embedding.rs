// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where the bits of an IPv4 address stand in an IPv6 address, as the shifts of the actions `from6` and `from4`
//! (`p4/PROTOCOL.md`): for prefixes of every length of RFC 6052, and for explicit mappings (RFC 7757).

use ipnet::{Ipv4Net, Ipv6Net};

use crate::wire::Field;

/// IPv4 address = base | (((hi >> hr) << hl) & hm) | ((lo >> lr) & lm), and the reverse.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Shifts {
    /// Right shift of the upper half.
    pub hr: u8,
    /// Left shift of the upper half.
    pub hl: u8,
    /// Bits of the IPv4 address that stand in the upper half.
    pub hm: u32,
    /// Right shift of the lower half.
    pub lr: u8,
    /// Bits of the IPv4 address that stand in the lower half.
    pub lm: u32,
}

/// A prefix or mapping: both bases, and the shifts between them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Embedding {
    /// The IPv4 address whose suffix is zero.
    pub v4: u32,
    /// The IPv6 address whose suffix is zero.
    pub v6: u128,
    /// The shifts.
    pub shifts: Shifts,
}

impl Embedding {
    /// Returns the embedding of a translation prefix (RFC 6052 section 2.2); `None` if no prefix has its length.
    pub fn of_prefix(prefix: Ipv6Net) -> Option<Embedding> {
        let (hl, hm, lr, lm) = match prefix.prefix_len() {
            32 => (0, u32::MAX, 0, 0),
            40 => (8, 0xffff_ff00, 48, 0x0000_00ff),
            48 => (16, 0xffff_0000, 40, 0x0000_ffff),
            56 => (24, 0xff00_0000, 32, 0x00ff_ffff),
            64 => (0, 0, 24, u32::MAX),
            96 => (0, 0, 0, u32::MAX),
            _ => return None,
        };
        Some(Embedding {
            v4: 0,
            v6: prefix.network().to_bits(),
            shifts: Shifts {
                hr: 0,
                hl,
                hm,
                lr,
                lm,
            },
        })
    }

    /// Returns the embedding of an explicit mapping, whose suffixes begin right after their prefixes; `None` if the IPv6 suffix
    /// is shorter.
    pub fn of_mapping(v4: Ipv4Net, v6: Ipv6Net) -> Option<Embedding> {
        let bits = 32 - v4.prefix_len();
        // How far the suffix is above the lowest bit.
        let up = (128 - v6.prefix_len()).checked_sub(bits)?;
        let suffix = u32::MAX.checked_shr(32 - u32::from(bits)).unwrap_or(0);
        let shifts = match (bits, up) {
            (0, _) => Shifts::default(),
            (_, 64..) => Shifts {
                hr: up - 64,
                hm: suffix,
                ..Shifts::default()
            },
            _ if up + bits <= 64 => Shifts {
                lr: up,
                lm: suffix,
                ..Shifts::default()
            },
            // It stands in both halves. Fewer than 32 bits are in the lower one.
            _ => {
                let low = (1u32 << (64 - up)) - 1;
                Shifts {
                    hr: 0,
                    hl: 64 - up,
                    hm: suffix & !low,
                    lr: up,
                    lm: low,
                }
            }
        };
        Some(Embedding {
            v4: v4.network().to_bits(),
            v6: v6.network().to_bits(),
            shifts,
        })
    }

    /// The IPv6 bits of an IPv4 suffix, as `from4` computes them.
    pub fn embed(&self, v4: u32) -> u128 {
        let Shifts { hr, hl, hm, lr, lm } = self.shifts;
        let hi = (u64::from(v4 & hm) >> hl) << hr;
        let lo = u64::from(v4 & lm) << lr;
        self.v6 | u128::from(hi) << 64 | u128::from(lo)
    }

    /// The IPv4 address in an IPv6 address, as `from6` computes it.
    pub fn extract(&self, v6: u128) -> u32 {
        let Shifts { hr, hl, hm, lr, lm } = self.shifts;
        let (hi, lo) = ((v6 >> 64) as u64, v6 as u64);
        self.v4 | (((hi >> hr) << hl) as u32 & hm) | ((lo >> lr) as u32 & lm)
    }

    /// Arguments of `from6`.
    pub fn from6(&self) -> Field {
        self.shifts(Field::EMPTY.with(&self.v4.to_be_bytes()))
    }

    /// Arguments of `from4`.
    pub fn from4(&self) -> Field {
        self.shifts(Field::EMPTY.with(&self.v6.to_be_bytes()))
    }

    fn shifts(&self, field: Field) -> Field {
        let Shifts { hr, hl, hm, lr, lm } = self.shifts;
        field
            .with(&[hr, hl])
            .with(&hm.to_be_bytes())
            .with(&[lr])
            .with(&lm.to_be_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Table 1 of RFC 6052 section 2.4.
    #[test]
    fn the_table_of_rfc_6052() {
        for (prefix, embedded) in [
            ("2001:db8::/32", "2001:db8:c000:221::"),
            ("2001:db8:100::/40", "2001:db8:1c0:2:21::"),
            ("2001:db8:122::/48", "2001:db8:122:c000:2:2100::"),
            ("2001:db8:122:300::/56", "2001:db8:122:3c0:0:221::"),
            ("2001:db8:122:344::/64", "2001:db8:122:344:c0:2:2100::"),
            ("2001:db8:122:344::/96", "2001:db8:122:344::192.0.2.33"),
        ] {
            let of = Embedding::of_prefix(prefix.parse().expect("a prefix")).expect("a length");
            let embedded: std::net::Ipv6Addr = embedded.parse().expect("an address");
            assert_eq!(of.embed(0xc000_0221), embedded.to_bits(), "{prefix}");
            assert_eq!(of.extract(embedded.to_bits()), 0xc000_0221, "{prefix}");
        }
    }

    /// Mappings as in RFC 7757 section 3.2; one whose suffix crosses the middle of the IPv6 address; and all of IPv4.
    #[test]
    fn suffixes_of_mappings() {
        for (v4, v6, of4, of6) in [
            (
                "192.0.2.1/32",
                "2001:db8:aaaa::/128",
                "192.0.2.1",
                "2001:db8:aaaa::",
            ),
            (
                "192.0.2.2/32",
                "2001:db8:bbbb::b/128",
                "192.0.2.2",
                "2001:db8:bbbb::b",
            ),
            (
                "192.0.2.16/28",
                "2001:db8:cccc::/124",
                "192.0.2.23",
                "2001:db8:cccc::7",
            ),
            (
                "192.0.2.128/26",
                "2001:db8:dddd::/64",
                "192.0.2.149",
                "2001:db8:dddd:0:5400::",
            ),
            (
                "198.51.100.0/24",
                "2001:db8:eeee:8::/62",
                "198.51.100.195",
                "2001:db8:eeee:b:0c00::",
            ),
            (
                "0.0.0.0/0",
                "2001:db8::/32",
                "192.0.2.33",
                "2001:db8:c000:221::",
            ),
        ] {
            let (v4, v6) = (v4.parse().expect("a net"), v6.parse().expect("a net"));
            let of = Embedding::of_mapping(v4, v6).expect("there is room");
            let of4: std::net::Ipv4Addr = of4.parse().expect("an address");
            let of6: std::net::Ipv6Addr = of6.parse().expect("an address");
            assert_eq!(of.embed(of4.to_bits()), of6.to_bits(), "{v4} {v6}");
            assert_eq!(of.extract(of6.to_bits()), of4.to_bits(), "{v4} {v6}");
        }
        let (v4, v6) = ("192.0.2.0/24", "2001:db8::/124");
        let (v4, v6) = (v4.parse().expect("a net"), v6.parse().expect("a net"));
        assert_eq!(Embedding::of_mapping(v4, v6), None);
    }
}
