// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The program that answers neighbours (`bpf/answer.bpf.c`), in front of the translation at Ethernet interfaces, and
//! the addresses that it answers for.
//!
//! Order of use: load, announce an interface, attach there, serve addresses.

use std::io;
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{MapCore, MapFlags, MapHandle};

use super::load::{failed, keep, listen, AsMap};
use super::{handle, hook, qdisc, Attach, FastPathError, Hook, Pins, Side, ANSWER_NAMES};
use crate::skel::answer::{AnswerSkel, AnswerSkelBuilder};

/// Bits of the interface index before the address in a key; see `struct diolkos_served4` in `bpf/served.h`.
const IFINDEX_BITS: u32 = 32;
/// `DIOLKOS_SERVED` and `DIOLKOS_SERVED_ECHO`.
const SERVED: u32 = 1;
const SERVED_ECHO: u32 = 2;

/// An IPv4 network and its prefix length in bits; the remaining bits are zero.
pub type Served4 = (Ipv4Addr, u8);
/// An IPv6 network and its prefix length in bits; the remaining bits are zero.
pub type Served6 = (Ipv6Addr, u8);

/// The addresses for which the program answers. Every method takes effect with the next packet.
#[derive(Debug)]
pub struct Served {
    served4: MapHandle,
    served6: MapHandle,
    announcers: MapHandle,
    answers: MapHandle,
}

/// The loaded program at its hooks. It is detached on drop.
#[derive(Debug)]
pub struct AnswerPath {
    program: OwnedFd,
    hooks: Vec<Hook>,
    served: Arc<Served>,
}

/// Returns program and maps, not attached.
pub(super) fn load() -> Result<(OwnedFd, Served), FastPathError> {
    listen();
    let mut storage = MaybeUninit::uninit();
    let open = AnswerSkelBuilder::default()
        .open(&mut storage)
        .map_err(|e| failed("open", e))?;
    let loaded: AnswerSkel<'_> = open.load().map_err(|e| failed("load", e))?;
    let maps = &loaded.maps;
    let served = Served {
        served4: maps.served4.handle()?,
        served6: maps.served6.handle()?,
        announcers: maps.announcers.handle()?,
        answers: maps.answers.handle()?,
    };
    Ok((keep(loaded.progs.answer_ingress.as_fd())?, served))
}

impl AnswerPath {
    /// Loads the program. It answers nothing yet.
    pub fn load() -> Result<AnswerPath, FastPathError> {
        let (program, served) = load()?;
        Ok(AnswerPath {
            program,
            hooks: Vec::new(),
            served: Arc::new(served),
        })
    }

    /// The served addresses, which may be changed at any time.
    pub fn served(&self) -> Arc<Served> {
        self.served.clone()
    }

    /// Attaches the program in front of all others at an interface, unless it is already there.
    pub fn attach(
        &mut self,
        ifindex: u32,
        attach: Attach,
        instance: &str,
    ) -> Result<(), FastPathError> {
        if self.is_at(ifindex) {
            return Ok(());
        }
        let hook = Hook::attach(
            self.program.as_fd(),
            ifindex,
            Side::Front,
            attach,
            handle(instance),
        );
        self.hooks
            .push(hook.map_err(|source| FastPathError::Attach {
                program: "answer_ingress",
                source,
            })?);
        Ok(())
    }

    /// Detaches the program from an interface, which may be gone, even if the program was kept. [`AnswerPath::keep`]
    /// then removes the pin.
    pub fn detach(&mut self, ifindex: u32) {
        let (here, others) = std::mem::take(&mut self.hooks)
            .into_iter()
            .partition(|hook| is_hook_at(hook, ifindex));
        self.hooks = others;
        let mut here: Vec<Hook> = here;
        for hook in &mut here {
            if let Hook::Clsact { kept, .. } = hook {
                *kept = false;
            }
        }
        drop_with_qdisc(here);
    }

    /// Keeps the program attached after the process ends, and removes other pinned programs of this kind.
    pub fn keep(&mut self, pins: &Pins) -> io::Result<()> {
        for hook in &mut self.hooks {
            hook.keep(pins)?;
        }
        pins.remove_others(&hook::links(&self.hooks), true);
        Ok(())
    }

    /// Undoes [`AnswerPath::keep`]: the program is detached on drop.
    pub fn release(&mut self, pins: &Pins) {
        for hook in &mut self.hooks {
            hook.release(pins);
        }
    }

    fn is_at(&self, ifindex: u32) -> bool {
        self.hooks.iter().any(|hook| is_hook_at(hook, ifindex))
    }
}

impl Drop for AnswerPath {
    fn drop(&mut self) {
        drop_with_qdisc(std::mem::take(&mut self.hooks));
    }
}

fn is_hook_at(hook: &Hook, ifindex: u32) -> bool {
    hook.place() == (ifindex, Side::Front)
}

/// Drops hooks, and removes queueing disciplines that were created for them, unless others use these.
fn drop_with_qdisc(hooks: Vec<Hook>) {
    let made: Vec<u32> = hooks.iter().filter_map(Hook::made_qdisc_on).collect();
    drop(hooks);
    for ifindex in made {
        qdisc::remove_unused_clsact(ifindex);
    }
}

impl Served {
    /// Makes an interface answer with this link-layer address.
    pub fn announce(&self, ifindex: u32, mac: [u8; 6]) -> io::Result<()> {
        let mut value = mac.to_vec();
        value.extend([0, 0]);
        let done = self
            .announcers
            .update(&ifindex.to_ne_bytes(), &value, MapFlags::ANY);
        done.map_err(io::Error::other)
    }

    /// Makes an interface answer nothing.
    pub fn forget(&self, ifindex: u32) {
        // It may not have been announced.
        let _ = self.announcers.delete(&ifindex.to_ne_bytes());
    }

    /// Answers for addresses at an interface, and also echo requests if `echo` is set.
    pub fn serve4(&self, ifindex: u32, net: Served4, echo: bool) -> io::Result<()> {
        put(&self.served4, &key(ifindex, net.1, &net.0.octets()), echo)
    }

    /// Answers for IPv6 addresses at an interface, and also echo requests if `echo` is set.
    pub fn serve6(&self, ifindex: u32, net: Served6, echo: bool) -> io::Result<()> {
        put(&self.served6, &key(ifindex, net.1, &net.0.octets()), echo)
    }

    /// Stops answering for these addresses.
    pub fn leave4(&self, ifindex: u32, net: Served4) {
        let _ = self.served4.delete(&key(ifindex, net.1, &net.0.octets()));
    }

    /// Stops answering for these IPv6 addresses.
    pub fn leave6(&self, ifindex: u32, net: Served6) {
        let _ = self.served6.delete(&key(ifindex, net.1, &net.0.octets()));
    }

    /// Every counter, summed over the CPUs, in the order of [`ANSWER_NAMES`].
    pub fn counts(&self) -> io::Result<Vec<u64>> {
        (1..=ANSWER_NAMES.len() as u32)
            .map(|key| {
                let per_cpu = self
                    .answers
                    .lookup_percpu(&key.to_ne_bytes(), MapFlags::ANY)
                    .map_err(io::Error::other)?
                    .unwrap_or_default();
                let counts = per_cpu
                    .iter()
                    .filter_map(|value| value.get(..8)?.try_into().ok());
                Ok(counts.map(u64::from_ne_bytes).sum())
            })
            .collect()
    }
}

/// `struct diolkos_served4` or `struct diolkos_served6`.
fn key(ifindex: u32, len: u8, network: &[u8]) -> Vec<u8> {
    let mut key = (IFINDEX_BITS + u32::from(len)).to_ne_bytes().to_vec();
    key.extend(ifindex.to_ne_bytes());
    key.extend(network);
    key
}

fn put(map: &MapHandle, key: &[u8], echo: bool) -> io::Result<()> {
    let value = match echo {
        true => SERVED | SERVED_ECHO,
        false => SERVED,
    };
    map.update(key, &value.to_ne_bytes(), MapFlags::ANY)
        .map_err(io::Error::other)
}
