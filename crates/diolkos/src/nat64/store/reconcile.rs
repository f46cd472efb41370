// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Maps that programs have gone on with, and tables that were away: each gets what only the other has, and what is in the
//! maps against the tables is taken out of them.
//!
//! Programs translate all the while. They stamp sessions, and make none: what was lent to them has been taken back.

use std::io;
use std::time::Duration;

use diolkos_core::config::nat64::{Binding, Endpoint4, Endpoint6, Nat64Config, Protocol};
use diolkos_core::session::{BindingView, Event, SessionState, SessionView, Watcher};
use diolkos_core::Reason;
use diolkos_sys::clock;
use diolkos_sys::fastpath::{Old, Seen, Session, Sessions};
use ipnet::Ipv6Net;

use super::super::conversion::to_maps;
use super::restored::Restored;
use super::tables::Tables;

/// Brings sessions into the tables that only the maps have.
pub(super) fn take_in(tables: &mut Tables<'_>, old: Option<&Old>, restored: &mut Restored) {
    let config = tables.nat64.config().clone();
    let taken = match old {
        Some(Old::Shared) => match tables.mirror.sessions() {
            Some(sessions) => take(tables, &config, &sessions, None, restored),
            None => Ok(()),
        },
        Some(Old::Other { sessions, pref64 }) => {
            let known = pref64
                .iter()
                .filter_map(|&(net, bits)| Ipv6Net::new(net, bits).ok());
            let known: Vec<_> = known.collect();
            let prefixes = places(&known, &config.translator.pref64);
            take(tables, &config, sessions, Some(&prefixes), restored)
        }
        Some(Old::Unknown) | None => Ok(()),
    };
    if let Err(error) = taken {
        tracing::warn!("the sessions of the fast path cannot all be read: {error}");
    }
}

/// `prefixes`: the places of the prefixes of other maps; None: these are the maps of the new programs.
fn take(
    tables: &mut Tables<'_>,
    config: &Nat64Config,
    sessions: &Sessions,
    prefixes: Option<&[Option<u8>]>,
    restored: &mut Restored,
) -> io::Result<()> {
    let now = clock::monotonic();
    // UDP has one map only.
    let is_udp = |seen: &io::Result<Seen>| seen.as_ref().map_or(true, |(s, _)| s.is_udp());
    for seen in sessions.outward().chain(sessions.inward().filter(is_udp)) {
        let (session, stamp) = seen?;
        let Some(mut view) = view(&session, stamp, now, config) else {
            continue;
        };
        let Binding { protocol, v6, .. } = view.binding;
        if tables
            .nat64
            .state()
            .session(protocol, v6, view.peer)
            .is_some()
        {
            continue;
        }
        let state = tables.nat64.state_mut();
        let done = match prefixes {
            None => state.restore_session(&view, now, &mut ()),
            Some(prefixes) => match prefixes.get(usize::from(view.prefix)).copied().flatten() {
                Some(place) => {
                    view.prefix = place;
                    state.restore_session(&view, now, &mut tables.mirror)
                }
                None => Err(Reason::DestinationUnmapped),
            },
        };
        match done {
            Ok(()) => restored.from_maps += 1,
            Err(reason) => *restored.refused.entry(reason.name()).or_default() += 1,
        }
    }
    Ok(())
}

/// With the tables complete, makes the maps say what they say.
pub(super) fn settle(tables: &mut Tables<'_>, old: Option<&Old>) {
    let settled = match old {
        Some(Old::Shared) => share(tables),
        // The stamps go with the old maps.
        Some(Old::Other { sessions, .. }) => {
            let state = tables.nat64.state_mut();
            state.catch_up(0, usize::MAX, &mut Stamps(sessions));
            Ok(())
        }
        Some(Old::Unknown) | None => Ok(()),
    };
    if let Err(error) = settled {
        tracing::warn!("the fast path may still have sessions that have ended: {error}");
    }
}

fn share(tables: &mut Tables<'_>) -> io::Result<()> {
    let Some(sessions) = tables.mirror.sessions() else {
        return Ok(());
    };
    let outward = remove_unknown(tables, &sessions, sessions.outward())?;
    let inward = remove_unknown(tables, &sessions, sessions.inward())?;
    share_bindings(tables, &sessions)?;
    let belongs = |view: &SessionView| tables.mirror.belongs(view);
    let mut expected = [0, 0];
    for view in tables.nat64.state().sessions().filter(belongs) {
        expected[0] += usize::from(view.binding.protocol != Protocol::Udp);
        expected[1] += 1;
    }
    if [outward, inward] == expected {
        return Ok(());
    }
    for view in tables.nat64.state().sessions() {
        if !sessions.has(&to_maps(&view))? {
            tables.mirror.copy(&view);
        }
    }
    Ok(())
}

/// The bindings of UDP, by which programs find the sessions of nodes.
fn share_bindings(tables: &mut Tables<'_>, sessions: &Sessions) -> io::Result<()> {
    let mut known = 0;
    for bound in sessions.bound() {
        let (node, v4) = bound?;
        let v6 = Endpoint6 {
            addr: node.0,
            port: node.1,
        };
        let told = Endpoint4 {
            addr: v4.0,
            port: v4.1,
        };
        if tables.nat64.state().v4_of(Protocol::Udp, v6) == Some(told) {
            known += 1;
        } else {
            sessions.unbind(node)?;
        }
    }
    let is_udp = |view: &BindingView| view.binding.protocol == Protocol::Udp;
    if tables.nat64.state().bindings().filter(is_udp).count() != known {
        tables.mirror.bind_all(tables.nat64.state());
    }
    Ok(())
}

/// How many are left.
fn remove_unknown(
    tables: &Tables<'_>,
    sessions: &Sessions,
    there: impl Iterator<Item = io::Result<(Session, Option<Duration>)>>,
) -> io::Result<usize> {
    let mut known = 0;
    for seen in there {
        let (session, _) = seen?;
        if is_known(tables, &session) {
            known += 1;
        } else {
            sessions.remove(&session)?;
        }
    }
    Ok(known)
}

fn is_known(tables: &Tables<'_>, session: &Session) -> bool {
    let Some(protocol) = protocol(session) else {
        return false;
    };
    let found = tables
        .nat64
        .state()
        .session(protocol, node(session), peer(session));
    found.is_some_and(|view| tables.mirror.belongs(&view) && to_maps(&view) == *session)
}

/// As the tables have it. When one was used last that has no stamp, nobody knows: its life begins anew.
fn view(
    session: &Session,
    stamp: Option<Duration>,
    now: Duration,
    config: &Nat64Config,
) -> Option<SessionView> {
    let protocol = protocol(session)?;
    let timeout = match protocol {
        Protocol::Tcp => config.timeouts.tcp_established,
        Protocol::Udp => config.timeouts.udp,
        Protocol::Icmp => config.timeouts.icmp,
    };
    let silent = now.saturating_sub(stamp.unwrap_or(now));
    Some(SessionView {
        binding: Binding {
            protocol,
            v4: Endpoint4 {
                addr: session.v4.0,
                port: session.v4.1,
            },
            v6: node(session),
        },
        peer: peer(session),
        prefix: session.prefix,
        state: steady(protocol),
        remaining: timeout.saturating_sub(silent),
    })
}

fn protocol(session: &Session) -> Option<Protocol> {
    match session.protocol {
        1 => Some(Protocol::Icmp),
        6 => Some(Protocol::Tcp),
        17 => Some(Protocol::Udp),
        _ => None,
    }
}

fn node(session: &Session) -> Endpoint6 {
    Endpoint6 {
        addr: session.node.0,
        port: session.node.1,
    }
}

fn peer(session: &Session) -> Endpoint4 {
    Endpoint4 {
        addr: session.peer.0,
        port: session.peer.1,
    }
}

/// Where the prefixes of one list stand in another.
pub(super) fn places(of: &[Ipv6Net], among: &[Ipv6Net]) -> Vec<Option<u8>> {
    let place = |prefix| among.iter().position(|other| other == prefix);
    of.iter()
        .map(|prefix| place(prefix).map(|at| at as u8))
        .collect()
}

/// The state of a session of which nothing is known but that the fast path translates it.
fn steady(protocol: Protocol) -> SessionState {
    match protocol {
        Protocol::Tcp => SessionState::Established,
        Protocol::Udp => SessionState::Udp,
        Protocol::Icmp => SessionState::Icmp,
    }
}

/// Asks other maps than those of the mirror.
struct Stamps<'a>(&'a Sessions);

impl Watcher for Stamps<'_> {
    fn event(&mut self, _: Event) {}

    fn last_seen(&mut self, view: &SessionView) -> Option<Duration> {
        self.0.last_seen(&to_maps(view)).ok()?
    }

    fn dropped(&mut self, _: Reason) {}
}
