// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The thread of a cluster's node: events of the engine, orders and times come in, and everything else follows.
//!
//! event, order, time ─► ownership ─► writes; fence; slices that open, close, come in, go out; steering ─► view

mod hearing;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use diolkos_cluster::{NodeId, Ownership, Timing, Write};
use diolkos_core::slice::Slices;
use diolkos_engine::{Client, Events, Settings as EngineSettings};
use diolkos_sys::clock::kernel_boottime;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::MissedTickBehavior;

use super::counts::Counts;
use super::rank::Absence;
use super::steering::Steering;
use super::tables::Tables;
use super::{Order, Shared};
use crate::config::{Cluster as Section, Node};
use crate::failure::Failure;
use crate::nat64::Controller;
use crate::random::random;
use hearing::Trouble;

/// Between two looks at what is due.
const TICK: Duration = Duration::from_millis(20);
/// The longest time between two looks at every slice, if nothing is heard of any.
const ROUND: Duration = Duration::from_millis(200);
/// A node that has renewed its lease so long after it was last reached is alive.
const MISSED: Duration = Duration::from_secs(2);
/// Events that are taken in before what follows from them is done.
const AT_ONCE: usize = 256;
/// Between two views for the control socket and the metrics, whose requests therefore cost the worker nothing.
const VIEW: Duration = Duration::from_millis(100);

pub(super) struct Worker {
    pub(super) name: String,
    pub(super) me: NodeId,
    cluster: u64,
    pub(super) nodes: Vec<Node>,
    timing: Timing,
    pub(super) slices: Arc<Slices>,
    pub(super) ownership: Ownership,
    pub(super) tables: Tables,
    pub(super) steering: Steering,
    shared: Arc<Shared>,
    /// Writes without an answer.
    writes: HashMap<u64, Write>,
    next_token: u64,
    /// The bucket has entries of another cluster: a node that has no lease must not join that one.
    is_foreign: bool,
    /// Nothing is written before: leases of a store that was lost may still run.
    not_before: Option<Duration>,
    pub(super) server: Option<String>,
    pub(super) trouble: Option<Trouble>,
    pub(super) takes_part: bool,
    /// It hands over its slices because packets of the other nodes do not reach it.
    pub(super) is_cut_off: bool,
    pub(super) counts: Counts,
    had_lease: bool,
    pub(super) has_been_member: bool,
    pub(super) absence: Absence,
    /// Something was heard since the last look at every slice.
    has_news: bool,
    round_due: Duration,
    view_due: Duration,
}

impl Worker {
    pub fn new(
        section: &Section,
        me: u16,
        cluster: u64,
        (controller, slices, steering): (Arc<Controller>, Slices, Steering),
        shared: Arc<Shared>,
    ) -> Worker {
        let timing = Timing::with_lease(Duration::from_secs(section.lease));
        let slices = Arc::new(slices);
        Worker {
            name: section.name.clone(),
            me: NodeId(me),
            cluster,
            nodes: section.node.clone(),
            timing,
            ownership: Ownership::new(NodeId(me), slices.len(), timing),
            tables: Tables::new(
                controller,
                slices.clone(),
                (cluster, NodeId(me)),
                section.max_standby_bindings,
            ),
            slices,
            steering,
            shared,
            writes: HashMap::new(),
            next_token: 0,
            is_foreign: false,
            not_before: None,
            server: None,
            trouble: None,
            takes_part: true,
            is_cut_off: false,
            counts: Counts::default(),
            had_lease: false,
            has_been_member: false,
            absence: Absence::default(),
            has_news: true,
            round_due: Duration::ZERO,
            view_due: Duration::ZERO,
        }
    }

    /// Works until there are no orders any more.
    pub fn run(
        mut self,
        engine: EngineSettings,
        mut orders: UnboundedReceiver<Order>,
    ) -> Result<(), Failure> {
        let (client, mut events) =
            Client::start(engine).map_err(|e| Failure::usage(format!("cluster: {e}")))?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .map_err(|e| Failure::run_time(format!("cannot start the cluster: {e}")))?;
        runtime.block_on(self.work(&client, &mut events, &mut orders));
        self.tables.stop();
        Ok(())
    }

    async fn work(
        &mut self,
        client: &Client,
        events: &mut Events,
        orders: &mut UnboundedReceiver<Order>,
    ) {
        self.tell(kernel_boottime());
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            // However many events there are, the time of a tick comes: a lease has to be renewed.
            tokio::select! {
                biased;
                _ = ticks.tick() => self.advance(client),
                event = events.recv() => match event {
                    Some(event) => {
                        let mut is_urgent = self.hear(event);
                        // Answers come many at a time, and what follows from them is a look at every slice.
                        let ready = std::iter::from_fn(|| events.try_recv());
                        for event in ready.take(AT_ONCE) {
                            is_urgent |= self.hear(event);
                        }
                        if is_urgent {
                            self.advance(client);
                        }
                    }
                    None => return,
                },
                order = orders.recv() => match order {
                    Some(Order::Reach(id, hop)) => {
                        if self.steering.reach(id, hop) {
                            self.has_news = true;
                            self.advance(client);
                        }
                    }
                    Some(Order::TakePart(takes)) => {
                        self.has_news = true;
                        self.take_part(takes);
                    }
                    None => return,
                },
            }
        }
    }

    fn take_part(&mut self, takes: bool) {
        if std::mem::replace(&mut self.takes_part, takes) == takes {
            return;
        }
        self.is_cut_off = false;
        match takes {
            true => self.ownership.stay(),
            false => self.ownership.leave(),
        }
        tracing::info!(
            "the cluster's node {}",
            if takes {
                "takes slices again"
            } else {
                "hands over its slices"
            }
        );
    }

    /// Makes everything follow from what is known now.
    fn advance(&mut self, client: &Client) {
        let now = kernel_boottime();
        self.fence(now);
        // There may be 65 536 slices, of which nothing is new most of the time.
        let looks = std::mem::take(&mut self.has_news) || now >= self.round_due;
        if looks {
            self.look_at_all(now, client);
        }
        for write in self.tables.follow(&mut self.ownership, now, client, looks) {
            self.submit(client, write);
        }
        if self.server.is_some() {
            self.tables.publish(&self.ownership, now, client, looks);
        }
        if now >= self.view_due {
            self.view_due = now + VIEW;
            self.tell(now);
        }
    }

    /// Writes that are due, and where packets of each slice go.
    fn look_at_all(&mut self, now: Duration, client: &Client) {
        self.look_for_others();
        let may_join = !self.is_foreign || self.had_lease;
        if may_join && self.not_before.is_none_or(|then| now >= then) {
            for write in self.ownership.poll(now, random()) {
                self.submit(client, write);
            }
        }
        self.round_due = self.ownership.next_due(now).min(now + ROUND);
        self.steer();
    }

    fn submit(&mut self, client: &Client, write: Write) {
        let token = self.next_token;
        self.next_token += 1;
        let value = write.value.encode(self.cluster);
        match client.write(token, &write.key.name(), value, write.expected) {
            // Each write that is sent gets an answer: a failure, if its connection is lost before.
            Ok(()) => {
                self.writes.insert(token, write);
            }
            // Ownership writes it again when `Timing::answer_within` has passed.
            Err(why) => tracing::debug!("a write to the cluster's engine was not sent: {why}"),
        }
    }

    /// Lets tables and programs open bindings as long as the lease runs.
    fn fence(&mut self, now: Duration) {
        let ends = self.ownership.lease_ends();
        self.tables.open_until(ends.unwrap_or_default());
        let runs = ends.is_some_and(|ends| now < ends);
        if self.had_lease && !runs && self.takes_part {
            self.counts.lapses += 1;
            tracing::warn!(
                "the lease of this node has ended: it opens no bindings until the engine has renewed it; those that it has go on"
            );
        } else if !self.had_lease && runs {
            tracing::info!("this node has a lease of the cluster {}", self.name);
        }
        self.has_news |= self.had_lease != runs;
        self.has_been_member |= runs;
        self.absence.look(now, ends, self.timing.dead_after());
        self.had_lease = runs;
    }

    /// A node that lives, as the engine tells, and is not reached, is cut off, or this one is. If that is so of all others and
    /// there are several, it is this one: it hands over its slices, for which the engine is enough.
    fn look_for_others(&mut self) {
        let me = self.me;
        let others = self.nodes.iter().map(|node| NodeId(node.id));
        let alive: Vec<NodeId> = others
            .filter(|node| *node != me && self.ownership.is_alive(*node))
            .collect();
        let is_missed = |node: &NodeId| {
            let heard = self.ownership.last_heard(*node);
            let lost = self.steering.lost_since(*node);
            // It has renewed its lease since, so it is not dead.
            heard
                .zip(lost)
                .is_some_and(|(heard, lost)| heard >= lost + MISSED)
        };
        let is_cut_off = match self.is_cut_off {
            false => alive.len() >= 2 && alive.iter().all(is_missed),
            true => !alive.iter().any(|node| self.steering.is_reached(*node)),
        };
        if is_cut_off == self.is_cut_off || !self.takes_part {
            return;
        }
        self.is_cut_off = is_cut_off;
        if is_cut_off {
            let why = "no other node is reached, and they live: handing over the slices to them";
            tracing::warn!("{why}");
            self.trouble = Some(why.to_owned().into());
            self.ownership.leave();
        } else {
            tracing::info!("other nodes are reached again: taking slices");
            self.trouble = None;
            self.ownership.stay();
        }
    }

    /// Has packets of other nodes' slices forwarded to them, if they are reached.
    fn steer(&mut self) {
        for slice in 0..self.slices.len() as u32 {
            let owner = self.ownership.owner(slice);
            self.steering
                .give(slice, owner.filter(|owner| *owner != self.me));
        }
    }

    fn tell(&self, now: Duration) {
        self.shared.tell(self.view(now));
    }
}
