// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reconciles maps that programs continued to use with tables that were away. Each gets what only the other has, and
//! entries of the maps that contradict the tables are removed.
//!
//! Programs translate all the while. They stamp sessions, and open none: everything lent to them has been taken back.

use std::io;
use std::time::Duration;

use diolkos_fastpath::{Old, Owner, Seen, Sent, Session, Sessions};
use diolkos_nat64::config::{Binding, Endpoint4, Endpoint6, Nat64Config, Protocol};
use diolkos_nat64::session::{
    BindingView, Event, Segment, SessionState, SessionView, Side, State, Watcher,
};
use diolkos_sys::clock;
use diolkos_xlat::Reason;
use ipnet::Ipv6Net;

use super::super::conversion::{node_port, sent, to_maps};
use super::restored::Restored;
use super::tables::Tables;

/// Adds the sessions to the tables that only the maps have.
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

/// Takes sessions from maps. `prefixes` are the positions of the prefixes of other maps; None if these are the maps of
/// the new programs.
fn take(
    tables: &mut Tables<'_>,
    config: &Nat64Config,
    sessions: &Sessions,
    prefixes: Option<&[Option<u8>]>,
    restored: &mut Restored,
) -> io::Result<()> {
    let now = clock::monotonic();
    for seen in sessions.inward() {
        let (session, stamp, sent) = seen?;
        let Some(mut view) = view(&session, stamp, sent, now, config) else {
            continue;
        };
        let Binding { protocol, v6, .. } = view.binding;
        let state = tables.nat64.state_mut();
        if let Some(there) = state.session(protocol, v6, view.peer) {
            follow(state, &there, sent, now);
            continue;
        }
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

/// Makes the maps agree with the tables, once these are complete.
pub(super) fn settle(tables: &mut Tables<'_>, old: Option<&Old>) {
    let settled = match old {
        Some(Old::Shared) => share(tables),
        // The stamps are lost with the old maps.
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
        if !sessions.has(&to_maps(&view, Owner::OURS))? {
            tables.mirror.copy(&view);
        }
    }
    Ok(())
}

/// Reconciles the bindings, by which programs find the sessions of nodes.
fn share_bindings(tables: &mut Tables<'_>, sessions: &Sessions) -> io::Result<()> {
    let mut known = 0;
    for bound in sessions.bound() {
        let (node, v4, owner) = bound?;
        let v6 = Endpoint6 {
            addr: node.addr,
            port: node.port,
        };
        let told = Endpoint4 {
            addr: v4.0,
            port: v4.1,
        };
        let bound =
            protocol(node.protocol).and_then(|protocol| tables.nat64.state().v4_of(protocol, v6));
        if bound == Some(told) && owner == Owner::OURS {
            known += 1;
        } else {
            sessions.unbind(node)?;
        }
    }
    let is_copied = |view: &BindingView| node_port(&view.binding).is_some();
    if tables.nat64.state().bindings().filter(is_copied).count() != known {
        tables.mirror.bind_all(tables.nat64.state());
    }
    Ok(())
}

/// Removes sessions that the tables do not know. Returns how many are left.
fn remove_unknown(
    tables: &Tables<'_>,
    sessions: &Sessions,
    there: impl Iterator<Item = io::Result<Seen>>,
) -> io::Result<usize> {
    let mut known = 0;
    for seen in there {
        let (session, ..) = seen?;
        if is_known(tables, &session) {
            known += 1;
        } else {
            sessions.remove(&session)?;
        }
    }
    Ok(known)
}

fn is_known(tables: &Tables<'_>, session: &Session) -> bool {
    let Some(protocol) = protocol(session.protocol) else {
        return false;
    };
    let found = tables
        .nat64
        .state()
        .session(protocol, node(session), peer(session));
    found
        .is_some_and(|view| tables.mirror.belongs(&view) && to_maps(&view, Owner::OURS) == *session)
}

/// Converts a session to the form of the tables. If it has no stamp, its last use is unknown, and its lifetime begins
/// anew.
fn view(
    session: &Session,
    stamp: Option<Duration>,
    sent: Sent,
    now: Duration,
    config: &Nat64Config,
) -> Option<SessionView> {
    let protocol = protocol(session.protocol)?;
    let state = state_after(protocol, sent);
    let timeout = match protocol {
        Protocol::Tcp if !state.is_steady() => config.timeouts.tcp_transitory,
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
        state,
        remaining: timeout.saturating_sub(silent),
    })
}

fn protocol(number: u8) -> Option<Protocol> {
    match number {
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

/// Returns the positions of the prefixes of one list in another.
pub(super) fn places(of: &[Ipv6Net], among: &[Ipv6Net]) -> Vec<Option<u8>> {
    let place = |prefix| among.iter().position(|other| other == prefix);
    of.iter()
        .map(|prefix| place(prefix).map(|at| at as u8))
        .collect()
}

/// Returns the state of a session of which only two things are known: the fast path translates it, and what each side
/// has sent.
fn state_after(protocol: Protocol, sent: Sent) -> SessionState {
    match protocol {
        Protocol::Tcp if sent.has(Sent::SYNS | Sent::FINS) => SessionState::V4FinV6FinRcv,
        Protocol::Tcp if sent.has(Sent::SYNS | Sent::FIN4) => SessionState::V4FinRcv,
        Protocol::Tcp if sent.has(Sent::SYNS | Sent::FIN6) => SessionState::V6FinRcv,
        Protocol::Tcp if sent.has(Sent::SYNS) => SessionState::Established,
        Protocol::Tcp if sent.has(Sent::SYN4) => SessionState::V4Init,
        Protocol::Tcp => SessionState::V6Init,
        Protocol::Udp => SessionState::Udp,
        Protocol::Icmp => SessionState::Icmp,
    }
}

/// Advances a TCP session that the tables have in an earlier state, by what has been sent since.
fn follow(state: &mut State, there: &SessionView, now_sent: Sent, now: Duration) {
    let known = sent(there.state);
    let missing = Sent(now_sent.0 & !known.0);
    let each = [
        (Sent::SYN6, Side::V6, Segment::Syn),
        (Sent::SYN4, Side::V4, Segment::Syn),
        (Sent::FIN6, Side::V6, Segment::Fin),
        (Sent::FIN4, Side::V4, Segment::Fin),
    ];
    for (bit, side, segment) in each {
        if missing.has(bit) {
            let of = (there.binding, there.peer);
            state.moved(now, of, (side, segment), &mut ());
        }
    }
}

/// Asks maps other than those of the mirror.
struct Stamps<'a>(&'a Sessions);

impl Watcher for Stamps<'_> {
    fn event(&mut self, _: Event) {}

    fn last_seen(&mut self, view: &SessionView) -> Option<Duration> {
        self.0.last_seen(&to_maps(view, Owner::OURS)).ok()?
    }

    fn dropped(&mut self, _: Reason) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The maps contain enough of a session to derive its state.
    #[test]
    fn a_state_comes_back_from_what_was_sent() {
        for state in SessionState::ALL {
            let protocol = match state {
                SessionState::Udp => Protocol::Udp,
                SessionState::Icmp => Protocol::Icmp,
                // The maps do not contain such sessions.
                SessionState::Trans => continue,
                _ => Protocol::Tcp,
            };
            assert_eq!(state_after(protocol, sent(state)), state);
        }
    }

    /// The tables follow whatever was sent while they were away.
    #[test]
    fn tables_follow_what_was_sent_meanwhile() {
        let of_tcp =
            |state: &SessionState| sent(*state).0 != 0 && !matches!(state, SessionState::Trans);
        for before in SessionState::ALL.into_iter().filter(of_tcp) {
            for after in SessionState::ALL.into_iter().filter(of_tcp) {
                let (was, is) = (sent(before), sent(after));
                if !is.has(was.0) {
                    continue;
                }
                let mut state = tables_with(before);
                let there = state.sessions().next().expect("a session");
                follow(&mut state, &there, is, Duration::ZERO);
                let now = state.sessions().next().map(|view| view.state);
                assert_eq!(now, Some(after), "{before:?}");
            }
        }
    }

    fn tables_with(state: SessionState) -> State {
        let mut config = Nat64Config::default();
        config.translator.pref64 = vec!["64:ff9b::/96".parse().expect("a prefix")];
        config.pool4 = vec![diolkos_nat64::config::Pool4 {
            interface: None,
            net: "203.0.113.0/29".parse().expect("a network"),
            ports: 1024..=65535,
            protocols: vec![Protocol::Tcp],
            sources: vec![],
        }];
        let mut tables = State::new(&config, [1, 2, 3, 4]);
        let session = Session {
            protocol: 6,
            node: ("2001:db8::5".parse().expect("an address"), 4711),
            v4: ("203.0.113.1".parse().expect("an address"), 2048),
            peer: ("198.51.100.2".parse().expect("an address"), 443),
            prefix: 0,
            owner: Owner::OURS,
        };
        let view = view(&session, None, sent(state), Duration::ZERO, &config);
        let view = view.expect("a session of TCP");
        let restored = tables.restore_session(&view, Duration::ZERO, &mut ());
        restored.expect("there is room");
        tables
    }
}
