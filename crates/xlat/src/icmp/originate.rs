// SPDX-License-Identifier: Apache-2.0 OR MIT
//! ICMP errors originated about refused packets (RFC 7915 sections 4.4 and 5.4).

use super::answer::Answer;
use super::rate::Tokens;
use super::IcmpErrors;
use crate::addr::special::{kind_of_ipv4, kind_of_ipv6, AddressKind};
use crate::csum::{self, Sum};
use crate::packet::{Env, Offload, Outbox};
use crate::wire::icmp::{v4, v6, Class, ICMP_CHECKSUM_AT, ICMP_LEN};
use crate::wire::{protocol, Chain, Ipv4, Ipv6, IPV4_LEN, IPV6_LEN};

/// Length in bytes of the longest ICMPv4 error that a router originates (RFC 1812 section 4.3.2.3).
const LARGEST_ICMPV4: usize = 576;
/// Length in bytes of the longest ICMPv6 error that a node originates (RFC 4443 section 2.4(c)).
const LARGEST_ICMPV6: usize = 1280;
/// Internetwork control (RFC 1812 section 4.3.2.5).
const PRECEDENCE_6: u8 = 0xc0;
/// TTL and hop limit of originated packets (RFC 1700).
const HOPS: u8 = 64;

impl IcmpErrors {
    /// Sends `answer` to the source of `packet` of either family, which must be as it was received.
    /// Sends nothing if the packet must not be answered or the rate limit is reached.
    #[cold]
    pub fn originate(
        &self,
        answer: Answer,
        packet: &[u8],
        env: &mut impl Env,
        out: &mut impl Outbox,
    ) {
        self.originate_with(answer, Tokens::Take, packet, env, out);
    }

    /// Returns the error that would be sent now. It takes no token from the rate limit.
    pub fn would_originate(
        &self,
        answer: Answer,
        packet: &[u8],
        env: &mut impl Env,
        out: &mut impl Outbox,
    ) {
        self.originate_with(answer, Tokens::Look, packet, env, out);
    }

    fn originate_with(
        &self,
        answer: Answer,
        tokens: Tokens,
        packet: &[u8],
        env: &mut impl Env,
        out: &mut impl Outbox,
    ) {
        if answer == Answer::Silence {
            return;
        }
        match packet.first().map(|byte| byte >> 4) {
            Some(4) => self.originate_v4(answer, tokens, packet, env, out),
            Some(6) => self.originate_v6(answer, tokens, packet, env, out),
            _ => {}
        }
    }

    fn originate_v4(
        &self,
        answer: Answer,
        tokens: Tokens,
        packet: &[u8],
        env: &mut impl Env,
        out: &mut impl Outbox,
    ) {
        let Ok(ip) = Ipv4::parse(packet) else { return };
        if !may_answer_v4(&ip, packet)
            || !self
                .limit4
                .allow(answer, ip.src.to_bits().into(), env.now(), tokens)
        {
            return;
        }
        let (icmp_type, code, rest) = match answer {
            Answer::Silence => return,
            Answer::TimeExceeded => (v4::TIME_EXCEEDED, 0, 0),
            Answer::Prohibited => (v4::UNREACHABLE, 13, 0),
            Answer::TooBig(mtu) => (v4::UNREACHABLE, 4, mtu.min(usize::from(u16::MAX)) as u32),
            Answer::SourceRouteFailed => (v4::UNREACHABLE, 5, 0),
            Answer::ErroneousField(at) => (v4::PARAMETER_PROBLEM, 0, at << 24),
            Answer::NetworkUnreachable => (v4::UNREACHABLE, 0, 0),
            Answer::AddressUnreachable => (v4::UNREACHABLE, 1, 0),
            Answer::PortUnreachable => (v4::UNREACHABLE, 3, 0),
            Answer::TransportUnknown => (v4::UNREACHABLE, 2, 0),
        };
        let mut error = [0; LARGEST_ICMPV4];
        let len = quote(&mut error, IPV4_LEN, packet);
        let header = Ipv4 {
            tos: PRECEDENCE_6,
            header_len: IPV4_LEN,
            total_len: len,
            id: env.ipv4_id(),
            dont_fragment: false,
            more_fragments: false,
            fragment_offset: 0,
            ttl: HOPS,
            protocol: protocol::ICMPV4,
            src: self.address4,
            dst: ip.src,
        };
        header.emit(&mut error);
        head(
            &mut error[IPV4_LEN..len],
            icmp_type,
            code,
            rest,
            Sum::default(),
        );
        out.emit(&error[..len], Offload::default());
    }

    fn originate_v6(
        &self,
        answer: Answer,
        tokens: Tokens,
        packet: &[u8],
        env: &mut impl Env,
        out: &mut impl Outbox,
    ) {
        let (Ok(ip), Some(src)) = (Ipv6::parse(packet), self.address6) else {
            return;
        };
        if !may_answer_v6(&ip, packet)
            || !self
                .limit6
                .allow(answer, ip.src.to_bits() >> 64, env.now(), tokens)
        {
            return;
        }
        let (icmp_type, code, rest) = match answer {
            Answer::Silence | Answer::SourceRouteFailed => return,
            Answer::TimeExceeded => (v6::TIME_EXCEEDED, 0, 0),
            Answer::Prohibited => (v6::UNREACHABLE, 1, 0),
            Answer::TooBig(mtu) => (v6::PACKET_TOO_BIG, 0, mtu as u32),
            Answer::ErroneousField(at) => (v6::PARAMETER_PROBLEM, 0, at),
            Answer::NetworkUnreachable => (v6::UNREACHABLE, 0, 0),
            Answer::AddressUnreachable => (v6::UNREACHABLE, 3, 0),
            Answer::PortUnreachable | Answer::TransportUnknown => (v6::UNREACHABLE, 4, 0),
        };
        let mut error = [0; LARGEST_ICMPV6];
        let len = quote(&mut error, IPV6_LEN, packet);
        let header = Ipv6 {
            traffic_class: 0,
            flow_label: 0,
            payload_len: len - IPV6_LEN,
            next_header: protocol::ICMPV6,
            hop_limit: HOPS,
            src,
            dst: ip.src,
        };
        header.emit(&mut error);
        let pseudo = csum::pseudo_ipv6(src, ip.src, protocol::ICMPV6, len - IPV6_LEN);
        head(&mut error[IPV6_LEN..len], icmp_type, code, rest, pseudo);
        out.emit(&error[..len], Offload::default());
    }
}

/// Returns true unless RFC 1812 section 4.3.2.7 forbids an answer: to an ICMP error, a packet to a
/// group or to all nodes, a packet whose source is not a single node, or a fragment other than the
/// first.
fn may_answer_v4(ip: &Ipv4, packet: &[u8]) -> bool {
    let about_error = ip.protocol == protocol::ICMPV4
        && packet.get(ip.header_len).is_none_or(|&icmp_type| {
            icmp_type == v4::REDIRECT || matches!(v4::class_of(icmp_type), Class::Error)
        });
    !about_error
        && ip.fragment_offset == 0
        && kind_of_ipv4(ip.src) == AddressKind::Unicast
        && kind_of_ipv4(ip.dst) == AddressKind::Unicast
}

/// Returns true unless RFC 4443 section 2.4(e) forbids an answer: to an ICMPv6 error or redirect, a
/// packet to a group, or a packet whose source is not a single node. A packet that may be part of an
/// ICMPv6 error counts as one.
fn may_answer_v6(ip: &Ipv6, packet: &[u8]) -> bool {
    let about_error = match Chain::walk(packet, ip.next_header) {
        Some(chain) if chain.protocol == protocol::ICMPV6 => {
            let later = chain.fragment.is_some_and(|fragment| fragment.offset != 0);
            later
                || packet.get(chain.payload_at).is_none_or(|&icmp_type| {
                    icmp_type == v6::REDIRECT || matches!(v6::class_of(icmp_type), Class::Error)
                })
        }
        Some(_) => false,
        None => true,
    };
    !about_error
        && kind_of_ipv6(ip.src) == AddressKind::Unicast
        && kind_of_ipv6(ip.dst) == AddressKind::Unicast
}

/// Quotes as much of the packet as fits behind the headers. Returns the total length.
fn quote(error: &mut [u8], ip_len: usize, packet: &[u8]) -> usize {
    let at = ip_len + ICMP_LEN;
    let fits = packet.len().min(error.len() - at);
    error[at..at + fits].copy_from_slice(&packet[..fits]);
    at + fits
}

/// Writes the ICMP header.
fn head(message: &mut [u8], icmp_type: u8, code: u8, rest: u32, pseudo: Sum) {
    message[0] = icmp_type;
    message[1] = code;
    message[4..ICMP_LEN].copy_from_slice(&rest.to_be_bytes());
    csum::fill_in(message, ICMP_CHECKSUM_AT, pseudo);
}
