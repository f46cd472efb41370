// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The witness: load → a timer on each CPU (perf event) → what did it see?

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use libbpf_sys as bpf;

use super::{Looks, Stall, Vigil};
use crate::fastpath::isthmus::AsMap;
use crate::fastpath::load::{failed, listen, no_data};
use crate::fastpath::FastPathError;
use crate::skel::pktgen_witness::PktgenWitnessSkelBuilder;

/// `PERF_FLAG_FD_CLOEXEC`.
const CLOSE_ON_EXEC: libc::c_ulong = 8;

/// A timer on each of some CPUs; dropped, they are off.
#[derive(Debug)]
pub struct Witness {
    timers: Vec<Timer>,
    looks: MapHandle,
    stalls: MapHandle,
}

#[derive(Debug)]
struct Timer {
    cpu: usize,
    _link: OwnedFd,
    _event: OwnedFd,
}

impl Witness {
    /// Loads the program and starts the timers.
    pub fn begin(vigil: &Vigil, cpus: &[usize]) -> Result<Witness, FastPathError> {
        listen();
        let mut storage = MaybeUninit::uninit();
        let mut open = PktgenWitnessSkelBuilder::default()
            .open(&mut storage)
            .map_err(|e| failed("open", &e))?;
        let data = open.maps.rodata_data.as_deref_mut().ok_or_else(no_data)?;
        data.vigil = *vigil;
        let loaded = open.load().map_err(|e| failed("load", &e))?;
        let program = loaded.progs.pktgen_witness.as_fd();
        let timers = cpus
            .iter()
            .map(|&cpu| timer(program, cpu, vigil.period_ns))
            .collect::<io::Result<_>>();
        Ok(Witness {
            timers: timers.map_err(|source| FastPathError::Attach {
                program: "pktgen_witness",
                source,
            })?,
            looks: loaded.maps.looks.handle()?,
            stalls: loaded.maps.stalls.handle()?,
        })
    }

    /// How often each CPU's timer has looked at the clock, and from when to when.
    pub fn looks(&self) -> io::Result<Vec<(usize, Looks)>> {
        let per_cpu = self
            .looks
            .lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY)
            .map_err(io::Error::other)?
            .unwrap_or_default();
        self.timers
            .iter()
            .map(|timer| {
                let bytes = per_cpu.get(timer.cpu).map_or(&[][..], Vec::as_slice);
                let [first_ns, last_ns, count] = numbers(bytes)?;
                Ok((
                    timer.cpu,
                    Looks {
                        first_ns,
                        last_ns,
                        count,
                    },
                ))
            })
            .collect()
    }

    /// The stalls that nobody has asked for before, in the order in which they ended.
    pub fn stalls(&self) -> io::Result<Vec<Stall>> {
        let mut found = Vec::new();
        while let Some(bytes) = self
            .stalls
            .lookup_and_delete(&[])
            .map_err(io::Error::other)?
        {
            let [until_ns, stood_still_ns, cpu] = numbers(&bytes)?;
            found.push(Stall {
                until_ns,
                stood_still_ns,
                cpu,
            });
        }
        Ok(found)
    }
}

/// The fields of a struct of 64-bit numbers.
fn numbers<const N: usize>(bytes: &[u8]) -> io::Result<[u64; N]> {
    let mut found = [0; N];
    if bytes.len() < size_of_val(&found) {
        return Err(io::Error::other("a record of the witness is cut off"));
    }
    for (number, bytes) in found.iter_mut().zip(bytes.chunks_exact(8)) {
        *number = bytes.try_into().map_or(0, u64::from_ne_bytes);
    }
    Ok(found)
}

fn timer(program: BorrowedFd<'_>, cpu: usize, period_ns: u64) -> io::Result<Timer> {
    let attributes = bpf::perf_event_attr {
        type_: bpf::PERF_TYPE_SOFTWARE,
        size: size_of::<bpf::perf_event_attr>() as u32,
        config: u64::from(bpf::PERF_COUNT_SW_CPU_CLOCK),
        __bindgen_anon_1: bpf::perf_event_attr__bindgen_ty_1 {
            sample_period: period_ns,
        },
        ..Default::default()
    };
    // SAFETY: the attributes are valid for their size; every process on one CPU, no group.
    let event = owned(unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            -1,
            cpu as libc::c_int,
            -1,
            CLOSE_ON_EXEC,
        )
    })?;
    // SAFETY: both descriptors are open; there are no options.
    let link = unsafe {
        bpf::bpf_link_create(
            program.as_raw_fd(),
            event.as_raw_fd(),
            bpf::BPF_PERF_EVENT,
            std::ptr::null(),
        )
    };
    if link < 0 {
        return Err(io::Error::from_raw_os_error(-link));
    }
    Ok(Timer {
        cpu,
        // SAFETY: the new descriptor is ours alone.
        _link: unsafe { OwnedFd::from_raw_fd(link) },
        _event: event,
    })
}

fn owned(fd: libc::c_long) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the new descriptor is ours alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) })
}
