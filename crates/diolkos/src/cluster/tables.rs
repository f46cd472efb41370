// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tables follow ownership: slices open and close, bindings of other nodes come in, and those of slices that are another
//! node's go out.
//!
//! A slice is opened in this order: it is claimed; the stream is read to where it then ended; the bindings of other nodes
//! are installed; `Ownership::ready`; the gate opens. It is handed over in this order: the gate closes; all of its
//! bindings are published and stored by the engine; the entry names the next owner; the bindings go.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use diolkos_cluster::message::Message;
use diolkos_cluster::standby::Standby;
use diolkos_cluster::{NodeId, Ownership, Write};
use diolkos_core::config::nat64::Binding;
use diolkos_core::slice::{SliceId, Slices};
use diolkos_engine::{Client, Outcome};
use diolkos_sys::clock::kernel_boottime;

use super::counts::Counts;
use super::inheriting::Inheriting;
use super::publishing::{Publishing, CYCLE};
use crate::nat64::Controller;
use crate::random::random;

/// Bindings that are installed at a time, with packets in between.
const PORTION: usize = 256;
/// How long the worker does one thing while its lease has to be renewed.
const LONGEST: Duration = Duration::from_millis(50);
/// Bindings of the standby store that are looked at each time, whether messages still repeat them.
const AGED: usize = 2000;
/// A slice is opened without the mark, or without messages that the stream has dropped, after this time.
const PATIENCE: Duration = Duration::from_secs(10);

/// How full the standby store is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StandbyFigures {
    pub bindings: u64,
    pub bytes: u64,
}

/// A slice that has been claimed.
#[derive(Clone, Copy, Debug)]
struct Coming {
    revision: u64,
    since: Duration,
    /// Up to which message the stream has to be read; `None`: that is not known yet.
    through: Option<u64>,
}

pub(super) struct Tables {
    controller: Arc<Controller>,
    slices: Arc<Slices>,
    cluster: u64,
    me: NodeId,
    standby: Arc<Mutex<Standby>>,
    publishing: Publishing,
    /// Slices that are open in the tables.
    open: BTreeSet<SliceId>,
    coming: BTreeMap<SliceId, Coming>,
    /// Whose a slice was, the last time that it was another node's.
    others: BTreeMap<SliceId, NodeId>,
    /// Slices whose bindings have to go.
    going: BTreeSet<SliceId>,
    /// Slices in which this node has opened bindings that have not gone since.
    used: BTreeSet<SliceId>,
    /// A slice of which some bindings are installed, and the others.
    installing: Option<(SliceId, Vec<Binding>)>,
    /// The last message that was read of the stream.
    read: u64,
    /// The stream was read up to its end once since the connection began.
    is_caught_up: bool,
    /// Cycles of repetition, while the stream is read.
    cycle: (u32, Duration),
    inherited: u64,
    not_inherited: u64,
    unreadable: u64,
}

impl Tables {
    pub fn new(
        controller: Arc<Controller>,
        slices: Arc<Slices>,
        (cluster, me): (u64, NodeId),
        max_standby: u32,
    ) -> Tables {
        let standby = Standby::new(&slices, max_standby, [random(), random()]);
        let standby = Arc::new(Mutex::new(standby));
        let publishing = Publishing::new(controller.clone(), slices.clone(), cluster, me);
        controller.share(Box::new(Inheriting::new(
            slices.clone(),
            standby.clone(),
            publishing.changes(),
        )));
        Tables {
            controller,
            slices,
            cluster,
            me,
            standby,
            publishing,
            open: BTreeSet::new(),
            coming: BTreeMap::new(),
            others: BTreeMap::new(),
            going: BTreeSet::new(),
            used: BTreeSet::new(),
            installing: None,
            read: 0,
            is_caught_up: false,
            cycle: (2, Duration::ZERO),
            inherited: 0,
            not_inherited: 0,
            unreadable: 0,
        }
    }

    /// A message of the stream.
    pub fn hear(
        &mut self,
        ownership: &Ownership,
        subject: &str,
        sequence: u64,
        payload: &[u8],
        counts: &mut Counts,
    ) {
        self.read = self.read.max(sequence);
        let id = subject.parse::<SliceId>().ok();
        let Some((id, slice)) = id.and_then(|id| Some((id, self.slices.get(id)?))) else {
            counts.strangers += 1;
            return;
        };
        match Message::decode(self.cluster, (id, slice), payload) {
            Ok(message) => {
                let standing = ownership.standing(id, message.node, message.title);
                let cycle = self.cycle.0;
                self.standby().apply(&message, standing, cycle);
            }
            Err(refused) => {
                counts.strangers += 1;
                self.unreadable += 1;
                tracing::debug!("a message of the cluster's stream is not read: {refused:?}");
            }
        }
    }

    /// What was in the stream when the connection began was read, or a server lags that does not have all of it yet: so this says
    /// nothing of how far it was read.
    pub fn caught_up(&mut self) {
        self.is_caught_up = true;
    }

    /// The stream has lost its messages; nodes tell their bindings again.
    pub fn stream_began_anew(&mut self) {
        self.read = 0;
        self.coming.clear();
        self.publishing.begin_anew();
    }

    pub fn published(&mut self, token: u64, outcome: &Outcome) {
        self.publishing.published(token, outcome);
    }

    /// Lets bindings be opened until a moment, in slices that are open.
    pub fn open_until(&mut self, moment: Duration) {
        if self.controller.open_until(moment) {
            // The tables have closed all of them when the lease ended.
            self.open.clear();
        }
    }

    /// Does what ownership says now. `looks`: at every slice, of which something may be new. Returns what is to be written because of
    /// it.
    pub fn follow(
        &mut self,
        ownership: &mut Ownership,
        now: Duration,
        client: &Client,
        looks: bool,
    ) -> Vec<Write> {
        self.turn_cycle(now);
        if looks {
            self.close(ownership, now);
            self.note_others(ownership);
        }
        self.release(now);
        if looks || !self.coming.is_empty() {
            self.acquire(ownership, now, client);
            self.open(ownership, now);
        }
        if !looks && !self.publishing.is_telling() {
            return Vec::new();
        }
        let closing: Vec<SliceId> = ownership.closing().collect();
        let told = self.publishing.snapshots(ownership, now, &closing, client);
        let over = |(slice, through)| ownership.hand_over(now, slice, through);
        told.into_iter().filter_map(over).collect()
    }

    pub fn publish(&mut self, ownership: &Ownership, now: Duration, client: &Client, looks: bool) {
        self.publishing.publish(ownership, now, client, looks);
    }

    fn turn_cycle(&mut self, now: Duration) {
        // While the stream is not read, no repetition arrives.
        if !self.is_caught_up {
            self.cycle.1 = now;
        } else if now.saturating_sub(self.cycle.1) >= CYCLE {
            self.cycle = (self.cycle.0 + 1, now);
        }
        let cycle = self.cycle.0;
        self.standby().age(cycle, AGED);
    }

    fn close(&mut self, ownership: &Ownership, now: Duration) {
        let open = self.open.iter().copied();
        let closing: Vec<SliceId> = open
            .filter(|slice| !ownership.may_open(now, *slice))
            .collect();
        if !closing.is_empty() {
            self.controller.close_slices(&closing);
            self.open.retain(|slice| !closing.contains(slice));
        }
    }

    fn open(&mut self, ownership: &Ownership, now: Duration) {
        for slice in 0..self.slices.len() as SliceId {
            if ownership.may_open(now, slice) && self.open.insert(slice) {
                self.controller.open_slice(slice);
                self.used.insert(slice);
            }
        }
    }

    /// What is another live node's is translated there, and not here.
    fn note_others(&mut self, ownership: &Ownership) {
        for slice in 0..self.slices.len() as SliceId {
            let owner = ownership.owner(slice);
            match owner.filter(|owner| *owner != self.me) {
                Some(other) => {
                    if self.others.insert(slice, other) != Some(other) {
                        self.going.insert(slice);
                    }
                }
                // No live node owns the slice: this one still translates packets of its bindings.
                None => {
                    self.others.remove(&slice);
                    self.going.remove(&slice);
                }
            }
        }
    }

    fn release(&mut self, now: Duration) {
        while let Some(slice) = self.going.first().copied() {
            if self.controller.release_slice(slice) {
                self.going.remove(&slice);
                self.used.remove(&slice);
            }
            if kernel_boottime().saturating_sub(now) > LONGEST {
                return;
            }
        }
    }

    fn acquire(&mut self, ownership: &mut Ownership, now: Duration, client: &Client) {
        let acquiring: Vec<_> = ownership.acquiring(now).collect();
        self.coming
            .retain(|slice, _| acquiring.iter().any(|(other, _)| other == slice));
        for (slice, acquisition) in &acquiring {
            let coming = self.coming.entry(*slice).or_insert(Coming {
                revision: 0,
                since: now,
                through: None,
            });
            if coming.revision != acquisition.revision {
                *coming = Coming {
                    revision: acquisition.revision,
                    since: now,
                    through: Some(acquisition.through).filter(|through| *through > 0),
                };
            }
        }
        self.mark_end(ownership, client);
        for (slice, acquisition) in acquiring {
            let Some(coming) = self.coming.get(&slice) else {
                continue;
            };
            let waits = coming.through.is_none_or(|through| self.read < through);
            if waits && now.saturating_sub(coming.since) < PATIENCE {
                continue;
            }
            // Bindings that this node had before other owners are older than theirs.
            if acquisition.had_others && self.used.contains(&slice) {
                if !self.controller.release_slice(slice) {
                    continue;
                }
                self.used.remove(&slice);
            }
            if !self.install(slice, now) {
                return;
            }
            ownership.ready(slice, acquisition.revision);
        }
    }

    /// Marks where the stream ends now, for slices whose former owner cannot say it: the mark stands behind all messages of others
    /// that the servers have stored.
    fn mark_end(&mut self, ownership: &Ownership, client: &Client) {
        for (slice, coming) in &mut self.coming {
            if coming.through.is_none() {
                let title = ownership.coming_title(*slice);
                let marked = title.and_then(|title| self.publishing.marked(*slice, title));
                coming.through = marked;
            }
        }
        self.publishing.send(client);
    }

    /// Installs the bindings that other nodes have published of a slice. They stay in the standby store: another node may take the
    /// slice before this one has published them again. False: there is more, and no more time.
    fn install(&mut self, slice: SliceId, now: Duration) -> bool {
        let mut left = match self.installing.take() {
            Some((begun, left)) if begun == slice => left,
            _ => {
                // What waits is of an earlier ownership: its end, mostly.
                self.publishing.changes().publisher().forget(slice);
                self.standby().of_slice(slice).collect()
            }
        };
        while !left.is_empty() {
            if kernel_boottime().saturating_sub(now) > LONGEST {
                self.installing = Some((slice, left));
                return false;
            }
            let portion = left.split_off(left.len().saturating_sub(PORTION));
            let refused = self.controller.inherit(&portion);
            self.inherited += (portion.len() - refused.len()) as u64;
            self.not_inherited += refused.len() as u64;
            if let Some((binding, reason)) = refused.first() {
                tracing::debug!(
                    reason = reason.name(),
                    "{} bindings of a slice are not inherited, such as {}",
                    refused.len(),
                    binding.v4
                );
            }
        }
        true
    }

    fn standby(&self) -> MutexGuard<'_, Standby> {
        self.standby.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn standby_figures(&self) -> StandbyFigures {
        let standby = self.standby();
        StandbyFigures {
            bindings: standby.len().into(),
            bytes: standby.memory() as u64,
        }
    }

    /// Age of the oldest change that is not published yet.
    pub fn lag(&self, now: Duration) -> Duration {
        self.publishing.lag(now)
    }

    /// What has happened so far, by name.
    pub fn counts(&self) -> Vec<(&'static str, u64)> {
        let standby = self.standby().counters();
        let mut counts = vec![
            ("inherited", self.inherited),
            ("not_inherited", self.not_inherited),
            ("messages_unreadable", self.unreadable),
            ("messages_applied", standby.messages),
            ("messages_of_strangers", standby.strangers),
            ("messages_outdated", standby.outdated),
            ("standby_full", standby.no_room),
            ("standby_expired", standby.aged),
        ];
        counts.extend(self.publishing.counts());
        counts
    }

    /// The cluster is left: nothing is opened any more.
    pub fn stop(&mut self) {
        let open: Vec<SliceId> = std::mem::take(&mut self.open).into_iter().collect();
        self.controller.close_slices(&open);
        self.controller.open_until(Duration::ZERO);
    }
}
