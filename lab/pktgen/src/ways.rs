// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Paths through a network with both ends in this program, so that losses are known exactly.
//!
//! end (namespace, interface, sink) ─► way ─► next hop ─► generators, all at once ─► wait for the last frame ─► report

use std::thread;
use std::time::{Duration, Instant};

use crate::kernel::{Memory, Sink};
use diolkos_sys::task::Signals;
use serde::Serialize;

use crate::cli::{Addresses, Amount, Looks, Place};
use crate::failure::Failure;
use crate::net::{self, Interface};
use crate::report::Received;
use crate::send::{Job, Sent, Stop};
use crate::sink::{self, Watching};
use crate::trial::Trial;

/// Time from the plan to the first frame of a single direction; the program is loaded by then.
pub const RUN_UP: Duration = Duration::from_millis(50);
/// This time with several directions: all generators are ready by then, so they start together.
const RUN_UP_TOGETHER: Duration = Duration::from_millis(300);
/// Interval between checks.
const LOOK: Duration = Duration::from_millis(20);

/// One end of the network.
#[derive(Debug)]
pub struct End<'a> {
    /// The place of the end.
    pub place: &'a Place,
    /// The interface at this place.
    pub interface: Interface,
    /// The sink that counts there, if there is one.
    pub sink: Option<Sink>,
}

/// One path through the network.
#[derive(Debug)]
pub struct Way<'a> {
    /// `forth` or `back`.
    pub name: &'static str,
    /// The stream in the signature, by which the sink distinguishes the ways.
    pub stream: u8,
    /// The sending end.
    pub from: &'a End<'a>,
    /// The sink that counts the frames.
    pub sink: &'a Sink,
    /// Source and destination.
    pub addresses: (Addresses, Addresses),
    /// The properties of frames.
    pub looks: Looks,
    /// The number, schedule and path of frames.
    pub amount: &'a Amount,
    /// The CPU to send from.
    pub cpu: Option<usize>,
    /// The remembered 4-tuples to use instead of generated ones.
    pub memory: Option<Memory>,
}

/// The parameters that all ways share.
#[derive(Clone, Copy, Debug)]
pub struct Common {
    /// The key of the signature.
    pub key: u64,
    /// The report contains all buckets of the distributions.
    pub whole: bool,
    /// How long to wait for the next frame after the last one was sent.
    pub patience: Duration,
}

/// The report on one direction.
#[derive(Debug, Serialize)]
pub struct Direction {
    direction: &'static str,
    sent: Sent,
    received: Received,
    sink: &'static str,
    /// Frames of another stream, which should not arrive here.
    astray: u64,
    foreign: u64,
    corrupted_unattributed: u64,
}

impl Direction {
    /// Returns true if the trial matched the request.
    pub fn kept_up(&self) -> bool {
        self.sent.kept_up()
    }

    /// The start times of the first and the last burst, CLOCK_MONOTONIC, ns.
    pub fn sending_ns(&self) -> (u64, u64) {
        self.sent.sending_ns()
    }

    /// The number of undamaged frames that arrived.
    pub fn received(&self) -> u64 {
        self.received.received()
    }
}

/// Prepares an end in its network namespace; with a sink if `watching` is given.
pub fn open<'a>(place: &'a Place, watching: Option<&Watching>) -> Result<End<'a>, Failure> {
    inside(place, || {
        let interface = net::interface(&place.interface)?;
        let sink = watching
            .map(|watching| sink::open(interface.index, watching))
            .transpose()?;
        Ok(End {
            place,
            interface,
            sink,
        })
    })
}

/// Sends on all ways at once, and returns a report for each.
pub fn run(ways: &[Way<'_>], common: Common, signals: &Signals) -> Result<Vec<Direction>, Failure> {
    let hops = ways
        .iter()
        .map(|way| {
            inside(way.from.place, || {
                net::next_hop(&way.from.interface, way.addresses.1 .0.first)
            })
        })
        .collect::<Result<Vec<_>, Failure>>()?;
    let before = ways
        .iter()
        .map(|way| counts(way.sink))
        .collect::<Result<Vec<_>, Failure>>()?;
    let run_up = match ways {
        [_] => RUN_UP,
        _ => RUN_UP_TOGETHER,
    };
    let jobs = ways
        .iter()
        .zip(hops)
        .map(|(way, hop)| {
            let trial = Trial {
                interface: &way.from.interface,
                macs: (way.from.interface.mac, hop),
                addresses: way.addresses,
                looks: &way.looks,
                amount: way.amount,
                stream: way.stream,
                key: common.key,
                cpu: way.cpu,
                memory: way.memory.as_ref(),
                whole: common.whole,
            };
            trial.job(run_up)
        })
        .collect::<Result<Vec<Job<'_>>, Failure>>()?;

    let sent = send_all(ways, &jobs, signals)?;
    settle(ways, &sent, common.patience, signals)?;
    report(ways, sent, &before, common.whole)
}

/// Runs a function in a place's network namespace, in a thread that ends with it.
fn inside<T: Send>(
    place: &Place,
    what: impl FnOnce() -> Result<T, Failure> + Send,
) -> Result<T, Failure> {
    let there = || {
        if let Some(netns) = &place.netns {
            net::enter(netns)?;
        }
        what()
    };
    thread::scope(|scope| joined(scope.spawn(there)))
}

fn joined<T>(thread: thread::ScopedJoinHandle<'_, Result<T, Failure>>) -> Result<T, Failure> {
    thread
        .join()
        .unwrap_or_else(|_| Err(Failure::run_time("a thread of the program broke down")))
}

fn send_all(ways: &[Way<'_>], jobs: &[Job<'_>], signals: &Signals) -> Result<Vec<Sent>, Failure> {
    let stop = Stop::default();
    thread::scope(|scope| {
        let stop = &stop;
        let threads: Vec<_> = ways
            .iter()
            .zip(jobs)
            .map(|(way, job)| {
                let place = way.from.place;
                scope.spawn(move || {
                    if let Some(netns) = &place.netns {
                        net::enter(netns)?;
                    }
                    let sent = job.run(stop);
                    // If one direction fails, the other one alone would be another measurement.
                    if sent.is_err() {
                        stop.ask()?;
                    }
                    sent
                })
            })
            .collect();
        while !threads.iter().all(|thread| thread.is_finished()) {
            if signals.wait(LOOK) {
                stop.ask()?;
            }
        }
        threads.into_iter().map(joined).collect()
    })
}

/// Waits until all frames have arrived, or none has arrived for `patience`.
fn settle(
    ways: &[Way<'_>],
    sent: &[Sent],
    patience: Duration,
    signals: &Signals,
) -> Result<(), Failure> {
    let wanted: u64 = sent.iter().map(Sent::sent).sum();
    let (mut last, mut changed) = (0, Instant::now());
    loop {
        let mut received = 0;
        for way in ways {
            received += counts(way.sink)?[usize::from(way.stream)];
        }
        if received != last {
            (last, changed) = (received, Instant::now());
        }
        if received >= wanted || changed.elapsed() >= patience || signals.wait(LOOK) {
            return Ok(());
        }
    }
}

/// The number of received frames of each stream; the last entry counts frames that belong to none.
fn counts(sink: &Sink) -> Result<Vec<u64>, Failure> {
    let tallies = sink
        .tallies()
        .map_err(|e| Failure::refused("read the counts", &e))?;
    Ok(tallies.iter().map(|tally| tally.received).collect())
}

/// Makes the reports. `before` contains the counts of the sinks before the first frame.
fn report(
    ways: &[Way<'_>],
    sent: Vec<Sent>,
    before: &[Vec<u64>],
    whole: bool,
) -> Result<Vec<Direction>, Failure> {
    ways.iter()
        .zip(sent)
        .zip(before)
        .map(|((way, sent), before)| {
            let (streams, rest) = sink::read(way.sink)?;
            let mut astray = 0;
            let mut received = None;
            for ((number, stream), before) in (0..).zip(&streams).zip(before) {
                if number == u32::from(way.stream) {
                    received = Some(Received::new(number, stream, Some(sent.sent()), whole));
                } else {
                    astray += stream.tally.received.saturating_sub(*before);
                }
            }
            Ok(Direction {
                direction: way.name,
                sent,
                received: received
                    .ok_or_else(|| Failure::run_time("the sink does not know its stream"))?,
                sink: sink::place(way.sink),
                astray,
                foreign: rest.foreign,
                corrupted_unattributed: rest.corrupted,
            })
        })
        .collect()
}
