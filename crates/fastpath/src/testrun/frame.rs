// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs one program once on one frame: the input that the kernel takes, and the meaning of the result.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// Length in bytes of an Ethernet header.
pub(super) const ETHERNET: usize = 14;

/// `struct __sk_buff`, the context of a run: its length, and the offsets of the fields of a super-packet.
pub(super) const CONTEXT: usize = 192;
const GSO_SEGS_AT: usize = 164;
const GSO_SIZE_AT: usize = 176;

/// The result of a program (`linux/pkt_cls.h`, `enum xdp_action`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// `TC_ACT_UNSPEC`, `XDP_PASS`: the packet is passed to the next program or the kernel.
    Next,
    /// `TC_ACT_SHOT`, `XDP_DROP`: the packet is dropped.
    Drop,
    /// `XDP_TX`: the packet is sent back to its interface.
    Back,
    /// `TC_ACT_REDIRECT`, `XDP_REDIRECT`: the packet is sent to another interface, which the kernel does not report.
    Redirect,
    /// A value that no program of this project returns.
    Other(u32),
}

impl Action {
    /// The result of a program in a driver.
    pub(super) fn of_driver(result: u32) -> Action {
        match result {
            1 => Action::Drop,
            2 => Action::Next,
            3 => Action::Back,
            4 => Action::Redirect,
            other => Action::Other(other),
        }
    }
}

/// Runs the program once on a frame with the packet, as a driver passes it.
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

/// Runs the program once on the packet with a header in front, as the kernel passes it.
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

/// Runs the program once on a frame.
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

/// Returns the result of the program, and the frame after it.
pub(super) fn run_once(
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
