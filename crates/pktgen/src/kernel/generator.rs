// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The generator: load with a plan → run batches of live frames, again and again → how far is it?

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

/// A loaded program that writes frames. It belongs to the thread that loaded it.
#[derive(Debug)]
pub struct Generator {
    program: OwnedFd,
    state: MapHandle,
    stop: MapHandle,
    sent: MapHandle,
    frame: Vec<u8>,
    batch: u32,
    /// What counts the frames that the interface takes; off when dropped.
    _accepted: Link,
}

/// Ends a generator from another thread.
#[derive(Debug)]
pub struct Stopper(MapHandle);

impl Generator {
    /// Loads the program. `plan.thread` and `plan.recalls` are filled in here; `filler` is as long as the plan says. With a
    /// `memory` the 4-tuples are those that it holds.
    pub fn load(
        plan: &Plan,
        filler: &[u8],
        memory: Option<&Memory>,
    ) -> Result<Generator, FastPathError> {
        listen();
        let mut storage = MaybeUninit::uninit();
        let mut open = PktgenSendSkelBuilder::default()
            .open(&mut storage)
            .map_err(|e| failed("open", &e))?;
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
            shared.map_err(|e| failed("share a map", &e))?;
        }
        let loaded = open.load().map_err(|e| failed("load", &e))?;
        let accepted = loaded
            .progs
            .pktgen_accepted
            .attach_trace()
            .map_err(|e| failed("attach", &e))?;
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

    /// Lets the program have as many batches of frames as one call can give it, 2^32 frames; returns early if a signal
    /// arrives. To begin and to end takes the kernel some 30 ms, so that one call should do.
    ///
    /// # Errors
    /// EINVAL on kernels before 5.18, which do not know live frames, and for frames that do not fit a page.
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

    /// How far the generator is.
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

    /// Gaps between bursts, and how late bursts were: counts of the buckets.
    pub fn histograms(&self) -> io::Result<[Vec<u64>; 2]> {
        let mut gaps = read_array(&self.sent, 2 * BUCKETS)?;
        let late = gaps.split_off(BUCKETS);
        Ok([gaps, late])
    }

    /// What the program does with one frame, which then goes nowhere.
    #[cfg(feature = "testrun")]
    pub fn write_one(&self) -> io::Result<(super::testrun::Action, Vec<u8>)> {
        // As whoever had it before left it.
        super::testrun::run(self.program.as_fd(), &vec![0xa5; self.frame.len()])
    }

    /// For another thread.
    pub fn stopper(&self) -> io::Result<Stopper> {
        MapHandle::try_from(&self.stop)
            .map(Stopper)
            .map_err(io::Error::other)
    }
}

impl Stopper {
    /// No further burst begins.
    pub fn stop(&self) -> io::Result<()> {
        self.0
            .update(&0u32.to_ne_bytes(), &1u32.to_ne_bytes(), MapFlags::ANY)
            .map_err(io::Error::other)
    }
}
