// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The fast path of a CLAT: three programs at the TUN device and the uplink (`bpf/clat.bpf.c`).

use std::io;
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Deref;
use std::os::fd::{AsFd, OwnedFd};

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{MapHandle, OpenObject};

use super::load::{failed, fill_pref64, fill_rules, keep, listen, no_data, seed, AsMap};
use super::next_hop::{NextHop, WayOut};
use super::received::{before, Attachee};
use super::{handle, Attach, FastPath, FastPathError, Hook, Pref64, Rules, Side};
use crate::skel::clat::{ClatSkel, ClatSkelBuilder, OpenClatSkel};

/// The configuration of a CLAT's programs; see `struct diolkos_clat` in `bpf/abi.h`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClatRules {
    /// The rules common to all modes.
    pub rules: Rules,
    /// The CLAT's IPv4 address.
    pub v4: Ipv4Addr,
    /// The CLAT's IPv6 address.
    pub v6: Ipv6Addr,
    /// The PLAT's prefix.
    pub pref64: Pref64,
    /// Index of the uplink interface.
    pub uplink_ifindex: u32,
    /// True if the uplink has Ethernet headers, false if it carries bare IP.
    pub uplink_is_ethernet: bool,
}

/// The loaded and attached programs. They are detached on drop.
#[derive(Debug)]
pub struct ClatPath {
    path: FastPath,
    /// In the order of the hooks.
    programs: [OwnedFd; 3],
    next_hop: NextHop,
    ipv4_ids: MapHandle,
}

/// Names of the programs in the order of attachment, from the inside out. No program redirects packets before the
/// target of the redirect is ready.
const NAMES: [&str; 3] = ["tun_ingress", "tun_egress", "uplink_ingress"];

impl ClatPath {
    /// Loads the programs with these rules and attaches them after all attached programs. With `in_front`, the uplink
    /// program is attached before all others, because some of these pass on no packet (NetworkManager's CLAT).
    /// `instance` distinguishes the filters of this instance from those of others, and must be the same at every start.
    /// The programs send nothing until [`ClatPath::set_way`] is called. `random` makes the first IPv4 identification of
    /// this run unpredictable.
    pub fn start(
        rules: &ClatRules,
        attach: Attach,
        in_front: bool,
        instance: &str,
        random: u64,
    ) -> Result<ClatPath, FastPathError> {
        // The object lives only in this function; programs and maps live on through their descriptors.
        let mut storage = MaybeUninit::uninit();
        let loaded = open(&mut storage, rules)?
            .load()
            .map_err(|e| failed("load", e))?;
        seed(&loaded.maps.ipv4_ids, random)?;
        let maps = &loaded.maps;
        let programs = programs(&loaded)?;

        let (tun, uplink) = (rules.rules.tun_ifindex, rules.uplink_ifindex);
        let places = [
            (tun, Side::Ingress),
            (tun, Side::Egress),
            (uplink, if in_front { Side::Front } else { Side::Ingress }),
        ];
        let mut next_hop = NextHop::new(maps.next_hop.handle()?);
        next_hop
            .set(WayOut::Nowhere)
            .map_err(|e| FastPathError::map("set the next hop", e))?;
        let mut path = FastPath::new(maps.fates.handle()?);
        for ((name, program), (ifindex, side)) in NAMES.iter().zip(&programs).zip(places) {
            let hook = Hook::attach(program.as_fd(), ifindex, side, attach, handle(instance));
            path.hooks
                .push(hook.map_err(|source| FastPathError::Attach {
                    program: name,
                    source,
                })?);
        }
        Ok(ClatPath {
            path,
            programs,
            next_hop,
            ipv4_ids: maps.ipv4_ids.handle()?,
        })
    }

    /// Replaces the attached programs by programs with other rules: all of them or none. Counters and the way that was
    /// set last are kept.
    pub fn swap(&mut self, rules: &ClatRules) -> Result<(), FastPathError> {
        let mut storage = MaybeUninit::uninit();
        let mut open = open(&mut storage, rules)?;
        let maps = &mut open.maps;
        maps.fates
            .reuse_fd(self.path.fates.as_fd())
            .and_then(|()| maps.ipv4_ids.reuse_fd(self.ipv4_ids.as_fd()))
            .and_then(|()| maps.next_hop.reuse_fd(self.next_hop.map()))
            .map_err(|e| failed("share the counters", e))?;
        let loaded = open.load().map_err(|e| failed("load", e))?;
        let new = programs(&loaded)?;

        for at in 0..new.len() {
            let Err(source) = self.path.hooks[at].replace(new[at].as_fd()) else {
                continue;
            };
            for done in 0..at {
                // The old program has just been there, so it fits.
                let _ = self.path.hooks[done].replace(self.programs[done].as_fd());
            }
            let program = NAMES[at];
            return Err(FastPathError::Attach { program, source });
        }
        self.programs = new;
        Ok(())
    }

    /// The programs that process packets received by the uplink before this one.
    pub fn before(&self) -> Vec<Attachee> {
        self.path.hooks.last().map(before).unwrap_or_default()
    }

    /// Sets the way that packets take out of the uplink.
    pub fn set_way(&mut self, way: WayOut) -> io::Result<()> {
        self.next_hop.set(way)
    }
}

/// The programs, in the order of [`NAMES`], with a lifetime beyond that of their object.
fn programs(loaded: &ClatSkel<'_>) -> Result<[OwnedFd; 3], FastPathError> {
    let programs = &loaded.progs;
    Ok([
        keep(programs.tun_ingress.as_fd())?,
        keep(programs.tun_egress.as_fd())?,
        keep(programs.uplink_ingress.as_fd())?,
    ])
}

impl Deref for ClatPath {
    type Target = FastPath;

    fn deref(&self) -> &FastPath {
        &self.path
    }
}

/// The opened object with its rules, before it is loaded.
pub(super) fn open<'object>(
    storage: &'object mut MaybeUninit<OpenObject>,
    rules: &ClatRules,
) -> Result<OpenClatSkel<'object>, FastPathError> {
    listen();
    let mut open = ClatSkelBuilder::default()
        .open(storage)
        .map_err(|e| failed("open", e))?;
    let data = open.maps.rodata_data.as_deref_mut().ok_or_else(no_data)?;
    fill_rules!(data, rules.rules);
    fill_pref64!(data.clat.pref64, rules.pref64);
    data.clat.v6.in6_u.u6_addr8 = rules.v6.octets();
    data.clat.v4_be = u32::from_ne_bytes(rules.v4.octets());
    data.clat.uplink_ifindex = rules.uplink_ifindex;
    data.clat.uplink_l2_len = if rules.uplink_is_ethernet { 14 } else { 0 };
    Ok(open)
}
