// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The fast path of a NAT64: a program at the TUN device and, inline, at interfaces (`bpf/nat64.bpf.c`), and its sessions
//! in two maps.

use std::mem::MaybeUninit;
use std::ops::Deref;
use std::os::fd::AsFd;
use std::sync::Arc;

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
#[cfg(feature = "testrun")]
use libbpf_rs::MapHandle;
use libbpf_rs::OpenObject;

use super::isthmus::{AsMap, Isthmus, Prepared, Site};
use super::load::{failed, fill_pref64, fill_rules, listen, no_data, seed};
use super::{FastPath, FastPathError, Pref64, Rules, Sessions};
use crate::skel::nat64::{Nat64Skel, Nat64SkelBuilder, OpenNat64Skel};

/// What the program of a NAT64 needs to know; see `struct diolkos_nat64` in `bpf/abi.h`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nat64Rules {
    /// What all modes share.
    pub rules: Rules,
    /// Translation prefixes. Addresses in those behind the fourth are left to the slow path.
    pub pref64: Vec<Pref64>,
    /// Sessions that fit in; those beyond are left to the slow path. It cannot change while it runs.
    pub max_sessions: u32,
}

/// The loaded and attached program; dropped, it is off.
#[derive(Debug)]
pub struct Nat64Path {
    isthmus: Isthmus,
    sessions: Arc<Sessions>,
}

impl Nat64Path {
    /// Loads the program with these rules and without sessions, and attaches it behind whatever is attached already,
    /// at the TUN device and inline where the site says.
    /// `random` makes the IPv4 identifications of this run start at a place nobody can guess.
    pub fn start(
        rules: &Nat64Rules,
        site: Site<'_>,
        random: u64,
    ) -> Result<Nat64Path, FastPathError> {
        let mut storage = MaybeUninit::uninit();
        let loaded = open(&mut storage, rules)?
            .load()
            .map_err(|e| failed("load", &e))?;
        seed(&loaded.maps.ipv4_ids, random)?;
        let maps = &loaded.maps;
        Ok(Nat64Path {
            isthmus: Isthmus::attach(
                prepared(&loaded)?,
                rules.rules.tun_ifindex,
                site,
                [&maps.fates, &maps.ipv4_ids],
            )?,
            sessions: Arc::new(Sessions {
                outward: maps.outward.handle()?,
                inward: maps.inward.handle()?,
            }),
        })
    }

    /// The sessions that it translates.
    pub fn sessions(&self) -> Arc<Sessions> {
        self.sessions.clone()
    }

    /// The program with other rules and the same sessions, which goes on counting where this one is; not attached before
    /// [`Nat64Path::swap`] says so.
    pub fn prepare(&self, rules: &Nat64Rules) -> Result<Prepared, FastPathError> {
        let mut storage = MaybeUninit::uninit();
        let mut open = open(&mut storage, rules)?;
        let maps = &mut open.maps;
        self.isthmus.share(&mut maps.fates, &mut maps.ipv4_ids)?;
        maps.outward
            .reuse_fd(self.sessions.outward.as_fd())
            .and_then(|()| maps.inward.reuse_fd(self.sessions.inward.as_fd()))
            .map_err(|e| failed("share the sessions", &e))?;
        let loaded = open.load().map_err(|e| failed("load", &e))?;
        prepared(&loaded)
    }

    /// Puts the prepared programs in the places of those that are there: all of them, or none.
    pub fn swap(&mut self, prepared: Prepared) -> Result<(), FastPathError> {
        self.isthmus.swap(prepared)
    }
}

impl Deref for Nat64Path {
    type Target = FastPath;

    fn deref(&self) -> &FastPath {
        &self.isthmus.path
    }
}

fn prepared(loaded: &Nat64Skel<'_>) -> Result<Prepared, FastPathError> {
    let programs = &loaded.progs;
    Prepared::new([
        programs.nat64_egress.as_fd(),
        programs.nat64_ingress.as_fd(),
        programs.nat64_ingress_raw.as_fd(),
    ])
}

/// The object with its rules, before the kernel sees it.
pub(super) fn open<'object>(
    storage: &'object mut MaybeUninit<OpenObject>,
    rules: &Nat64Rules,
) -> Result<OpenNat64Skel<'object>, FastPathError> {
    listen();
    let mut open = Nat64SkelBuilder::default()
        .open(storage)
        .map_err(|e| failed("open", &e))?;
    let data = open.maps.rodata_data.as_deref_mut().ok_or_else(no_data)?;
    let nat64 = &mut data.nat64;
    fill_rules!(data, rules.rules);
    for (to, pref64) in nat64.pref64.iter_mut().zip(&rules.pref64) {
        fill_pref64!(to, pref64);
    }
    nat64.pref64s = nat64.pref64.len().min(rules.pref64.len()) as u32;

    let size = rules.max_sessions.max(1);
    open.maps
        .outward
        .set_max_entries(size)
        .and_then(|()| open.maps.inward.set_max_entries(size))
        .map_err(|e| failed("size the tables", &e))?;
    Ok(open)
}

/// For those that only test.
#[cfg(feature = "testrun")]
pub(super) fn sessions(outward: MapHandle, inward: MapHandle) -> Sessions {
    Sessions { outward, inward }
}
