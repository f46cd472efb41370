// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The address of a packet socket: for its binding, and as a destination (packet(7)).

use rustix::net::addr::{SocketAddrArg, SocketAddrLen, SocketAddrOpaque};

/// An interface, the EtherType that is received there, and a link-layer address.
#[derive(Clone, Copy, Debug)]
pub struct LinkLayer(libc::sockaddr_ll);

impl LinkLayer {
    /// `ethertype`: from linux/if_ether.h, 0 for none. `to`: an address of the link's length, empty for none.
    pub fn new(ifindex: u32, ethertype: u16, to: &[u8]) -> LinkLayer {
        let mut address = [0; 8];
        let halen = to.len().min(address.len());
        address[..halen].copy_from_slice(&to[..halen]);
        LinkLayer(libc::sockaddr_ll {
            sll_family: libc::AF_PACKET as u16,
            sll_protocol: ethertype.to_be(),
            sll_ifindex: ifindex as i32,
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: halen as u8,
            sll_addr: address,
        })
    }
}

// SAFETY: the pointer is that of a whole sockaddr_ll, the length is its own, and it lives until the call is over.
unsafe impl SocketAddrArg for LinkLayer {
    unsafe fn with_sockaddr<R>(
        &self,
        call: impl FnOnce(*const SocketAddrOpaque, SocketAddrLen) -> R,
    ) -> R {
        call(
            (&raw const self.0).cast(),
            size_of_val(&self.0) as SocketAddrLen,
        )
    }
}
