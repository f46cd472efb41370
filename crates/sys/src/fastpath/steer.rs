// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The program that forwards packets which belong to another node of a cluster (`bpf/steer.bpf.c`), in front of the
//! translation at the TUN device.
//!
//! load with the slices → attach → say whose each slice is, and by which next hop each node is reached

use std::io;
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{MapCore, MapFlags, MapHandle};

use super::load::{failed, keep, listen};
use super::router::AsMap;
use super::{handle, qdisc, Attach, FastPathError, Hook, Side};
use crate::skel::steer::SteerSkelBuilder;

/// Places of nodes, of which the first is none (`DIOLKOS_STEER_NODES`).
pub const STEER_NODES: u32 = 1024;
/// Translation prefixes that the program can know (`DIOLKOS_STEER_PREF64`).
const PREF64: usize = 16;

/// The slices of one address: so many of the same size one after the other, the last of which may be longer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SteerAddress {
    /// The address.
    pub addr: Ipv4Addr,
    /// The first of its slices, and how many there are.
    pub slices: (u32, u32),
    /// Ports of all of them.
    pub ports: RangeInclusive<u16>,
    /// Ports of each.
    pub size: u16,
}

/// The slices of a cluster's pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SteerRules {
    /// The cluster's key of the hash that gives a source its slice.
    pub key: [u64; 2],
    /// How many slices there are.
    pub slices: u32,
    /// Bits of an IPv6 address that make a source.
    pub source_prefix_len: u8,
    /// Translation prefixes, address and length. With more than 16 the program is refused.
    pub pref64: Vec<(Ipv6Addr, u8)>,
    /// The pool.
    pub addresses: Vec<SteerAddress>,
}

/// The way to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextHop {
    /// Index of the interface.
    pub ifindex: u32,
    /// Who is asked for its link-layer address there.
    pub address: Ipv6Addr,
}

/// What became of packets that belong to another node (`struct diolkos_steer_count`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forwarded {
    /// Forwarded to it.
    pub packets: u64,
    /// Bytes of these, from the IP header on.
    pub bytes: u64,
    /// Packets that the kernel could not change for want of memory.
    pub dropped: u64,
    /// Packets that another node has sent back, and that were therefore translated here.
    pub returned: u64,
}

/// Whose the slices are. Every method takes effect with the next packet.
#[derive(Debug)]
pub struct Steering {
    owners: MapHandle,
    nodes: MapHandle,
    forwarded: MapHandle,
}

/// The loaded program at the TUN device; dropped, it is off.
#[derive(Debug)]
pub struct SteerPath {
    hook: Option<Hook>,
    steering: Arc<Steering>,
}

impl SteerPath {
    /// Loads the program and puts it in front of the others at the TUN device. All slices belong here until
    /// [`Steering::give`] says otherwise.
    pub fn start(
        rules: &SteerRules,
        tun_ifindex: u32,
        attach: Attach,
        instance: &str,
    ) -> Result<SteerPath, FastPathError> {
        let (program, steering) = load(rules, Program::Egress)?;
        let hook = Hook::attach(
            program.as_fd(),
            tun_ifindex,
            Side::FrontEgress,
            attach,
            handle(instance),
        );
        let hook = hook.map_err(|source| FastPathError::Attach {
            program: "steer_egress",
            source,
        })?;
        Ok(SteerPath {
            hook: Some(hook),
            steering: Arc::new(steering),
        })
    }

    /// The owners, for whoever changes them.
    pub fn steering(&self) -> Arc<Steering> {
        self.steering.clone()
    }
}

impl Drop for SteerPath {
    fn drop(&mut self) {
        let made = self.hook.as_ref().and_then(Hook::made_qdisc_on);
        self.hook = None;
        if let Some(ifindex) = made {
            qdisc::remove_unused_clsact(ifindex);
        }
    }
}

/// One of the object's programs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Program {
    /// It forwards.
    Egress,
    /// It says where to. Only tests ask.
    #[cfg_attr(not(feature = "testrun"), allow(dead_code))]
    Probe,
}

/// A program and its maps, attached nowhere.
pub(super) fn load(
    rules: &SteerRules,
    which: Program,
) -> Result<(OwnedFd, Steering), FastPathError> {
    listen();
    if rules.pref64.len() > PREF64 {
        return Err(FastPathError::Load {
            what: format!("a cluster has at most {PREF64} translation prefixes"),
            log: String::new(),
        });
    }
    let mut storage = MaybeUninit::uninit();
    let mut open = SteerSkelBuilder::default()
        .open(&mut storage)
        .map_err(|e| failed("open", &e))?;
    // Under test the verifier looks at both.
    open.progs.steer_probe.set_autoload(which == Program::Probe);
    let slices = rules.slices.max(1);
    open.maps
        .owners
        .set_max_entries(slices)
        .map_err(|e| failed("size the slices", &e))?;
    let loaded = open.load().map_err(|e| failed("load", &e))?;
    let maps = &loaded.maps;
    let set = |map: &MapHandle, key: &[u8], value: &[u8]| {
        map.update(key, value, MapFlags::ANY)
            .map_err(|e| failed("write the slices", &e))
    };
    let addresses = maps.addresses.handle()?;
    for address in &rules.addresses {
        set(&addresses, &address.addr.octets(), &address_value(address))?;
    }
    set(
        &maps.steering.handle()?,
        &0u32.to_ne_bytes(),
        &rules_value(rules),
    )?;
    let steering = Steering {
        owners: maps.owners.handle()?,
        nodes: maps.nodes.handle()?,
        forwarded: maps.forwarded.handle()?,
    };
    let program = match which {
        Program::Egress => loaded.progs.steer_egress.as_fd(),
        Program::Probe => loaded.progs.steer_probe.as_fd(),
    };
    Ok((keep(program)?, steering))
}

impl Steering {
    /// A slice belongs to the node of a place (1 to [`STEER_NODES`] - 1) from now on, or here.
    pub fn give(&self, slice: u32, place: Option<u32>) -> io::Result<()> {
        put(&self.owners, slice, &place.unwrap_or(0).to_ne_bytes())
    }

    /// The way to the node of a place; without one, its packets stay here.
    pub fn lead(&self, place: u32, hop: Option<NextHop>) -> io::Result<()> {
        let mut value = [0; 20];
        if let Some(hop) = hop {
            value[..4].copy_from_slice(&hop.ifindex.to_ne_bytes());
            value[4..].copy_from_slice(&hop.address.octets());
        }
        put(&self.nodes, place, &value)
    }

    /// What became of the packets of the node of a place, summed over the CPUs.
    pub fn forwarded(&self, place: u32) -> io::Result<Forwarded> {
        let per_cpu = self
            .forwarded
            .lookup_percpu(&place.to_ne_bytes(), MapFlags::ANY)
            .map_err(io::Error::other)?
            .unwrap_or_default();
        let number = |value: &[u8], at: usize| {
            let bytes = value.get(at..at + 8)?.try_into().ok()?;
            Some(u64::from_ne_bytes(bytes))
        };
        let sum = |at| per_cpu.iter().filter_map(|value| number(value, at)).sum();
        Ok(Forwarded {
            packets: sum(0),
            bytes: sum(8),
            dropped: sum(16),
            returned: sum(24),
        })
    }
}

fn put(map: &MapHandle, key: u32, value: &[u8]) -> io::Result<()> {
    map.update(&key.to_ne_bytes(), value, MapFlags::ANY)
        .map_err(io::Error::other)
}

/// `struct diolkos_steer_address`.
fn address_value(address: &SteerAddress) -> Vec<u8> {
    let (first, slices) = address.slices;
    let ports = [*address.ports.start(), *address.ports.end(), address.size].map(u32::from);
    let words = [first, slices].into_iter().chain(ports);
    words.flat_map(u32::to_ne_bytes).collect()
}

/// `struct diolkos_steering`.
fn rules_value(rules: &SteerRules) -> Vec<u8> {
    let mut value: Vec<u8> = rules.key.into_iter().flat_map(u64::to_ne_bytes).collect();
    let len = u32::from(rules.source_prefix_len);
    let words = [rules.slices, len, rules.pref64.len() as u32, 0];
    value.extend(words.into_iter().flat_map(u32::to_ne_bytes));
    for place in 0..PREF64 {
        let (network, len) = match rules.pref64.get(place) {
            Some((network, len)) => (network.to_bits(), u32::from(*len)),
            None => (0, 0),
        };
        value.extend(((network >> 64) as u64).to_ne_bytes());
        value.extend((network as u64).to_ne_bytes());
        value.extend(len.to_ne_bytes());
        value.extend([0; 4]);
    }
    value
}
