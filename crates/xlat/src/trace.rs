// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Predicts the translation of a packet and explains it.
//!
//! The normal translation code runs on a copy of the packet ([`crate::Translator::trace`]). A stateful translator looks
//! up the matching entries in its tables. A trace changes no state and takes no token from the ICMP rate limit.

use crate::icmp::{Answer, IcmpErrors};
use crate::map::Via;
use crate::packet::{ClampedMss, Env, Offload, Outbox, Packet, HEADROOM};
use crate::refusal::Refusal;
use crate::verdict::Verdict;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Bytes of room after the packet, for data that the translator appends (padding of RFC 4884 extensions).
const BACK: usize = 256;

/// An address field of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The source.
    Source,
    /// The destination.
    Destination,
}

/// The translation of an address of a packet to the other family.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mapping {
    /// The address was mapped.
    Mapped {
        /// The address field.
        end: End,
        /// The IPv6 address.
        v6: Ipv6Addr,
        /// The IPv4 address.
        v4: Ipv4Addr,
        /// The means by which it was mapped.
        via: Via,
    },
    /// The address cannot be mapped.
    Unmapped {
        /// The address field.
        end: End,
        /// The address.
        addr: IpAddr,
    },
}

/// The predicted result for a packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trace {
    /// Its addresses, as far as prefixes and mappings cover them.
    pub mappings: Vec<Mapping>,
    /// True if source and destination are both behind the translator, so that the packet is hairpinned (RFC 6146
    /// section 3.8, RFC 7757 section 4.2).
    pub turns: bool,
    /// The maximum segment size of a SYN, if it would be lowered.
    pub clamped: Option<ClampedMss>,
    /// The verdict of [`crate::Translator::translate`].
    pub verdict: Verdict,
    /// The translated packets that would be sent: one packet, or several fragments.
    pub sent: Vec<Vec<u8>>,
    /// The ICMP error that would be sent to the source.
    pub answer: Option<Vec<u8>>,
}

impl Trace {
    /// Traces a copy of a packet with `translate`. If it refuses the packet, `answer_to` chooses the answer to the
    /// sender.
    pub fn of<E: Env>(
        bytes: &[u8],
        icmp: &IcmpErrors,
        env: &mut E,
        translate: impl FnOnce(&mut Packet<'_>, &mut E, &mut Leaving) -> Result<Verdict, Refusal>,
        answer_to: impl FnOnce(&Refusal, &[u8]) -> Answer,
    ) -> Trace {
        let end = HEADROOM + bytes.len();
        let mut buffer = vec![0; end + BACK];
        buffer[HEADROOM..end].copy_from_slice(bytes);
        let mut packet = Packet::new(&mut buffer, HEADROOM, end, Offload::default());
        let (mut sent, mut answer) = (Leaving::default(), Leaving::default());
        let verdict = match translate(&mut packet, env, &mut sent) {
            Ok(verdict) => verdict,
            Err(refusal) => {
                let told = answer_to(&refusal, packet.bytes());
                icmp.would_originate(told, packet.bytes(), env, &mut answer);
                Verdict::Drop(refusal.reason)
            }
        };
        if verdict == Verdict::Forward {
            sent.packets.push(packet.bytes().to_vec());
        }
        let is_v6 = |packet: &[u8]| packet.first().is_some_and(|byte| byte >> 4 == 6);
        Trace {
            mappings: Vec::new(),
            turns: is_v6(bytes) && sent.packets.first().is_some_and(|sent| is_v6(sent)),
            clamped: sent.clamped,
            verdict,
            sent: sent.packets,
            answer: answer.packets.pop(),
        }
    }
}

/// An outbox that collects the packets.
#[derive(Default)]
pub struct Leaving {
    packets: Vec<Vec<u8>>,
    clamped: Option<ClampedMss>,
}

impl Outbox for Leaving {
    fn emit(&mut self, packet: &[u8], _: Offload) {
        self.packets.push(packet.to_vec());
    }

    fn clamped(&mut self, mss: ClampedMss) {
        self.clamped = Some(mss);
    }
}
