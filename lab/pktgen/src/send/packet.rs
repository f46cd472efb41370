// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A packet socket, for interfaces and kernels without live frames, with the same schedule in user space.
//!
//! due? ─► write a burst ─► send it ─► repeat

use std::time::Duration;

use crate::kernel::{Plan, BUCKETS};
use diolkos_sys::frames::FrameSocket;
use diolkos_sys::{clock, task};

use super::{Done, Job, Path, Stop};
use crate::failure::Failure;
use crate::flow::flow_at;
use crate::frame;
use crate::histogram::bucket_of;
use crate::signature::Signature;

/// Linux errno(3): no room for another frame.
const ENOBUFS: i32 = 105;
/// The thread sleeps only if the next burst is due later than this. Below, it polls the clock, which is exact but keeps the CPU
/// busy.
const FAR: Duration = Duration::from_micros(400);
/// The thread wakes this much before the burst.
const AWAKE_BEFORE: Duration = Duration::from_micros(200);
/// The thread also wakes at this interval, to check whether it should end.
const NAP: Duration = Duration::from_millis(20);

pub(super) fn send(job: &Job<'_>, stop: &Stop, because: Option<String>) -> Result<Done, Failure> {
    let plan = &job.plan;
    let failed = |e| Failure::refused("send frames by a packet socket", &e);
    let socket = FrameSocket::open(plan.ifindex).map_err(failed)?;
    job.settle_down()?;
    let length = frame::length(plan);
    let burst = plan.burst as usize;
    let mut frames = vec![0; length * burst.min(FrameSocket::AT_ONCE)];
    let mut done = Done {
        path: Path::Packet,
        because,
        written: 0,
        accepted: 0,
        bursts: 0,
        begun_ns: 0,
        burst_ns: 0,
        gaps: vec![0; BUCKETS],
        late: vec![0; BUCKETS],
    };
    let mut schedule = Schedule::new(plan);
    let mut flow = 0;
    loop {
        let is_over = |now| {
            let begun = done.bursts > 0 && plan.duration_ns > 0;
            stop.is_asked()
                || done.written >= plan.count
                || begun && now - done.begun_ns >= plan.duration_ns
        };
        let Some(now) = schedule.wait(is_over) else {
            return Ok(done);
        };
        schedule.note(now, &mut done);
        let mut left = (plan.count - done.written).min(burst as u64) as usize;
        while left > 0 {
            let part = left.min(FrameSocket::AT_ONCE);
            for frame in frames.chunks_exact_mut(length).take(part) {
                let signature = Signature {
                    stream: plan.stream as u8,
                    seq: done.written,
                    stamp_ns: nanoseconds(clock::monotonic()),
                };
                frame::write(plan, signature, flow_at(plan, flow), frame);
                done.written += 1;
                flow = if flow + 1 < plan.flows { flow + 1 } else { 0 };
            }
            done.accepted += give(&socket, &frames[..part * length], length).map_err(failed)?;
            left -= part;
        }
    }
}

/// Offers each frame to the interface once; returns how many it accepted.
fn give(socket: &FrameSocket, mut frames: &[u8], length: usize) -> std::io::Result<u64> {
    let mut accepted = 0;
    while !frames.is_empty() {
        let taken = match socket.send(frames, length) {
            Ok(taken) => {
                accepted += taken as u64;
                taken
            }
            // There was no room for the first frame, which is lost.
            Err(e) if e.raw_os_error() == Some(ENOBUFS) => 1,
            Err(e) => return Err(e),
        };
        frames = &frames[taken.max(1) * length..];
    }
    Ok(accepted)
}

/// The schedule of bursts: open-loop, as in `begin_burst` of `bpf/pktgen_send.bpf.c`.
struct Schedule<'plan> {
    plan: &'plan Plan,
    due_ns: u64,
    due_rest: u64,
}

impl Schedule<'_> {
    fn new(plan: &Plan) -> Schedule<'_> {
        Schedule {
            plan,
            due_ns: plan.begin_ns,
            due_rest: 0,
        }
    }

    fn is_paced(&self) -> bool {
        self.plan.interval_ns > 0 || self.plan.interval_rest > 0
    }

    /// Waits for the next burst and returns its start time; `None` if there is none.
    fn wait(&self, is_over: impl Fn(u64) -> bool) -> Option<u64> {
        loop {
            let now = clock::monotonic();
            if is_over(nanoseconds(now)) {
                return None;
            }
            let due = Duration::from_nanos(self.due_ns);
            if now >= due {
                return Some(nanoseconds(now));
            }
            if due > now + FAR {
                task::sleep_until((now + NAP).min(due - AWAKE_BEFORE));
            }
        }
    }

    /// Records the start of a burst.
    fn note(&mut self, now: u64, done: &mut Done) {
        if done.bursts > 0 {
            done.gaps[bucket_of(now - done.burst_ns)] += 1;
        } else {
            done.begun_ns = now;
            // The first burst is never late: the schedule starts with it.
            self.due_ns = now;
        }
        if self.is_paced() {
            done.late[bucket_of(now - self.due_ns)] += 1;
            self.due_ns += self.plan.interval_ns;
            self.due_rest += self.plan.interval_rest;
            if self.due_rest >= self.plan.interval_parts {
                self.due_rest -= self.plan.interval_parts;
                self.due_ns += 1;
            }
        }
        done.bursts += 1;
        done.burst_ns = now;
    }
}

fn nanoseconds(time: Duration) -> u64 {
    time.as_nanos() as u64
}
