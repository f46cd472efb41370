// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the IP packet in a recorded frame.

use diolkos_datapath::slowpath::label;

/// The link-layer header in front of each packet of a capture.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum Link {
    /// No header.
    #[default]
    Raw,
    /// Ethernet headers, with or without VLAN tags.
    Ethernet,
}

// EtherTypes (IEEE 802): IP, and the tags that may precede it.
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const VLAN_TAGS: [u16; 3] = [0x8100, 0x88a8, 0x9100];
const ADDRESSES: usize = 12;
const TAG: usize = 4;

impl Link {
    /// Converts the link type of a capture. 12 and 14 are raw IP in files of older systems; 228 and 229 contain one family.
    pub fn from_type(link_type: u32) -> Option<Link> {
        match link_type {
            101 | 12 | 14 | 228 | 229 => Some(Link::Raw),
            1 => Some(Link::Ethernet),
            _ => None,
        }
    }
}

/// The IP packet; `None` for a frame with other contents. An empty frame of raw IP is a packet that was cut to nothing. A
/// packet that was captured on its way to the slow path may have a label in front.
pub fn network_layer(link: Link, frame: &[u8]) -> Option<&[u8]> {
    if link == Link::Raw {
        let skipped = label::read(frame).map_or(0, |(_, len)| len);
        return Some(&frame[skipped..]);
    }
    let mut at = ADDRESSES;
    loop {
        let ether_type = u16::from_be_bytes(frame.get(at..at + 2)?.try_into().ok()?);
        match ether_type {
            IPV4 | IPV6 => return frame.get(at + 2..),
            tag if VLAN_TAGS.contains(&tag) => at += TAG,
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(after_addresses: &[u8]) -> Vec<u8> {
        [&[2; ADDRESSES][..], after_addresses].concat()
    }

    #[test]
    fn tags_are_stepped_over() {
        for tags in [
            &[][..],
            &[0x81, 0, 0, 5],
            &[0x88, 0xa8, 0, 9, 0x81, 0, 0, 5],
        ] {
            let packet = frame(&[tags, &[0x86, 0xdd, 0x60, 1]].concat());
            assert_eq!(
                network_layer(Link::Ethernet, &packet),
                Some(&[0x60, 1][..]),
                "{tags:?}"
            );
        }
    }

    #[test]
    fn what_is_no_ip_is_none() {
        let arp = frame(&[8, 6, 0, 1]);
        assert_eq!(network_layer(Link::Ethernet, &arp), None);
        for len in 0..18 {
            let cut = &frame(&[0x81, 0, 0, 5, 8, 0])[..len];
            assert_eq!(network_layer(Link::Ethernet, cut), None, "{len}");
        }
        assert_eq!(network_layer(Link::Raw, &[]), Some(&[][..]));
    }

    #[test]
    fn a_label_is_stepped_over() {
        let label = [0xd1, 0x01, 0xc0, 0x5e, 7, 0, 0, 0, 6, 0, 0, 0];
        let packet = [&label[..], &[0x45, 1]].concat();
        assert_eq!(network_layer(Link::Raw, &packet), Some(&[0x45, 1][..]));
        assert_eq!(network_layer(Link::Raw, &label), Some(&[][..]));
        assert_eq!(network_layer(Link::Raw, &label[..11]), Some(&label[..11]));
        let forwarded = [0xd1, 0x01, 0xc0, 0x5f, 7, 0, 0, 0, 6, 0, 0, 0, 3, 0, 0, 0];
        let packet = [&forwarded[..], &[0x45, 1]].concat();
        assert_eq!(network_layer(Link::Raw, &packet), Some(&[0x45, 1][..]));
    }
}
