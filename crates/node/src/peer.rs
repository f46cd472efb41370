// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What this node knows of another one: as an owner, whose bindings that node copies, and as the holder of copies of its bindings.

use std::collections::VecDeque;

use crate::message::{Mark, Message, Status, Tag};
use crate::store::Store;
use crate::Moment;

/// Another node.
#[derive(Debug)]
pub struct Peer {
    /// The connection that counts, the latest.
    pub link: Option<Link>,
    /// This node's changes up to this one are applied there, in this incarnation.
    pub acked: u64,
    /// What it had of an earlier incarnation is known here, or void.
    pub settled: bool,
    /// It may have the snapshot of this incarnation with this serial.
    pub serial: Option<u32>,
    /// It may have copies of an earlier incarnation, and all of them are known here.
    pub before: Option<Mark>,
    /// Since when its acknowledgements are waited for.
    pub waited: Option<Moment>,
    /// Copies of its bindings.
    pub copies: Store,
    /// By bucket of the host, how many there are; empty while there are none.
    pub copies_of: Vec<u32>,
    /// Which they are, once a snapshot is complete.
    pub tag: Option<Tag>,
    /// The owner has declared them void.
    pub is_void: bool,
    /// Of the snapshot that comes in or has come in.
    pub generation: u8,
    /// Until when the copies may be used.
    pub deadline: Moment,
    /// The reads of its record that wait, and when they were begun.
    pub proofs: VecDeque<(u64, Moment)>,
    /// When its record was last asked for.
    pub looked: Option<Moment>,
    /// When its bindings were last being read, before this node serves.
    pub reading: Option<Moment>,
    /// It was reachable when this node last looked.
    pub is_up: bool,
    /// It takes new subscribers, as far as this node knows.
    pub serves: bool,
    /// When it last said that its file deals addresses out otherwise, and whether it opened bindings then.
    pub differed: Option<(Moment, bool)>,
    /// The file that it had when it last said hello, if that is another one, or to which it went over when it left.
    pub over: Option<u64>,
    /// This node opens nothing before it has said hello.
    pub expected: bool,
}

/// A connection.
#[derive(Debug)]
pub struct Link {
    /// The glue's name for it.
    pub connection: u64,
    /// Bytes that it can take now.
    pub room: usize,
    /// What waits for room, before all else.
    pub first: VecDeque<Message>,
    /// What the other node says that it has of this one's bindings, once it has said hello.
    pub hello: Option<Option<Tag>>,
    /// This node has asked for its bindings (true), or told to forget them.
    pub asked: Option<bool>,
    /// How far this node has told its bindings.
    pub telling: Telling,
    /// The last change that was told.
    pub sent: u64,
    /// How far the other node's bindings have come in.
    pub hearing: Hearing,
    /// The last change of the other node that is applied here.
    pub through: u64,
    /// From which place on the other node's bindings are to be given back to it.
    pub giving: Option<u32>,
    /// Its last beat.
    pub status: Status,
    /// The file for which it says that it is armed; 0: none.
    pub armed: u64,
    /// The engine that has its record, and its incarnation there.
    pub engine: (u64, u64),
    /// Its clock, as last heard.
    pub clock: Moment,
    /// The last reading of this node's clock that it has returned.
    pub echo: Option<Moment>,
    /// When the next beat is due.
    pub beat: Moment,
}

/// How far a snapshot has gone out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Telling {
    /// Not begun.
    Not,
    /// Up to this place.
    Walking(u32),
    /// All of it, and its end.
    Ended,
}

/// How far a snapshot has come in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hearing {
    /// Not begun.
    Nothing,
    /// Some of it, and earlier copies.
    Mixed,
    /// All of the snapshot with this serial; from this place on there may be earlier copies.
    Sweeping(u32, u32),
    /// All of the snapshot with this serial, and nothing else.
    Whole(u32),
}

impl Peer {
    /// One of which nothing is known. `keys` are secret.
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

    /// May copies of its bindings be used now?
    pub fn may_use(&self, now: Moment) -> bool {
        self.tag.is_some() && now < self.deadline
    }

    /// Notes whether its bindings are being read, so that some are not known yet. A connection that is lost meanwhile may come back.
    pub fn note_reading(&mut self, now: Moment) {
        let greeted = self.link.as_ref().filter(|link| link.hello.is_some());
        self.reading = match greeted.map(|link| link.hearing) {
            Some(Hearing::Whole(_)) => None,
            Some(_) => Some(now),
            None => self.reading,
        };
    }

    /// Should packets of its bindings be sent to it? While it starts, only if this node may not translate them itself.
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
    /// One that has just come up.
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
