// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One frame once through one program: the bytes that the kernel takes, and the meaning of what the program returns.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// Bytes of an Ethernet header.
pub(super) const ETHERNET: usize = 14;

/// `struct __sk_buff`, which goes in as context: its length, and where it has what a super-packet needs.
pub(super) const CONTEXT: usize = 192;
const GSO_SEGS_AT: usize = 164;
const GSO_SIZE_AT: usize = 176;

/// What a program can return (`linux/pkt_cls.h`, `enum xdp_action`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// `TC_ACT_UNSPEC`, `XDP_PASS`: whoever comes next gets the packet.
    Next,
    /// `TC_ACT_SHOT`, `XDP_DROP`: the packet is dropped.
    Drop,
    /// `XDP_TX`: back to where it came from.
    Back,
    /// `TC_ACT_REDIRECT`: to another interface. To which, the kernel does not tell.
    Redirect,
    /// Something that no program of ours returns.
    Other(u32),
}

/// A frame with the packet, as a driver passes it, once through the program.
pub(super) fn run_on_frame(
    program: &OwnedFd,
    ethertype: u16,
    packet: &[u8],
) -> io::Result<(u32, Vec<u8>)> {
    let mut data_in = vec![0; ETHERNET - 2];
    data_in.extend(ethertype.to_be_bytes());
    data_in.extend(packet);
    run_once(program, &data_in, None)
}

/// The packet with a header in front, as the kernel passes it, once through the program.
pub(super) fn run(
    program: &OwnedFd,
    ethertype: u16,
    packet: &[u8],
    gso_size: u16,
) -> io::Result<(Action, Vec<u8>)> {
    let mut data_in = vec![0; ETHERNET - 2];
    data_in.extend(ethertype.to_be_bytes());
    data_in.extend(packet);
    let mut context = [0u8; CONTEXT];
    if gso_size > 0 {
        let segments = (packet.len() / usize::from(gso_size) + 1) as u32;
        context[GSO_SEGS_AT..GSO_SEGS_AT + 4].copy_from_slice(&segments.to_ne_bytes());
        context[GSO_SIZE_AT..GSO_SIZE_AT + 4].copy_from_slice(&u32::from(gso_size).to_ne_bytes());
    }
    run_frame(program, &data_in, &context)
}

/// A frame as it is.
pub(super) fn run_frame(
    program: &OwnedFd,
    data_in: &[u8],
    context: &[u8; CONTEXT],
) -> io::Result<(Action, Vec<u8>)> {
    let (returned, data_out) = run_once(program, data_in, Some(context))?;
    let action = match returned as i32 {
        -1 => Action::Next,
        2 => Action::Drop,
        7 => Action::Redirect,
        _ => Action::Other(returned),
    };
    Ok((action, data_out))
}

/// What the program returned, and the frame behind it.
fn run_once(
    program: &OwnedFd,
    data_in: &[u8],
    context: Option<&[u8; CONTEXT]>,
) -> io::Result<(u32, Vec<u8>)> {
    let mut data_out = vec![0; data_in.len() + 128];
    let call = diolkos_sys::bpf::TestRun {
        data_in,
        data_out: &mut data_out,
        context: context.map_or(&[], |context| context),
        repeat: 1,
        ..Default::default()
    };
    let (returned, len) = call.run(program.as_fd())?;
    data_out.truncate(len);
    Ok((returned, data_out))
}
