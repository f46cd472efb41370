// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A short description of a packet, as far as it can be parsed.

use std::fmt;
use std::net::IpAddr;

use diolkos_xlat::wire::{protocol, Chain, FragmentKind, Ipv4, Ipv6};
use diolkos_xlat::Verdict;
use serde::Serialize;

/// The fields in a description of a packet. Those that cannot be read are omitted.
#[derive(Clone, Default, Serialize)]
pub struct PacketSummary {
    #[serde(skip_serializing_if = "Option::is_none")]
    src: Option<IpAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dst: Option<IpAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    protocol: Option<String>,
    #[serde(flatten)]
    detail: Detail,
    /// Offset in bytes of a fragment, and whether others follow.
    #[serde(skip_serializing_if = "Option::is_none")]
    fragment_offset: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    more_fragments: Option<bool>,
    /// Bytes from the IP header on.
    length: usize,
}

/// The first fields of the transport header.
#[derive(Clone, Default, Serialize)]
#[serde(untagged)]
enum Detail {
    #[default]
    None,
    Ports {
        #[serde(skip_serializing_if = "Option::is_none")]
        src_port: Option<u16>,
        dst_port: u16,
        #[serde(skip_serializing_if = "Option::is_none")]
        tcp_flags: Option<String>,
    },
    Icmp {
        icmp_type: u8,
        icmp_code: u8,
        #[serde(skip_serializing_if = "Option::is_none")]
        icmp_id: Option<u16>,
    },
}

/// TCP flags, from the lowest bit on (RFC 9293 section 3.1).
const FLAGS: [&str; 8] = ["fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr"];
/// Echo requests and replies of both families, which have an identifier.
const ECHOES: [(u8, u8); 4] = [
    (protocol::ICMPV4, 8),
    (protocol::ICMPV4, 0),
    (protocol::ICMPV6, 128),
    (protocol::ICMPV6, 129),
];

impl PacketSummary {
    /// Describes bytes that should begin with an IP header.
    pub fn of(packet: &[u8]) -> PacketSummary {
        let bare = PacketSummary {
            length: packet.len(),
            ..PacketSummary::default()
        };
        if let Ok(ip) = Ipv4::parse(packet) {
            let part = FragmentKind::of(ip.fragment_offset, ip.more_fragments);
            return PacketSummary {
                src: Some(ip.src.into()),
                dst: Some(ip.dst.into()),
                ..bare
            }
            .fragment(ip.is_fragment(), ip.fragment_offset, ip.more_fragments)
            .transport(ip.protocol, part, packet.get(ip.header_len..));
        }
        let Ok(ip) = Ipv6::parse(packet) else {
            return bare;
        };
        let shape = PacketSummary {
            src: Some(ip.src.into()),
            dst: Some(ip.dst.into()),
            ..bare
        };
        let Some(chain) = Chain::walk(packet, ip.next_header) else {
            return shape;
        };
        let fragment = chain.fragment;
        let (offset, more) = fragment.map_or((0, false), |f| (f.offset, f.more));
        shape.fragment(fragment.is_some(), offset, more).transport(
            chain.protocol,
            FragmentKind::of(offset, more),
            packet.get(chain.payload_at..),
        )
    }

    fn fragment(mut self, is_fragment: bool, offset: u16, more: bool) -> PacketSummary {
        if is_fragment {
            self.fragment_offset = Some(u32::from(offset) * 8);
            self.more_fragments = Some(more);
        }
        self
    }

    fn transport(mut self, number: u8, part: FragmentKind, bytes: Option<&[u8]>) -> PacketSummary {
        self.protocol = Some(match number {
            protocol::TCP => "tcp".to_owned(),
            protocol::UDP => "udp".to_owned(),
            protocol::ICMPV4 => "icmp".to_owned(),
            protocol::ICMPV6 => "icmpv6".to_owned(),
            number => number.to_string(),
        });
        let Some(bytes) = bytes.filter(|_| part != FragmentKind::Later) else {
            return self;
        };
        let short = |at: usize| Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]));
        self.detail = match number {
            protocol::TCP | protocol::UDP => match (short(0), short(2)) {
                (Some(src_port), Some(dst_port)) => Detail::Ports {
                    src_port: Some(src_port),
                    dst_port,
                    tcp_flags: bytes
                        .get(13)
                        .filter(|_| number == protocol::TCP)
                        .map(|flags| flags_of(*flags)),
                },
                _ => Detail::None,
            },
            protocol::ICMPV4 | protocol::ICMPV6 => match bytes.get(..2) {
                Some(&[icmp_type, icmp_code]) => Detail::Icmp {
                    icmp_type,
                    icmp_code,
                    icmp_id: short(4).filter(|_| ECHOES.contains(&(number, icmp_type))),
                },
                _ => Detail::None,
            },
            _ => Detail::None,
        };
        self
    }
}

fn flags_of(flags: u8) -> String {
    let names = FLAGS.iter().enumerate();
    let set = names.filter(|(bit, _)| flags >> bit & 1 == 1);
    set.map(|(_, name)| *name).collect::<Vec<_>>().join(",")
}

impl PacketSummary {
    /// Removes the source port, or the identifier of an echo.
    pub fn forget_source_port(&mut self) {
        match &mut self.detail {
            Detail::Ports { src_port, .. } => *src_port = None,
            Detail::Icmp { icmp_id, .. } => *icmp_id = None,
            Detail::None => {}
        }
    }

    /// Returns the destination.
    pub fn destination(&self) -> Option<IpAddr> {
        self.dst
    }
}

/// Describes the fields of the IP header that matter only to routers.
pub fn header(packet: &[u8]) -> String {
    if let Ok(ip) = Ipv4::parse(packet) {
        let df = if ip.dont_fragment { "DF" } else { "no DF" };
        return format!("TTL {}, {df}", ip.ttl);
    }
    let hop_limit = Ipv6::parse(packet).map_or(0, |ip| ip.hop_limit);
    format!("hop limit {hop_limit}")
}

/// Returns a verdict in one word.
pub fn verdict_name(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Forward => "forward",
        Verdict::Emitted => "emitted",
        Verdict::Held => "held",
        Verdict::Elsewhere(_) => "elsewhere",
        Verdict::Drop(_) => "drop",
    }
}

impl fmt::Display for PacketSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Some(src), Some(dst)) = (self.src, self.dst) else {
            return write!(f, "no IP, {} bytes", self.length);
        };
        let ports = match self.detail {
            Detail::Ports {
                src_port, dst_port, ..
            } => Some((src_port, dst_port)),
            _ => None,
        };
        let end = |addr: IpAddr, port: Option<u16>| match (addr, port) {
            (addr, None) => addr.to_string(),
            (addr, Some(port)) => std::net::SocketAddr::new(addr, port).to_string(),
        };
        let src = match ports {
            Some((None, _)) => format!("{src}:?"),
            _ => end(src, ports.and_then(|p| p.0)),
        };
        let dst = end(dst, ports.map(|p| p.1));
        write!(f, "{src} > {dst}")?;
        if let Some(protocol) = &self.protocol {
            write!(f, " {protocol}")?;
        }
        match &self.detail {
            Detail::Ports {
                tcp_flags: Some(flags),
                ..
            } => write!(f, " {flags}")?,
            Detail::Icmp {
                icmp_type,
                icmp_code,
                icmp_id,
            } => {
                write!(f, " type {icmp_type} code {icmp_code}")?;
                if let Some(id) = icmp_id {
                    write!(f, " id {id}")?;
                }
            }
            _ => {}
        }
        if let Some(offset) = self.fragment_offset {
            let more = if self.more_fragments == Some(true) {
                "+"
            } else {
                ""
            };
            write!(f, " fragment {offset}{more}")?;
        }
        write!(f, " {} bytes", self.length)
    }
}
