// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Router advertisements and their PREF64 options (RFC 8781 section 4), and the router solicitation (RFC 4861 section
//! 4.1).

use std::net::Ipv6Addr;
use std::time::Duration;

use diolkos_xlat::csum;
use ipnet::Ipv6Net;

use crate::preference::is_usable;

const ICMPV6: u8 = 58;
const IPV6_HEADER: usize = 40;
const SOLICITATION: u8 = 133;
const ADVERTISEMENT: u8 = 134;
/// Length in bytes of the part before the options (RFC 4861 section 4.2).
const FIXED: usize = 16;
/// The PREF64 option (RFC 8781 section 4): its type, and its length in bytes.
const PREF64: u8 = 38;
const PREF64_LEN: usize = 16;
/// Prefix lengths by Prefix Length Code; codes 6 and 7 are unassigned.
const LENGTHS: [u8; 6] = [96, 64, 56, 48, 40, 32];
const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);

/// The parts of a router advertisement that discovery needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advertisement {
    /// The link-local address of the router.
    pub router: Ipv6Addr,
    /// Each prefix and its remaining lifetime, in the order of the options; a lifetime of zero withdraws the prefix.
    pub pref64: Vec<(Ipv6Net, Duration)>,
}

/// Reads an IPv6 packet from its header on and checks it as RFC 4861 section 6.1.2 demands. The error names the
/// failed check.
///
/// Unknown options are skipped, and so are PREF64 options with another length, an unassigned code or an invalid
/// prefix.
pub fn read(packet: &[u8]) -> Result<Advertisement, &'static str> {
    const CUT_OFF: &str = "it is truncated";
    let (header, rest) = packet.split_at_checked(IPV6_HEADER).ok_or(CUT_OFF)?;
    let payload_len = usize::from(u16::from_be_bytes([header[4], header[5]]));
    let body = rest.get(..payload_len).ok_or(CUT_OFF)?;
    let address = |at: usize| <[u8; 16]>::try_from(&header[at..at + 16]).map(Ipv6Addr::from);
    let (source, destination) = match (address(8), address(24)) {
        (Ok(source), Ok(destination)) => (source, destination),
        _ => return Err(CUT_OFF),
    };

    if header[0] >> 4 != 6 || header[6] != ICMPV6 {
        return Err("it is not ICMPv6");
    }
    if !source.is_unicast_link_local() {
        return Err("its source is not link-local");
    }
    if header[7] != 255 {
        return Err("its hop limit is not 255: it comes from beyond the link");
    }
    let sum = csum::pseudo_ipv6(source, destination, ICMPV6, body.len()).plus(csum::sum(body));
    if sum.fold() != 0xffff {
        return Err("its checksum is wrong");
    }
    if body.len() < FIXED {
        return Err("it is shorter than 16 bytes");
    }
    if body[0] != ADVERTISEMENT || body[1] != 0 {
        return Err("its type or code is another");
    }
    let mut pref64 = Vec::new();
    let mut options = &body[FIXED..];
    while let [kind, len, ..] = *options {
        let len = usize::from(len) * 8;
        let option = options.get(..len).filter(|option| !option.is_empty());
        let option = option.ok_or("an option has length 0, or extends beyond the end")?;
        if kind == PREF64 {
            pref64.extend(read_pref64(option));
        }
        options = &options[len..];
    }
    Ok(Advertisement {
        router: source,
        pref64,
    })
}

fn read_pref64(option: &[u8]) -> Option<(Ipv6Net, Duration)> {
    if option.len() != PREF64_LEN {
        return None;
    }
    // The scaled lifetime is in the upper 13 bits, in units of 8 seconds: the word without its code is the lifetime
    // in seconds.
    let word = u16::from_be_bytes([option[2], option[3]]);
    let len = *LENGTHS.get(usize::from(word & 7))?;
    let mut octets = [0; 16];
    octets[..12].copy_from_slice(&option[4..]);
    let prefix = Ipv6Net::new(octets.into(), len).ok()?.trunc();
    is_usable(prefix).then_some((prefix, Duration::from_secs(u64::from(word & !7))))
}

/// Returns a solicitation from the unspecified address, without a link-layer address (RFC 4861 section 4.1). Routers
/// answer it to all nodes.
pub fn solicitation() -> Vec<u8> {
    let mut body = vec![SOLICITATION, 0, 0, 0, 0, 0, 0, 0];
    let source = Ipv6Addr::UNSPECIFIED;
    let sum = csum::pseudo_ipv6(source, ALL_ROUTERS, ICMPV6, body.len()).plus(csum::sum(&body));
    body[2..4].copy_from_slice(&(!sum.fold()).to_be_bytes());

    let mut packet = vec![0x60, 0, 0, 0, 0, body.len() as u8, ICMPV6, 255];
    packet.extend(source.octets());
    packet.extend(ALL_ROUTERS.octets());
    packet.extend(body);
    packet
}

/// The Ethernet address of the all-routers group (RFC 2464 section 7).
pub const ALL_ROUTERS_MAC: [u8; 6] = [0x33, 0x33, 0, 0, 0, 2];

#[cfg(test)]
mod tests {
    use super::*;

    const ROUTER: &str = "fe80::1";

    fn option(kind: u8, units: u8, word: u16, prefix: &str) -> Vec<u8> {
        let prefix: Ipv6Addr = prefix.parse().expect("an address");
        let mut option = vec![kind, units];
        option.extend(word.to_be_bytes());
        option.extend(&prefix.octets()[..12]);
        option
    }

    fn packet(source: &str, options: &[Vec<u8>]) -> Vec<u8> {
        let mut packet = vec![0x60, 0, 0, 0, 0, 0, 58, 255];
        packet.extend(source.parse::<Ipv6Addr>().expect("an address").octets());
        packet.extend("ff02::1".parse::<Ipv6Addr>().expect("one").octets());
        packet.extend([134, 0, 0, 0, 64, 0, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0]);
        packet.extend(options.concat());
        put_right(&mut packet);
        packet
    }

    fn put_right(packet: &mut [u8]) {
        let len = packet.len() - 40;
        packet[4..6].copy_from_slice(&(len as u16).to_be_bytes());
        packet[42..44].fill(0);
        let mut sum: u32 = len as u32 + 58;
        for pair in packet[8..].chunks(2) {
            sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
        }
        sum = (sum & 0xffff) + (sum >> 16);
        sum = (sum & 0xffff) + (sum >> 16);
        packet[42..44].copy_from_slice(&(!sum as u16).to_be_bytes());
    }

    fn told(options: &[Vec<u8>]) -> Vec<(String, u64)> {
        let read = read(&packet(ROUTER, options)).expect("it is valid");
        assert_eq!(read.router.to_string(), ROUTER);
        let told = read.pref64.iter();
        told.map(|(prefix, lifetime)| (prefix.to_string(), lifetime.as_secs()))
            .collect()
    }

    #[test]
    fn every_length_code() {
        let codes = [
            (0, "2001:db8:1:2:3:4::/96"),
            (1, "2001:db8:1:2::/64"),
            (2, "2001:db8:1::/56"),
            (3, "2001:db8:1::/48"),
            (4, "2001:db8::/40"),
            (5, "2001:db8::/32"),
        ];
        for (code, expected) in codes {
            let options = [option(38, 2, 600 | code, "2001:db8:1:2:3:4::")];
            assert_eq!(told(&options), [(expected.to_owned(), 600)]);
        }
        for code in [6, 7] {
            assert_eq!(told(&[option(38, 2, 600 | code, "2001:db8::")]), []);
        }
    }

    #[test]
    fn lifetimes_in_units_of_8_seconds() {
        for (word, seconds) in [(0, 0), (8, 8), (0xfff8, 65528)] {
            let options = [option(38, 2, word, "64:ff9b::")];
            assert_eq!(told(&options), [("64:ff9b::/96".to_owned(), seconds)]);
        }
    }

    #[test]
    fn several_options_among_others() {
        let options = [
            vec![1, 1, 2, 0, 0, 0, 0, 1],
            option(38, 2, 600, "64:ff9b::"),
            option(200, 2, 600, "2001:db8::"),
            option(38, 2, 0, "2001:db8:64::"),
        ];
        let expected = [("64:ff9b::/96", 600), ("2001:db8:64::/96", 0)];
        assert_eq!(told(&options), expected.map(|(p, s)| (p.to_owned(), s)));
    }

    #[test]
    fn options_that_are_passed_over() {
        let long = [option(38, 3, 600, "64:ff9b::"), vec![0; 8]].concat();
        assert_eq!(told(&[long]), [], "not of 16 bytes");
        assert_eq!(told(&[vec![38, 1, 2, 88, 0, 0, 0, 0]]), []);
        assert_eq!(told(&[option(38, 2, 600, "ff0e::")]), [], "multicast");
        assert_eq!(told(&[option(38, 2, 600, "::ffff:0:0")]), [], "mapped");
    }

    /// Each check of RFC 4861 section 6.1.2.
    #[test]
    fn what_is_not_a_router_of_this_link_is_not_believed() {
        let good = packet(ROUTER, &[option(38, 2, 600, "64:ff9b::")]);
        assert!(read(&good).is_ok());
        let with = |at: usize, value: u8| {
            let mut bad = good.clone();
            bad[at] = value;
            put_right(&mut bad);
            read(&bad).expect_err("it is not valid")
        };
        assert!(with(7, 254).contains("hop limit"));
        assert!(with(8, 0x20).contains("link-local"));
        assert!(with(41, 1).contains("code"));
        assert!(with(40, 133).contains("type"));
        assert!(with(0, 0x40).contains("ICMPv6"));
        assert!(with(6, 17).contains("ICMPv6"));
        assert!(with(57, 0).contains("option"));
        assert!(with(57, 3).contains("option"));
        let mut wrong = good.clone();
        wrong[43] ^= 1;
        assert!(read(&wrong).expect_err("no").contains("checksum"));
        for len in 0..good.len() {
            assert!(read(&good[..len]).is_err(), "cut after {len} bytes");
        }
        let mut short = good[..52].to_vec();
        put_right(&mut short);
        assert!(read(&short).expect_err("no").contains("16 bytes"));
    }

    #[test]
    fn what_we_send_is_a_solicitation() {
        let sent = solicitation();
        assert_eq!(sent.len(), 48);
        assert_eq!((sent[6], sent[7], sent[40]), (58, 255, 133));
        let mut again = sent.clone();
        put_right(&mut again);
        assert_eq!(sent, again);
    }
}
