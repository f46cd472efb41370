// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sends frames by a packet socket where the kernel's packet generator cannot send: many with one system call, and past the
//! queueing discipline.

use std::io::{self, IoSlice};
use std::os::fd::OwnedFd;

use rustix::net::{
    bind, sendmmsg, socket_with, AddressFamily, MMsgHdr, SendAncillaryBuffer, SendFlags,
    SocketFlags, SocketType,
};

use crate::link_layer::LinkLayer;
use crate::socket_option::{set, Writable};

/// A socket that sends whole frames by one interface.
#[derive(Debug)]
pub struct FrameSocket(OwnedFd);

impl FrameSocket {
    /// The most frames of one system call.
    pub const AT_ONCE: usize = 64;

    /// Opens the socket. Needs CAP_NET_RAW.
    pub fn open(ifindex: u32) -> io::Result<FrameSocket> {
        // No protocol: nothing is received.
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)?;
        set(&socket, Writable::PacketQdiscBypass, &1u32.to_ne_bytes())?;
        bind(&socket, &LinkLayer::new(ifindex, 0, &[]))?;
        Ok(FrameSocket(socket))
    }

    /// Sends consecutive frames of `length` bytes each, at most [`FrameSocket::AT_ONCE`]. Returns the number of frames that the
    /// interface accepted before it refused one. If it refuses the first, none is sent.
    pub fn send(&self, frames: &[u8], length: usize) -> io::Result<usize> {
        let mut frames = frames.chunks_exact(length);
        let count = frames.len().min(FrameSocket::AT_ONCE);
        let pieces: [_; FrameSocket::AT_ONCE] =
            std::array::from_fn(|_| IoSlice::new(frames.next().unwrap_or_default()));
        let mut without: [_; FrameSocket::AT_ONCE] =
            std::array::from_fn(|_| SendAncillaryBuffer::default());
        let mut each = pieces.chunks_exact(1).zip(&mut without);
        let mut messages: [_; FrameSocket::AT_ONCE] = std::array::from_fn(|_| {
            let (piece, without) = each.next().expect("there are as many");
            MMsgHdr::new(piece, without)
        });
        Ok(sendmmsg(
            &self.0,
            &mut messages[..count],
            SendFlags::empty(),
        )?)
    }
}
