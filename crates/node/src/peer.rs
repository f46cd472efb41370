// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What this node knows of another one: as an owner, whose bindings this node copies, and as the holder of copies of
//! this node's bindings.

use std::collections::VecDeque;

use crate::message::{Mark, Message, Status, Tag};
use crate::store::Store;
use crate::Moment;

/// Another node.
#[derive(Debug)]
pub struct Peer {
    /// The current connection: the latest one.
    pub link: Option<Link>,
    /// The peer has applied this node's changes up to this one, in this incarnation.
    pub acked: u64,
    /// True if the copies that it had of an earlier incarnation are known here, or void.
    pub settled: bool,
    /// The snapshot of this incarnation, by its serial, that it may have.
    pub serial: Option<u32>,
    /// Copies of an earlier incarnation that it may have; all of them are known here.
    pub before: Option<Mark>,
    /// Since when its acknowledgements are awaited.
    pub waited: Option<Moment>,
    /// Copies of its bindings.
    pub copies: Store,
    /// Number of copies by bucket of the host; empty while there are none.
    pub copies_of: Vec<u32>,
    /// Identifies the copies, once a snapshot is complete.
    pub tag: Option<Tag>,
    /// True if the owner has declared them void.
    pub is_void: bool,
    /// Number of the snapshot that is being received, or was.
    pub generation: u8,
    /// Until when the copies may be used.
    pub deadline: Moment,
    /// The pending reads of its record, and when they were begun.
    pub proofs: VecDeque<(u64, Moment)>,
    /// When its record was last requested.
    pub looked: Option<Moment>,
    /// When its bindings were last being read, before this node serves.
    pub reading: Option<Moment>,
    /// True if it was reachable when this node last checked.
    pub is_up: bool,
    /// True if it takes new subscribers, as far as this node knows.
    pub serves: bool,
    /// When it last reported a file that assigns addresses differently, and whether it opened bindings then.
    pub differed: Option<(Moment, bool)>,
    /// The file of its last hello, if that is another one, or the file that it changed to when it left.
    pub over: Option<u64>,
    /// True if this node opens nothing before this peer has said hello.
    pub expected: bool,
}

/// A connection.
#[derive(Debug)]
pub struct Link {
    /// The caller's identifier of the connection.
    pub connection: u64,
    /// Bytes that it can take now.
    pub room: usize,
    /// Messages that wait for room, before everything else.
    pub first: VecDeque<Message>,
    /// The other node's copies of this one's bindings, according to its hello; None before the hello.
    pub hello: Option<Option<Tag>>,
    /// Whether this node has asked for its bindings (true), or told the other to forget them.
    pub asked: Option<bool>,
    /// How far this node has sent its bindings.
    pub telling: Telling,
    /// The last change that was sent.
    pub sent: u64,
    /// How far the other node's bindings have been received.
    pub hearing: Hearing,
    /// The last change of the other node that is applied here.
    pub through: u64,
    /// The slot from which on the other node's bindings have still to be given back to it.
    pub giving: Option<u32>,
    /// The state in its last beat.
    pub status: Status,
    /// The file for which it says that it is armed; 0: none.
    pub armed: u64,
    /// The engine that has its record, and its incarnation there.
    pub engine: (u64, u64),
    /// The last received reading of its clock.
    pub clock: Moment,
    /// The last reading of this node's clock that it has returned.
    pub echo: Option<Moment>,
    /// When the next beat is due.
    pub beat: Moment,
}

/// How far a snapshot has been sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Telling {
    /// Not begun.
    Not,
    /// Up to this slot.
    Walking(u32),
    /// All of it, including its end.
    Ended,
}

/// How far a snapshot has been received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hearing {
    /// Not begun.
    Nothing,
    /// Part of it, mixed with earlier copies.
    Mixed,
    /// All of the snapshot with this serial; from this slot on there may be earlier copies.
    Sweeping(u32, u32),
    /// All of the snapshot with this serial, and nothing else.
    Whole(u32),
}

impl Peer {
    /// Creates a peer of which nothing is known. `keys` are secret.
    pub fn new(keys: [u64; 2]) -> Peer {
        Peer {
            link: None,
            acked: 0,
            settled: false,
            serial: None,
            before: None,
            waited: None,
            copies: Store::new(keys),
            copies_of: Vec::new(),
            tag: None,
            is_void: false,
            generation: 0,
            deadline: Moment::ZERO,
            proofs: VecDeque::new(),
            looked: None,
            reading: None,
            is_up: false,
            serves: false,
            differed: None,
            over: None,
            expected: false,
        }
    }

    /// Returns true if copies of its bindings may be used now.
    pub fn may_use(&self, now: Moment) -> bool {
        self.tag.is_some() && now < self.deadline
    }

    /// Notes whether its bindings are being read, so that some are not known yet. A connection that is lost meanwhile
    /// may come back.
    pub fn note_reading(&mut self, now: Moment) {
        let greeted = self.link.as_ref().filter(|link| link.hello.is_some());
        self.reading = match greeted.map(|link| link.hearing) {
            Some(Hearing::Whole(_)) => None,
            Some(_) => Some(now),
            None => self.reading,
        };
    }

    /// Returns true if packets of its bindings should be sent to it. While it starts, that is so only if this node may
    /// not translate them itself.
    pub fn takes(&self, now: Moment) -> bool {
        let status = self.link.as_ref().map(|link| link.status);
        self.is_up
            && match status {
                Some(Status::Serving | Status::Draining) => true,
                Some(Status::Starting) => !self.may_use(now),
                Some(Status::Left) | None => false,
            }
    }
}

impl Link {
    /// Creates a connection that has just come up.
    pub fn new(connection: u64, room: usize, now: Moment, hello: Message) -> Link {
        Link {
            connection,
            room,
            first: VecDeque::from([hello]),
            hello: None,
            asked: None,
            telling: Telling::Not,
            sent: 0,
            hearing: Hearing::Nothing,
            through: 0,
            giving: None,
            status: Status::Starting,
            armed: 0,
            engine: (0, 0),
            clock: Moment::ZERO,
            echo: None,
            beat: now,
        }
    }
}
