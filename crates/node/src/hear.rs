// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Handles messages of another node: about its bindings, of which this node keeps copies, and about this node's
//! bindings, of which it has copies.

use diolkos_nat64::config::Binding;

use crate::config::NodeId;
use crate::interface::Action;
use crate::message::{Beat, BindingChange, Mark, Message, Status, Tag};
use crate::node::{Node, LOOKS};
use crate::order::BUCKETS;
use crate::peer::{Hearing, Telling};
use crate::store::{Sides, State, Store};
use crate::Moment;

/// Number of changes whose table slots are fetched together.
const TOGETHER: usize = 64;

/// Handles a message on the current connection. Returns None if the other node may not say that.
pub(crate) fn message(
    node: &mut Node,
    now: Moment,
    peer: NodeId,
    message: Message,
    out: &mut Vec<Action>,
) -> Option<()> {
    let link = node.peers[peer.index()].link.as_mut()?;
    let is_hello = matches!(message, Message::Hello { .. });
    if is_hello == link.hello.is_some() {
        return None;
    }
    match message {
        Message::Hello { status, holds, .. } => {
            link.hello = Some(holds);
            link.status = status;
            let its = &mut node.peers[peer.index()];
            (its.over, its.expected) = (None, false);
        }
        Message::Ask(true) => link.giving = Some(0),
        Message::Ask(false) => {
            // An honest node asks once.
            if link.first.len() > 1 {
                return None;
            }
            link.first.push_back(Message::GivenBack);
            node.forget_all(peer, out);
        }
        Message::Told { through, changes } => {
            node.begin_to_hear(peer, out);
            node.left -= changes.len() * LOOKS;
            for some in changes.chunks(TOGETHER) {
                node.heard(peer, some, out);
            }
            let is_awaited = node.config.defer;
            let link = node.peers[peer.index()].link.as_mut()?;
            link.through = through;
            if is_awaited && matches!(link.hearing, Hearing::Whole(_)) {
                // Packets wait for this acknowledgement, so the beat that carries it is due now.
                link.beat = Moment::ZERO;
            }
        }
        Message::End { serial, through } => {
            node.begin_to_hear(peer, out);
            let link = node.peers[peer.index()].link.as_mut()?;
            if link.hearing != Hearing::Mixed {
                return None;
            }
            link.through = through;
            link.hearing = Hearing::Sweeping(serial, 0);
            node.sweep(peer, out);
        }
        Message::Given(bindings) => {
            link.asked.filter(|asked| *asked)?;
            // If it took too long, its copies are void, and other subscribers may have the ports.
            let is_late = node.peers[peer.index()].settled;
            node.left -= bindings.len() * LOOKS;
            for binding in bindings.into_iter().filter(|_| !is_late) {
                node.given(now, peer, binding, out);
            }
        }
        Message::GivenBack => node.given_back(peer)?,
        Message::Beat(beat) => node.beat(now, peer, beat, out)?,
    }
    Some(())
}

impl Node {
    /// Removes copies that the received snapshot does not contain. Until none is left, nothing is acknowledged.
    pub(crate) fn sweep(&mut self, owner: NodeId, out: &mut Vec<Action>) {
        if self.left < LOOKS {
            return;
        }
        let peer = &mut self.peers[owner.index()];
        let Some(link) = &mut peer.link else { return };
        let Hearing::Sweeping(serial, from) = link.hearing else {
            return;
        };
        let (mut next, mut old) = (None, Vec::new());
        for (at, entry) in peer.copies.places(from, self.left) {
            next = Some(at + 1);
            self.left -= 1;
            if entry.is_some_and(|entry| entry.generation != peer.generation) {
                old.push(at);
                self.left = self.left.saturating_sub(LOOKS);
            }
            if self.left < LOOKS {
                break;
            }
        }
        link.hearing = match next {
            Some(next) => Hearing::Sweeping(serial, next),
            None => Hearing::Whole(serial),
        };
        if link.hearing == Hearing::Whole(serial) {
            let (engine, epoch) = link.engine;
            let mark = Mark { epoch, serial };
            peer.tag = Some(Tag { engine, mark });
            peer.is_void = false;
            link.beat = Moment::ZERO;
        }
        for at in old {
            self.remove_copy(owner, at, out);
        }
    }

    /// Handles the first of the owner's bindings on a connection.
    fn begin_to_hear(&mut self, owner: NodeId, out: &mut Vec<Action>) {
        let peer = &mut self.peers[owner.index()];
        let Some(link) = peer.link.as_mut() else {
            return;
        };
        if link.hearing != Hearing::Nothing {
            return;
        }
        link.hearing = Hearing::Mixed;
        // After 255 incomplete snapshots, an old copy would look like one of this snapshot.
        match peer.generation.checked_add(1) {
            Some(generation) => peer.generation = generation,
            None => self.forget_all(owner, out),
        }
    }

    /// Applies at most [`TOGETHER`] changes, in order. A snapshot has millions, and each one would wait for memory
    /// twice.
    fn heard(&mut self, owner: NodeId, changes: &[BindingChange], out: &mut Vec<Action>) {
        let copies = &self.peers[owner.index()].copies;
        let (mut sides, mut fetched) = ([Sides::default(); TOGETHER], 0);
        for (change, sides) in changes.iter().zip(&mut sides) {
            if let BindingChange::Opened(binding) = change {
                *sides = copies.sides(binding);
            }
        }
        sides
            .iter()
            .for_each(|sides| fetched ^= copies.fetch(*sides));
        std::hint::black_box(fetched);
        for (change, sides) in changes.iter().zip(sides) {
            self.heard_one(owner, change, sides, out);
        }
    }

    fn heard_one(
        &mut self,
        owner: NodeId,
        change: &BindingChange,
        sides: Sides,
        out: &mut Vec<Action>,
    ) {
        let (protocol, v4) = change.key();
        if self.owners.of(v4.addr) != Some(owner) {
            // Only an owner may report its bindings.
            return self.is_strange(owner, out);
        }
        let peer = &mut self.peers[owner.index()];
        let BindingChange::Opened(binding) = change else {
            let at = peer.copies.find_v4(protocol, v4);
            at.into_iter()
                .for_each(|at| self.remove_copy(owner, at, out));
            return;
        };
        let [at_v4, at_v6] = peer.copies.find(binding, sides);
        if let (Some(at), true) = (at_v4, at_v4 == at_v6) {
            peer.copies.get_mut(at).generation = peer.generation;
            return;
        }
        for at in [at_v4, at_v6].into_iter().flatten() {
            self.remove_copy(owner, at, out);
        }
        let bucket = self.bucket(binding.v6.addr);
        let peer = &mut self.peers[owner.index()];
        peer.copies.insert(binding, peer.generation, sides);
        peer.copies_of.resize(BUCKETS, 0);
        peer.copies_of[bucket] += 1;
        if peer.copies_of[bucket] == 1 {
            out.push(Action::Home(bucket));
        }
    }

    fn remove_copy(&mut self, owner: NodeId, at: u32, out: &mut Vec<Action>) {
        let entry = self.peers[owner.index()].copies.remove(at);
        let bucket = self.bucket(entry.binding().v6.addr);
        let of_bucket = &mut self.peers[owner.index()].copies_of[bucket];
        *of_bucket -= 1;
        if *of_bucket == 0 {
            out.push(Action::Home(bucket));
        }
        if entry.state == State::Used {
            let Binding { protocol, v4, .. } = entry.binding();
            out.push(Action::Forget(protocol, v4));
        }
    }

    fn forget_all(&mut self, owner: NodeId, out: &mut Vec<Action>) {
        let peer = &mut self.peers[owner.index()];
        peer.copies = Store::new(peer.copies.keys());
        peer.copies_of.clear();
        out.push(Action::Homes);
        (peer.tag, peer.generation, peer.deadline) = (None, 0, Moment::ZERO);
        out.push(Action::SetDeadline {
            owner,
            until: Moment::ZERO,
        });
        out.push(Action::ForgetAll(owner));
    }

    /// Takes back a binding of this node, which has lost its state, from another node that has a copy.
    fn given(&mut self, now: Moment, peer: NodeId, binding: Binding, out: &mut Vec<Action>) {
        let Binding { protocol, v4, v6 } = binding;
        if self.owners.of(v4.addr) != Some(self.config.me) {
            return self.is_strange(peer, out);
        }
        if let Some(at) = self.bindings.find_v4(protocol, v4) {
            let known = self.bindings.get(at);
            let subscribers = [known.binding().v6.addr, v6.addr].map(|a| self.config.subscriber(a));
            if known.state != State::Resting && subscribers[0] != subscribers[1] {
                // Two honest nodes cannot both have valid copies for two subscribers: one of them lies.
                self.is_strange(peer, out);
            }
            return;
        }
        let is_bound = self.bindings.find_v6(protocol, v6).is_some();
        self.insert(&binding);
        out.push(Action::Home(self.bucket(v6.addr)));
        match (is_bound, self.bindings.find_v4(protocol, v4)) {
            // The host has got another port since. This binding is old, but the other node still has the copy.
            (true, Some(at)) => {
                out.push(Action::Hold(protocol, v4));
                self.rest(now, at);
            }
            _ => out.push(Action::Install(binding)),
        }
    }

    fn given_back(&mut self, peer: NodeId) -> Option<()> {
        let peer = &mut self.peers[peer.index()];
        let link = peer.link.as_mut()?;
        let gave = link.asked?;
        if !peer.settled {
            peer.settled = true;
            // It may continue to use what it has given.
            let holds = link.hello.flatten().filter(|_| gave);
            peer.before = holds.map(|tag| tag.mark);
        }
        Some(())
    }

    fn beat(&mut self, now: Moment, from: NodeId, beat: Beat, out: &mut Vec<Action>) -> Option<()> {
        let term = self.config.timing.term;
        let is_admitted = self.admission.since.is_some();
        let peer = &mut self.peers[from.index()];
        let link = peer.link.as_mut()?;
        link.status = beat.status;
        link.armed = beat.armed;
        link.clock = beat.clock;
        link.engine = (beat.engine, beat.epoch);
        // Before it has received a clock reading, it returns none.
        let echo = beat.echo.min(now);
        if !echo.is_zero() {
            link.echo = link.echo.max(Some(echo));
        }
        // As an owner: this node knows everything that it has told so far, and nothing that it had not yet told had
        // ended.
        if let Hearing::Whole(serial) = link.hearing {
            let (engine, epoch) = link.engine;
            let mark = Mark { epoch, serial };
            peer.tag = Some(Tag { engine, mark });
            let until = echo + term;
            if is_admitted && beat.confirms && !echo.is_zero() && until > peer.deadline {
                peer.deadline = until;
                out.push(Action::SetDeadline { owner: from, until });
            }
        }
        // As a holder of copies.
        if link.telling == Telling::Ended && beat.applied <= link.sent {
            peer.acked = peer.acked.max(beat.applied);
        }
        if beat.status == Status::Left {
            link.echo = None;
            peer.over = Some(beat.armed).filter(|file| *file != 0);
        }
        Some(())
    }
}
