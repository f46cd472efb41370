// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Identifies the router that sent an error when the source of the error does not: an extension of the translated error
//! (RFC 6791 section 4) carries the router's address as an Interface Information Object (RFC 5837 section 4).

use super::quote::LEAST_QUOTE;
use crate::csum::{self, Sum};
use std::net::Ipv6Addr;

/// Length in bytes of the header of an extension structure (RFC 4884 section 7), and of an object (section 8).
const STRUCTURE_LEN: usize = 4;
const OBJECT_HEADER_LEN: usize = 4;
/// Version, the first nibble of the structure.
const VERSION: u8 = 2;
/// Offset of the checksum of the structure.
const CHECKSUM_AT: usize = 2;

/// Class of Interface Information Objects (RFC 5837 section 4).
const INTERFACE_INFORMATION: u8 = 2;
/// C-Type of these objects (RFC 5837 section 4.1). The two upper bits are the role; 0 is the interface on which the
/// datagram arrived, whose address is usually the source of the error. `HAS_ADDRESS` says that an address is present.
const ROLE: u8 = 0xc0;
const HAS_ADDRESS: u8 = 0x04;
/// IPv6 in the IANA list of address families.
const AFI_IPV6: u16 = 2;
/// Length in bytes of an object with an IPv6 address.
const OBJECT_LEN: usize = 24;

/// Length in bytes of the longest structure that leaves room for the shortest quote in an ICMPv4 message of 576 bytes.
const LARGEST: usize = 548 - LEAST_QUOTE;

/// An extension structure that names a router.
pub struct Named {
    bytes: [u8; LARGEST],
    len: usize,
}

impl Named {
    /// Appends an object that names `router` to `extensions`, which may be empty. None in three cases: if too little of
    /// `room` (the bytes after the ICMP header) remains; if the router has already named the interface, because no role
    /// may occur twice (RFC 5837 section 4.5); or if `extensions` is not a valid structure of objects.
    pub fn new(router: Ipv6Addr, extensions: &[u8], room: usize) -> Option<Named> {
        let before = extensions.len().max(STRUCTURE_LEN);
        let len = before + OBJECT_LEN;
        if len > LARGEST || LEAST_QUOTE + len > room || !may_append(extensions) {
            return None;
        }
        let mut bytes = [0; LARGEST];
        bytes[0] = VERSION << 4;
        bytes[..extensions.len()].copy_from_slice(extensions);
        let object = &mut bytes[before..len];
        object[..2].copy_from_slice(&(OBJECT_LEN as u16).to_be_bytes());
        object[2] = INTERFACE_INFORMATION;
        object[3] = HAS_ADDRESS;
        object[4..6].copy_from_slice(&AFI_IPV6.to_be_bytes());
        object[8..].copy_from_slice(&router.octets());
        let added = csum::sum(object);

        let checksum = csum::field(&bytes, CHECKSUM_AT);
        if extensions.is_empty() {
            csum::fill_in(&mut bytes[..len], CHECKSUM_AT, Sum::default());
        } else if checksum != 0 {
            // A wrong checksum stays wrong. Zero means that there is no checksum (RFC 4884 section 7).
            let checksum = csum::update(checksum, Sum::default(), added);
            csum::set_field(&mut bytes, CHECKSUM_AT, csum::never_zero(checksum));
        }
        Some(Named { bytes, len })
    }

    /// The bytes of the whole structure.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Returns true if `extensions` is empty, or a structure of complete objects without one about the arrival interface.
fn may_append(extensions: &[u8]) -> bool {
    let Some((header, mut objects)) = extensions.split_first_chunk::<STRUCTURE_LEN>() else {
        return extensions.is_empty();
    };
    if header[0] >> 4 != VERSION {
        return false;
    }
    while let Some(&[high, low, class, c_type]) = objects.first_chunk::<OBJECT_HEADER_LEN>() {
        let len = usize::from(u16::from_be_bytes([high, low]));
        let about_arrival = class == INTERFACE_INFORMATION && c_type & ROLE == 0;
        // Object lengths are multiples of 4 bytes.
        if len < OBJECT_HEADER_LEN || len % 4 != 0 || len > objects.len() || about_arrival {
            return false;
        }
        objects = &objects[len..];
    }
    objects.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUTER: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x1234);
    const ROOM: usize = 548;

    fn named(extensions: &[u8]) -> Option<Vec<u8>> {
        Named::new(ROUTER, extensions, ROOM).map(|named| named.bytes().to_vec())
    }

    #[test]
    fn a_structure_of_its_own() {
        // 2000 + 0018 + 0204 + 0002 + 2001 + 0db8 + 1234 = 620b, complemented 9df4.
        let expected = [
            0x20, 0, 0x9d, 0xf4, 0, 24, 2, 4, 0, 2, 0, 0, //
            0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x12, 0x34,
        ];
        assert_eq!(named(&[]), Some(expected.to_vec()));
    }

    #[test]
    fn behind_objects_of_others() {
        let mut mpls = vec![0x20, 0, 0, 0, 0, 8, 1, 1, 1, 2, 3, 4];
        let without_checksum = named(&mpls).unwrap();
        assert_eq!(without_checksum[..12], mpls);
        assert_eq!(without_checksum.len(), 36);

        csum::fill_in(&mut mpls, CHECKSUM_AT, Sum::default());
        let with_checksum = named(&mpls).unwrap();
        assert_eq!(csum::sum(&with_checksum).fold(), 0xffff);
        mpls[2] ^= 1;
        assert_ne!(csum::sum(&named(&mpls).unwrap()).fold(), 0xffff);
    }

    #[test]
    fn not_where_the_router_has_named_its_interface_itself() {
        let object = |c_type| [0x20, 0, 0, 0, 0, 8, 2, c_type, 0, 0, 0, 7];
        assert_eq!(
            named(&object(0x08)),
            None,
            "the index of the same interface"
        );
        assert!(named(&object(0x88)).is_some(), "the index of another");
    }

    #[test]
    fn not_behind_what_is_no_structure() {
        for junk in [
            &[0x20, 0, 0][..],
            &[0x10, 0, 0, 0],
            &[0x20, 0, 0, 0, 0, 8, 1],
            &[0x20, 0, 0, 0, 0, 3, 1, 1],
            &[0x20, 0, 0, 0, 0, 6, 1, 1, 0, 0],
            &[0x20, 0, 0, 0, 0, 12, 1, 1, 0, 0, 0, 0],
        ] {
            assert_eq!(named(junk), None, "{junk:x?}");
        }
    }

    #[test]
    fn not_without_room() {
        assert!(Named::new(ROUTER, &[], 128 + 28).is_some());
        assert!(Named::new(ROUTER, &[], 128 + 27).is_none());
        let mut long = vec![0; LARGEST - OBJECT_LEN];
        long[0] = 0x20;
        let len = long.len() as u16 - 4;
        long[4..6].copy_from_slice(&len.to_be_bytes());
        assert!(named(&long).is_some());
        long.extend([0; 4]);
        long[4..6].copy_from_slice(&(len + 4).to_be_bytes());
        assert_eq!(named(&long), None);
    }
}
