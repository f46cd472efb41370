// SPDX-License-Identifier: Apache-2.0 OR MIT
//! ARP for IPv4 on Ethernet (RFC 826): parses packets of others, and builds those about our own addresses (RFC 5227).

use std::net::Ipv4Addr;

/// The broadcast address: all nodes on the link.
pub const BROADCAST: [u8; 6] = [0xff; 6];

const LEN: usize = 28;
/// Ethernet, IPv4, and the lengths of their addresses.
const KINDS: [u8; 6] = [0, 1, 0x08, 0, 6, 4];

/// A packet of any operation: RFC 5227 does not distinguish them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heard {
    /// The sender's link-layer address.
    pub mac: [u8; 6],
    /// The sender's IPv4 address; 0 if it probes for one.
    pub sender: Ipv4Addr,
    /// The target's IPv4 address.
    pub target: Ipv4Addr,
    /// True if it is a [`release`].
    pub releases: bool,
}

/// Parses a packet; padding may follow it.
pub fn parse(packet: &[u8]) -> Option<Heard> {
    let packet = packet.get(..LEN)?;
    let v4 = |at: usize| {
        Some(Ipv4Addr::from(
            <[u8; 4]>::try_from(packet.get(at..at + 4)?).ok()?,
        ))
    };
    if packet[..6] != KINDS {
        return None;
    }
    let sender = v4(14)?;
    Some(Heard {
        mac: packet[8..14].try_into().ok()?,
        sender,
        target: v4(24)?,
        releases: sender.is_unspecified() && packet[8..14] == packet[18..24],
    })
}

/// Builds a probe: does another node have the address (RFC 5227 section 2.1.1)?
pub fn probe(mac: [u8; 6], address: Ipv4Addr) -> Vec<u8> {
    request(mac, Ipv4Addr::UNSPECIFIED, address)
}

/// Builds an announcement of an address that we have (RFC 5227 section 2.3).
pub fn announcement(mac: [u8; 6], address: Ipv4Addr) -> Vec<u8> {
    request(mac, address, address)
}

/// Builds a message to other instances of diolkos that we no longer have the address. To all other nodes it is a probe:
/// they ignore the field that differs (RFC 5227 section 2.1.1, target hardware address).
pub fn release(mac: [u8; 6], address: Ipv4Addr) -> Vec<u8> {
    let mut packet = probe(mac, address);
    packet[18..24].copy_from_slice(&mac);
    packet
}

fn request(mac: [u8; 6], sender: Ipv4Addr, target: Ipv4Addr) -> Vec<u8> {
    let mut packet = KINDS.to_vec();
    packet.extend([0, 1]);
    packet.extend(mac);
    packet.extend(sender.octets());
    packet.extend([0; 6]);
    packet.extend(target.octets());
    packet
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
    const ADDRESS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

    /// Checks the fields according to RFC 5227 sections 1.1 and 2.3.
    #[test]
    fn probes_and_announcements_are_requests() {
        let head = [0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1];
        let probe = [&head[..], &[0; 4], &[0; 6], &[192, 0, 2, 1]].concat();
        assert_eq!(super::probe(MAC, ADDRESS), probe);
        let announcement = [&head[..], &[192, 0, 2, 1], &[0; 6], &[192, 0, 2, 1]].concat();
        assert_eq!(super::announcement(MAC, ADDRESS), announcement);
    }

    #[test]
    fn a_release_is_a_probe_of_its_own_kind() {
        let releases = |packet: &[u8]| parse(packet).map(|heard| (heard.target, heard.releases));
        assert_eq!(releases(&release(MAC, ADDRESS)), Some((ADDRESS, true)));
        assert_eq!(
            releases(&super::probe(MAC, ADDRESS)),
            Some((ADDRESS, false))
        );
    }

    #[test]
    fn what_is_not_of_ethernet_and_ipv4_is_not_heard() {
        let mut packet = announcement(MAC, ADDRESS);
        packet.extend([0; 18]);
        let heard = Heard {
            mac: MAC,
            sender: ADDRESS,
            target: ADDRESS,
            releases: false,
        };
        assert_eq!(parse(&packet), Some(heard));
        for at in 0..6 {
            let mut other = packet.clone();
            other[at] ^= 1;
            assert_eq!(parse(&other), None);
        }
        for len in 0..LEN {
            assert_eq!(parse(&packet[..len]), None);
        }
    }
}
