// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The object of a NAT64's programs (`bpf/nat64.bpf.c`): rules ─► opened object ─► what is loaded, and its maps.

use std::mem::MaybeUninit;
use std::net::Ipv4Addr;
use std::os::fd::AsFd;

use libbpf_rs::skel::SkelBuilder;
use libbpf_rs::OpenObject;

use crate::known_sessions::{known_for, known_keys};
use crate::leases::blocks_for;
use crate::lending::LeaseMaps;
use crate::load::{
    failed, fill_exits, fill_ports, fill_pref64, fill_rules, listen, load_driver, no_data,
    size_caches, AsMap,
};
use crate::router::{Media, Prepared};
use crate::skel::nat64::{Nat64Maps, Nat64Skel, Nat64SkelBuilder, OpenNat64Skel};
use crate::unbound_ports::{places_of_ports, words_of_ports};
use crate::{
    places_for, FastPathError, Homes, Lending, Port, Pref64, Rules, Sessions, UsedHops, LEASE_WAYS,
};

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
    /// Number of packets from outside to unbound ports that each CPU leaves to the slow path, for its answers, in each
    /// thirtieth of a second. After [`Lending::tell_unbound`], the program drops the others.
    pub heard: u32,
}

/// Maximum number of own networks that the program can know.
pub const OWN: usize = 16;
pub(super) fn prepared(
    loaded: &Nat64Skel<'_>,
    rules: &Nat64Rules,
) -> Result<Prepared, FastPathError> {
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
pub(crate) fn open<'object>(
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

pub(super) fn size(rules: &Nat64Rules) -> u32 {
    rules.max_sessions.max(1)
}

/// The maps of sessions and bindings.
pub(crate) fn sessions(maps: &Nat64Maps<'_>, key: u64) -> Result<Sessions, FastPathError> {
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
pub(crate) fn homes(maps: &Nat64Maps<'_>) -> Result<Homes, FastPathError> {
    let [cluster, buckets] = [maps.cluster.handle()?, maps.buckets.handle()?];
    let homes = Homes::of(cluster, buckets, maps.away.handle()?, maps.bib.handle()?);
    homes.map_err(|e| FastPathError::map("share the homes", e))
}

pub(super) fn lease_maps(maps: &Nat64Maps<'_>) -> Result<LeaseMaps, FastPathError> {
    Ok(LeaseMaps {
        leases: maps.leases.handle()?,
        wide: maps.wide_ports.handle()?,
        openings: maps.openings.handle()?,
        unbound: maps.unbound_ports.handle()?,
    })
}

/// The leases of the programs, and their reports.
pub(crate) fn lending(maps: &Nat64Maps<'_>, lease_key: u64) -> Result<Lending, FastPathError> {
    Lending::new(lease_maps(maps)?, lease_key)
        .map_err(|e| FastPathError::map("share the leases", e))
}
