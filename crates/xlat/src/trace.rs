// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What would become of a packet, and why.
//!
//! A copy of the packet is translated by the code that translates every packet ([`crate::Translator::trace`]).
//! A stateful translator looks up what it would meet in the tables. Nothing changes, and no token of the limit of ICMP errors is
//! used.

use crate::addr::Via;
use crate::icmp::{Answer, IcmpErrors};
use crate::packet::{Env, Offload, Outbox, Packet, HEADROOM};
use crate::translate::Refusal;
use crate::verdict::Verdict;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Room behind the packet for what the translator adds at its end (padding of RFC 4884 extensions).
const BACK: usize = 256;

/// Which address of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The source.
    Source,
    /// The destination.
    Destination,
}

/// How an address of a packet is that of the other family.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mapping {
    /// It was mapped.
    Mapped {
        /// Which one.
        end: End,
        /// In IPv6.
        v6: Ipv6Addr,
        /// In IPv4.
        v4: Ipv4Addr,
        /// By what.
        via: Via,
    },
    /// It has none.
    Unmapped {
        /// Which one.
        end: End,
        /// The address.
        addr: IpAddr,
    },
}

/// What would become of a packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trace {
    /// Its addresses, as far as prefixes and mappings have them.
    pub mappings: Vec<Mapping>,
    /// The destination is behind the translator, as the source is: the packet turns back (RFC 6146 section 3.8, RFC 7757
    /// section 4.2).
    pub turns: bool,
    /// As [`crate::Translator::translate`] says it.
    pub verdict: Verdict,
    /// What would leave, translated: one packet, or several fragments.
    pub sent: Vec<Vec<u8>>,
    /// The ICMP error that its sender would get.
    pub answer: Option<Vec<u8>>,
}

impl Trace {
    /// Of a copy of a packet, which `translate` translates; `answer_to` says what its sender is told if it refuses.
    pub fn of<E: Env>(
        bytes: &[u8],
        (icmp, env): (&IcmpErrors, &mut E),
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
            sent.0.push(packet.bytes().to_vec());
        }
        let is_v6 = |packet: &[u8]| packet.first().is_some_and(|byte| byte >> 4 == 6);
        Trace {
            mappings: Vec::new(),
            turns: is_v6(bytes) && sent.0.first().is_some_and(|sent| is_v6(sent)),
            verdict,
            sent: sent.0,
            answer: answer.0.pop(),
        }
    }
}

/// Keeps what leaves.
#[derive(Default)]
pub struct Leaving(Vec<Vec<u8>>);

impl Outbox for Leaving {
    fn emit(&mut self, packet: &[u8], _: Offload) {
        self.0.push(packet.to_vec());
    }
}
