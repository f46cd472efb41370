// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The witness: a timer on each CPU (perf event) → a program that sees all timers → read its records.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{num_possible_cpus, Link, MapCore, MapFlags, MapHandle};

use super::skel::pktgen_witness::PktgenWitnessSkelBuilder;
use super::{numbers, Looks, Stall, Vigil};
use diolkos_fastpath::load::AsMap;
use diolkos_fastpath::load::{failed, listen, no_data};
use diolkos_fastpath::FastPathError;
use diolkos_sys::timer;

/// The tracepoint at which the program is attached.
const ALL_TIMERS: &str = "hrtimer_expire_entry";

/// A timer on each of some CPUs. Dropping it stops the timers.
#[derive(Debug)]
pub struct Witness {
    cpus: Vec<usize>,
    _timers: Vec<OwnedFd>,
    _link: Link,
    looks: MapHandle,
    stalls: MapHandle,
}

impl Witness {
    /// Starts the timers first and then the program, so the program never waits for a timer.
    pub fn begin(vigil: &Vigil, cpus: &[usize]) -> Result<Witness, FastPathError> {
        listen();
        let mut storage = MaybeUninit::uninit();
        let mut open = PktgenWitnessSkelBuilder::default()
            .open(&mut storage)
            .map_err(|e| failed("open", e))?;
        let data = open.maps.rodata_data.as_deref_mut().ok_or_else(no_data)?;
        data.vigil = *vigil;
        let loaded = open.load().map_err(|e| failed("load", e))?;
        let looks = loaded.maps.looks.handle()?;
        want(&looks, cpus).map_err(|e| failed("load", e))?;
        let attach = |source| FastPathError::Attach {
            program: "pktgen_witness",
            source,
        };
        let timers = cpus.iter().map(|&cpu| timer::on_cpu(cpu, vigil.period_ns));
        let timers = timers.collect::<io::Result<_>>().map_err(attach)?;
        let program = &loaded.progs.pktgen_witness;
        let link = program.attach_raw_tracepoint(ALL_TIMERS);
        Ok(Witness {
            cpus: cpus.to_vec(),
            _timers: timers,
            _link: link.map_err(|e| attach(io::Error::other(e)))?,
            looks,
            stalls: loaded.maps.stalls.handle()?,
        })
    }

    /// For each CPU, how often its timer has read the clock, and the times of the first and the last reading.
    pub fn looks(&self) -> io::Result<Vec<(usize, Looks)>> {
        let per_cpu = self
            .looks
            .lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY)
            .map_err(io::Error::other)?
            .unwrap_or_default();
        self.cpus
            .iter()
            .map(|&cpu| {
                let bytes = per_cpu.get(cpu).map_or(&[][..], Vec::as_slice);
                let [are_wanted, first_ns, last_ns, count] = numbers(bytes)?;
                Ok((
                    cpu,
                    Looks {
                        are_wanted,
                        first_ns,
                        last_ns,
                        count,
                    },
                ))
            })
            .collect()
    }

    /// The stalls since the last call, in the order in which they ended.
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

/// Tells the program which CPUs to watch.
fn want(looks: &MapHandle, cpus: &[usize]) -> libbpf_rs::Result<()> {
    let of = |cpu: usize| {
        let mut fields = [0; size_of::<Looks>()];
        fields[..8].copy_from_slice(&u64::from(cpus.contains(&cpu)).to_ne_bytes());
        fields.to_vec()
    };
    let values: Vec<_> = (0..num_possible_cpus()?).map(of).collect();
    looks.update_percpu(&0u32.to_ne_bytes(), &values, MapFlags::ANY)
}
