// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tables as they were: from the file, and from the maps of programs that have gone on.
//!
//! After a clean end, the file is right, and the maps know who was active since. After a kill it is the other way round; but
//! how old a session is that the programs have never used, only the file knows.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::Ipv4Addr;
use std::time::Duration;

use diolkos_core::config::nat64::{Binding, Nat64Config, Protocol};
use diolkos_core::session::{
    BindingView, Inbound, Origin, Outbound, Segment, SessionState, SessionView, State, Watcher,
};
use diolkos_core::Reason;
use diolkos_sys::clock;
use diolkos_sys::fastpath::Old;
use ipnet::Ipv6Net;

use super::super::controller::Inner;
use super::file::Stored;
use super::format::{Entry, Malformed};
use super::moment::Moment;
use super::reconcile;

/// What came back.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Restored {
    /// Bindings of the operator.
    pub bindings: u32,
    /// Sessions of the file.
    pub sessions: u32,
    /// Sessions that only the maps had.
    pub from_maps: u32,
    /// Their time was over.
    pub expired: u32,
    /// The maps know better.
    pub outdated: u32,
    /// What the configuration, or the machine, no longer allows, by the name of the reason.
    pub refused: BTreeMap<&'static str, u32>,
}

/// Fills tables that are empty, and brings the maps of the fast path to what the tables say. `own`: addresses of this
/// host, which nobody else can have.
pub(in crate::nat64) fn restore(
    inner: &mut Inner,
    stored: Option<&mut Stored>,
    old: Option<&Old>,
    own: &[Ipv4Addr],
    is_in_vain: &dyn Fn() -> bool,
) -> Result<Restored, Malformed> {
    inner.mirror.is_restoring = true;
    let restored = bring_back(inner, stored, old, own, is_in_vain);
    inner.mirror.is_restoring = false;
    restored
}

/// After a kill: the operator's bindings from the file, then the maps, then the rest of the file. Sessions that only the
/// maps have may be those of such a binding, whose port need not be the pool's.
fn bring_back(
    inner: &mut Inner,
    stored: Option<&mut Stored>,
    old: Option<&Old>,
    own: &[Ipv4Addr],
    is_in_vain: &dyn Fn() -> bool,
) -> Result<Restored, Malformed> {
    let mut restored = Restored::default();
    let mut by_maps = Restored::default();
    let mut known = 0;
    let mut are_maps_last = true;
    if let Some(stored) = stored {
        are_maps_last = stored.head.clean;
        let before_sessions = |inner: &mut Inner| {
            let config = inner.nat64.config().clone();
            // With all bindings, it is known which peers are our own.
            inner.mirror.follow(&config, inner.nat64.state_mut(), false);
            if !are_maps_last {
                reconcile::take_in(inner, old, &mut by_maps);
            }
        };
        known = from_file(
            inner,
            stored,
            old,
            (own, is_in_vain),
            before_sessions,
            &mut restored,
        )?;
    }
    if are_maps_last {
        reconcile::take_in(inner, old, &mut by_maps);
    }
    restored.from_maps = by_maps.from_maps.saturating_sub(known);
    for (reason, number) in by_maps.refused {
        // What both have was refused twice.
        let refused = restored.refused.entry(reason).or_default();
        *refused = number.max(*refused);
    }
    reconcile::settle(inner, old);
    Ok(restored)
}

/// Says how many of its sessions had come back from the maps already.
fn from_file(
    inner: &mut Inner,
    stored: &mut Stored,
    old: Option<&Old>,
    (own, is_in_vain): (&[Ipv4Addr], &dyn Fn() -> bool),
    before_sessions: impl FnOnce(&mut Inner),
    restored: &mut Restored,
) -> Result<u32, Malformed> {
    let config = inner.nat64.config().clone();
    let passed = stored.head.moment.until(&Moment::now());
    let pref64 = stored.head.pref64.clone();
    let places = places(&pref64, &config.translator.pref64);
    // Whoever goes on translating may have used any session since.
    let watched = matches!(old, Some(Old::Shared | Old::Other { .. }));
    let now = clock::monotonic();

    let mut entries = stored.entries()?;
    let mut before_sessions = Some(before_sessions);
    let mut known = 0;
    while let Some(entry) = entries.entry()? {
        if is_in_vain() {
            let why = io::Error::new(io::ErrorKind::Interrupted, "the program is to end");
            return Err(Malformed::Unreadable(why));
        }
        match entry {
            Entry::Binding(binding) if own.contains(&binding.v4.addr) => {
                *restored.refused.entry("address_of_this_host").or_default() += 1;
            }
            Entry::Binding(binding) => {
                let view = BindingView {
                    binding,
                    origin: Origin::Operator,
                    sessions: 0,
                };
                let state = inner.nat64.state_mut();
                match state.restore_binding(&view, &mut inner.mirror) {
                    Ok(()) => restored.bindings += 1,
                    Err(error) => {
                        tracing::warn!(
                            "the binding of {} to {} did not come back: {error}",
                            binding.v4,
                            binding.v6
                        );
                        *restored.refused.entry("binding").or_default() += 1;
                    }
                }
            }
            Entry::Session(mut view) => {
                if let Some(first) = before_sessions.take() {
                    first(inner);
                }
                if !watched && is_over(&view, passed, &config) {
                    restored.expired += 1;
                    continue;
                }
                let prefix = pref64.get(usize::from(view.prefix)).copied();
                let place = places.get(usize::from(view.prefix)).copied().flatten();
                // What has no time left ends in the next sweep, in the way that its state has.
                view.remaining = view.remaining.saturating_sub(passed);
                let Binding { protocol, v6, .. } = view.binding;
                let state = inner.nat64.state();
                let is_known = state.session(protocol, v6, view.peer).is_some();
                let done = match place {
                    Some(place) => {
                        view.prefix = place;
                        match old {
                            // The maps have it already, or get it when all is there.
                            Some(Old::Shared) => {
                                session(inner.nat64.state_mut(), &view, now, &mut ())
                            }
                            _ => session(inner.nat64.state_mut(), &view, now, &mut inner.mirror),
                        }
                    }
                    None => Err(Reason::DestinationUnmapped),
                };
                match done {
                    Ok(()) => {
                        restored.sessions += 1;
                        known += u32::from(is_known);
                    }
                    Err(Reason::NoBinding) if watched => restored.outdated += 1,
                    // Since the file was written, its prefix has been taken away.
                    Err(Reason::DestinationUnmapped) if ended_with_prefix(old, prefix) => {
                        restored.outdated += 1;
                    }
                    // Since the file was written, another node has got the port.
                    Err(Reason::PoolExhausted) if watched && has_port(inner, &view) => {
                        restored.outdated += 1;
                    }
                    Err(reason) => *restored.refused.entry(reason.name()).or_default() += 1,
                }
            }
        }
    }
    if let Some(first) = before_sessions {
        first(inner);
    }
    Ok(known)
}

fn session(
    state: &mut State,
    view: &SessionView,
    now: Duration,
    watcher: &mut impl Watcher,
) -> Result<(), Reason> {
    state.restore_session(view, now, watcher)?;
    // The maps know established sessions, but not which side of them has ended.
    let side = match view.state {
        SessionState::V4FinRcv | SessionState::V6FinRcv => view.state,
        _ => return Ok(()),
    };
    let (protocol, v6, peer) = (view.binding.protocol, view.binding.v6, view.peer);
    let there = state.session(protocol, v6, peer).map(|there| there.state);
    if there != Some(SessionState::Established) {
        return Ok(());
    }
    let segment = Segment::Fin;
    if side == SessionState::V4FinRcv {
        let fin = Inbound {
            protocol,
            v4: view.binding.v4,
            peer,
            segment,
            bytes: &[],
        };
        state.inbound(now, &fin, watcher).map(|_| ())
    } else {
        let fin = Outbound {
            protocol,
            v6,
            peer,
            prefix: view.prefix,
            segment,
        };
        // The binding is there: no port is drawn.
        state.outbound(now, &fin, || 0, watcher).map(|_| ())
    }
}

/// Whether programs that have translated until now had this prefix no more, which is none of the new ones.
fn ended_with_prefix(old: Option<&Old>, prefix: Option<Ipv6Net>) -> bool {
    match (old, prefix) {
        // They have those that the new ones have.
        (Some(Old::Shared), Some(_)) => true,
        (Some(Old::Other { pref64, .. }), Some(prefix)) => {
            !pref64.contains(&(prefix.addr(), prefix.prefix_len()))
        }
        _ => false,
    }
}

fn has_port(inner: &Inner, view: &SessionView) -> bool {
    let pool = inner.nat64.state().pool();
    pool.covers(view.binding.protocol, view.binding.v4)
}

/// Whether the tables would have ended it by now, had they been there. An established connection is asked once whether
/// it still is one (RFC 6146 section 3.5.2.2), and has some time to answer.
fn is_over(view: &SessionView, passed: Duration, config: &Nat64Config) -> bool {
    let grace = match view.state {
        SessionState::Established => config.timeouts.tcp_transitory,
        _ => Duration::ZERO,
    };
    passed > view.remaining + grace
}

/// Where the prefixes of one list stand in another.
pub(super) fn places(of: &[Ipv6Net], among: &[Ipv6Net]) -> Vec<Option<u8>> {
    let place = |prefix| among.iter().position(|other| other == prefix);
    of.iter()
        .map(|prefix| place(prefix).map(|at| at as u8))
        .collect()
}

/// The state of a session of which nothing is known but that the fast path translates it.
pub(super) fn steady(protocol: Protocol) -> SessionState {
    match protocol {
        Protocol::Tcp => SessionState::Established,
        Protocol::Udp => SessionState::Udp,
        Protocol::Icmp => SessionState::Icmp,
    }
}

impl fmt::Display for Restored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Restored {
            bindings, sessions, ..
        } = self;
        write!(
            f,
            "{sessions} sessions and {bindings} bindings of the operator came back"
        )?;
        for (number, what) in [
            (self.from_maps, "more from the kernel's maps"),
            (self.expired, "had expired"),
            (self.outdated, "were outdated"),
        ] {
            if number > 0 {
                write!(f, ", {number} {what}")?;
            }
        }
        if !self.refused.is_empty() {
            let reasons = self.refused.iter();
            let reasons: Vec<_> = reasons
                .map(|(name, number)| format!("{number} {name}"))
                .collect();
            write!(f, "; no longer allowed: {}", reasons.join(", "))?;
        }
        Ok(())
    }
}
