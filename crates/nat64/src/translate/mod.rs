// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The stateful translator (RFC 6146): the headers of RFC 7915, between addresses and ports that the
//! tables give.
//!
//! Stages of a packet, the same in both directions; each may refuse it:
//!
//! 1. What the stateless translator does first ([`diolkos_xlat::translate`]): receive, hop, payload. ICMP errors
//!    go their own way from here (`error`).
//! 2. `tuple`: protocol and ports. Of a later fragment, those of the first (`fragment`, `store`). Fragments of ICMP, and
//!    of UDP over IPv4 without checksum, wait for each other, and begin anew as one packet (`whole`).
//! 3. Fit: what is too big is answered before it becomes state.
//! 4. [`crate::session`]: binding and session. A packet to one of our own IPv4 addresses goes through
//!    the tables twice and turns back to IPv6 (section 3.8, `outbound`).
//! 5. What the stateless translator does last: rewrite, and leave.
//!
//! `probe` makes the packets that are sent because a time is over. `onward` makes packets for other gateways ready to leave.

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
use diolkos_xlat::addr::Mapper;
use diolkos_xlat::config::{ConfigError, UdpZeroChecksum};
use diolkos_xlat::icmp::Answer;
use diolkos_xlat::packet::{Env, Outbox, Packet};
use diolkos_xlat::translate::{Refusal, Translator};
use diolkos_xlat::verdict::{Reason, Verdict};
use fragment::Fragments;
use std::time::Duration;
use together::{note_lost, Fragmented};
pub use trace::Nat64Trace;

/// Time, identifications, and numbers that nobody can guess.
pub trait Random: Env {
    /// 64 bits from a generator that is fit for secrets: they decide on ports (RFC 6056).
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
    /// Fails if the configuration contradicts itself; the error names the keys. `secret` is random,
    /// and nobody's to know.
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

    /// Follows another configuration; what it still allows goes on ([`State::reconfigure`]). With an
    /// error nothing has changed. It looks at every entry of the tables.
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

    /// Translates one packet to the other family, or back to its own; which one it comes from, its
    /// version says. As [`Translator::translate`] does, except that it may be [`Verdict::Held`].
    ///
    /// `watcher` hears what happens to the tables.
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
                return self.begin_anew(&whole, &pieces, (env, out, watcher))
            }
        };
        // Only what the tables accept is remembered: strangers would decide on the rest.
        let held = match verdict {
            Verdict::Forward | Verdict::Emitted | Verdict::Elsewhere(_) => {
                let (held, lost) = self.fragments.first(key, numbers, env.now());
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

    /// A packet by itself, whatever waits for it. If it is a first fragment, or the last one that a whole waits for, that comes
    /// into `first`.
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

    /// The packet, as it was received, is dropped, and its sender is told.
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

    /// What the sender of a refused packet is told.
    fn answer(&self, refusal: &Refusal, packet: &[u8]) -> Answer {
        match refusal.answer {
            Answer::Silence => Answer::Silence,
            // The node whose address it is would take the answer for one about a packet of its own.
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

    /// Ends what has expired, looking at no more than `budget` entries, and sends what is to be sent
    /// about it: probes, and errors about SYNs that nobody answered. True if nothing else has
    /// expired.
    ///
    /// To be called once a second or more often. With a small budget, the gap that it makes between
    /// packets is small however much expires at once.
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

    /// When, on the caller's clock, [`Nat64::expire`] has something to do at the earliest; None if nothing can expire. For a
    /// caller whose time is that of a capture: a time between may be skipped.
    pub fn next_due(&self) -> Option<Duration> {
        let dues = [self.state.next_due(), self.fragments.next_due()];
        dues.into_iter().flatten().min()
    }

    /// Bindings and sessions.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Bindings and sessions, for the operator, for stored state, and for the fast path.
    pub fn state_mut(&mut self) -> &mut State {
        &mut self.state
    }

    /// The addresses of the IPv4 side in IPv6.
    pub fn mapper(&self) -> &Mapper {
        self.translator.mapper()
    }

    /// The configuration, with every default that depends on others.
    pub fn config(&self) -> &Nat64Config {
        &self.config
    }

    /// Fragments that wait for the first fragment of their packet.
    pub fn held_fragments(&self) -> usize {
        self.fragments.held()
    }

    /// Packets whose fragments are being followed.
    pub fn fragmented_packets(&self) -> usize {
        self.fragments.followed()
    }
}

/// Our own errors come from an address of the pool, and UDP without checksum gets one, unless something else is
/// configured.
fn with_defaults(config: &Nat64Config) -> Nat64Config {
    let mut config = config.clone();
    // "The NAT64 MUST reassemble the packets and MUST calculate the checksum" (RFC 6146 section 3.4).
    let checksum = &mut config.translator.udp_zero_checksum;
    *checksum = Some(checksum.unwrap_or(UdpZeroChecksum::Compute));
    let icmp = &mut config.translator.icmp;
    if icmp.address4.is_none() && icmp.source_pool4.is_empty() {
        let of_pool = config.pool4.first().map(|part| part.net.network());
        let of_binding = config.bindings.first().map(|binding| binding.v4.addr);
        icmp.address4 = of_pool.or(of_binding);
    }
    config
}

/// A refusal of the tables, and what its sender is told (RFC 6146 sections 3.4 and 3.5). The rest is
/// told what the stateless translator tells.
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
        | Reason::OutsideSessionLimit
        | Reason::OutsideNodeLimit
        | Reason::OutsidePeerLimit => reason.answered(Answer::AddressUnreachable),
        // A source to which a fixed mapping gives no ports.
        Reason::Filtered | Reason::SourceUnmapped => reason.answered(Answer::Prohibited),
        Reason::TransportUnknown => reason.answered(Answer::TransportUnknown),
        _ => reason.into(),
    }
}
