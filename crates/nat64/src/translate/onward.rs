// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Prepares packets for other gateways: decrements the hop limit, fragments, or refuses, like a router (RFC 1812
//! sections 4.2.2.7, 5.2.7 and 5.3.1; RFC 8200 sections 3 and 5).
//!
//! The fast path programs that forward the same packets change the same bytes.

use super::Nat64;
use diolkos_xlat::csum;
use diolkos_xlat::frag::{cut, transport_header_len};
use diolkos_xlat::icmp::Answer;
use diolkos_xlat::packet::{Checksum, Env, Offload, Outbox, Packet};
use diolkos_xlat::refusal::Refusal;
use diolkos_xlat::translate::payload::{self, Family};
use diolkos_xlat::translate::{v4to6, v6to4};
use diolkos_xlat::verdict::{Reason, Verdict};
use diolkos_xlat::wire::{Chain, FragmentKind, Ipv4, Ipv6, IPV4_LEN, IPV6_LEN};

const TTL_AT: usize = 8;
const CHECKSUM_AT: usize = 10;
const HOP_LIMIT_AT: usize = 7;
/// Bytes that every IPv4 link can carry (RFC 791 section 3.2).
const LEAST_MTU: usize = 68;

/// The outbox for the pieces of a packet.
struct Pieces<'a, F>(&'a mut F);

impl<F: FnMut(&[u8], Offload)> Outbox for Pieces<'_, F> {
    fn emit(&mut self, packet: &[u8], offload: Offload) {
        (self.0)(packet, offload);
    }
}

impl Nat64 {
    /// Prepares a packet for another gateway on a path with an MTU of `mtu` bytes, counted from the IP header. The
    /// packet is one of [`Verdict::Elsewhere`] or [`Outbox::forward`], as received.
    ///
    /// After [`Verdict::Forward`], `packet` holds the result. After [`Verdict::Emitted`], its fragments, which are
    /// complete packets, have been passed to `send`. After [`Verdict::Drop`], an ICMP error may have been passed to
    /// `out`. Fragments have no IPv4 options, because translation ignores these anyway (RFC 7915 section 4.1).
    pub fn onward(
        &self,
        packet: &mut Packet<'_>,
        mtu: usize,
        env: &mut impl Env,
        out: &mut impl Outbox,
        mut send: impl FnMut(&[u8], Offload),
    ) -> Verdict {
        let mtu = mtu.max(LEAST_MTU);
        let pieces = &mut Pieces(&mut send);
        let done = match packet.bytes().first().map(|byte| byte >> 4) {
            Some(4) => onward4(packet, mtu, pieces),
            Some(6) => onward6(packet, mtu),
            _ => Err(Reason::NotIp.into()),
        };
        done.unwrap_or_else(|refusal| self.refuse(refusal, packet, env, out))
    }
}

fn onward6(packet: &mut Packet<'_>, mtu: usize) -> Result<Verdict, Refusal> {
    let ip = Ipv6::parse_packet(packet.bytes())?;
    let hop_limit = one_less(ip.hop_limit)?;
    packet.truncate(IPV6_LEN + ip.payload_len);
    let transport_at = match packet.offload.gso {
        Some(_) => Chain::walk(packet.bytes(), ip.next_header).map(|chain| chain.payload_at),
        None => None,
    };
    if size(packet, transport_at)? > mtu {
        return Err(Reason::TooBig.answered(Answer::TooBig(mtu)));
    }
    packet.bytes_mut()[HOP_LIMIT_AT] = hop_limit;
    Ok(Verdict::Forward)
}

fn onward4(
    packet: &mut Packet<'_>,
    mtu: usize,
    pieces: &mut impl Outbox,
) -> Result<Verdict, Refusal> {
    let ip = Ipv4::parse_packet(packet.bytes())?;
    let ttl = one_less(ip.ttl)?;
    packet.truncate(ip.total_len);
    if size(packet, Some(ip.header_len))? <= mtu {
        let header = &mut packet.bytes_mut()[..ip.header_len];
        header[TTL_AT] = ttl;
        csum::set_field(header, CHECKSUM_AT, 0);
        let checksum = !csum::sum(header).fold();
        csum::set_field(header, CHECKSUM_AT, checksum);
        return Ok(Verdict::Forward);
    }
    if ip.dont_fragment {
        return Err(Reason::TooBig.answered(Answer::TooBig(mtu)));
    }
    let ip = Ipv4 { ttl, ..ip };
    if packet.offload.gso.is_none() {
        fragments(&ip, packet, mtu, pieces)?;
        return Ok(Verdict::Emitted);
    }
    // No device would cut it into segments and these into fragments.
    v4to6::segments(&ip, packet, |segment| {
        let its = Ipv4::parse(segment.bytes())?;
        if segment.bytes().len() > mtu {
            return fragments(&its, segment, mtu, pieces);
        }
        pieces.emit(segment.bytes(), segment.offload);
        Ok(())
    })
}

/// Splits the packet into fragments.
fn fragments(
    ip: &Ipv4,
    packet: &mut Packet<'_>,
    mtu: usize,
    pieces: &mut impl Outbox,
) -> Result<(), Refusal> {
    let offload = packet.offload;
    if offload.checksum == Checksum::Partial {
        let part = FragmentKind::of(ip.fragment_offset, ip.more_fragments);
        let transport = &mut packet.bytes_mut()[ip.header_len..ip.total_len];
        let carried = payload::inspect(Family::V4, ip.protocol, transport, part, offload)?;
        payload::complete(transport, carried.kind, offload);
    }
    let largest = mtu - IPV4_LEN;
    cut(
        packet,
        ip.header_len,
        IPV4_LEN,
        largest,
        pieces,
        |bytes, piece| {
            v6to4::fragment_header(bytes, ip, piece);
        },
    );
    Ok(())
}

fn one_less(hops: u8) -> Result<u8, Refusal> {
    if hops <= 1 {
        return Err(Reason::HopLimit.answered(Answer::TimeExceeded));
    }
    Ok(hops - 1)
}

/// Length in bytes of the packet, or of the longest segment of a super-packet, whose transport header begins at
/// `transport_at`.
fn size(packet: &Packet<'_>, transport_at: Option<usize>) -> Result<usize, Reason> {
    let (bytes, offload) = (packet.bytes(), packet.offload);
    let Some(gso) = offload.gso else {
        return Ok(bytes.len());
    };
    let headers = transport_at.and_then(|at| {
        let transport = bytes.get(at..)?;
        Some(at + transport_header_len(gso.kind, transport)?)
    });
    let headers = headers.filter(|_| gso.size > 0);
    let size = headers.ok_or(Reason::OffloadMismatch)? + usize::from(gso.size);
    Ok(size.min(bytes.len()))
}
