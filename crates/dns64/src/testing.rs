// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Messages for tests, written byte by byte according to RFC 1035 and without the tested code.

use crate::wire::Name;

/// Converts hexadecimal digits to bytes; blanks are ignored.
pub fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u32> = hex
        .chars()
        .filter(|c| !c.is_whitespace())
        .map(|c| c.to_digit(16).expect("a hexadecimal digit"))
        .collect();
    digits
        .chunks(2)
        .map(|pair| (pair[0] * 16 + pair[1]) as u8)
        .collect()
}

/// Parses a name.
pub fn name(text: &str) -> Name {
    match text {
        "" => Name::root_vec(),
        _ => Name::vec_from_str(text).expect("a name"),
    }
}

/// A name in wire format, not compressed.
pub fn wire_name(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    for label in text.split('.').filter(|label| !label.is_empty()) {
        out.push(label.len() as u8);
        out.extend_from_slice(label.as_bytes());
    }
    out.push(0);
    out
}

/// A query with identification 0x1234; `edns` is the UDP size and DO.
pub fn query(qname: &str, qtype: u16, flags: u16, edns: Option<(u16, bool)>) -> Vec<u8> {
    let mut out = vec![0x12, 0x34];
    out.extend(flags.to_be_bytes());
    out.extend([0, 1, 0, 0, 0, 0, 0, u8::from(edns.is_some())]);
    out.extend(wire_name(qname));
    out.extend(qtype.to_be_bytes());
    out.extend([0, 1]);
    if let Some((size, dnssec_ok)) = edns {
        out.extend([0, 0, 41]);
        out.extend(size.to_be_bytes());
        out.extend([0, 0, u8::from(dnssec_ok) << 7, 0, 0, 0]);
    }
    out
}

/// A record of class IN.
pub fn rr(owner: &str, rtype: u16, ttl: u32, data: &[u8]) -> Vec<u8> {
    let mut out = wire_name(owner);
    out.extend(rtype.to_be_bytes());
    out.extend([0, 1]);
    out.extend(ttl.to_be_bytes());
    out.extend((data.len() as u16).to_be_bytes());
    out.extend_from_slice(data);
    out
}

/// An SOA record of `zone`, with this TTL and MINIMUM.
pub fn soa(zone: &str, ttl: u32, minimum: u32) -> Vec<u8> {
    let mut data = wire_name("ns.example");
    data.extend(wire_name("hostmaster.example"));
    for number in [1, 3600, 600, 86400, minimum] {
        data.extend(u32::to_be_bytes(number));
    }
    rr(zone, 6, ttl, &data)
}

/// A response with identification 0. `code` is the RCODE; the bit 0x20 sets AD.
pub fn reply(qname: &str, qtype: u16, code: u8, sections: [&[Vec<u8>]; 3]) -> Vec<u8> {
    let mut out = vec![0, 0, 0x81, 0x80 | code, 0, 1];
    for section in sections {
        out.extend((section.len() as u16).to_be_bytes());
    }
    out.extend(wire_name(qname));
    out.extend(qtype.to_be_bytes());
    out.extend([0, 1]);
    out.extend(sections.concat().concat());
    out
}
