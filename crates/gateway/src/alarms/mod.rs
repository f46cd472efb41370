// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Raises alarms before a resource of a NAT64 is exhausted.
//!
//! tables, queues ─► resources, near ─► rule ─► log, status, metrics
//!
//! A thread checks the resources once a second; packet processing does no extra work.

mod near;
mod resources;

use std::io;
use std::sync::mpsc::{channel, RecvTimeoutError, Sender};
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::controller::Controller;
use diolkos_bindlog::Queue;
use diolkos_figures::figures::{Alarm, ResourceFigures, StateFigures};
use diolkos_service::ordered::{Guard, Ordered, Rank};
use diolkos_service::privilege;
use diolkos_service::supervise::Watch;

use diolkos_figures::rule::{Level, Line, Rule};
use near::{Near, Round};
use resources::{resources, Resource, Waiting};

/// Interval between two checks.
const PERIOD: Duration = Duration::from_secs(1);
/// Number of table parts that one check scans, and table slots per part: at most some milliseconds of work a second.
const PARTS: usize = 128;
const PLACES: usize = 64;
/// Pause between two parts, so that packets can pass.
const BREATH: Duration = Duration::from_micros(100);
/// The name of the alarm for prefixes that are near their share.
const SHARES: &str = "shares";

/// The queues of log collectors, by name.
pub type Queues = Vec<(String, Arc<Queue>)>;

/// The alarms that are raised, and the resources that are checked.
pub struct Alarms {
    inner: Ordered<Inner>,
    changed: Notify,
}

#[derive(Default)]
struct Inner {
    /// An alarm is raised at this percentage of a limit; 0 disables alarms.
    percent: u8,
    queues: Queues,
    rule: Rule,
    near: Near,
    raised: Vec<Alarm>,
}

impl Default for Alarms {
    fn default() -> Alarms {
        Alarms {
            inner: Ordered::new(Rank::Alarms, Inner::default()),
            changed: Notify::default(),
        }
    }
}

impl Alarms {
    /// Applies a configuration: `nat64.alarm_percent`, and the queues of collectors.
    pub fn follow(&self, percent: u8, queues: Queues) {
        let mut inner = self.lock();
        inner.queues = queues;
        if std::mem::replace(&mut inner.percent, percent) != percent {
            inner.rule = Rule::default();
            inner.near = Near::default();
            inner.raised.clear();
            self.changed.notify_one();
        }
    }

    /// Returns the alarms that are raised now.
    pub fn raised(&self) -> Vec<Alarm> {
        self.lock().raised.clone()
    }

    /// Waits until the set of raised alarms, or the use of a resource in it, changes.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Adds the use of each resource, and the raised alarms, to the figures of the tables.
    pub fn add_to(&self, state: &mut StateFigures) {
        let inner = self.lock();
        let of = |resource: Resource| ResourceFigures {
            is_raised: inner.rule.is_raised(&resource.name),
            name: resource.name,
            used: resource.used,
            limit: resource.limit,
        };
        let all = resources(state, &waiting(&inner.queues));
        state.resources = all.into_iter().map(of).collect();
        state.near_share = inner.near.counts;
    }

    /// Compares each resource with its limit, and reports what is new.
    fn look(&self, controller: &Controller, round: &mut Round) {
        let (percent, queues) = {
            let inner = self.lock();
            (inner.percent, inner.queues.clone())
        };
        if percent == 0 {
            return;
        }
        let found = resources(&controller.figures(), &waiting(&queues));
        let part = |first| {
            std::thread::sleep(BREATH);
            controller.holdings_from(first, PLACES)
        };
        let near = round.go_on(percent, PARTS, part);
        let mut inner = self.lock();
        // The configuration may have been reloaded in between.
        if inner.percent == percent {
            let raised = inner.compare(&found, near, Instant::now());
            if inner.raised != raised {
                inner.raised = raised;
                self.changed.notify_one();
            }
        }
    }

    fn lock(&self) -> Guard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Returns the alarms that are raised now. `near` is the result of a scan of the prefixes, if one is complete.
    fn compare(&mut self, found: &[Resource], near: Option<Near>, now: Instant) -> Vec<Alarm> {
        let percent = self.percent;
        for resource in found {
            let level = Level::of(resource.used, resource.limit, percent);
            match self.rule.look(&resource.name, level, now) {
                Some(Line::Raised) => tracing::warn!(
                    "alarm {}: {}: {}",
                    resource.name,
                    resource.level(),
                    resource.advice
                ),
                Some(Line::Over) => {
                    tracing::info!("alarm {} is over: {}", resource.name, resource.level());
                }
                None => {}
            }
        }
        if let Some(near) = near {
            let level = match near.all() {
                0 => Level::Low,
                _ => Level::High,
            };
            match self.rule.look(SHARES, level, now) {
                Some(Line::Raised) => {
                    tracing::warn!("alarm {SHARES}: {}: {SHARES_ADVICE}", near.summary(percent));
                }
                Some(Line::Over) => tracing::info!(
                    "alarm {SHARES} is over: no prefix has {percent} % of what it may have"
                ),
                None => {}
            }
            if near.all() > 0 || !self.rule.is_raised(SHARES) {
                self.near = near;
            }
        }
        let is_there = |name: &str| name == SHARES || found.iter().any(|r| r.name == name);
        self.rule.keep(is_there);
        self.raised(found)
    }

    fn raised(&self, found: &[Resource]) -> Vec<Alarm> {
        let of_resource = |resource: &Resource| {
            let percent = resource.percent();
            let before = self.raised.iter().find(|a| a.resource == resource.name);
            // Clients that watch the status are not notified of each session.
            if let Some(same) = before.filter(|alarm| alarm.percent == percent) {
                return same.clone();
            }
            Alarm {
                resource: resource.name.clone(),
                percent,
                text: format!("{}: {}", resource.level(), resource.advice),
            }
        };
        let is_raised = |r: &&Resource| self.rule.is_raised(&r.name);
        let mut raised: Vec<Alarm> = found.iter().filter(is_raised).map(of_resource).collect();
        if self.rule.is_raised(SHARES) {
            raised.push(Alarm {
                resource: SHARES.to_owned(),
                percent: self.near.highest(),
                text: format!("{}: {SHARES_ADVICE}", self.near.summary(self.percent)),
            });
        }
        raised
    }
}

const SHARES_ADVICE: &str =
    "at 100 %, their new sessions are dropped: `diolkos show top --by share` lists them; docs/nat64.md \
     (Shares) says which keys decide";

fn waiting(queues: &Queues) -> Vec<Waiting> {
    let of = |(name, queue): &(String, Arc<Queue>)| {
        (name.clone(), queue.waiting() as u64, queue.most() as u64)
    };
    queues.iter().map(of).collect()
}

/// The thread that checks the resources. It ends when this value is dropped.
pub struct AlarmThread {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl AlarmThread {
    /// Starts the thread.
    pub fn start(
        alarms: Arc<Alarms>,
        controller: Arc<Controller>,
        watch: &Watch,
    ) -> io::Result<AlarmThread> {
        let (stop, stopped) = channel();
        let beat = watch.beat("alarms");
        let work = move || {
            let mut round = Round::default();
            while stopped.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
                alarms.look(&controller, &mut round);
                beat.beat();
            }
            Ok(())
        };
        Ok(AlarmThread {
            stop: Some(stop),
            thread: Some(watch.thread_with(privilege::TABLES, "alarms", work)?),
        })
    }
}

impl Drop for AlarmThread {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sessions(used: u64) -> Vec<Resource> {
        let state = StateFigures {
            sessions: [used as u32, 0, 0],
            max_sessions: 1000,
            ..StateFigures::default()
        };
        resources(&state, &[])
    }

    #[test]
    fn an_alarm_tells_each_percent_and_not_each_session() {
        let mut inner = Inner {
            percent: 80,
            ..Inner::default()
        };
        let now = Instant::now();
        let mut at = |used| {
            let raised = inner.compare(&sessions(used), None, now);
            inner.raised.clone_from(&raised);
            raised
                .into_iter()
                .map(|alarm| alarm.text)
                .collect::<Vec<_>>()
        };
        assert_eq!(at(799), [""; 0]);
        let first = at(800);
        assert!(first[0].starts_with("800 of 1000 sessions are in use (80 %): "));
        assert_eq!(at(809), first);
        assert!(at(810)[0].starts_with("810 of 1000 sessions are in use (81 %): "));
        for _ in 1..diolkos_figures::rule::CALM_LOOKS {
            assert_eq!(at(10).len(), 1);
        }
        assert_eq!(at(10), [""; 0]);
    }

    #[test]
    fn another_percentage_begins_anew_and_0_has_no_alarms() {
        let alarms = Alarms::default();
        alarms.follow(50, Vec::new());
        let raised = alarms.lock().compare(&sessions(500), None, Instant::now());
        alarms.lock().raised = raised;
        assert_eq!(alarms.raised().len(), 1);
        let mut state = StateFigures {
            sessions: [500, 0, 0],
            max_sessions: 1000,
            ..StateFigures::default()
        };
        alarms.add_to(&mut state);
        assert_eq!(
            (state.resources[0].used, state.resources[0].is_raised),
            (500, true)
        );
        alarms.follow(50, Vec::new());
        assert_eq!(alarms.raised().len(), 1);
        alarms.follow(0, Vec::new());
        alarms.add_to(&mut state);
        assert!(alarms.raised().is_empty() && !state.resources[0].is_raised);
    }
}
