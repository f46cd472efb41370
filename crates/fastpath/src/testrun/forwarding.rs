// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Asks the forwarding program about its decision on a packet.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;

use super::frame::{run_frame, Action, CONTEXT, ETHERNET};
use super::{ETHERTYPE_IPV4, ETHERTYPE_IPV6};
use crate::{forward, FastPathError, Forwarding, Homes, Owner};

/// Offsets in `struct __sk_buff`.
const MARK_AT: usize = 8;
const PRIORITY_AT: usize = 32;
const INGRESS_IFINDEX_AT: usize = 36;
const GSO_SEGS_AT: usize = 164;
const GSO_SIZE_AT: usize = 176;

/// The decision of the program about a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Leave the packet to the slow path.
    Here,
    /// Leave it to the slow path with a label: it comes from another gateway.
    Returned,
    /// Send it to another gateway.
    To(Owner),
    /// It belongs to the given gateway, and exceeds the path MTU.
    TooBig(Owner),
    /// It belongs to the given gateway, and its hop limit expires here.
    Hops(Owner),
    /// It belongs to the given gateway, which is unreachable.
    NoWay(Owner),
}

/// The programs (`bpf/forward.bpf.c`), not attached.
#[derive(Debug)]
pub struct ForwardRun {
    probe: OwnedFd,
    egress: OwnedFd,
    /// The ways to other gateways, as `probe` reads them.
    pub forwarding: Forwarding,
    /// The counters of the program at the device.
    pub at_device: Forwarding,
}

impl ForwardRun {
    /// Loads the programs, as the daemon does.
    pub fn load(
        addresses: &[(Ipv4Addr, Owner)],
        homes: &Homes,
    ) -> Result<ForwardRun, FastPathError> {
        let (probe, forwarding) = forward::load(addresses, homes, forward::Program::Probe)?;
        let (egress, at_device) = forward::load(addresses, homes, forward::Program::Egress)?;
        Ok(ForwardRun {
            probe,
            egress,
            forwarding,
            at_device,
        })
    }

    /// The decision about a packet received by an interface; `gso_size`: see [`super::TestRun::from_ipv4`].
    pub fn verdict(&self, packet: &[u8], gso_size: u16, ingress: u32) -> io::Result<Verdict> {
        let (action, _) = run_frame(&self.probe, &frame(packet), &context(gso_size, ingress))?;
        let code = match action {
            // Small codes have other names.
            Action::Drop => 2,
            Action::Redirect => 7,
            Action::Other(code) => code,
            action => return Err(io::Error::other(format!("{action:?}"))),
        };
        let owner = Owner::of_byte(code as u8).ok_or(io::ErrorKind::InvalidData)?;
        Ok(match code >> 8 {
            0 if owner == Owner::OURS => Verdict::Here,
            0 => Verdict::To(owner),
            1 => Verdict::Returned,
            2 => Verdict::TooBig(owner),
            4 => Verdict::Hops(owner),
            _ => Verdict::NoWay(owner),
        })
    }

    /// Runs the device program on a packet. Returns its result, and the bytes after it. Test packets have an Ethernet
    /// header where the program expects an IP header, so only packets of other gateways can be tested.
    pub fn at_device(
        &self,
        packet: &[u8],
        ingress: u32,
        [mark, priority]: [u32; 2],
    ) -> io::Result<(Action, Vec<u8>)> {
        let mut context = context(0, ingress);
        context[MARK_AT..MARK_AT + 4].copy_from_slice(&mark.to_ne_bytes());
        context[PRIORITY_AT..PRIORITY_AT + 4].copy_from_slice(&priority.to_ne_bytes());
        run_frame(&self.egress, &frame(packet), &context)
    }
}

fn frame(packet: &[u8]) -> Vec<u8> {
    let is_v6 = packet.first().is_some_and(|byte| byte >> 4 == 6);
    let ethertype = if is_v6 {
        ETHERTYPE_IPV6
    } else {
        ETHERTYPE_IPV4
    };
    let mut frame = vec![0; ETHERNET - 2];
    frame.extend(ethertype.to_be_bytes());
    frame.extend(packet);
    frame
}

fn context(gso_size: u16, ingress: u32) -> [u8; CONTEXT] {
    let mut context = [0; CONTEXT];
    let mut put = |at: usize, number: u32| {
        context[at..at + 4].copy_from_slice(&number.to_ne_bytes());
    };
    put(INGRESS_IFINDEX_AT, ingress);
    if gso_size > 0 {
        put(GSO_SEGS_AT, 2);
        put(GSO_SIZE_AT, gso_size.into());
    }
    context
}
