// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The program that forwards packets to other gateways of a cluster (`bpf/forward.bpf.c`), between the translation and
//! the slow path at the TUN device.
//!
//! Order of use: load with the owners of the addresses, attach before [`super::LabelPath`], then set the way to each
//! gateway.

use std::io;
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{MapCore, MapFlags, MapHandle};

use super::load::{failed, keep, listen, AsMap};
use super::{handle, qdisc, Attach, FastPathError, Homes, Hook, Owner, Side};
use crate::skel::forward::ForwardSkelBuilder;

/// The way to another gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gateway {
    /// Index of the interface.
    pub ifindex: u32,
    /// The next hop, whose link-layer address is resolved there.
    pub next_hop: Ipv6Addr,
    /// The path MTU to the gateway in bytes, from the IP header on.
    pub mtu: u32,
}

/// Counters of packets for a gateway (`struct diolkos_forward_count`). For [`Owner::OURS`], only `returned`, `dropped`
/// and `forged` count: packets that other gateways have sent here, and packets that imitate these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ForwardCount {
    /// Packets forwarded to the gateway.
    pub packets: u64,
    /// Bytes of these packets, from the IP header on.
    pub bytes: u64,
    /// Packets dropped because the kernel had no memory to change them.
    pub dropped: u64,
    /// Packets left to the slow path because they exceed the path MTU.
    pub too_big: u64,
    /// Packets from other gateways that were left to the slow path, with a label.
    pub returned: u64,
    /// Packets left to the slow path because their hop limit expires here.
    pub hops: u64,
    /// Packets left to the slow path because the gateway is unreachable.
    pub no_way: u64,
    /// Packets dropped because they began like a label.
    pub forged: u64,
}

/// The ways to other gateways. Every method takes effect with the next packet.
#[derive(Debug)]
pub struct Forwarding {
    pub(super) gateways: MapHandle,
    forwarded: MapHandle,
}

/// The attached program. It is detached on drop.
#[derive(Debug)]
pub struct ForwardPath {
    hook: Option<Hook>,
    forwarding: Arc<Forwarding>,
}

impl ForwardPath {
    /// Loads the program and attaches it. The translation must already be attached at the device, and
    /// [`super::LabelPath`] must not be. It forwards nothing until [`Homes::set_cluster`] is called, and nothing to a
    /// gateway until [`Forwarding::lead`] is called for it.
    pub fn start(
        addresses: &[(Ipv4Addr, Owner)],
        homes: &Homes,
        tun_ifindex: u32,
        attach: Attach,
        instance: &str,
    ) -> Result<ForwardPath, FastPathError> {
        let (program, forwarding) = load(addresses, homes, Program::Egress)?;
        let side = Side::BetweenEgress;
        let hook = Hook::attach(program.as_fd(), tun_ifindex, side, attach, handle(instance));
        let hook = hook.map_err(|source| FastPathError::Attach {
            program: "forward_egress",
            source,
        })?;
        Ok(ForwardPath {
            hook: Some(hook),
            forwarding: Arc::new(forwarding),
        })
    }

    /// The ways, which may be changed at any time.
    pub fn forwarding(&self) -> Arc<Forwarding> {
        self.forwarding.clone()
    }
}

impl Drop for ForwardPath {
    fn drop(&mut self) {
        let made = self.hook.as_ref().and_then(Hook::made_qdisc_on);
        self.hook = None;
        if let Some(ifindex) = made {
            qdisc::remove_unused_clsact(ifindex);
        }
    }
}

/// A program of the object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Program {
    /// The program that forwards.
    Egress,
    /// A program that reports what would be done. Only tests use it.
    #[cfg_attr(not(feature = "testrun"), allow(dead_code))]
    Probe,
}

/// Returns a program and its maps, not attached.
pub(super) fn load(
    addresses: &[(Ipv4Addr, Owner)],
    homes: &Homes,
    which: Program,
) -> Result<(OwnedFd, Forwarding), FastPathError> {
    listen();
    let mut storage = MaybeUninit::uninit();
    let mut open = ForwardSkelBuilder::default()
        .open(&mut storage)
        .map_err(|e| failed("open", e))?;
    // In tests, the verifier checks both.
    open.progs
        .forward_probe
        .set_autoload(which == Program::Probe);
    let maps = &mut open.maps;
    homes
        .share(&mut maps.cluster, &mut maps.buckets, &mut maps.away)
        .and_then(|()| maps.bib.reuse_fd(homes.bound.as_fd()))
        .and_then(|()| {
            maps.addresses
                .set_max_entries(addresses.len().max(1) as u32)
        })
        .map_err(|e| failed("share the homes", e))?;
    let loaded = open.load().map_err(|e| failed("load", e))?;
    let maps = &loaded.maps;
    let known = maps.addresses.handle()?;
    for (address, owner) in addresses {
        let owner = u32::from(owner.byte()).to_ne_bytes();
        known
            .update(&address.octets(), &owner, MapFlags::ANY)
            .map_err(|e| failed("write the addresses", e))?;
    }
    let forwarding = Forwarding {
        gateways: maps.gateways.handle()?,
        forwarded: maps.forwarded.handle()?,
    };
    let program = match which {
        Program::Egress => loaded.progs.forward_egress.as_fd(),
        Program::Probe => loaded.progs.forward_probe.as_fd(),
    };
    Ok((keep(program)?, forwarding))
}

impl Forwarding {
    /// Sets the way to a gateway. With None, packets for it stay here.
    pub fn lead(&self, to: Owner, way: Option<Gateway>) -> io::Result<()> {
        let mut value = [0; 24];
        if let Some(way) = way {
            value[..4].copy_from_slice(&way.ifindex.to_ne_bytes());
            value[4..20].copy_from_slice(&way.next_hop.octets());
            value[20..].copy_from_slice(&way.mtu.to_ne_bytes());
        }
        self.gateways
            .update(&u32::from(to.byte()).to_ne_bytes(), &value, MapFlags::ANY)
            .map_err(io::Error::other)
    }

    /// The counters of a gateway, summed over the CPUs.
    pub fn count(&self, to: Owner) -> io::Result<ForwardCount> {
        let per_cpu = self
            .forwarded
            .lookup_percpu(&u32::from(to.byte()).to_ne_bytes(), MapFlags::ANY)
            .map_err(io::Error::other)?
            .unwrap_or_default();
        let number = |value: &[u8], at: usize| {
            let bytes = value.get(at..at + 8)?.try_into().ok()?;
            Some(u64::from_ne_bytes(bytes))
        };
        let sum = |at| per_cpu.iter().filter_map(|value| number(value, at)).sum();
        Ok(ForwardCount {
            packets: sum(0),
            bytes: sum(8),
            dropped: sum(16),
            too_big: sum(24),
            returned: sum(32),
            hops: sum(40),
            no_way: sum(48),
            forged: sum(56),
        })
    }
}
