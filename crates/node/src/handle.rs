// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Turns events into actions.
//!
//! event → the state that it changes → all that may follow from the state at this time, in the order of `proceed`

use crate::config::{file, NodeId, MESSAGES, NODES, PARTS, TIMES};
use crate::hear;
use crate::interface::{Action, Event, Report};
use crate::message::{Message, Status};
use crate::node::{Node, LOOKS, TURN};
use crate::peer::Link;
use crate::record::{Answer, RecordRole};
use crate::store::State;
use crate::Moment;
use diolkos_nat64::config::{Binding, Endpoint4, Protocol};

impl Node {
    /// Handles an event.
    pub fn handle(&mut self, now: Moment, event: Event<'_>, out: &mut Vec<Action>) {
        self.left = TURN * LOOKS;
        match event {
            Event::Opened(binding) => return self.opened(binding),
            Event::Closed(protocol, v4) => return self.closed(now, protocol, v4),
            Event::Connected {
                peer,
                connection,
                room,
            } => self.connected(now, peer, connection, room, out),
            Event::Message {
                peer,
                connection,
                bytes,
            } => {
                if self.is_current(peer, connection) {
                    self.message(now, peer, Message::decode(bytes), out);
                }
            }
            Event::Lost { peer, connection } => {
                if self.is_current(peer, connection) {
                    self.peers[peer.index()].link = None;
                }
            }
            Event::Room {
                peer,
                connection,
                room,
            } => {
                if self.is_current(peer, connection) {
                    let link = &mut self.peers[peer.index()].link;
                    link.iter_mut().for_each(|link| link.room = room);
                }
            }
            Event::Answer { token, answer } => self.answered(now, token, &answer, out),
            Event::Short => self.short_until = now + self.config.timing.patience * 5,
            Event::Tick => {}
            Event::Drain => self.drains = true,
            Event::Stay => self.drains = false,
            Event::Arm(armed) => self.arm(armed),
            Event::Disarm => self.disarm(),
            Event::Leave => {
                // A node that stops for another reason announces no next file.
                self.disarm();
                self.leaves = self.leaves.or(Some(now));
            }
        }
        self.proceed(now, out);
    }

    fn opened(&mut self, binding: Binding) {
        if let Some(at) = self.bindings.find_v4(binding.protocol, binding.v4) {
            if self.bindings.get(at).state != State::Resting {
                return;
            }
            self.bindings.remove(at);
        }
        self.insert(&binding);
    }

    fn closed(&mut self, now: Moment, protocol: Protocol, v4: Endpoint4) {
        let at = self.bindings.find_v4(protocol, v4);
        let live = at.filter(|&at| self.bindings.get(at).state != State::Resting);
        if let Some(at) = live {
            self.rest(now, at);
        }
    }

    fn is_current(&self, peer: NodeId, connection: u64) -> bool {
        let link = self.peers.get(peer.index()).map(|peer| peer.link.as_ref());
        link.flatten()
            .is_some_and(|link| link.connection == connection)
    }

    fn connected(
        &mut self,
        now: Moment,
        peer: NodeId,
        connection: u64,
        room: usize,
        out: &mut Vec<Action>,
    ) {
        if peer == self.config.me || peer.index() >= self.peers.len() || self.has_left {
            return out.push(Action::Close { peer, connection });
        }
        self.drop_link(peer, out);
        let hello = Message::Hello {
            digests: self.config.digests(),
            status: self.status(now),
            holds: self.peers[peer.index()].tag,
        };
        self.peers[peer.index()].link = Some(Link::new(connection, room, now, hello));
    }

    fn message(
        &mut self,
        now: Moment,
        peer: NodeId,
        message: Option<Message>,
        out: &mut Vec<Action>,
    ) {
        if let Some(Message::Hello {
            digests, status, ..
        }) = &message
        {
            let ours = self.config.digests();
            let differs = self.config.differs(digests);
            // Another format does not show how that file assigns addresses; the records do.
            let is_readable = ours[MESSAGES] == digests[MESSAGES];
            let deals = is_readable
                && [NODES, TIMES]
                    .iter()
                    .any(|&part| ours[part] != digests[part]);
            let serves = matches!(status, Status::Serving | Status::Draining);
            let its = &mut self.peers[peer.index()];
            its.differed = deals.then_some((now, serves));
            if let Some(part) = differs {
                its.over = Some(file(digests));
                out.push(Action::Report(Report::Differs(peer, PARTS[part])));
                return self.drop_link(peer, out);
            }
        }
        let is_read = message.and_then(|message| hear::message(self, now, peer, message, out));
        if is_read.is_none() {
            self.is_strange(peer, out);
            self.drop_link(peer, out);
        }
    }

    fn answered(&mut self, now: Moment, token: u64, answer: &Answer, out: &mut Vec<Action>) {
        // An answer that is older than another one, or of an engine that went back, proves nothing.
        let (engine, revision) = self.seen;
        if answer.engine == 0 || (answer.engine == engine && answer.revision < revision) {
            return;
        }
        self.seen = (answer.engine, answer.revision);
        if self.own.answered(now, token, answer) || self.listed(now, token, answer) {
            return;
        }
        for owner in self.others() {
            let proofs = &mut self.peers[owner.index()].proofs;
            let at = proofs.iter().position(|(waiting, _)| *waiting == token);
            if let Some((_, begun)) = at.and_then(|at| proofs.remove(at)) {
                self.proved(owner, begun, answer, out);
            }
        }
    }

    fn proceed(&mut self, now: Moment, out: &mut Vec<Action>) {
        if self.expects().next().is_none() {
            self.seek_admission(now, out);
            self.settle(now, out);
        }
        if self.is_told(now) {
            self.own.say(RecordRole::Left);
        }
        self.look_at_engine(now, out);
        self.look_around(now, out);
        self.free(now, out);
        // Each node is the first at times, and may then use all that is left.
        let nodes = self.peers.len();
        self.first = (self.first + 1) % nodes;
        for n in self.first..self.first + nodes {
            let peer = NodeId((n % nodes) as u8);
            if peer != self.config.me {
                self.sweep(peer, out);
                self.tell(now, peer, out);
            }
        }
        if self.left < LOOKS {
            out.push(Action::Again);
        }
        self.go_over(now, out);
        self.leave(now, out);
        let attracts = matches!(self.status(now), Status::Serving);
        if attracts != self.attracts {
            self.attracts = attracts;
            out.push(Action::Attract(attracts));
        }
    }
}
