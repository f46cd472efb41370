// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Socket options that no library offers (socket(7), unix(7), packet(7)).

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Options that can be read. Their values are integers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Readable {
    /// `struct ucred`: process, user, group.
    PeerCredentials,
    /// An array of `gid_t`.
    PeerGroups,
    /// 64 bits.
    NamespaceCookie,
}

/// Options that can be set. Their values are integers and link-layer addresses.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Writable {
    /// `struct packet_mreq`.
    PacketMembership,
    /// `int`: frames bypass the queueing discipline.
    PacketQdiscBypass,
}

impl Readable {
    fn number(self) -> libc::c_int {
        match self {
            Readable::PeerCredentials => libc::SO_PEERCRED,
            Readable::PeerGroups => libc::SO_PEERGROUPS,
            // libc lacks it for some targets: asm-generic/socket.h.
            Readable::NamespaceCookie => 71,
        }
    }
}

impl Writable {
    fn number(self) -> libc::c_int {
        match self {
            Writable::PacketMembership => libc::PACKET_ADD_MEMBERSHIP,
            // libc lacks it for some targets: linux/if_packet.h.
            Writable::PacketQdiscBypass => 20,
        }
    }
}

/// Reads an option of the level SOL_SOCKET. Returns the number of bytes that the kernel has written to `value`.
pub(crate) fn get(socket: impl AsFd, option: Readable, value: &mut [u8]) -> io::Result<usize> {
    let mut len = value.len() as libc::socklen_t;
    // SAFETY: for each of these options the kernel reads nothing but `len`, and writes at most so many bytes to `value`, which
    // any bytes may fill; both outlive the call.
    let done = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            option.number(),
            value.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(len as usize)
}

/// Sets an option of the level SOL_PACKET.
pub(crate) fn set(socket: impl AsFd, option: Writable, value: &[u8]) -> io::Result<()> {
    // SAFETY: for each of these options the kernel copies the bytes of `value`, and takes none of them for a pointer.
    let done = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_PACKET,
            option.number(),
            value.as_ptr().cast(),
            value.len() as libc::socklen_t,
        )
    };
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
