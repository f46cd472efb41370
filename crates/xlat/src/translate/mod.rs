// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The path of a packet from one family to the other.
//!
//! Stages, the same in both directions; each may refuse the packet, and the first that does gives
//! the reason:
//!
//! 1. receive: the header is whole and true, the addresses may be forwarded, no source route is
//!    left.
//! 2. hop: the TTL or hop limit survives us.
//! 3. `payload`: what is carried, and whether its checksum can be kept right. ICMP errors go their
//!    own way from here (`icmp`).
//! 4. map: both addresses. A packet that comes back to the side it came from turns here
//!    (`hairpin`).
//! 5. fit: the size on the other side, of one segment if the packet stands for several.
//! 6. rewrite: from here on nothing is refused; transport checksum first, then the new header in
//!    front of it. A packet that has to be fragmented leaves in pieces (`frag`).
//!
//! Packets that stand for several (GSO) are kept whole wherever one segment fits. One that does not
//! is answered once if it must not be fragmented; otherwise it is cut into its segments first, and
//! those into fragments, for no device would do both.

pub mod hairpin;
pub mod payload;
mod trace;
pub mod v4to6;
pub mod v6to4;

use crate::addr::special::AddressKind;
use crate::addr::Mapper;
use crate::config::{Config, ConfigError, TrafficClass, UdpZeroChecksum};
use crate::icmp::{Answer, IcmpErrors};
use crate::packet::{Env, Outbox, Packet};
use crate::verdict::{Reason, Verdict};

/// A complete stateless translator. It never changes; to change the configuration, make another
/// one.
///
/// All threads may use it at once. The only thing they share is the count of ICMP errors originated
/// lately.
#[derive(Debug)]
pub struct Translator {
    mapper: Mapper,
    clat: bool,
    icmp: IcmpErrors,
    lowest_ipv6_mtu: usize,
    mtu4: usize,
    mtu6: usize,
    udp_zero_checksum: UdpZeroChecksum,
    /// Sorted.
    udp_zero_checksum_ports: Box<[u16]>,
    traffic_class: TrafficClass,
    takes_hop: bool,
}

impl Translator {
    /// Fails if the configuration contradicts itself; the error names the keys.
    pub fn new(config: &Config) -> Result<Translator, ConfigError> {
        config.check()?;
        let mapper = Mapper::new(config);
        Ok(Translator {
            icmp: IcmpErrors::new(config),
            mapper,
            clat: config.clat,
            lowest_ipv6_mtu: config.lowest_ipv6_mtu as usize,
            mtu4: config.mtu4 as usize,
            mtu6: config.mtu6 as usize,
            udp_zero_checksum: config.udp_zero_checksum.unwrap_or_default(),
            udp_zero_checksum_ports: sorted(&config.udp_zero_checksum_ports),
            traffic_class: config.traffic_class,
            takes_hop: config.takes_hop,
        })
    }

    /// Translates one packet to the other family; which one it comes from, its version says.
    ///
    /// After [`Verdict::Forward`] the translated packet stands in `packet`, with the offload to
    /// tell the next device. After [`Verdict::Drop`] and [`Verdict::Emitted`] its bytes are
    /// undefined. What has to be sent besides (fragments, ICMP errors of our own) has gone to
    /// `out`, in the order of sending.
    pub fn translate(
        &self,
        packet: &mut Packet<'_>,
        env: &mut impl Env,
        out: &mut impl Outbox,
    ) -> Verdict {
        match self.path(packet, env, out) {
            Ok(verdict) => verdict,
            Err(Refusal { reason, answer }) => {
                out.refused(reason, packet.bytes());
                self.icmp.originate(answer, packet.bytes(), env, out);
                Verdict::Drop(reason)
            }
        }
    }

    /// Refuses a packet because what it would become cannot be sent: its sender is told that the
    /// network is unreachable, as a router without a route tells it (RFC 1812 section 5.2.7.1, RFC
    /// 4443 section 3.1). Always [`Verdict::Drop`].
    pub fn refuse_unroutable(
        &self,
        packet: &Packet<'_>,
        env: &mut impl Env,
        out: &mut impl Outbox,
    ) -> Verdict {
        let reason = Reason::NoRoute;
        out.refused(reason, packet.bytes());
        let answer = Answer::NetworkUnreachable;
        self.icmp.originate(answer, packet.bytes(), env, out);
        Verdict::Drop(reason)
    }

    pub(crate) fn path(
        &self,
        packet: &mut Packet<'_>,
        env: &mut impl Env,
        out: &mut impl Outbox,
    ) -> Result<Verdict, Refusal> {
        match packet.bytes().first().map(|byte| byte >> 4) {
            Some(4) => v4to6::translate(self, packet, out),
            Some(6) => v6to4::translate(self, packet, env, out),
            Some(_) => Err(Reason::NotIp.into()),
            None => Err(Reason::Truncated.into()),
        }
    }

    /// The addresses of both sides.
    pub fn mapper(&self) -> &Mapper {
        &self.mapper
    }

    /// ICMP errors of this translator.
    pub fn icmp(&self) -> &IcmpErrors {
        &self.icmp
    }

    /// UDP without checksum from one of these ports to the other stays without.
    fn keeps_zero_checksum(&self, ports: [u16; 2]) -> bool {
        let listed = &self.udp_zero_checksum_ports;
        ports.iter().any(|port| listed.binary_search(port).is_ok())
    }

    /// The checksum of UDP without one is to be computed.
    pub fn computes_checksums(&self) -> bool {
        self.udp_zero_checksum == UdpZeroChecksum::Compute
    }

    fn class_out(&self, class: u8) -> u8 {
        match self.traffic_class {
            TrafficClass::Copy => class,
            TrafficClass::Zero => 0,
        }
    }
}

fn sorted(ports: &[u16]) -> Box<[u16]> {
    let mut ports = ports.to_vec();
    ports.sort_unstable();
    ports.into()
}

/// A packet is not translated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// Why.
    pub reason: Reason,
    /// What its sender is told. Only packets that still are as they were received are answered.
    pub answer: Answer,
}

impl From<Reason> for Refusal {
    /// What is said nowhere else: packets that make sense but cannot be translated are answered
    /// "communication administratively prohibited" (RFC 7915 sections 4.4 and 5.4); malformed ones,
    /// and those that an RFC drops silently, are not answered.
    fn from(reason: Reason) -> Refusal {
        let answer = match reason {
            Reason::SourceUnmapped
            | Reason::DestinationUnmapped
            | Reason::NotGlobalWithWkp
            | Reason::UdpZeroChecksum
            | Reason::FragmentUdpZeroChecksum
            | Reason::FragmentExtension
            | Reason::FragmentIcmp => Answer::Prohibited,
            // As a router answers that has no route (RFC 1812 section 5.2.7.1, RFC 4443 section 3.1).
            Reason::DestinationLoops => Answer::AddressUnreachable,
            _ => Answer::Silence,
        };
        Refusal { reason, answer }
    }
}

impl Reason {
    /// A refusal for this reason, of which the sender is told so.
    pub fn answered(self, answer: Answer) -> Refusal {
        Refusal {
            reason: self,
            answer,
        }
    }
}

/// "If a translator gets an illegal source address [...] the translator SHOULD silently discard the
/// packet" (RFC 7915 sections 4.1 and 5.1).
#[inline]
pub fn legal(src: AddressKind, dst: AddressKind) -> Result<(), Reason> {
    match (src, dst) {
        (AddressKind::Unicast, AddressKind::Unicast) => Ok(()),
        (AddressKind::Unicast, AddressKind::Multicast) => Err(Reason::Multicast),
        (AddressKind::Unicast, AddressKind::Unroutable) => Err(Reason::DestinationIllegal),
        _ => Err(Reason::SourceIllegal),
    }
}

/// One hop further: we are a router (RFC 7915 sections 4.1 and 5.1), unless the one around us takes its hops.
#[inline]
pub fn hop(t: &Translator, limit: u8) -> Result<u8, Refusal> {
    let taken = u8::from(t.takes_hop);
    if limit <= taken {
        return Err(Reason::HopLimit.answered(Answer::TimeExceeded));
    }
    Ok(limit - taken)
}

/// Fragments whose place in their datagram cannot be: not a multiple of 8 bytes before another (RFC
/// 791 section 3.2, RFC 8200 section 4.5), or reaching beyond the longest packet.
fn place_in_datagram(offset: u16, len: usize, more: bool, header_len: usize) -> Result<(), Reason> {
    if more && !len.is_multiple_of(8)
        || header_len + usize::from(offset) * 8 + len > usize::from(u16::MAX)
    {
        return Err(Reason::FragmentMalformed);
    }
    Ok(())
}

/// One of several packets has this verdict: if it stands in `packet`, it leaves now.
pub fn leave(verdict: Verdict, packet: &Packet<'_>, out: &mut impl Outbox) -> Result<(), Refusal> {
    if verdict == Verdict::Forward {
        out.emit(packet.bytes(), packet.offload);
    }
    Ok(())
}

/// How a packet goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fit {
    /// Unchanged in number: one packet stays one.
    Whole,
    /// In fragments of at most so many bytes, headers included.
    Cut(usize),
    /// Segment by segment.
    Segments,
}
