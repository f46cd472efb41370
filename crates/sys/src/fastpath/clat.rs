// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The fast path of a CLAT: three programs at the TUN device and the uplink (`bpf/clat.bpf.c`).

use std::io;
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Deref;
use std::os::fd::AsFd;

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::OpenObject;

use super::isthmus::AsMap;
use super::load::{failed, fill_pref64, fill_rules, keep, listen, no_data, seed};
use super::next_hop::NextHop;
use super::{handle, Attach, FastPath, FastPathError, Hook, Pref64, Rules, Side};
use crate::skel::clat::{ClatSkelBuilder, OpenClatSkel};

/// What the programs of a CLAT need to know; see `struct diolkos_clat` in `bpf/abi.h`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClatRules {
    /// What all modes share.
    pub rules: Rules,
    /// The CLAT's IPv4 address.
    pub v4: Ipv4Addr,
    /// The CLAT's IPv6 address.
    pub v6: Ipv6Addr,
    /// The PLAT's prefix.
    pub pref64: Pref64,
    /// Index of the uplink.
    pub uplink_ifindex: u32,
    /// The uplink has Ethernet headers; otherwise it carries bare IP.
    pub uplink_is_ethernet: bool,
}

/// Loaded and attached programs; dropped, they are off.
#[derive(Debug)]
pub struct ClatPath {
    path: FastPath,
    next_hop: NextHop,
}

impl ClatPath {
    /// Loads the programs with these rules and attaches them behind whatever is attached already.
    /// `instance` tells our filters from those of another instance and is the same at every start;
    /// `random` makes the IPv4 identifications of this run start at a place nobody can guess.
    pub fn start(
        rules: &ClatRules,
        attach: Attach,
        instance: &str,
        random: u64,
    ) -> Result<ClatPath, FastPathError> {
        // The object only lives in this function; programs and maps live on by their descriptors.
        let mut storage = MaybeUninit::uninit();
        let loaded = open(&mut storage, rules)?
            .load()
            .map_err(|e| failed("load", &e))?;
        seed(&loaded.maps.ipv4_ids, random)?;
        let (programs, maps) = (&loaded.progs, &loaded.maps);
        let fates = maps.fates.handle()?;
        let next_hop = maps.next_hop.handle()?;

        let (tun, uplink) = (rules.rules.tun_ifindex, rules.uplink_ifindex);
        let mut path = FastPath::new(fates);
        // From the inside out: nothing is redirected before the place it is redirected to is ready.
        for (name, program, ifindex, side) in [
            ("tun_ingress", &programs.tun_ingress, tun, Side::Ingress),
            ("tun_egress", &programs.tun_egress, tun, Side::Egress),
            (
                "uplink_ingress",
                &programs.uplink_ingress,
                uplink,
                Side::Ingress,
            ),
        ] {
            let program = keep(program.as_fd())?;
            let hook = Hook::attach(program.as_fd(), ifindex, side, attach, handle(instance));
            path.hooks
                .push(hook.map_err(|source| FastPathError::Attach {
                    program: name,
                    source,
                })?);
        }
        Ok(ClatPath {
            path,
            next_hop: NextHop::new(next_hop),
        })
    }

    /// Tells the programs the one router behind the translation prefix, so that they need not look the route up for
    /// each packet. `None` when it is not certain that there is exactly one.
    pub fn set_next_hop(&mut self, router: Option<Ipv6Addr>) -> io::Result<()> {
        self.next_hop.set(router)
    }
}

impl Deref for ClatPath {
    type Target = FastPath;

    fn deref(&self) -> &FastPath {
        &self.path
    }
}

/// The object with its rules, before the kernel sees it.
pub(super) fn open<'object>(
    storage: &'object mut MaybeUninit<OpenObject>,
    rules: &ClatRules,
) -> Result<OpenClatSkel<'object>, FastPathError> {
    listen();
    let mut open = ClatSkelBuilder::default()
        .open(storage)
        .map_err(|e| failed("open", &e))?;
    let data = open.maps.rodata_data.as_deref_mut().ok_or_else(no_data)?;
    fill_rules!(data, rules.rules);
    fill_pref64!(data.clat.pref64, rules.pref64);
    data.clat.v6.in6_u.u6_addr8 = rules.v6.octets();
    data.clat.v4_be = u32::from_ne_bytes(rules.v4.octets());
    data.clat.uplink_ifindex = rules.uplink_ifindex;
    data.clat.uplink_l2_len = if rules.uplink_is_ethernet { 14 } else { 0 };
    Ok(open)
}
