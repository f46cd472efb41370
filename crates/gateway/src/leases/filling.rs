// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fills leases: the faster one is used up, the more it gets.

use diolkos_fastpath::{LeaseSize, WIDE_PORTS};
use diolkos_nat64::session::State;

use super::super::mirror::Mirror;
use super::super::terms::{queues_of, Lent, LENT};
use super::margins::MARGIN;
use super::warm::WARM;
use super::{early, GrantedLease, Leases, FIRST};

/// Sessions per port of the first filling: there are more peers than ports.
const SESSIONS_PER_PORT: u32 = 8;
/// Maximum number of sessions in a filling. At 100 000 a second they last while the controller waits for a CPU that
/// others use.
const MOST_SESSIONS: u32 = 8192;
/// Beyond what goes with its ports, a filling gets 1/`PARTS` of what may still be lent, so that something is left for
/// other nodes.
const PARTS: u32 = 64;

impl Leases {
    /// Counts a session of the node of a lease. With the last one before it is warm, the lease is no longer early.
    pub(super) fn note_opened(&mut self, place: usize, state: &State) {
        let Some(held) = &mut self.held[place] else {
            return;
        };
        held.opened = (held.opened + 1).min(WARM);
        if held.is_early && held.opened == WARM {
            held.is_early = false;
            let (node, filling) = (held.node, held.filling);
            self.early.remove(&self.terms, node);
            for at in (0..LENT.len()).filter(|&at| filling[at] > 0) {
                self.want(place, at, FIRST, state);
            }
        }
    }

    /// Sets what the first filling of a lease is to have of a protocol: at most so many ports in each queue. With one part of
    /// what may still be lent for each place, and half as many ports in each queue, new leases are the smaller the more is lent, and
    /// as many nodes as there are places find something. What is used up fast grows.
    pub(super) fn want(&mut self, place: usize, at: usize, ports: u32, state: &State) {
        let Some(held) = &self.held[place] else {
            return;
        };
        let left = self.room_of_all(held.node, state, MARGIN);
        let places = self.held.len() as u32;
        let Some(held) = &mut self.held[place] else {
            return;
        };
        if held.is_early {
            held.filling[at] = held.filling[at].max(ports.min(early::PORTS));
            held.sessions = held.sessions.max(early::SESSIONS);
            return;
        }
        let fair = (left.ports[at] / (2 * places)).max(early::PORTS);
        held.filling[at] = held.filling[at].max(ports.min(fair));
        let fair = (left.sessions / places).max(early::SESSIONS);
        held.sessions = held.sessions.max(sessions_of(held.filling).min(fair));
    }

    /// Refills a lease, with more than before if it is used up fast. `pending` is what the node may have besides, which the
    /// tables do not know yet.
    pub(super) fn fill(
        &mut self,
        place: usize,
        pending: Lent,
        state: &mut State,
        mirror: &mut Mirror,
        random: &mut impl FnMut() -> u64,
    ) {
        let (Some(fast), Some(held)) = (&self.fast, &self.held[place]) else {
            return;
        };
        let is_early = held.is_early;
        let mut room = self.room(
            held.node,
            state,
            if is_early { early::FREE } else { MARGIN },
        );
        room.sessions = room.sessions.saturating_sub(pending.sessions);
        let taken = pending.all_ports();
        room.ports = room.ports.map(|ports| ports.saturating_sub(taken));
        let (mut filling, mut sessions) = (held.filling, held.sessions);
        let whose = (held.node, held.address);
        let mut more = Lent::default();
        let left = fast.sessions(place);
        let most_ports = fast.most_ports(place);
        // Where rates allow less, that is no sign of fast use.
        let allowed = state.lendable_sessions(whose.0);
        let wanted = sessions.min(left.saturating_add(allowed));
        let is_short = !is_early && wanted > 0 && left * 2 <= wanted;
        let (mut needs_room, mut is_lacking) = (false, false);
        for (at, filling) in filling.iter_mut().enumerate() {
            let ports = queues_of(at).map(|queue| fast.ports(place, queue));
            if is_short || (!is_early && ports[0].min(ports[1]) * 2 <= *filling) {
                needs_room |= *filling * 2 > most_ports && !held.is_lacking;
                *filling = (*filling * 2).min(most_ports);
            }
        }
        if needs_room && !held.is_wide && most_ports < WIDE_PORTS && !self.terms.no_ports {
            return self.widen(place, state, mirror, random);
        }
        if is_short {
            let most = MOST_SESSIONS.min(room.sessions / PARTS);
            sessions = (sessions * 2).min(most.max(early::SESSIONS));
        }
        more.sessions = sessions
            .saturating_sub(left)
            .min(room.sessions)
            .min(allowed);
        state.note_lent(whose.0, more.sessions.into());
        fast.add_sessions(place, more.sessions);
        for at in 0..LENT.len() {
            for (like, queue) in (0..).zip(queues_of(at)) {
                while !self.terms.no_ports && fast.ports(place, queue) < filling[at] {
                    let is_room =
                        room.ports[at] > 0 && (!is_early || state.has_plenty(LENT[at], whose.0));
                    let mut lend = || state.lend(LENT[at], whose, like, &mut *random, mirror);
                    let Some(port) = is_room.then(&mut lend).flatten() else {
                        is_lacking = true;
                        break;
                    };
                    fast.occupy(LENT[at], (whose.1, port));
                    fast.add_port(place, queue, port);
                    // A binding of either protocol counts against the ports of all protocols.
                    room.ports = room.ports.map(|ports| ports.saturating_sub(1));
                    more.ports[at] += 1;
                }
            }
        }
        self.count(place, |lent| {
            lent.sessions += more.sessions;
            (0..LENT.len()).for_each(|at| lent.ports[at] += more.ports[at]);
        });
        if let Some(held) = &mut self.held[place] {
            (held.filling, held.sessions) = (filling, sessions);
            held.is_lacking = is_lacking;
        }
    }

    /// Replaces a full lease by one with more room for ports. What programs have taken from the old one at this very moment
    /// they report later; it counts as lent until the new one is filled.
    fn widen(
        &mut self,
        place: usize,
        state: &mut State,
        mirror: &mut Mirror,
        random: &mut impl FnMut() -> u64,
    ) {
        let Some(GrantedLease {
            node,
            filling,
            sessions,
            ..
        }) = self.held[place].as_deref().cloned()
        else {
            return;
        };
        let pending = self.end(place, state);
        if !self.begin(place, node, state, LeaseSize::Wide) {
            return;
        }
        if let Some(held) = &mut self.held[place] {
            (held.filling, held.sessions) = (filling, sessions);
        }
        self.fill(place, pending, state, mirror, random);
    }
}

/// Returns the number of sessions that goes with so many ports.
pub(super) fn sessions_of(filling: [u32; 2]) -> u32 {
    (filling[0] + filling[1]) * SESSIONS_PER_PORT
}
