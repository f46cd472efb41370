// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The messages of this node to another one, as far as the connection has room: answers first, then changes, a beat,
//! the snapshot, and copies that are given back.

use crate::config::NodeId;

use crate::interface::{Action, Report};
use crate::message::{Beat, BindingChange, Message, MAX_CHANGES};
use crate::node::{Node, LOOKS};
use crate::peer::{Hearing, Link, Telling};
use crate::store::{State, Store};
use crate::Moment;

/// Maximum size of a change, and of what precedes the changes, in bytes.
const CHANGE: usize = 25;
const HEAD: usize = 16;

impl Node {
    /// Sends what is due to a node.
    pub(crate) fn tell(&mut self, now: Moment, peer: NodeId, out: &mut Vec<Action>) {
        // The link is taken out, so that the rest can be read meanwhile.
        let Some(mut link) = self.peers[peer.index()].link.take() else {
            return;
        };
        let mut mouth = Mouth {
            peer,
            connection: link.connection,
            out,
        };
        let goes_on = self.say(now, peer, &mut link, &mut mouth);
        self.peers[peer.index()].link = Some(link);
        if !goes_on {
            out.push(Action::Report(Report::Slow(peer)));
            self.drop_link(peer, out);
        }
    }

    /// Sends what is due. Returns false if the connection is too slow.
    fn say(&mut self, now: Moment, peer: NodeId, link: &mut Link, out: &mut Mouth<'_>) -> bool {
        while let Some(message) = link.first.front() {
            if !out.say(link, message.encode()) {
                return true;
            }
            link.first.pop_front();
        }
        if link.hello.is_none() {
            return true;
        }
        // The other node's copies must be known here before the snapshot replaces them.
        if link.telling == Telling::Not && self.peers[peer.index()].settled {
            link.telling = Telling::Walking(0);
            link.sent = self.log.head();
        }
        if link.telling != Telling::Not && !self.say_changes(link, out) {
            return false;
        }
        if let Telling::Walking(from) = link.telling {
            // A snapshot uses all available room, and a node that receives no beat for a second does without this one.
            if now >= link.beat {
                self.say_beat(now, link, out);
            }
            self.say_snapshot(peer, from, link, out);
        }
        if let Some(from) = link.giving {
            let copies = &self.peers[peer.index()].copies;
            let left = &mut self.left;
            link.giving = say_places(copies, from, left, link, out, Message::Given);
            if link.giving.is_none() {
                link.first.push_back(Message::GivenBack);
            }
        }
        if now >= link.beat {
            self.say_beat(now, link, out);
        }
        true
    }

    fn say_changes(&mut self, link: &mut Link, out: &mut Mouth<'_>) -> bool {
        while link.sent < self.log.head() {
            let most = fitting(link.room).min(self.left / LOOKS);
            let Some(changes) = self.log.after(link.sent) else {
                return false;
            };
            let changes: Vec<BindingChange> = changes.take(most).copied().collect();
            if changes.is_empty() {
                break;
            }
            self.left -= changes.len() * LOOKS;
            let through = link.sent + changes.len() as u64;
            if !out.say(link, Message::Told { through, changes }.encode()) {
                break;
            }
            link.sent = through;
        }
        true
    }

    fn say_snapshot(&mut self, peer: NodeId, from: u32, link: &mut Link, out: &mut Mouth<'_>) {
        let through = link.sent;
        let message = |bindings: Vec<_>| Message::Told {
            through,
            changes: bindings.into_iter().map(BindingChange::Opened).collect(),
        };
        let next = say_places(&self.bindings, from, &mut self.left, link, out, message);
        link.telling = Telling::Walking(next.unwrap_or(u32::MAX));
        if next.is_some() {
            return;
        }
        let serial = self.peers[peer.index()].serial.unwrap_or(0) + 1;
        if out.say(link, Message::End { serial, through }.encode()) {
            link.telling = Telling::Ended;
            // From now on it may use this snapshot.
            self.peers[peer.index()].serial = Some(serial);
        }
    }

    fn say_beat(&mut self, now: Moment, link: &mut Link, out: &mut Mouth<'_>) {
        let applied = match link.hearing {
            Hearing::Whole(_) => link.through,
            _ => 0,
        };
        let beat = Beat {
            status: self.status(now),
            confirms: link.telling == Telling::Ended && link.sent == self.log.head(),
            engine: self.own.engine,
            epoch: self.own.epoch,
            echo: link.clock,
            clock: now,
            applied,
            armed: self.armed().map_or(0, |armed| armed.file),
        };
        if out.say(link, Message::Beat(beat).encode()) {
            link.beat = now + self.config.timing.beat;
        }
    }
}

/// Sends bindings from a slot on. Returns the slot to continue at, or None if there are no more.
fn say_places(
    store: &Store,
    mut from: u32,
    left: &mut usize,
    link: &mut Link,
    out: &mut Mouth<'_>,
    message: impl Fn(Vec<diolkos_nat64::config::Binding>) -> Message,
) -> Option<u32> {
    loop {
        let most = fitting(link.room).min(*left / LOOKS);
        if most == 0 {
            return Some(from);
        }
        let (mut bindings, mut next) = (Vec::new(), None);
        for (at, entry) in store.places(from, *left) {
            *left -= 1;
            next = Some(at + 1);
            if let Some(entry) = entry.filter(|entry| entry.state != State::Resting) {
                bindings.push(entry.binding());
                *left = left.saturating_sub(LOOKS);
            }
            if bindings.len() == most || *left == 0 {
                break;
            }
        }
        let next = next?;
        if !bindings.is_empty() && !out.say(link, message(bindings).encode()) {
            return Some(from);
        }
        from = next;
    }
}

/// Returns how many changes fit into a message, given this much room.
fn fitting(room: usize) -> usize {
    (room.saturating_sub(HEAD) / CHANGE).min(MAX_CHANGES)
}

/// The outlet to one node.
struct Mouth<'a> {
    peer: NodeId,
    connection: u64,
    out: &'a mut Vec<Action>,
}

impl Mouth<'_> {
    /// Sends a message, if there is room.
    fn say(&mut self, link: &mut Link, bytes: Vec<u8>) -> bool {
        let Some(room) = link.room.checked_sub(bytes.len()) else {
            return false;
        };
        link.room = room;
        self.out.push(Action::Send {
            peer: self.peer,
            connection: self.connection,
            bytes,
        });
        true
    }
}
