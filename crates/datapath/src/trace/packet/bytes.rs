// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Converts a packet to bytes: IP header, transport header, zeros for data.

use std::net::IpAddr;

use diolkos_xlat::csum::{self, Sum};
use diolkos_xlat::wire::icmp::{ICMP_CHECKSUM_AT, ICMP_LEN};
use diolkos_xlat::wire::{protocol, Ipv4, Ipv6, IPV4_LEN, IPV6_LEN, UDP_CHECKSUM_AT};

use super::{Imagined, Transport, Words};

const UDP_LEN: usize = 8;
const TCP_LEN: usize = 20;
const TCP_CHECKSUM_AT: usize = 16;
const SYN: u8 = 1 << 1;
/// Kind and length of the option that announces the maximum segment size (RFC 9293 section 3.2).
const MSS: u16 = 0x0204;
const MSS_LEN: usize = 4;

impl Imagined {
    /// Returns its bytes, with all checksums; an error if its length is impossible.
    pub fn bytes(&self) -> Result<Vec<u8>, String> {
        let (words, details) = (&self.words, &self.details);
        let head = if words.src.is_ipv4() {
            IPV4_LEN
        } else {
            IPV6_LEN
        };
        let least = head
            + match words.transport {
                Transport::Udp(..) => UDP_LEN,
                Transport::Tcp(..) if details.mss.is_some() => TCP_LEN + MSS_LEN,
                Transport::Tcp(..) => TCP_LEN,
                Transport::Echo { .. } => ICMP_LEN,
                Transport::Other(_) => 0,
            };
        let is_syn = matches!(words.transport, Transport::Tcp(_, _, flags) if flags & SYN != 0);
        if details.mss.is_some() && !is_syn {
            return Err(format!(
                "`{words}` announces no maximum segment size: only TCP with SYN does"
            ));
        }
        let length = details.length.map_or(least, usize::from);
        if length < least {
            return Err(format!(
                "{length} bytes are too few: `{words}` has at least {least}"
            ));
        }
        let mut bytes = vec![0; length];
        words.write_transport(&mut bytes[head..], details.mss);
        let number = words.transport.number(words.src.is_ipv4());
        match (words.src, words.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => Ipv4 {
                tos: 0,
                header_len: IPV4_LEN,
                total_len: length,
                id: 0,
                dont_fragment: details.dont_fragment,
                more_fragments: false,
                fragment_offset: 0,
                ttl: details.hop_limit,
                protocol: number,
                src,
                dst,
            }
            .emit(&mut bytes),
            (IpAddr::V6(src), IpAddr::V6(dst)) => Ipv6 {
                traffic_class: 0,
                flow_label: 0,
                payload_len: length - IPV6_LEN,
                next_header: number,
                hop_limit: details.hop_limit,
                src,
                dst,
            }
            .emit(&mut bytes),
            _ => return Err("source and destination are of different families".to_owned()),
        }
        Ok(bytes)
    }
}

impl Words {
    /// Writes the transport header in front of the zeros of `bytes`.
    fn write_transport(&self, bytes: &mut [u8], mss: Option<u16>) {
        let len = bytes.len();
        let is_v4 = self.src.is_ipv4();
        let mut put =
            |at: usize, value: u16| bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
        let at = match self.transport {
            Transport::Udp(from, to) => {
                put(0, from);
                put(2, to);
                put(4, len as u16);
                UDP_CHECKSUM_AT
            }
            Transport::Tcp(from, to, flags) => {
                put(0, from);
                put(2, to);
                // The length of the header, in words, and the flags; a window.
                let words = (TCP_LEN + mss.map_or(0, |_| MSS_LEN)) / 4;
                put(12, (words as u16) << 12 | u16::from(flags));
                put(14, u16::MAX);
                if let Some(mss) = mss {
                    put(TCP_LEN, MSS);
                    put(TCP_LEN + 2, mss);
                }
                TCP_CHECKSUM_AT
            }
            Transport::Echo { id, is_reply } => {
                let kind: u8 = match (is_v4, is_reply) {
                    (true, false) => 8,
                    (true, true) => 0,
                    (false, false) => 128,
                    (false, true) => 129,
                };
                put(0, u16::from(kind) << 8);
                put(4, id);
                ICMP_CHECKSUM_AT
            }
            Transport::Other(_) => return,
        };
        let number = self.transport.number(is_v4);
        let pseudo = match (self.src, self.dst) {
            // ICMP, unlike ICMPv6, has no pseudo-header.
            _ if number == protocol::ICMPV4 => Sum::default(),
            (IpAddr::V4(src), IpAddr::V4(dst)) => csum::pseudo_ipv4(src, dst, number, len),
            (IpAddr::V6(src), IpAddr::V6(dst)) => csum::pseudo_ipv6(src, dst, number, len),
            _ => Sum::default(),
        };
        csum::fill_in(bytes, at, pseudo);
        if number == protocol::UDP {
            let checksum = csum::never_zero(csum::field(bytes, at));
            csum::set_field(bytes, at, checksum);
        }
    }
}

impl Transport {
    /// Returns the number in the IP header.
    fn number(self, is_v4: bool) -> u8 {
        match self {
            Transport::Udp(..) => protocol::UDP,
            Transport::Tcp(..) => protocol::TCP,
            Transport::Echo { .. } if is_v4 => protocol::ICMPV4,
            Transport::Echo { .. } => protocol::ICMPV6,
            Transport::Other(number) => number,
        }
    }
}
