// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The fast path of a SIIT: a program at the TUN device and, inline, at interfaces (`bpf/siit.bpf.c`), with the mapping
//! table in two maps.

use std::collections::{BTreeSet, HashSet};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Deref;
use std::os::fd::AsFd;

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{MapCore, MapFlags, MapMut, OpenObject};

use super::load::{
    failed, fill_exits, fill_ports, fill_pref64, fill_rules, listen, load_driver, masked4, masked6,
    no_data, seed, size_caches, AsMap,
};
use super::router::{Media, Prepared, RouterPrograms, Site};
use super::{FastPath, FastPathError, Port, Pref64, Rules, UsedHops};
use crate::skel::siit::{OpenSiitSkel, SiitSkel, SiitSkelBuilder};

/// The configuration of a SIIT's program; see `struct diolkos_siit` in `bpf/abi.h`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiitRules {
    /// The rules common to all modes.
    pub rules: Rules,
    /// Translation prefixes, the one for embedding first. Packets to prefixes after the fourth are left to the slow
    /// path.
    pub pref64: Vec<Pref64>,
    /// The explicit address mapping table (RFC 7757). No network occurs twice.
    pub eam: Vec<Eam>,
    /// The destinations that the kernel routes to the TUN device, for inline programs.
    pub routes: Destinations,
    /// IPv4 networks that both families route here. Packets to their addresses without a mapping are left to the slow
    /// path.
    pub loops: Vec<(Ipv4Addr, u8)>,
    /// Interfaces with Ethernet headers to which inline-translated packets are sent without the kernel's forwarding
    /// (`bpf/route.h`). Interfaces after the sixteenth are left to the kernel; if the list is empty, the kernel
    /// forwards all packets.
    pub exits: Vec<u32>,
    /// The kinds of inline interfaces.
    pub media: Media,
    /// Interfaces whose drivers also translate (XDP, `bpf/xdp/`). Interfaces after the sixteenth leave all packets to
    /// tc. None: the driver program is not loaded.
    pub drivers: Option<Vec<Port>>,
}

/// Networks with their prefix lengths; the remaining bits are zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Destinations {
    /// IPv4 networks.
    pub v4: Vec<(Ipv4Addr, u8)>,
    /// IPv6 networks.
    pub v6: Vec<(Ipv6Addr, u8)>,
}

/// One mapping. Host bits of both networks are zero, and the IPv6 suffix is at least as long as the IPv4 suffix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Eam {
    /// IPv4 network and its prefix length.
    pub v4: (Ipv4Addr, u8),
    /// IPv6 network and its prefix length.
    pub v6: (Ipv6Addr, u8),
}

/// The loaded and attached program. It is detached on drop.
#[derive(Debug)]
pub struct SiitPath(RouterPrograms);

impl SiitPath {
    /// Loads the program with these rules. Attaches it after all attached programs, at the TUN device and inline as the
    /// site says. `random` makes the first IPv4 identification of this run unpredictable.
    pub fn start(
        rules: &SiitRules,
        site: Site<'_>,
        random: u64,
    ) -> Result<SiitPath, FastPathError> {
        let mut storage = MaybeUninit::uninit();
        let loaded = load(open(&mut storage, rules)?, rules)?;
        seed(&loaded.maps.ipv4_ids, random)?;
        Ok(SiitPath(RouterPrograms::attach(
            prepared(&loaded, rules)?,
            rules.rules.tun_ifindex,
            site,
            [&loaded.maps.fates, &loaded.maps.ipv4_ids],
        )?))
    }

    /// Loads the program with other rules and the same counters. It is not attached until [`SiitPath::swap`].
    pub fn prepare(&self, rules: &SiitRules) -> Result<Prepared, FastPathError> {
        let mut storage = MaybeUninit::uninit();
        let mut open = open(&mut storage, rules)?;
        let maps = &mut open.maps;
        self.0.share(&mut maps.fates, &mut maps.ipv4_ids)?;
        let loaded = load(open, rules)?;
        prepared(&loaded, rules)
    }

    /// Attaches the programs at inline places of a site that have none yet.
    pub fn widen(&mut self, site: Site<'_>) -> Result<(), FastPathError> {
        self.0.widen(site)
    }

    /// Replaces the attached programs by the prepared ones: all of them or none.
    pub fn swap(&mut self, prepared: Prepared) -> Result<(), FastPathError> {
        self.0.swap(prepared)
    }
}

impl Deref for SiitPath {
    type Target = FastPath;

    fn deref(&self) -> &FastPath {
        &self.0.path
    }
}

fn prepared(loaded: &SiitSkel<'_>, rules: &SiitRules) -> Result<Prepared, FastPathError> {
    let programs = &loaded.progs;
    let device = programs.siit_egress.as_fd();
    let inline = [
        (rules.media.ethernet, &programs.siit_ingress),
        (rules.media.bare_ip, &programs.siit_ingress_raw),
    ]
    .map(|(is_loaded, program)| is_loaded.then(|| program.as_fd()));
    if rules.drivers.is_none() {
        return Prepared::new(device, inline, None);
    }
    let hops = UsedHops {
        used: loaded.maps.used_hops.handle()?,
        reported: loaded.maps.reported_hops.handle()?,
    };
    Prepared::new(device, inline, Some((programs.siit_xdp.as_fd(), hops)))
}

/// The opened object with its rules, before it is loaded.
pub(super) fn open<'object>(
    storage: &'object mut MaybeUninit<OpenObject>,
    rules: &SiitRules,
) -> Result<OpenSiitSkel<'object>, FastPathError> {
    listen();
    let mut open = SiitSkelBuilder::default()
        .open(storage)
        .map_err(|e| failed("open", e))?;
    let data = open.maps.rodata_data.as_deref_mut().ok_or_else(no_data)?;
    let siit = &mut data.siit;
    fill_rules!(data, rules.rules);
    fill_exits!(data, &rules.exits);
    let programs = &mut open.progs;
    programs.siit_ingress.set_autoload(rules.media.ethernet);
    programs.siit_ingress_raw.set_autoload(rules.media.bare_ip);
    if let Some(drivers) = &rules.drivers {
        fill_ports!(data, drivers);
        load_driver(&mut programs.siit_xdp);
    }
    for (to, pref64) in siit.pref64.iter_mut().zip(&rules.pref64) {
        fill_pref64!(to, pref64);
    }
    siit.pref64s = siit.pref64.len().min(rules.pref64.len()) as u32;
    siit.eam_in_pref64 = rules.eam.iter().any(|eam| rules.has_in_prefix(eam)).into();
    siit.eam_in_routes4 = rules.lead_to_all().into();
    for (to, (network, len)) in siit.route4.iter_mut().zip(&rules.routes.v4) {
        to.mask_be = masked4(Ipv4Addr::BROADCAST, *len).to_bits().to_be();
        to.addr_be = network.to_bits().to_be();
    }
    for (to, (network, len)) in siit.route6.iter_mut().zip(&rules.routes.v6) {
        to.mask.in6_u.u6_addr8 = masked6(Ipv6Addr::from_bits(u128::MAX), *len).octets();
        to.addr.in6_u.u6_addr8 = network.octets();
    }
    for (to, (network, len)) in siit.loop4.iter_mut().zip(&rules.loops) {
        to.mask_be = masked4(Ipv4Addr::BROADCAST, *len).to_bits().to_be();
        to.addr_be = network.to_bits().to_be();
    }
    siit.loop4s = rules.loops.len() as u32;
    siit.route4s = rules.routes.v4.len() as u32;
    siit.route6s = rules.routes.v6.len() as u32;
    siit.v4_lens = lengths(&mut siit.v4_len, rules.eam.iter().map(|eam| eam.v4.1));
    siit.v6_lens = lengths(&mut siit.v6_len, rules.eam.iter().map(|eam| eam.v6.1));
    let (network, len) = common4(rules.eam.iter().map(|eam| eam.v4));
    siit.eam4.mask_be = masked4(Ipv4Addr::BROADCAST, len).to_bits().to_be();
    siit.eam4.addr_be = network.to_bits().to_be();

    let maps = &mut open.maps;
    for (map, entries) in [
        (&mut maps.eamt_by_v4, rules.eam.len()),
        (&mut maps.eamt_by_v6, rules.eam.len()),
        (&mut maps.routes4, rules.routes.v4.len()),
        (&mut maps.routes6, rules.routes.v6.len()),
        (&mut maps.loops4, rules.loops.len()),
    ] {
        map.set_max_entries(entries.max(1) as u32)
            .map_err(|e| failed("size the tables", e))?;
    }
    size_caches!(maps, !rules.exits.is_empty(), rules.drivers.is_some());
    Ok(open)
}

impl SiitRules {
    /// Returns true if the IPv4 network of every mapping is routed to the translator.
    fn lead_to_all(&self) -> bool {
        let networks = self.eam.iter().map(|eam| eam.v4);
        lie_within(networks, &self.routes.v4, masked4)
    }

    fn has_in_prefix(&self, eam: &Eam) -> bool {
        self.pref64
            .iter()
            .any(|pref64| masked6(eam.v6.0, pref64.bits) == pref64.network)
    }
}

/// Returns true if each network is inside one of the others. Both may number a million, so each network is looked up by
/// the prefix lengths that occur.
fn lie_within(
    mut networks: impl Iterator<Item = (Ipv4Addr, u8)>,
    others: &[(Ipv4Addr, u8)],
    masked: impl Fn(Ipv4Addr, u8) -> Ipv4Addr,
) -> bool {
    let lens: BTreeSet<u8> = others.iter().map(|(_, len)| *len).collect();
    let others: HashSet<(Ipv4Addr, u8)> = others.iter().copied().collect();
    networks.all(|(network, len)| {
        let mut wider = lens.iter().filter(|bits| **bits <= len);
        wider.any(|&bits| others.contains(&(masked(network, bits), bits)))
    })
}

/// Writes the prefix lengths that occur, longest first, and returns their number.
fn lengths(to: &mut [u8], all: impl Iterator<Item = u8>) -> u32 {
    let all: BTreeSet<u8> = all.collect();
    for (to, len) in to.iter_mut().zip(all.iter().rev()) {
        *to = *len;
    }
    all.len() as u32
}

/// The smallest network that contains all networks.
fn common4(mut all: impl Iterator<Item = (Ipv4Addr, u8)>) -> (Ipv4Addr, u8) {
    let first = all.next().unwrap_or((Ipv4Addr::UNSPECIFIED, 0));
    let (network, len) = all.fold(first, |(network, len), (other, other_len)| {
        let equal = (network.to_bits() ^ other.to_bits()).leading_zeros();
        (network, len.min(other_len).min(equal as u8))
    });
    (masked4(network, len), len)
}

/// Loads the object and fills the table.
pub(super) fn load<'object>(
    open: OpenSiitSkel<'object>,
    rules: &SiitRules,
) -> Result<SiitSkel<'object>, FastPathError> {
    let loaded = open.load().map_err(|e| failed("load", e))?;
    for (network, len) in &rules.routes.v4 {
        route(&loaded.maps.routes4, *len, &network.octets())?;
    }
    for (network, len) in &rules.loops {
        route(&loaded.maps.loops4, *len, &network.octets())?;
    }
    for (network, len) in &rules.routes.v6 {
        route(&loaded.maps.routes6, *len, &network.octets())?;
    }
    fill(&loaded.maps.eamt_by_v4, &rules.eam, |eam, keys, values| {
        keys.extend(eam.v4.0.octets());
        keys.extend(u32::from(eam.v4.1).to_ne_bytes());
        values.extend(eam.v6.0.octets());
        values.extend(eam.longer().to_ne_bytes());
    })?;
    fill(&loaded.maps.eamt_by_v6, &rules.eam, |eam, keys, values| {
        keys.extend(eam.v6.0.octets());
        keys.extend(u32::from(eam.v6.1).to_ne_bytes());
        values.extend(eam.v4.0.octets());
        values.extend(eam.longer().to_ne_bytes());
    })?;
    Ok(loaded)
}

/// `struct diolkos_route4` and `struct diolkos_route6`.
fn route(map: &MapMut<'_>, len: u8, network: &[u8]) -> Result<(), FastPathError> {
    let mut key = u32::from(len).to_ne_bytes().to_vec();
    key.extend(network);
    map.update(&key, &[1], MapFlags::ANY)
        .map_err(|e| failed("fill the routes", e))
}

impl Eam {
    /// The number of bits by which the IPv6 suffix is longer than the IPv4 suffix.
    fn longer(&self) -> u32 {
        96 + u32::from(self.v4.1) - u32::from(self.v6.1)
    }
}

/// Mappings per system call.
const BATCH: usize = 4096;

fn fill(
    map: &MapMut<'_>,
    table: &[Eam],
    row: impl Fn(&Eam, &mut Vec<u8>, &mut Vec<u8>),
) -> Result<(), FastPathError> {
    for batch in table.chunks(BATCH) {
        let (mut keys, mut values) = (Vec::new(), Vec::new());
        for eam in batch {
            row(eam, &mut keys, &mut values);
        }
        debug_assert_eq!(keys.len(), batch.len() * map.key_size() as usize);
        debug_assert_eq!(values.len(), batch.len() * map.value_size() as usize);
        map.update_batch(
            &keys,
            &values,
            batch.len() as u32,
            MapFlags::ANY,
            MapFlags::ANY,
        )
        .map_err(|e| failed("fill the table", e))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
