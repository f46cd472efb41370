// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Translates a packet from one family to the other.
//!
//! Both directions have the same stages. Each stage may refuse the packet; the first refusal gives the
//! reason:
//!
//! 1. receive: validate the header and the addresses; reject a source route that is not at its end.
//! 2. hop: decrement the TTL or hop limit.
//! 3. `payload`: classify the payload and check that its checksum can be kept correct. ICMP errors take a
//!    separate path from here (`icmp`).
//! 4. map: map both addresses. A packet to the side it came from is hairpinned here (`hairpin`).
//! 5. fit: compare with the size limit of the other side; for a super-packet, the size of one segment.
//! 6. rewrite: no refusals from here on. Update the transport checksum, lower the MSS of a SYN (`mss`), then write
//!    the new header in front of it. A packet that has to be fragmented is sent in pieces (`frag`).
//!
//! Super-packets (GSO) stay whole if one segment fits. If it does not fit and must not be fragmented, the
//! sender gets one answer. Otherwise the packet is cut into its segments, and these into fragments, because
//! no device would do both.

pub mod hairpin;
mod mss;
pub mod payload;
mod trace;
pub mod v4to6;
pub mod v6to4;

use crate::addr::special::AddressKind;
use crate::config::{Config, ConfigError, TrafficClass, UdpZeroChecksum};
use crate::icmp::{Answer, IcmpErrors};
use crate::map::Mapper;
use crate::packet::{Env, Outbox, Packet};
use crate::refusal::Refusal;
use crate::verdict::{Reason, Verdict};
use crate::wire::Addresses;
use payload::Payload;

/// A complete stateless translator. It is immutable; create another one to change the configuration.
///
/// All threads may share it. The only shared mutable state is the rate limit of originated ICMP errors.
#[derive(Debug)]
pub struct Translator {
    mapper: Mapper,
    clat: bool,
    icmp: IcmpErrors,
    /// The longest fragment that is sent to IPv6, in bytes (RFC 7915 section 4.1).
    longest_fragment6: usize,
    mtu4: usize,
    mtu6: usize,
    udp_zero_checksum: UdpZeroChecksum,
    /// Sorted in ascending order.
    udp_zero_checksum_ports: Box<[u16]>,
    traffic_class: TrafficClass,
    takes_hop: bool,
    tcp_mss: Option<u16>,
}

impl Translator {
    /// Creates a translator. Fails if the configuration contradicts itself; the error names the keys.
    pub fn new(config: &Config) -> Result<Translator, ConfigError> {
        config.check()?;
        let mapper = Mapper::new(config);
        Ok(Translator {
            icmp: IcmpErrors::new(config),
            mapper,
            clat: config.clat,
            longest_fragment6: config.lowest_ipv6_mtu.min(config.mtu6) as usize,
            mtu4: config.mtu4 as usize,
            mtu6: config.mtu6 as usize,
            udp_zero_checksum: config.udp_zero_checksum.unwrap_or_default(),
            udp_zero_checksum_ports: sorted(&config.udp_zero_checksum_ports),
            traffic_class: config.traffic_class,
            takes_hop: config.takes_hop,
            tcp_mss: config.tcp_mss,
        })
    }

    /// Translates one packet to the other family. The version field gives its own family.
    ///
    /// After [`Verdict::Forward`], `packet` holds the translated packet and the offload for the next device.
    /// After [`Verdict::Drop`] and [`Verdict::Emitted`] its bytes are undefined. Additional packets
    /// (fragments, originated ICMP errors) have been passed to `out`, in sending order.
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

    /// Refuses a packet because its translation has no route. The sender gets Network Unreachable, as from a
    /// router without a route (RFC 1812 section 5.2.7.1, RFC 4443 section 3.1). Always returns
    /// [`Verdict::Drop`].
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

    /// The address mappings of both sides.
    pub fn mapper(&self) -> &Mapper {
        &self.mapper
    }

    /// The ICMP error settings of this translator.
    pub fn icmp(&self) -> &IcmpErrors {
        &self.icmp
    }

    /// Returns true if a UDP datagram with these ports keeps its zero checksum.
    fn keeps_zero_checksum(&self, ports: [u16; 2]) -> bool {
        let listed = &self.udp_zero_checksum_ports;
        ports.iter().any(|port| listed.binary_search(port).is_ok())
    }

    /// Returns true if a missing UDP checksum is computed.
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

/// Decrements the hop limit, as a router does (RFC 7915 sections 4.1 and 5.1), unless the surrounding router
/// does it.
#[inline]
pub fn hop(t: &Translator, limit: u8) -> Result<u8, Refusal> {
    let taken = u8::from(t.takes_hop);
    if limit <= taken {
        return Err(Reason::HopLimit.answered(Answer::TimeExceeded));
    }
    Ok(limit - taken)
}

/// Rejects fragments with an impossible position: a length that is not a multiple of 8 bytes before another
/// fragment (RFC 791 section 3.2, RFC 8200 section 4.5), or an end beyond the longest packet.
fn place_in_datagram(offset: u16, len: usize, more: bool, header_len: usize) -> Result<(), Reason> {
    if more && !len.is_multiple_of(8)
        || header_len + usize::from(offset) * 8 + len > usize::from(u16::MAX)
    {
        return Err(Reason::FragmentMalformed);
    }
    Ok(())
}

/// Handles the verdict of one of several packets: sends `packet` now if it holds the translation.
pub fn leave(verdict: Verdict, packet: &Packet<'_>, out: &mut impl Outbox) -> Result<(), Refusal> {
    if verdict == Verdict::Forward {
        out.emit(packet.bytes(), packet.offload);
    }
    Ok(())
}

/// How a packet fits the other side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fit {
    /// As one packet.
    Whole,
    /// As fragments of at most this many bytes, headers included.
    Cut(usize),
    /// As separate segments.
    Segments,
}

/// A packet that is to be sent in the other family: what its received headers do not say.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<'a, A> {
    /// The protocol number, as the other family has it.
    pub protocol: u8,
    /// Its payload.
    pub carried: &'a Payload,
    /// How it fits.
    pub fit: Fit,
    /// Its addresses.
    pub addresses: Addresses<A>,
}
