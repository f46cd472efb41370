// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The record of a node in the engine, and what this node knows of its own one.
//!
//! The engine is any linearizable store of one value for each node, with compare-and-set by revision. It names itself in each
//! answer: one that was wiped, or restored from a backup, has another name. Only a node writes its own record.
//!
//! ```text
//! format 1 (2) | incarnation 8 | epoch 8 | file 8 | part 1 | void: node 1, epoch 8, serial 4 …
//! ```
//!
//! `file` is the digest of what deals addresses out (`Config::deal`), and `part` whether the node starts, serves by that file or has
//! left (`admission.rs`). Records of format 1 have neither.
//!
//! Copies that a node has of this node's bindings are *void* from the snapshot named in the record backwards: this node no
//! longer waits for that node's acknowledgements.

use std::time::Duration;

use crate::config::{NodeId, MOST_NODES};
use crate::message::{Mark, Reader};
use crate::Moment;

const FORMAT: u8 = 2;
/// Without file and part.
const FORMER: u8 = 1;
/// A request without an answer is made again after so long.
pub const RETRY: Duration = Duration::from_secs(3);
/// How often a node looks at its own record: it notices another engine, or a second node of its name.
pub(crate) const LOOK: Duration = Duration::from_secs(2);

/// What a node does by its file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// It opens nothing yet.
    Starting,
    /// It serves, or claims to.
    Serving,
    /// It has ended, and translates nothing.
    Left,
}

const ALL_PARTS: [Part; 3] = [Part::Starting, Part::Serving, Part::Left];

/// The value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// Of the node, random.
    pub incarnation: u64,
    /// Counts incarnations.
    pub epoch: u64,
    /// The digest of what deals addresses out in the node's file; none in a record of format 1.
    pub file: Option<u64>,
    /// What the node does by that file.
    pub part: Part,
    /// For each node, which of the copies that it has are void. Nodes without void copies lack at the end.
    pub void: Vec<Mark>,
}

impl Record {
    /// As bytes.
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

    /// None if it is of a later format, or no record.
    pub fn decode(bytes: &[u8]) -> Option<Record> {
        let mut rest = Reader(bytes);
        let [format] = rest.take()?;
        let (incarnation, epoch) = (rest.number()?, rest.number()?);
        let (file, part) = match format {
            FORMER => (None, Part::Serving),
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

    /// Up to where copies of a node are void.
    pub fn void_of(&self, node: NodeId) -> Mark {
        self.void.get(node.index()).copied().unwrap_or_default()
    }
}

/// What is asked of the engine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Request {
    /// A linearizable read of a node's record.
    Read(NodeId),
    /// A linearizable read of the records of all other nodes, and of those that this node's file does not name.
    ReadAll,
    /// This node's record, if it has this revision; 0: if there is none.
    Write(u64, Vec<u8>),
}

/// What the engine answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    /// Its name; not 0.
    pub engine: u64,
    /// Its latest revision, which only grows.
    pub revision: u64,
    /// The rest.
    pub outcome: Outcome,
}

/// The rest of an answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The record with its revision, if there is one.
    Value(Option<(u64, Vec<u8>)>),
    /// All records but this node's own.
    All(Vec<Found>),
    /// The record has been written with this revision.
    Written(u64),
    /// The record has another revision.
    Refused,
}

/// The record of another node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// Which node of this node's file; none: the file does not name it.
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
    /// The digest of what deals addresses out.
    pub file: u64,
    /// What the record should say that this node does.
    part: Part,
    /// What it says, as far as that is known.
    written: Option<Part>,
    /// Since when it is known that the engine has the claim to serve.
    claimed: Option<Moment>,
    /// Which engine has a record of this incarnation; 0: none.
    pub engine: u64,
    /// This incarnation, once an engine has counted it.
    pub epoch: u64,
    /// Revision of the record in `seen`, once it was read.
    revision: Option<u64>,
    /// The engine that has answered last.
    seen: u64,
    /// What the engine has, and on which answer this node first knew.
    durable: Vec<(Mark, Moment)>,
    /// What it should have.
    wanted: Vec<Mark>,
    /// The request that waits, when it was made, and the record that it writes.
    asked: Option<(u64, Moment, Option<Record>)>,
    looked: Option<Moment>,
    /// The record cannot be read: a later version has written it, or it is damaged.
    is_foreign: bool,
    /// Another incarnation has taken this node's name.
    pub superseded: bool,
}

impl Own {
    /// Nothing is known yet.
    pub fn new(me: NodeId, incarnation: u64, file: u64) -> Own {
        Own {
            me,
            incarnation,
            file,
            part: Part::Starting,
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

    /// The record is to say this. Having left is final.
    pub fn say(&mut self, part: Part) {
        if self.part != Part::Left {
            self.part = part;
        }
        if self.part != Part::Serving {
            // Known again only by a write: one that withdraws may be on its way.
            self.claimed = None;
        }
    }

    /// Since when it is known that the engine has the claim to serve by this node's file.
    pub fn claimed(&self) -> Option<Moment> {
        self.claimed
    }

    /// Does the engine have a record that says that this node has left?
    pub fn has_left(&self) -> bool {
        self.written == Some(Part::Left) && self.engine == self.seen
    }

    /// The engine that has answered last; 0: none has.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// Up to where copies of a node are void, or are soon to be.
    pub fn void_of(&self, node: NodeId) -> Mark {
        self.wanted[node.index()].max(self.durable[node.index()].0)
    }

    /// Since when this node knows that the engine calls these copies of a node void.
    pub fn void_since(&self, node: NodeId, mark: Mark) -> Option<Moment> {
        let (durable, since) = self.durable[node.index()];
        (self.engine != 0 && durable >= mark).then_some(since)
    }

    /// These copies of a node are to be void.
    pub fn declare_void(&mut self, node: NodeId, mark: Mark) {
        let wanted = &mut self.wanted[node.index()];
        *wanted = mark.max(*wanted);
    }

    /// What to ask now. `token` names the request.
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
            Part::Serving => self.claimed.is_some(),
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

    /// An answer comes, if it is one to the request that waits.
    pub fn answered(&mut self, now: Moment, token: u64, answer: &Answer) -> bool {
        let asked = self.asked.take_if(|(waiting, ..)| *waiting == token);
        let Some((_, _, written)) = asked else {
            return false;
        };
        if answer.engine != self.seen {
            // What another engine had counts no more: nobody reads it there.
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
                if (record.part, self.part) == (Part::Serving, Part::Serving) {
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
            // An incarnation before this one, or an engine that has lost what this one wrote.
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
