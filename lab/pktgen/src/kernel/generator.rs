// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The generator: load with a plan → run batches of live frames → read the progress.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle};
use libbpf_sys as bpf;

use super::skel::pktgen_send::PktgenSendSkelBuilder;
use super::{numbers, read_array, Memory, Plan, State, BUCKETS, SIGNATURE, SPARE};
use diolkos_fastpath::load::AsMap;
use diolkos_fastpath::load::{failed, keep, listen, no_data};
use diolkos_fastpath::FastPathError;
use diolkos_sys::bpf::TestRun;

/// A loaded program that writes frames. It must stay on the thread that loaded it.
#[derive(Debug)]
pub struct Generator {
    program: OwnedFd,
    state: MapHandle,
    stop: MapHandle,
    sent: MapHandle,
    frame: Vec<u8>,
    batch: u32,
    /// Counts the frames that the interface accepts. Dropping it detaches the program.
    _accepted: Link,
}

/// Stops a generator from another thread.
#[derive(Debug)]
pub struct Stopper(MapHandle);

impl Generator {
    /// Loads the program. It fills in `plan.thread` and `plan.recalls`; `filler` must have the plan's length. With a `memory`,
    /// the generator uses the 4-tuples in it.
    pub fn load(
        plan: &Plan,
        filler: &[u8],
        memory: Option<&Memory>,
    ) -> Result<Generator, FastPathError> {
        listen();
        let mut storage = MaybeUninit::uninit();
        let mut open = PktgenSendSkelBuilder::default()
            .open(&mut storage)
            .map_err(|e| failed("open", e))?;
        let data = open.maps.rodata_data.as_deref_mut().ok_or_else(no_data)?;
        data.plan = Plan {
            thread: diolkos_sys::task::id(),
            recalls: memory.is_some().into(),
            ..*plan
        };
        for (slot, byte) in data.filler.iter_mut().zip(filler) {
            *slot = *byte;
        }
        if let Some(Memory(map)) = memory {
            let shared = open.maps.memory.reuse_fd(map.as_fd());
            shared.map_err(|e| failed("share a map", e))?;
        }
        let loaded = open.load().map_err(|e| failed("load", e))?;
        let accepted = loaded
            .progs
            .pktgen_accepted
            .attach_trace()
            .map_err(|e| failed("attach", e))?;
        let length = plan.head_len as usize + SIGNATURE + plan.filler_len as usize;
        Ok(Generator {
            program: keep(loaded.progs.pktgen_send.as_fd())?,
            state: loaded.maps.bss.handle()?,
            stop: loaded.maps.stop.handle()?,
            sent: loaded.maps.sent.handle()?,
            frame: vec![0; SPARE + length],
            batch: plan.batch,
            _accepted: accepted,
        })
    }

    /// Runs the program for as many batches as one call allows, 2^32 frames; returns early if a signal arrives. The kernel
    /// needs about 30 ms to start and to end a call, so one call should be enough.
    ///
    /// # Errors
    /// EINVAL on kernels before 5.18, which do not support live frames, and for frames that do not fit into a page.
    pub fn run(&self) -> io::Result<()> {
        let repeat = u32::MAX - u32::MAX % self.batch;
        let call = TestRun {
            data_in: &self.frame,
            repeat,
            flags: bpf::BPF_F_TEST_XDP_LIVE_FRAMES,
            batch_size: self.batch,
            ..Default::default()
        };
        match call.run(self.program.as_fd()) {
            Err(error) if error.raw_os_error() != Some(libc::EINTR) => Err(error),
            _ => Ok(()),
        }
    }

    /// The progress of the generator.
    pub fn state(&self) -> io::Result<State> {
        let bytes = self
            .state
            .lookup(&0u32.to_ne_bytes(), MapFlags::ANY)
            .map_err(io::Error::other)?
            .unwrap_or_default();
        let [seq, flow, bursts, begun_ns, latest_ns, burst_ns, due_ns, due_rest, left, skip, done, accepted, dropped] =
            numbers(&bytes)?;
        Ok(State {
            seq,
            flow,
            bursts,
            begun_ns,
            latest_ns,
            burst_ns,
            due_ns,
            due_rest,
            left,
            skip,
            done,
            accepted,
            dropped,
        })
    }

    /// The bucket counts of two histograms: the gaps between bursts, and the lateness of bursts.
    pub fn histograms(&self) -> io::Result<[Vec<u64>; 2]> {
        let mut gaps = read_array(&self.sent, 2 * BUCKETS)?;
        let late = gaps.split_off(BUCKETS);
        Ok([gaps, late])
    }

    /// The result of the program for one frame, which is not sent.
    #[cfg(feature = "testrun")]
    pub fn write_one(&self) -> io::Result<(super::testrun::Action, Vec<u8>)> {
        // The frame begins with arbitrary contents, as a recycled page has.
        super::testrun::run(self.program.as_fd(), &vec![0xa5; self.frame.len()])
    }

    /// A handle to stop the generator from another thread.
    pub fn stopper(&self) -> io::Result<Stopper> {
        MapHandle::try_from(&self.stop)
            .map(Stopper)
            .map_err(io::Error::other)
    }
}

impl Stopper {
    /// Prevents further bursts.
    pub fn stop(&self) -> io::Result<()> {
        self.0
            .update(&0u32.to_ne_bytes(), &1u32.to_ne_bytes(), MapFlags::ANY)
            .map_err(io::Error::other)
    }
}
