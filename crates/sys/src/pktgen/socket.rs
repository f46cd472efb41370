// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Frames by a packet socket, for where the generator in the kernel cannot send: many with one system call, past the
//! queueing discipline.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Not in libc for every target: linux/if_packet.h.
const PACKET_QDISC_BYPASS: libc::c_int = 20;

/// A socket that sends whole frames by one interface.
#[derive(Debug)]
pub struct FrameSocket(OwnedFd);

impl FrameSocket {
    /// Opens it. Needs CAP_NET_RAW.
    pub fn open(ifindex: u32) -> io::Result<FrameSocket> {
        // Protocol 0: nothing is received.
        // SAFETY: no pointers are passed; a descriptor that is returned is ours alone.
        let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: as above.
        let socket = FrameSocket(unsafe { OwnedFd::from_raw_fd(fd) });
        let yes: libc::c_int = 1;
        // SAFETY: `yes` is valid for its size.
        let set = unsafe {
            libc::setsockopt(
                fd,
                libc::SOL_PACKET,
                PACKET_QDISC_BYPASS,
                (&raw const yes).cast(),
                size_of_val(&yes) as libc::socklen_t,
            )
        };
        // SAFETY: all zeros is a valid sockaddr_ll.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_ifindex = ifindex as i32;
        // SAFETY: `address` is a sockaddr_ll of the given length.
        if set < 0
            || unsafe {
                libc::bind(
                    fd,
                    (&raw const address).cast(),
                    size_of_val(&address) as libc::socklen_t,
                )
            } < 0
        {
            return Err(io::Error::last_os_error());
        }
        Ok(socket)
    }

    /// Sends frames of `length` bytes each that stand one behind the other; says how many the interface took before it
    /// refused one. None of them is sent if it refuses the first.
    pub fn send(&self, frames: &[u8], length: usize) -> io::Result<usize> {
        let mut pieces: Vec<libc::iovec> = frames
            .chunks_exact(length)
            .map(|frame| libc::iovec {
                iov_base: frame.as_ptr().cast_mut().cast(),
                iov_len: length,
            })
            .collect();
        let mut messages: Vec<libc::mmsghdr> = pieces
            .iter_mut()
            .map(|piece| {
                // SAFETY: all zeros is a valid mmsghdr, without address and control data.
                let mut message: libc::mmsghdr = unsafe { std::mem::zeroed() };
                message.msg_hdr.msg_iov = piece;
                message.msg_hdr.msg_iovlen = 1;
                message
            })
            .collect();
        // SAFETY: each message points to one piece, which points to a frame; all outlive the call, which only reads
        // the frames.
        let taken = unsafe {
            libc::sendmmsg(
                self.0.as_raw_fd(),
                messages.as_mut_ptr(),
                messages.len() as libc::c_uint,
                0,
            )
        };
        usize::try_from(taken).map_err(|_| io::Error::last_os_error())
    }
}
