// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The fast path of a NAT64: a program at the TUN device and, inline, at interfaces (`bpf/nat64.bpf.c`), its sessions,
//! and the sessions that it may open by itself.

use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::{Deref, DerefMut};
use std::os::fd::AsFd;
use std::sync::Arc;

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{MapCore, MapHandle, OpenMapMut, OpenObject};

use super::known_sessions::{known_for, known_keys};
use super::leases::blocks_for;
use super::lending::LeaseMaps;
use super::load::{
    failed, fill_exits, fill_ports, fill_pref64, fill_rules, listen, load_driver, no_data, seed,
    size_caches, AsMap,
};
use super::pinned_program::{tag, PinnedProgram};
use super::pinned_rules::{pinned_rules, PinnedRules};
use super::router::{Media, Prepared, RouterPrograms, Site};
use super::unbound_ports::{places_of_ports, words_of_ports};
use super::{
    handle, places_for, FastPath, FastPathError, Homes, Hook, Lending, Pins, Port, Pref64, Rules,
    Sessions, Side, UsedHops, LEASE_WAYS,
};
use crate::skel::nat64::{Nat64Maps, Nat64Skel, Nat64SkelBuilder, OpenNat64Maps, OpenNat64Skel};

/// The configuration of a NAT64's programs; see `struct diolkos_nat64` in `bpf/abi.h`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nat64Rules {
    /// The rules common to all modes.
    pub rules: Rules,
    /// Translation prefixes. Packets to prefixes after the fourth are left to the slow path.
    pub pref64: Vec<Pref64>,
    /// Maximum number of sessions; further ones are left to the slow path. It cannot change at run time.
    pub max_sessions: u32,
    /// Interfaces with Ethernet headers to which inline-translated packets are sent without the kernel's forwarding
    /// (`bpf/route.h`). Interfaces after the sixteenth are left to the kernel; if the list is empty, the kernel
    /// forwards all packets.
    pub exits: Vec<u32>,
    /// The kinds of inline interfaces.
    pub media: Media,
    /// Interfaces whose drivers also translate (XDP, `bpf/xdp/`). Interfaces after the sixteenth leave all packets to
    /// tc. None: the driver program is not loaded.
    pub drivers: Option<Vec<Port>>,
    /// Maximum number of UDP and TCP bindings. It cannot change at run time.
    pub max_bindings: u32,
    /// Networks, with their lengths, in which a peer may be one of this gateway's nodes. With more than [`OWN`]
    /// networks the program knows only a part of them, so it must not get leases.
    pub own: Vec<(Ipv4Addr, u8)>,
    /// With several gateways: maximum number of bindings at a gateway that is not the home of the host. It cannot change
    /// at run time.
    pub max_away: u32,
    /// Number of packets from outside to ports that no node has which go on to the slow path, for its answers, in each
    /// thirtieth of a second on each CPU. Others are dropped, once it is told which ports these are.
    pub heard: u32,
}

/// Maximum number of own networks that the program can know.
pub const OWN: usize = 16;

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

/// The state of the programs of an earlier run.
#[derive(Debug)]
pub enum Old {
    /// They share the maps of the new programs.
    Shared,
    /// They have other maps, because sizes or prefixes differ. The content of their maps can be read.
    Other {
        /// Their sessions.
        sessions: Arc<Sessions>,
        /// The translation prefixes to which the sessions refer by index.
        pref64: Vec<(Ipv6Addr, u8)>,
    },
    /// They are of another version, so the content of their maps cannot be read.
    Unknown,
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

/// The maps that programs take over from their predecessors, one per line.
fn inherited<'a, 'o>(
    maps: &'a mut OpenNat64Maps<'o>,
) -> [(&'static str, &'a mut OpenMapMut<'o>); 14] {
    [
        ("fates", &mut maps.fates),
        ("ipv4_ids", &mut maps.ipv4_ids),
        ("sessions6", &mut maps.sessions6),
        ("sessions4", &mut maps.sessions4),
        ("bib", &mut maps.bib),
        ("copies", &mut maps.copies),
        ("known_sessions", &mut maps.known_sessions),
        ("cluster", &mut maps.cluster),
        ("buckets", &mut maps.buckets),
        ("away", &mut maps.away),
        ("leases", &mut maps.leases),
        ("wide_ports", &mut maps.wide_ports),
        ("openings", &mut maps.openings),
        ("unbound_ports", &mut maps.unbound_ports),
    ]
}

/// Loads the object with the maps of a running program, and its key: as long as both run, a session has the same places for
/// both. None unless that has the same version, the same sizes for sessions and bindings, and the same prefix indices.
fn load_with<'object>(
    storage: &'object mut MaybeUninit<OpenObject>,
    rules: &Nat64Rules,
    known: &PinnedRules,
    pinned: &PinnedProgram,
) -> Option<(Nat64Skel<'object>, u64)> {
    let PinnedRules {
        pref64: known,
        lease_key,
    } = known;
    let wanted: Vec<_> = rules.pref64.iter().map(|p| (p.network, p.bits)).collect();
    let (short, long) = match known.len() <= wanted.len() {
        true => (known, &wanted),
        false => (&wanted, known),
    };
    let room = |name| pinned.map(name).map(|map| map.max_entries());
    if !long.starts_with(short)
        || room("sessions6")? != size(rules)
        || room("bib")? != rules.max_bindings.max(1)
        || room("away")? != rules.max_away.max(1)
        || room("leases")? != places_for(rules.max_bindings)
        || room("known_sessions")? != known_for(rules.max_sessions)
        || room("unbound_ports")? != words_of_ports(rules.max_bindings)
        || room("wide_ports")? != blocks_for(places_for(rules.max_bindings))
    {
        return None;
    }
    let mut open = open(storage, rules, *lease_key).ok()?;
    for (name, map) in inherited(&mut open.maps) {
        map.reuse_fd(pinned.map(name)?.as_fd()).ok()?;
    }
    let loaded = open.load().ok()?;
    let tag = tag(loaded.progs.nat64_egress.as_fd()).ok()?;
    (tag == pinned.tag()).then_some((loaded, *lease_key))
}

/// Reads the state of a running program whose maps cannot be shared.
fn old(
    loaded: &Nat64Skel<'_>,
    pinned: &PinnedProgram,
    known: Option<PinnedRules>,
) -> Result<Old, FastPathError> {
    let tag = tag(loaded.progs.nat64_egress.as_fd());
    if tag.map_err(|e| FastPathError::map("the version of the programs is not known", e))?
        != pinned.tag()
    {
        return Ok(Old::Unknown);
    }
    let Some(known) = known else {
        return Ok(Old::Unknown);
    };
    let names = ["sessions6", "sessions4", "bib", "copies", "known_sessions"];
    let [Some(outward), Some(inward), Some(bound), Some(copies), Some(places)] =
        names.map(|name| pinned.map(name))
    else {
        return Ok(Old::Unknown);
    };
    let names = ["leases", "wide_ports", "openings", "unbound_ports"];
    let [Some(leases), Some(wide), Some(openings), Some(unbound)] = names.map(|name| pinned.map(name))
    else {
        return Ok(Old::Unknown);
    };
    let handle = |map| MapHandle::try_from(map).map_err(|e| failed("keep a map", e));
    // Sessions that it opened from now on would go unnoticed.
    let maps = LeaseMaps {
        leases: handle(leases)?,
        wide: handle(wide)?,
        openings: handle(openings)?,
        unbound: handle(unbound)?,
    };
    Lending::new(maps, 0)
        .map_err(|e| FastPathError::map("the leases of the old programs", e))?
        .reset();
    let maps = [
        handle(outward)?,
        handle(inward)?,
        handle(bound)?,
        handle(copies)?,
        handle(places)?,
    ];
    let sessions = Sessions::of(maps, known.lease_key)
        .map_err(|e| FastPathError::map("the sessions of the old programs", e))?;
    Ok(Old::Other {
        sessions: Arc::new(sessions),
        pref64: known.pref64,
    })
}

fn prepared(loaded: &Nat64Skel<'_>, rules: &Nat64Rules) -> Result<Prepared, FastPathError> {
    let programs = &loaded.progs;
    let device = programs.nat64_egress.as_fd();
    let inline = [
        (rules.media.ethernet, &programs.nat64_ingress),
        (rules.media.bare_ip, &programs.nat64_ingress_raw),
    ]
    .map(|(is_loaded, program)| is_loaded.then(|| program.as_fd()));
    if rules.drivers.is_none() {
        return Prepared::new(device, inline, None);
    }
    let hops = UsedHops {
        used: loaded.maps.used_hops.handle()?,
        reported: loaded.maps.reported_hops.handle()?,
    };
    Prepared::new(device, inline, Some((programs.nat64_xdp.as_fd(), hops)))
}

/// The opened object with its rules, before it is loaded.
pub(super) fn open<'object>(
    storage: &'object mut MaybeUninit<OpenObject>,
    rules: &Nat64Rules,
    lease_key: u64,
) -> Result<OpenNat64Skel<'object>, FastPathError> {
    listen();
    let mut open = Nat64SkelBuilder::default()
        .open(storage)
        .map_err(|e| failed("open", e))?;
    let data = open.maps.rodata_data.as_deref_mut().ok_or_else(no_data)?;
    let nat64 = &mut data.nat64;
    fill_rules!(data, rules.rules);
    fill_exits!(data, &rules.exits);
    let programs = &mut open.progs;
    programs.nat64_ingress.set_autoload(rules.media.ethernet);
    programs.nat64_ingress_raw.set_autoload(rules.media.bare_ip);
    if let Some(drivers) = &rules.drivers {
        fill_ports!(data, drivers);
        load_driver(&mut programs.nat64_xdp);
    }
    for (to, pref64) in nat64.pref64.iter_mut().zip(&rules.pref64) {
        fill_pref64!(to, pref64);
    }
    nat64.pref64s = nat64.pref64.len().min(rules.pref64.len()) as u32;
    let places = places_for(rules.max_bindings);
    nat64.lease_key = lease_key;
    nat64.known_keys = known_keys(lease_key);
    nat64.lease_sets = places / LEASE_WAYS as u32;
    for (to, (address, len)) in nat64.own.iter_mut().zip(&rules.own) {
        to.addr_be = u32::from_ne_bytes(address.octets());
        to.len = (*len).into();
    }
    nat64.known_sessions = known_for(rules.max_sessions);
    nat64.port_places = places_of_ports(rules.max_bindings);
    nat64.heard = rules.heard;
    nat64.owns = OWN.min(rules.own.len()) as u32;

    let maps = &mut open.maps;
    size_caches!(maps, !rules.exits.is_empty(), rules.drivers.is_some());
    maps.sessions6
        .set_max_entries(size(rules))
        .and_then(|()| maps.sessions4.set_max_entries(size(rules)))
        .and_then(|()| maps.bib.set_max_entries(rules.max_bindings.max(1)))
        .and_then(|()| maps.away.set_max_entries(rules.max_away.max(1)))
        .and_then(|()| maps.leases.set_max_entries(places))
        .and_then(|()| {
            maps.known_sessions
                .set_max_entries(known_for(rules.max_sessions))
        })
        .and_then(|()| maps.wide_ports.set_max_entries(blocks_for(places)))
        .and_then(|()| {
            maps.unbound_ports
                .set_max_entries(words_of_ports(rules.max_bindings))
        })
        .map_err(|e| failed("size the tables", e))?;
    Ok(open)
}

fn size(rules: &Nat64Rules) -> u32 {
    rules.max_sessions.max(1)
}

/// The maps of sessions and bindings.
pub(super) fn sessions(maps: &Nat64Maps<'_>, key: u64) -> Result<Sessions, FastPathError> {
    let maps = [
        maps.sessions6.handle()?,
        maps.sessions4.handle()?,
        maps.bib.handle()?,
        maps.copies.handle()?,
        maps.known_sessions.handle()?,
    ];
    Sessions::of(maps, key).map_err(|e| FastPathError::map("share the sessions", e))
}

/// The maps of the homes of hosts.
pub(super) fn homes(maps: &Nat64Maps<'_>) -> Result<Homes, FastPathError> {
    let [cluster, buckets] = [maps.cluster.handle()?, maps.buckets.handle()?];
    let homes = Homes::of(cluster, buckets, maps.away.handle()?, maps.bib.handle()?);
    homes.map_err(|e| FastPathError::map("share the homes", e))
}

fn lease_maps(maps: &Nat64Maps<'_>) -> Result<LeaseMaps, FastPathError> {
    Ok(LeaseMaps {
        leases: maps.leases.handle()?,
        wide: maps.wide_ports.handle()?,
        openings: maps.openings.handle()?,
        unbound: maps.unbound_ports.handle()?,
    })
}

/// The leases of the programs, and their reports.
pub(super) fn lending(maps: &Nat64Maps<'_>, lease_key: u64) -> Result<Lending, FastPathError> {
    Lending::new(lease_maps(maps)?, lease_key)
        .map_err(|e| FastPathError::map("share the leases", e))
}

#[cfg(test)]
mod tests;
