// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The bindings of one process: its tables, what it publishes and hears of others, and how it installs and hands over.
//!
//! read (the stream) ─► acquire (install, ready) ─► live (open, close) ─► publish ─► acknowledged ─► hand_over

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;
use std::time::Duration;

use diolkos_cluster::publisher::{Outgoing, Settings};
use diolkos_cluster::{
    Change, Message, Moment, NodeId, Ownership, Publisher, Revision, SliceId, Slices, Standby,
    Write,
};
use diolkos_core::config::nat64::{Binding, Endpoint4, Endpoint6, Protocol};

use crate::random::Random;
use crate::truth::Truth;

pub const CLUSTER: u64 = 1;
const PORTS: u16 = 64;
/// What is not acknowledged after so long is said again.
const ACKNOWLEDGED_WITHIN: Duration = Duration::from_secs(1);

/// As many slices of 64 ports, of one address.
pub fn slices(count: u16) -> Slices {
    let net = "192.0.2.1/32".parse().expect("a network");
    Slices::cut(&[(net, 1024..=1023 + count * PORTS)], PORTS, 64, [1, 2]).expect("it can be cut")
}

/// What a node has published.
pub fn decode(slices: &Slices, Outgoing { slice: id, bytes }: &Outgoing) -> Message {
    let slice = slices.get(*id).expect("it exists");
    Message::decode(CLUSTER, (*id, slice), bytes).expect("no strangers write")
}

/// A snapshot that is in the stream, as far as is known.
struct HandingOver {
    revision: Revision,
    since: Moment,
    /// Its messages that are not acknowledged.
    lacking: BTreeSet<u64>,
}

/// A slice whose bindings this node is to install.
#[derive(Clone, Copy)]
struct Coming {
    revision: Revision,
    /// Up to which message of the stream it has to read.
    through: Option<u64>,
    /// The message that marks where that is, and when it was given out.
    mark: Option<(u64, Moment)>,
}

pub struct Bindings {
    tables: BTreeMap<SliceId, BTreeMap<u16, Binding>>,
    pub standby: Standby,
    pub publisher: Publisher,
    /// Of the stream, how much has come.
    read: usize,
    coming: BTreeMap<SliceId, Coming>,
    handing_over: BTreeMap<SliceId, HandingOver>,
    /// Messages given out; they arrive in this order, if they do.
    pub published: u64,
    /// Bindings told again.
    repeated: usize,
    /// The highest sequence that was acknowledged.
    sequence: u64,
}

impl Bindings {
    pub fn new(node: NodeId, slices: &Slices) -> Bindings {
        Bindings {
            tables: BTreeMap::new(),
            standby: Standby::new(slices, 100_000, [3, 4]),
            publisher: Publisher::new(Settings {
                cluster: CLUSTER,
                node,
                slices: slices.len(),
                capacity: 1000,
                delay: Duration::from_millis(20),
                cycle: Duration::from_secs(20),
            }),
            read: 0,
            coming: BTreeMap::new(),
            handing_over: BTreeMap::new(),
            published: 0,
            repeated: 0,
            sequence: 0,
        }
    }

    /// Some of the stream comes.
    pub fn read(
        &mut self,
        ownership: &Ownership,
        slices: &Slices,
        stream: &[Outgoing],
        most: usize,
    ) {
        let until = (self.read + most).min(stream.len());
        for outgoing in &stream[self.read..until] {
            let message = decode(slices, outgoing);
            let standing = ownership.standing(message.slice, message.node, message.title);
            self.standby.apply(&message, standing, 0);
        }
        self.read = until;
    }

    /// Marks where the stream ends for slices that this node has got of one who is dead, and installs what it has heard of those
    /// of which it has read enough. `reads`: as it has to.
    pub fn acquire(
        &mut self,
        ownership: &mut Ownership,
        now: Moment,
        truth: &mut Truth,
        reads: bool,
    ) -> Result<Vec<Outgoing>, String> {
        let mut marks = Vec::new();
        let acquiring: Vec<_> = ownership.acquiring(now).collect();
        for (slice, acquisition) in acquiring {
            let revision = acquisition.revision;
            let mut coming = Coming {
                revision,
                through: Some(acquisition.through).filter(|&through| through > 0),
                mark: None,
            };
            if let Some(known) = self.coming.get(&slice) {
                if known.revision == revision {
                    coming = *known;
                }
            }
            let is_late = |(_, since)| now.saturating_sub(since) > ACKNOWLEDGED_WITHIN;
            if coming.through.is_none() && coming.mark.is_none_or(is_late) {
                let title = ownership.coming_title(slice).expect("it is ours");
                coming.mark = Some((self.published + marks.len() as u64, now));
                marks.extend(self.publisher.announce(slice, title));
            }
            self.coming.insert(slice, coming);
            let has_read = |through| through <= self.read as u64;
            if reads && !coming.through.is_some_and(has_read) {
                continue;
            }
            if acquisition.had_others {
                self.tables.remove(&slice);
            }
            let table = self.tables.entry(slice).or_default();
            for binding in self.standby.of_slice(slice) {
                table.entry(binding.v4.port).or_insert(binding);
            }
            if ownership.ready(slice, revision) {
                truth.begin((slice, revision), table)?;
            }
        }
        Ok(marks)
    }

    /// What is another live node's is translated there, and not here.
    pub fn release(&mut self, ownership: &Ownership, me: NodeId) {
        let is_others = |slice: SliceId| ownership.owner(slice).is_some_and(|owner| owner != me);
        self.tables.retain(|slice, _| !is_others(*slice));
    }

    /// Nodes send their first packets, and bindings expire.
    pub fn live(
        &mut self,
        ownership: &Ownership,
        now: Moment,
        slices: &Slices,
        truth: &mut Truth,
        random: &mut Random,
    ) {
        // In one turn of two, of which a second has fifty.
        let slice = random.below(2 * slices.len()) as SliceId;
        let title = ownership.title(now, slice);
        let Some(title) = title.filter(|_| ownership.may_open(now, slice)) else {
            return;
        };
        let ports = slices.get(slice).expect("it exists").clone();
        let port = ports.ports.start() + random.below(PORTS.into()) as u16;
        let table = self.tables.entry(slice).or_default();
        let change = match table.remove(&port) {
            Some(Binding { protocol, .. }) => Change::Closed { protocol, port },
            None => {
                let binding = Binding {
                    protocol: Protocol::Udp,
                    v4: Endpoint4 {
                        addr: ports.addr,
                        port,
                    },
                    v6: Endpoint6 {
                        addr: Ipv6Addr::from_bits(0x2001_0db8 << 96 | u128::from(random.next())),
                        port: 1,
                    },
                };
                table.insert(port, binding);
                Change::Opened(binding)
            }
        };
        truth.change(slice, title, change);
        self.publisher.heard(now, slice, change);
    }

    /// What is to be published now.
    pub fn publish(&mut self, ownership: &Ownership, now: Moment) -> Vec<Outgoing> {
        let title = |slice| ownership.title(now, slice);
        let mut messages = self.publisher.poll(now, 3, title);
        let total = self.tables.values().map(BTreeMap::len).sum();
        let wanted = self.publisher.wants(now, total);
        if wanted > 0 {
            let all = self.tables.iter();
            let all = all.flat_map(|(slice, table)| table.values().map(|b| (*slice, *b)));
            let portion = all.cycle().skip(self.repeated % total).take(wanted);
            messages.extend(self.publisher.repeat(portion, title));
            self.repeated += wanted;
        }
        messages
    }

    /// Tells all bindings of closing slices, in messages with numbers from `first` on, and gives a slice away once the stream
    /// has them.
    pub fn hand_over(
        &mut self,
        ownership: &mut Ownership,
        now: Moment,
        first: u64,
        truth: &mut Truth,
        tells: bool,
    ) -> (Vec<Outgoing>, Vec<Write>) {
        let (mut messages, mut writes) = (Vec::new(), Vec::new());
        let closing: Vec<SliceId> = ownership.closing().collect();
        for slice in closing {
            let Some(title) = ownership.title(now, slice) else {
                continue;
            };
            let known = self.handing_over.get(&slice).filter(|h| {
                let is_late = now.saturating_sub(h.since) > ACKNOWLEDGED_WITHIN;
                h.revision == title.revision && (h.lacking.is_empty() || !is_late)
            });
            match known {
                Some(known) if known.lacking.is_empty() => {
                    truth.all_told(slice, title);
                    writes.extend(ownership.hand_over(now, slice, self.sequence.max(1)));
                }
                Some(_) => {}
                None if !tells => {
                    truth.all_told(slice, title);
                    writes.extend(ownership.hand_over(now, slice, self.sequence.max(1)));
                }
                None => {
                    self.publisher.begin_snapshot(slice);
                    let table = self.tables.entry(slice).or_default().values().copied();
                    let told = self.publisher.snapshot(slice, table, true, Some(title));
                    assert!(self.publisher.is_flushed(slice), "nothing waits");
                    let first = first + messages.len() as u64;
                    let begun = HandingOver {
                        revision: title.revision,
                        since: now,
                        lacking: (first..first + told.len() as u64).collect(),
                    };
                    messages.extend(told);
                    self.handing_over.insert(slice, begun);
                }
            }
        }
        (messages, writes)
    }

    /// Numbers of messages that are given out now.
    pub fn number(&mut self) -> u64 {
        self.published += 1;
        self.published - 1
    }

    /// The stream has the message of this number, as this sequence.
    pub fn acknowledged(
        &mut self,
        ownership: &Ownership,
        now: Moment,
        (number, message, sequence): (u64, &Message, u64),
        truth: &mut Truth,
    ) {
        for handing_over in self.handing_over.values_mut() {
            handing_over.lacking.remove(&number);
        }
        for coming in self.coming.values_mut() {
            if coming.mark.is_some_and(|(mark, _)| mark == number) {
                coming.through = Some(sequence);
            }
        }
        self.sequence = self.sequence.max(sequence);
        if ownership.title(now, message.slice) == Some(message.title) {
            truth.acknowledged(message);
        }
    }
}
