// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The record of a node in the engine, and what this node knows of its own.
//!
//! The engine is any linearizable store of one value for each node, with compare-and-set by revision. It names itself
//! in each answer: after a wipe, or a restore from a backup, it has another name. Only a node writes its own record.
//!
//! ```text
//! format 1 (2) | incarnation 8 | epoch 8 | file 8 | part 1 | void: node 1, epoch 8, serial 4 …
//! ```
//!
//! `file` is the digest of what assigns addresses (`Config::deal`), and `part` says whether the node starts, serves by
//! that file or has left (`admission.rs`). Records of format 1 have neither.
//!
//! Copies that a node has of this node's bindings are *void* up to the snapshot named in the record: this node no
//! longer waits for that node's acknowledgements.

use std::time::Duration;

use crate::config::{NodeId, MOST_NODES};
use crate::message::{Mark, WireReader};
use crate::Moment;

const FORMAT: u8 = 2;
/// The format without file and part.
const FORMER: u8 = 1;
/// Time after which a request without an answer is repeated.
pub const RETRY: Duration = Duration::from_secs(3);
/// Interval at which a node reads its own record: it detects another engine, or a second node of its name.
pub(crate) const LOOK: Duration = Duration::from_secs(2);

/// The role of a node in the cluster, by its file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordRole {
    /// It opens nothing yet.
    Starting,
    /// It serves, or claims to.
    Serving,
    /// It has ended, and no longer translates.
    Left,
}

const ALL_PARTS: [RecordRole; 3] = [RecordRole::Starting, RecordRole::Serving, RecordRole::Left];

/// A record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// The random number of the incarnation.
    pub incarnation: u64,
    /// Counts incarnations.
    pub epoch: u64,
    /// The digest of what assigns addresses in the node's file; None in a record of format 1.
    pub file: Option<u64>,
    /// The role of the node by that file.
    pub part: RecordRole,
    /// For each node, which of its copies are void. Nodes without void copies are omitted at the end.
    pub void: Vec<Mark>,
}

impl Record {
    /// Encodes the record.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![self.file.map_or(FORMER, |_| FORMAT)];
        out.extend(self.incarnation.to_be_bytes());
        out.extend(self.epoch.to_be_bytes());
        if let Some(file) = self.file {
            out.extend(file.to_be_bytes());
            out.push(self.part as u8);
        }
        for (node, mark) in self.void.iter().enumerate() {
            if *mark != Mark::default() {
                out.push(node as u8);
                out.extend(mark.epoch.to_be_bytes());
                out.extend(mark.serial.to_be_bytes());
            }
        }
        out
    }

    /// Decodes a record; None if it is of a later format, or not a record.
    pub fn decode(bytes: &[u8]) -> Option<Record> {
        let mut rest = WireReader(bytes);
        let [format] = rest.take()?;
        let (incarnation, epoch) = (rest.number()?, rest.number()?);
        let (file, part) = match format {
            FORMER => (None, RecordRole::Serving),
            FORMAT => {
                let (file, [part]) = (rest.number()?, rest.take()?);
                (Some(file), *ALL_PARTS.get(usize::from(part))?)
            }
            _ => return None,
        };
        let mut void = vec![Mark::default(); MOST_NODES];
        while !rest.0.is_empty() {
            let [node] = rest.take()?;
            *void.get_mut(usize::from(node))? = Mark {
                epoch: rest.number()?,
                serial: u32::from_be_bytes(rest.take()?),
            };
        }
        Some(Record {
            incarnation,
            epoch,
            file,
            part,
            void,
        })
    }

    /// Returns up to where copies of a node are void.
    pub fn void_of(&self, node: NodeId) -> Mark {
        self.void.get(node.index()).copied().unwrap_or_default()
    }
}

/// A request to the engine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Request {
    /// A linearizable read of a node's record.
    Read(NodeId),
    /// A linearizable read of the records of all other nodes, also of those that this node's file does not name.
    ReadAll,
    /// A write of this node's record, if its current revision is this one; 0: if there is none.
    Write(u64, Vec<u8>),
}

/// An answer of the engine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    /// Its name; not 0.
    pub engine: u64,
    /// Its latest revision, which only grows.
    pub revision: u64,
    /// The result of the request.
    pub outcome: Outcome,
}

/// The result of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The record with its revision, if there is one.
    Value(Option<(u64, Vec<u8>)>),
    /// All records except this node's own.
    All(Vec<PeerRecord>),
    /// The record has been written with this revision.
    Written(u64),
    /// The record has another revision.
    Refused,
}

/// The record of another node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PeerRecord {
    /// The node's position in this node's file; None if the file does not name it.
    pub node: Option<NodeId>,
    /// Its name.
    pub name: String,
    /// The record.
    pub bytes: Vec<u8>,
}

/// What a node knows of its own record.
#[derive(Debug)]
pub struct Own {
    me: NodeId,
    incarnation: u64,
    /// The digest of what assigns addresses.
    pub file: u64,
    /// The role that the record should have.
    part: RecordRole,
    /// The role that it has, if that is known.
    written: Option<RecordRole>,
    /// Since when this node has known that the engine has its claim to serve.
    claimed: Option<Moment>,
    /// The engine that has a record of this incarnation; 0: none.
    pub engine: u64,
    /// This incarnation, once an engine has counted it.
    pub epoch: u64,
    /// Revision of the record in `seen`, once it was read.
    revision: Option<u64>,
    /// The engine that answered last.
    seen: u64,
    /// What the engine has, and since which answer this node has known.
    durable: Vec<(Mark, Moment)>,
    /// What the engine should have.
    wanted: Vec<Mark>,
    /// The pending request, when it was made, and the record that it writes.
    asked: Option<(u64, Moment, Option<Record>)>,
    looked: Option<Moment>,
    /// True if the record cannot be read: a later version has written it, or it is damaged.
    is_foreign: bool,
    /// True if another incarnation has taken this node's name.
    pub superseded: bool,
}

impl Own {
    /// Creates the state in which nothing is known yet.
    pub fn new(me: NodeId, incarnation: u64, file: u64) -> Own {
        Own {
            me,
            incarnation,
            file,
            part: RecordRole::Starting,
            written: None,
            claimed: None,
            engine: 0,
            epoch: 0,
            revision: None,
            seen: 0,
            durable: vec![(Mark::default(), Moment::ZERO); MOST_NODES],
            wanted: vec![Mark::default(); MOST_NODES],
            asked: None,
            looked: None,
            is_foreign: false,
            superseded: false,
        }
    }

    /// Sets what the record is to say. Having left is final.
    pub fn say(&mut self, part: RecordRole) {
        if self.part != RecordRole::Left {
            self.part = part;
        }
        if self.part != RecordRole::Serving {
            // Only another write can confirm the claim: a withdrawal may be in flight.
            self.claimed = None;
        }
    }

    /// Returns since when this node has known that the engine has its claim to serve by its file.
    pub fn claimed(&self) -> Option<Moment> {
        self.claimed
    }

    /// Returns true if the engine has a record that says that this node has left.
    pub fn has_left(&self) -> bool {
        self.written == Some(RecordRole::Left) && self.engine == self.seen
    }

    /// Returns the engine that answered last; 0 if none has.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// Returns up to where copies of a node are void, or will soon be.
    pub fn void_of(&self, node: NodeId) -> Mark {
        self.wanted[node.index()].max(self.durable[node.index()].0)
    }

    /// Returns since when this node has known that the engine calls these copies of a node void.
    pub fn void_since(&self, node: NodeId, mark: Mark) -> Option<Moment> {
        let (durable, since) = self.durable[node.index()];
        (self.engine != 0 && durable >= mark).then_some(since)
    }

    /// Declares these copies of a node void.
    pub fn declare_void(&mut self, node: NodeId, mark: Mark) {
        let wanted = &mut self.wanted[node.index()];
        *wanted = mark.max(*wanted);
    }

    /// Returns the next request. `token` identifies it.
    pub fn ask(&mut self, now: Moment, token: u64) -> Option<Request> {
        if let Some((_, since, _)) = self.asked {
            if now < since + RETRY {
                return None;
            }
            // It may have been written or not.
            (self.asked, self.revision) = (None, None);
        }
        if self.superseded {
            return None;
        }
        let is_old = self.looked.is_none_or(|looked| now >= looked + LOOK);
        if self.is_foreign && !is_old {
            return None;
        }
        let Some(revision) = self.revision.filter(|_| !is_old) else {
            self.asked = Some((token, now, None));
            return Some(Request::Read(self.me));
        };
        let lacks = |node: usize| self.wanted[node] > self.durable[node].0;
        let has_said = match self.part {
            RecordRole::Serving => self.claimed.is_some(),
            part => self.written == Some(part),
        };
        if self.engine == self.seen && has_said && !(0..MOST_NODES).any(lacks) {
            return None;
        }
        let void = (0..MOST_NODES).map(|node| self.void_of(NodeId(node as u8)));
        let record = Record {
            incarnation: self.incarnation,
            epoch: self.epoch,
            file: Some(self.file),
            part: self.part,
            void: void.collect(),
        };
        let bytes = record.encode();
        self.asked = Some((token, now, Some(record)));
        Some(Request::Write(revision, bytes))
    }

    /// Handles an answer. Returns true if it belongs to the pending request.
    pub fn answered(&mut self, now: Moment, token: u64, answer: &Answer) -> bool {
        let asked = self.asked.take_if(|(waiting, ..)| *waiting == token);
        let Some((_, _, written)) = asked else {
            return false;
        };
        if answer.engine != self.seen {
            // The record in the former engine no longer counts, because no node reads it there.
            self.seen = answer.engine;
            (self.engine, self.revision) = (0, None);
            (self.written, self.claimed) = (None, None);
            for (node, (durable, _)) in self.durable.iter_mut().enumerate() {
                self.wanted[node] = self.wanted[node].max(*durable);
                *durable = Mark::default();
            }
            if written.is_some() {
                return true;
            }
        }
        match (&answer.outcome, written) {
            (Outcome::Written(revision), Some(record)) => {
                self.revision = Some(*revision);
                self.known(now, &record);
                if (record.part, self.part) == (RecordRole::Serving, RecordRole::Serving) {
                    self.claimed = self.claimed.or(Some(now));
                }
            }
            (Outcome::Value(None), _) => {
                self.looked = Some(now);
                self.is_foreign = false;
                (self.engine, self.revision) = (0, Some(0));
                (self.written, self.claimed) = (None, None);
                self.epoch = self.epoch.max(1);
            }
            (Outcome::Value(Some((revision, bytes))), _) => {
                self.looked = Some(now);
                self.read(now, *revision, Record::decode(bytes));
            }
            _ => self.revision = None,
        }
        true
    }

    fn read(&mut self, now: Moment, revision: u64, record: Option<Record>) {
        self.is_foreign = record.is_none();
        self.revision = record.as_ref().map(|_| revision);
        let Some(record) = record else {
            return;
        };
        if record.incarnation == self.incarnation && record.epoch == self.epoch {
            self.known(now, &record);
        } else if self.engine != 0
            && record.incarnation != self.incarnation
            && record.epoch > self.epoch
        {
            self.superseded = true;
        } else {
            // From an incarnation before this one, or an engine that has lost what this one wrote.
            for (node, mark) in record.void.iter().enumerate() {
                self.wanted[node] = self.wanted[node].max(*mark);
            }
            self.engine = 0;
            (self.written, self.claimed) = (None, None);
            self.epoch = self.epoch.max(record.epoch.saturating_add(1));
        }
    }

    fn known(&mut self, now: Moment, record: &Record) {
        self.engine = self.seen;
        self.written = Some(record.part);
        for (node, mark) in record.void.iter().enumerate() {
            let (durable, since) = &mut self.durable[node];
            if *mark > *durable {
                (*durable, *since) = (*mark, now);
            }
        }
    }
}
