// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The path of a packet from one family to the other.
//!
//! Stages, the same in both directions; each may refuse the packet, and the first that does gives the reason:
//!
//! 1. receive: the header is whole and true, the addresses may be forwarded, no source route is left.
//! 2. hop: the TTL or hop limit survives us.
//! 3. [`payload`]: what is carried, and whether its checksum can be kept right.
//! 4. map: both addresses.
//! 5. fit: the size on the other side, of one segment if the packet stands for several.
//! 6. rewrite: from here on nothing fails; transport checksum first, then the new header in front of it.

mod payload;
mod v4to6;
mod v6to4;

use crate::addr::special::Kind;
use crate::addr::Mapper;
use crate::config::{Config, ConfigError, TrafficClass, UdpZeroChecksum};
use crate::packet::{Env, Outbox, Packet};
use crate::verdict::{Reason, Verdict};

/// A complete stateless translator. It never changes; to change the configuration, make another one.
#[derive(Debug)]
pub struct Translator {
    mapper: Mapper,
    lowest_ipv6_mtu: usize,
    mtu4: usize,
    mtu6: usize,
    udp_zero_checksum: UdpZeroChecksum,
    traffic_class: TrafficClass,
}

impl Translator {
    /// Fails if the configuration contradicts itself; the error names the keys.
    pub fn new(config: &Config) -> Result<Translator, ConfigError> {
        config.check()?;
        Ok(Translator {
            mapper: Mapper::new(config),
            lowest_ipv6_mtu: config.lowest_ipv6_mtu as usize,
            mtu4: config.mtu4 as usize,
            mtu6: config.mtu6 as usize,
            udp_zero_checksum: config.udp_zero_checksum,
            traffic_class: config.traffic_class,
        })
    }

    /// Translates one packet to the other family; which one it comes from, its version says.
    ///
    /// After [`Verdict::Forward`] the translated packet stands in `packet`, with the offload to tell the next device.
    /// After [`Verdict::Drop`] and [`Verdict::Emitted`] its bytes are undefined.
    /// What has to be sent besides (fragments, ICMP errors of our own) has gone to `out`, in the order of sending.
    pub fn translate(
        &self,
        packet: &mut Packet<'_>,
        env: &mut impl Env,
        out: &mut impl Outbox,
    ) -> Verdict {
        let result = match packet.bytes().first().map(|byte| byte >> 4) {
            Some(4) => v4to6::translate(self, packet, env, out),
            Some(6) => v6to4::translate(self, packet, env, out),
            Some(_) => Err(Reason::NotIp.into()),
            None => Err(Reason::Truncated.into()),
        };
        match result {
            Ok(verdict) => verdict,
            Err(refusal) => Verdict::Drop(refusal.reason),
        }
    }

    /// Both addresses, mapped.
    fn class_out(&self, class: u8) -> u8 {
        match self.traffic_class {
            TrafficClass::Copy => class,
            TrafficClass::Zero => 0,
        }
    }
}

/// A packet is not translated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Refusal {
    reason: Reason,
    /// What its sender is told.
    answer: Answer,
}

/// The ICMP error that answers a refused packet, if it may be answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    /// None.
    Silence,
    /// Time Exceeded in transit.
    TimeExceeded,
    /// Communication administratively prohibited: the general answer (RFC 7915 sections 4.4 and 5.4).
    Prohibited,
    /// Fragmentation Needed or Packet Too Big, with this MTU.
    TooBig(usize),
    /// Source Route Failed.
    SourceRouteFailed,
    /// Parameter Problem, erroneous header field, at this byte.
    ErroneousField(u32),
}

impl From<Reason> for Refusal {
    /// Most refusals are silent.
    fn from(reason: Reason) -> Refusal {
        Refusal {
            reason,
            answer: Answer::Silence,
        }
    }
}

impl Reason {
    fn answer(self, answer: Answer) -> Refusal {
        Refusal {
            reason: self,
            answer,
        }
    }
}

/// "If a translator gets an illegal source address [...] the translator SHOULD silently discard the packet" (RFC 7915 sections 4.1 and 5.1).
#[inline]
fn legal(src: Kind, dst: Kind) -> Result<(), Reason> {
    match (src, dst) {
        (Kind::Unicast, Kind::Unicast) => Ok(()),
        (Kind::Unicast, Kind::Multicast) => Err(Reason::Multicast),
        (Kind::Unicast, Kind::Unroutable) => Err(Reason::DestinationIllegal),
        _ => Err(Reason::SourceIllegal),
    }
}

/// One hop further: we are a router (RFC 7915 sections 4.1 and 5.1).
#[inline]
fn hop(limit: u8) -> Result<u8, Refusal> {
    if limit <= 1 {
        return Err(Reason::HopLimit.answer(Answer::TimeExceeded));
    }
    Ok(limit - 1)
}
