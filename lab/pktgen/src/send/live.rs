// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Live frames: load the program → let the kernel run it, in one call if possible → read the counts.
//!
//! The kernel needs about 30 ms to start and to end a call, so the program does not sleep between bursts: it polls the clock,
//! and the kernel lets other tasks run between two batches. The call ends when the program has run the requested number of
//! times. That number also counts the runs in which nothing was due, so it cannot be known in advance: another thread checks
//! whether all frames are sent, and then ends the call by a signal.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::kernel::{Generator, Plan, State, FILLER};
use diolkos_fastpath::FastPathError;
use diolkos_sys::clock;
use diolkos_sys::task::Interruptible;

use super::{Done, Job, NotLive, Path, Stop};
use crate::failure::Failure;

/// Interval between checks whether all frames are sent.
const LOOK: Duration = Duration::from_millis(5);
/// A frame written this long ago has reached the interface.
const UNDER_WAY: Duration = Duration::from_millis(1);
const EINVAL: i32 = 22;

pub(super) fn send(job: &Job<'_>, stop: &Stop) -> Result<Done, NotLive> {
    let plan = &job.plan;
    if plan.filler_len as usize > FILLER {
        return Err(NotLive::Unable(
            "a live frame has to fit a page of memory".into(),
        ));
    }
    let filler = vec![0; plan.filler_len as usize];
    let generator = Generator::load(plan, &filler, job.memory)
        .map_err(|e: FastPathError| NotLive::Unable(e.to_string()))?;
    let failed = |e| NotLive::Failed(Failure::refused("send frames", &e));
    stop.add(generator.stopper().map_err(failed)?)
        .map_err(NotLive::Failed)?;

    let this_thread = Interruptible::this_thread().map_err(failed)?;
    let is_left = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| watch(&generator, plan, &is_left, this_thread));
        let sent = job
            .settle_down()
            .map_err(NotLive::Failed)
            .and_then(|()| run(&generator, plan));
        is_left.store(true, Ordering::Relaxed);
        sent
    })?;

    let state = generator.state().map_err(failed)?;
    let [gaps, late] = generator.histograms().map_err(failed)?;
    Ok(Done {
        path: Path::Live,
        because: None,
        written: state.seq,
        accepted: state.accepted,
        bursts: state.bursts,
        begun_ns: state.begun_ns,
        burst_ns: state.burst_ns,
        gaps,
        late,
    })
}

fn run(generator: &Generator, plan: &Plan) -> Result<(), NotLive> {
    let failed = |e| NotLive::Failed(Failure::refused("send frames", &e));
    loop {
        let state = generator.state().map_err(failed)?;
        if is_refused(plan, &state) {
            return Err(NotLive::Unable(
                "the interface takes no XDP frames (the peer of a veth needs GRO or an XDP program for that, and has to \
                 be up)"
                    .into(),
            ));
        }
        if is_over(plan, &state) {
            return Ok(());
        }
        generator.run().map_err(|e| match e.raw_os_error() {
            Some(EINVAL) => NotLive::Unable("live frames need Linux 5.18 or later".into()),
            _ => failed(e),
        })?;
    }
}

/// Interrupts the call when there is nothing more to wait for.
fn watch(generator: &Generator, plan: &Plan, is_left: &AtomicBool, sender: Interruptible) {
    while !is_left.load(Ordering::Relaxed) {
        thread::sleep(LOOK);
        // The sender meets the same error after the call.
        let is_over = generator
            .state()
            .map_or(true, |s| is_over(plan, &s) || is_refused(plan, &s));
        if is_over {
            let _ = sender.interrupt();
        }
    }
}

fn is_over(plan: &Plan, state: &State) -> bool {
    state.done != 0 || state.seq >= plan.count
}

/// Returns true if the interface neither accepted nor dropped any of the written frames: it does not support them.
fn is_refused(plan: &Plan, state: &State) -> bool {
    let written = Duration::from_nanos(state.latest_ns);
    let waited = clock::monotonic().saturating_sub(written) > UNDER_WAY;
    let many = state.seq > 2 * u64::from(plan.batch);
    state.seq > 0 && (waited || many) && state.accepted + state.dropped == 0
}
