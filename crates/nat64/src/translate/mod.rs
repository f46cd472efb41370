// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The stateful translator (RFC 6146): translates headers by RFC 7915, with addresses and ports from the tables.
//!
//! Both directions have the same stages; each may refuse the packet:
//!
//! 1. The first stages of the stateless translator ([`diolkos_xlat::translate`]): receive, hop, payload. ICMP errors
//!    take a separate path from here (`error`).
//! 2. `tuple`: protocol and ports. Later fragments get the ports of the first (`fragment`, `store`). Fragments of ICMP,
//!    and of UDP over IPv4 without checksum, are reassembled and start again as one packet (`whole`).
//! 3. Fit: a packet that is too big is answered before it creates state.
//! 4. [`crate::session`]: binding and session. A packet to an IPv4 address of this gateway passes the tables twice and
//!    is hairpinned to IPv6 (section 3.8, `outbound`).
//! 5. The last stages of the stateless translator: rewrite and send.
//!
//! `probe` builds the packets that are sent after a timeout. `onward` prepares packets for other gateways.

mod error;
mod fragment;
mod inbound;
mod onward;
mod outbound;
mod probe;
mod store;
mod together;
mod trace;
mod tuple;
mod whole;

use crate::config::Nat64Config;
use crate::session::{Due, State, Watcher};
use diolkos_xlat::config::{ConfigError, UdpZeroChecksum};
use diolkos_xlat::icmp::Answer;
use diolkos_xlat::map::Mapper;
use diolkos_xlat::packet::{Env, Outbox, Packet};
use diolkos_xlat::refusal::Refusal;
use diolkos_xlat::translate::Translator;
use diolkos_xlat::verdict::{Reason, Verdict};
use fragment::{Fragments, Released};
use std::time::Duration;
use together::{note_lost, Fragmented};
pub use trace::Nat64Trace;

/// Time, identifications and unpredictable random numbers.
pub trait Random: Env {
    /// Returns 64 bits from a cryptographically secure generator, because they select ports (RFC 6056).
    fn random(&mut self) -> u64;
}

/// A complete stateful NAT64.
#[derive(Debug)]
pub struct Nat64 {
    translator: Translator,
    config: Nat64Config,
    state: State,
    fragments: Fragments,
}

impl Nat64 {
    /// Creates a translator. Fails if the configuration contradicts itself; the error names the keys. `secret` must be
    /// random and secret.
    pub fn new(config: &Nat64Config, secret: [u64; 4]) -> Result<Nat64, ConfigError> {
        let config = with_defaults(config);
        config.check()?;
        Ok(Nat64 {
            translator: Translator::new(&config.translator)?,
            state: State::new(&config, secret),
            fragments: Fragments::new(&config, [secret[2], secret[3]]),
            config,
        })
    }

    /// Applies another configuration; allowed entries stay ([`State::reconfigure`]). After an error nothing has
    /// changed. Visits every entry of the tables.
    pub fn reconfigure(
        &mut self,
        config: &Nat64Config,
        watcher: &mut impl Watcher,
    ) -> Result<(), ConfigError> {
        let config = with_defaults(config);
        config.check()?;
        self.translator = Translator::new(&config.translator)?;
        self.state.reconfigure(&config, watcher);
        self.fragments.reconfigure(&config);
        self.config = config;
        Ok(())
    }

    /// Translates one packet to the other family, or hairpins it; its version field gives the family. Like
    /// [`Translator::translate`], except that the verdict may also be [`Verdict::Held`].
    ///
    /// `watcher` receives the changes of the tables.
    pub fn translate(
        &mut self,
        packet: &mut Packet<'_>,
        env: &mut impl Random,
        out: &mut impl Outbox,
        watcher: &mut impl Watcher,
    ) -> Verdict {
        let mut first = None;
        let verdict = self.judge(packet, env, out, watcher, &mut first);
        let (key, numbers) = match first {
            None => return verdict,
            Some(Fragmented::First(key, numbers)) => (key, numbers),
            Some(Fragmented::Whole(whole, pieces)) => {
                return self.begin_anew(&whole, &pieces, env, out, watcher)
            }
        };
        // Only accepted fragments are remembered; otherwise spoofed ones would decide about the rest of a packet.
        let held = match verdict {
            Verdict::Forward | Verdict::Emitted | Verdict::Elsewhere(_) => {
                let Released { held, lost } = self.fragments.first(key, numbers, env.now());
                note_lost(lost, watcher);
                held
            }
            Verdict::Held | Verdict::Drop(_) => self.fragments.refused(key),
        };
        if held.is_empty() {
            return verdict;
        }
        self.release(verdict, packet, held, env, out, watcher)
    }

    /// Judges a single packet, without the fragments that wait for it. Sets `first` if the packet is a first fragment,
    /// or the last missing fragment of a packet that is reassembled.
    #[inline]
    fn judge(
        &mut self,
        packet: &mut Packet<'_>,
        env: &mut impl Random,
        out: &mut impl Outbox,
        watcher: &mut impl Watcher,
        first: &mut Option<Fragmented>,
    ) -> Verdict {
        match self.path(packet, env, out, watcher, first) {
            Ok(verdict) => verdict,
            Err(Refusal {
                reason: Reason::Elsewhere,
                ..
            }) => match self.state.way() {
                Some(gateway) => Verdict::Elsewhere(gateway),
                None => Verdict::Drop(Reason::Elsewhere),
            },
            Err(refusal) => self.refuse(refusal, packet, env, out),
        }
    }

    /// Drops the packet, which must be as received, and answers its sender.
    fn refuse(
        &self,
        refusal: Refusal,
        packet: &Packet<'_>,
        env: &mut impl Env,
        out: &mut impl Outbox,
    ) -> Verdict {
        out.refused(refusal.reason, packet.bytes());
        let answer = self.answer(&refusal, packet.bytes());
        self.translator
            .icmp()
            .originate(answer, packet.bytes(), env, out);
        Verdict::Drop(refusal.reason)
    }

    /// The answer to the sender of a refused packet.
    fn answer(&self, refusal: &Refusal, packet: &[u8]) -> Answer {
        match refusal.answer {
            Answer::Silence => Answer::Silence,
            // The node with this address would attribute the answer to a packet of its own.
            _ if self.claims_to_be_ours(packet) => Answer::Silence,
            answer => answer,
        }
    }

    fn path(
        &mut self,
        packet: &mut Packet<'_>,
        env: &mut impl Random,
        out: &mut impl Outbox,
        watcher: &mut impl Watcher,
        first: &mut Option<Fragmented>,
    ) -> Result<Verdict, Refusal> {
        match packet.bytes().first().map(|byte| byte >> 4) {
            Some(4) => self.inbound(packet, env, out, watcher, first),
            Some(6) => self.outbound(packet, env, out, watcher, first),
            Some(_) => Err(Reason::NotIp.into()),
            None => Err(Reason::Truncated.into()),
        }
    }

    /// Closes expired entries, visiting at most `budget` of them, and sends the resulting packets: probes, and errors
    /// about unanswered SYNs. Returns true if nothing else has expired.
    ///
    /// Call it at least once a second. With a small budget, the pause between packets stays short even if many entries
    /// expire at once.
    pub fn expire(
        &mut self,
        budget: usize,
        env: &mut impl Random,
        out: &mut impl Outbox,
        watcher: &mut impl Watcher,
    ) -> bool {
        let now = env.now();
        let Nat64 {
            translator: t,
            state,
            fragments,
            ..
        } = self;
        for _ in 0..fragments.expire(now) {
            watcher.dropped(Reason::FragmentTimeout);
        }
        state.expire(now, budget, watcher, |due| match due {
            Due::Probe(session) => probe::send(t.mapper(), &session, out),
            Due::Unanswered(syn) => {
                t.icmp().originate(Answer::PortUnreachable, syn, env, out);
            }
        })
    }

    /// The earliest time on the caller's clock at which [`Nat64::expire`] has work to do. None if nothing can expire.
    /// For callers that use the time of a capture and may skip the time in between.
    pub fn next_due(&self) -> Option<Duration> {
        let dues = [self.state.next_due(), self.fragments.next_due()];
        dues.into_iter().flatten().min()
    }

    /// Bindings and sessions.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Bindings and sessions, for static bindings, stored state and the fast path.
    pub fn state_mut(&mut self) -> &mut State {
        &mut self.state
    }

    /// The mapping of IPv4 addresses to IPv6.
    pub fn mapper(&self) -> &Mapper {
        self.translator.mapper()
    }

    /// IPv4 hosts see this address of the interface of the pool from now on ([`crate::config::Wan`]).
    pub fn set_outside(&mut self, outside: std::net::Ipv4Addr) {
        self.config.outside = Some(outside);
        self.state.set_outside(outside);
    }

    /// The configuration, including the defaults that depend on other keys.
    pub fn config(&self) -> &Nat64Config {
        &self.config
    }

    /// Number of fragments that wait for the first fragment of their packet.
    pub fn held_fragments(&self) -> usize {
        self.fragments.held()
    }

    /// Number of tracked fragmented packets.
    pub fn fragmented_packets(&self) -> usize {
        self.fragments.followed()
    }
}

/// Adds the defaults: originated errors have a source from the pool, and missing UDP checksums are computed.
fn with_defaults(config: &Nat64Config) -> Nat64Config {
    let mut config = config.clone();
    // "The NAT64 MUST reassemble the packets and MUST calculate the checksum" (RFC 6146 section 3.4).
    let checksum = &mut config.translator.udp_zero_checksum;
    *checksum = Some(checksum.unwrap_or(UdpZeroChecksum::Compute));
    let icmp = &mut config.translator.icmp;
    if icmp.address4.is_none() && icmp.source_pool4.is_empty() {
        // One of a pool by source is a customer's.
        let of_all = config.pool4.iter().find(|part| part.sources.is_empty());
        let of_pool = of_all.or(config.pool4.first());
        let of_pool = of_pool.map(|part| part.net.network());
        let of_binding = config.bindings.first().map(|binding| binding.v4.addr);
        icmp.address4 = of_pool.or(of_binding);
    }
    config
}

/// A refusal by the tables, and the answer to the sender (RFC 6146 sections 3.4 and 3.5). All other reasons have the
/// answer of the stateless translator.
fn refusal(reason: Reason) -> Refusal {
    match reason {
        Reason::NoBinding
        | Reason::PoolExhausted
        | Reason::SessionLimit
        | Reason::BindingLimit
        | Reason::HostSessionLimit
        | Reason::HostBindingLimit
        | Reason::SourceSessionLimit
        | Reason::SourceBindingLimit
        | Reason::SiteSessionLimit
        | Reason::SiteBindingLimit
        | Reason::HostRateLimit
        | Reason::SourceRateLimit
        | Reason::SiteRateLimit
        | Reason::OutsideSessionLimit
        | Reason::OutsideNodeLimit
        | Reason::OutsidePeerLimit => reason.answered(Answer::AddressUnreachable),
        // SourceUnmapped: the fixed mapping has no ports for the source.
        Reason::Filtered | Reason::SourceUnmapped => reason.answered(Answer::Prohibited),
        Reason::TransportUnknown => reason.answered(Answer::TransportUnknown),
        _ => reason.into(),
    }
}
