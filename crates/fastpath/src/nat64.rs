// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The fast path of a NAT64: a program at the TUN device and, inline, at interfaces (`bpf/nat64.bpf.c`), its sessions,
//! and the sessions that it may open by itself.

mod earlier;
mod object;

use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::os::fd::AsFd;
use std::sync::Arc;

use libbpf_rs::skel::OpenSkel;

use super::lending::LeaseMaps;
use super::load::{failed, seed};
use super::pinned_program::PinnedProgram;
use super::pinned_rules::pinned_rules;
use super::router::{Prepared, RouterPrograms, Site};
use super::{handle, FastPath, FastPathError, Homes, Hook, Lending, Pins, Sessions, Side};
pub use earlier::Old;
use earlier::{load_with, old};
pub(crate) use object::{homes, lending, open, sessions};
use object::{lease_maps, prepared};
pub use object::{Nat64Rules, OWN};

/// The loaded and attached program. It is detached on drop.
#[derive(Debug)]
pub struct Nat64Path {
    attached: RouterPrograms,
    /// The rules of these programs.
    rules: Nat64Rules,
    sessions: Arc<Sessions>,
    homes: Arc<Homes>,
    lease_key: u64,
    lease_maps: LeaseMaps,
}

/// Programs for other rules that are not attached yet.
#[derive(Debug)]
pub struct PreparedNat64 {
    programs: Prepared,
    rules: Nat64Rules,
}

/// A fast path whose old programs translate until [`Nat64Path::take_over`].
#[derive(Debug)]
pub struct Inherited {
    /// The new programs.
    pub path: Nat64Path,
    /// What the new programs may open by themselves; nothing yet.
    pub lending: Lending,
    /// The state of the old programs.
    pub old: Old,
}

impl Nat64Path {
    /// Loads the program with these rules and without sessions. Attaches it after all attached programs, at the TUN
    /// device and inline as the site says. The returned leases allow it to open sessions. `random[0]` makes the first
    /// IPv4 identification of this run unpredictable, `random[1]` makes it unpredictable which nodes share a lease
    /// place.
    pub fn start(
        rules: &Nat64Rules,
        site: Site<'_>,
        random: [u64; 2],
    ) -> Result<(Nat64Path, Lending), FastPathError> {
        let [ids, lease_key] = random;
        let mut storage = MaybeUninit::uninit();
        let loaded = open(&mut storage, rules, lease_key)?
            .load()
            .map_err(|e| failed("load", e))?;
        seed(&loaded.maps.ipv4_ids, ids)?;
        let maps = &loaded.maps;
        let lending = lending(maps, lease_key)?;
        let path = Nat64Path {
            attached: RouterPrograms::attach(
                prepared(&loaded, rules)?,
                rules.rules.tun_ifindex,
                site,
                [&maps.fates, &maps.ipv4_ids],
            )?,
            rules: rules.clone(),
            sessions: Arc::new(sessions(maps, lease_key)?),
            homes: Arc::new(homes(maps)?),
            lease_key,
            lease_maps: lease_maps(maps)?,
        };
        Ok((path, lending))
    }

    /// Like [`Nat64Path::start`], but for programs of an earlier run that still translate, until
    /// [`Nat64Path::take_over`]. Shares their maps if the new programs understand them; otherwise the new programs
    /// start without sessions. None if there are no such programs.
    pub fn inherit(
        rules: &Nat64Rules,
        site: Site<'_>,
        pins: &Pins,
        random: [u64; 2],
    ) -> Result<Option<Inherited>, FastPathError> {
        let (device, handle) = (rules.rules.tun_ifindex, handle(site.instance));
        let Some(hook) = Hook::inherit(pins, device, Side::Egress, site.attach, handle) else {
            return Ok(None);
        };
        let pinned = hook.program().and_then(PinnedProgram::of);
        let pinned =
            pinned.map_err(|e| FastPathError::map("what is attached cannot be read", e))?;

        let [ids, lease_key] = random;
        let known = pinned_rules(&pinned);
        let mut storage = MaybeUninit::uninit();
        let shared = known
            .as_ref()
            .and_then(|known| load_with(&mut storage, rules, known, &pinned));
        let mut storage = MaybeUninit::uninit();
        let (loaded, old, lease_key) = match (shared, known) {
            (Some((loaded, key)), _) => (loaded, Old::Shared, key),
            (None, known) => {
                let loaded = open(&mut storage, rules, lease_key)?
                    .load()
                    .map_err(|e| failed("load", e))?;
                seed(&loaded.maps.ipv4_ids, ids)?;
                let old = old(&loaded, &pinned, known)?;
                (loaded, old, lease_key)
            }
        };
        let maps = &loaded.maps;
        let lending = lending(maps, lease_key)?;
        lending.reset();
        let attached = RouterPrograms::inherit(
            prepared(&loaded, rules)?,
            hook,
            device,
            site,
            pins,
            [&maps.fates, &maps.ipv4_ids],
        )?;
        Ok(Some(Inherited {
            path: Nat64Path {
                attached,
                rules: rules.clone(),
                sessions: Arc::new(sessions(maps, lease_key)?),
                homes: Arc::new(homes(maps)?),
                lease_key,
                lease_maps: lease_maps(maps)?,
            },
            lending,
            old,
        }))
    }

    /// Replaces the programs of the earlier run. Each packet is processed by exactly one of them.
    pub fn take_over(&mut self) -> Result<(), FastPathError> {
        self.attached.take_over()
    }

    /// The sessions that the program translates.
    pub fn sessions(&self) -> Arc<Sessions> {
        self.sessions.clone()
    }

    /// With several gateways: the homes of hosts.
    pub fn homes(&self) -> Arc<Homes> {
        self.homes.clone()
    }

    /// Loads the programs with other rules and the same sessions, leases and counters. They are not attached until
    /// [`Nat64Path::swap`].
    ///
    /// Most reloads change nothing that the programs know. Equal rules make equal programs, and the verifier takes a tenth
    /// of a second for one of them: so the loaded ones stay.
    pub fn prepare(&self, rules: &Nat64Rules) -> Result<PreparedNat64, FastPathError> {
        let programs = match *rules == self.rules {
            true => self.attached.again()?,
            false => self.load_again(rules)?,
        };
        Ok(PreparedNat64 {
            programs,
            rules: rules.clone(),
        })
    }

    fn load_again(&self, rules: &Nat64Rules) -> Result<Prepared, FastPathError> {
        let mut storage = MaybeUninit::uninit();
        let mut open = open(&mut storage, rules, self.lease_key)?;
        let maps = &mut open.maps;
        let LeaseMaps {
            leases,
            wide,
            openings,
            unbound,
        } = &self.lease_maps;
        self.attached.share(&mut maps.fates, &mut maps.ipv4_ids)?;
        maps.sessions6
            .reuse_fd(self.sessions.outward.as_fd())
            .and_then(|()| maps.sessions4.reuse_fd(self.sessions.inward.as_fd()))
            .and_then(|()| maps.bib.reuse_fd(self.sessions.bound.as_fd()))
            .and_then(|()| maps.copies.reuse_fd(self.sessions.copies.as_fd()))
            .and_then(|()| maps.known_sessions.reuse_fd(self.sessions.known.as_fd()))
            .and_then(|()| {
                self.homes
                    .share(&mut maps.cluster, &mut maps.buckets, &mut maps.away)
            })
            .and_then(|()| maps.leases.reuse_fd(leases.as_fd()))
            .and_then(|()| maps.wide_ports.reuse_fd(wide.as_fd()))
            .and_then(|()| maps.openings.reuse_fd(openings.as_fd()))
            .and_then(|()| maps.unbound_ports.reuse_fd(unbound.as_fd()))
            .map_err(|e| failed("share the sessions", e))?;
        let loaded = open.load().map_err(|e| failed("load", e))?;
        prepared(&loaded, rules)
    }

    /// Attaches the programs at inline places of a site that have none yet.
    pub fn widen(&mut self, site: Site<'_>) -> Result<(), FastPathError> {
        self.attached.widen(site)
    }

    /// Replaces the attached programs by the prepared ones: all of them or none.
    pub fn swap(&mut self, prepared: PreparedNat64) -> Result<(), FastPathError> {
        self.attached.swap(prepared.programs)?;
        self.rules = prepared.rules;
        Ok(())
    }
}

impl Deref for Nat64Path {
    type Target = FastPath;

    fn deref(&self) -> &FastPath {
        &self.attached.path
    }
}

impl DerefMut for Nat64Path {
    fn deref_mut(&mut self) -> &mut FastPath {
        &mut self.attached.path
    }
}

#[cfg(test)]
mod tests;
