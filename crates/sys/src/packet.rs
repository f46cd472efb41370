// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A packet socket that hears messages of Neighbour Discovery on one interface
//! (RFC 4861: of neighbours, or of routers), or ARP (RFC 826), and speaks IPv6 or ARP on it.
//!
//! With it the program answers for an address that is not the host's: no
//! address, proxy entry or sysctl stays behind when it ends. And it hears what
//! routers say whatever the kernel does with it.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use tokio::io::unix::AsyncFd;
use tokio::io::Interest;

/// A link-layer address, as long as the link's addresses are.
pub type LinkAddress = Vec<u8>;

/// Each read gives one packet from its network header on. It lives in a tokio runtime.
#[derive(Debug)]
pub struct DiscoverySocket {
    fd: AsyncFd<OwnedFd>,
    ifindex: u32,
    hears: Hears,
}

/// What is heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hears {
    /// Neighbour solicitations and advertisements.
    Neighbours,
    /// Router advertisements.
    Routers,
    /// All of ARP.
    Arp,
}

impl Hears {
    /// ICMPv6 types; none if it is not IPv6.
    fn types(self) -> Option<[u32; 2]> {
        match self {
            Hears::Neighbours => Some([135, 136]),
            Hears::Routers => Some([134, 134]),
            Hears::Arp => None,
        }
    }

    /// Of linux/if_ether.h.
    fn ethertype(self) -> libc::c_int {
        match self {
            Hears::Neighbours | Hears::Routers => libc::ETH_P_IPV6,
            Hears::Arp => libc::ETH_P_ARP,
        }
    }
}

/// Lets packets of the interface's own network pass; of IPv6, those whose next header is ICMPv6 with one of two types.
/// Offsets count from the network header.
///
/// The kernel hands over those of VLANs, too. One in a VLAN that this host is in has become that VLAN's interface's. One in
/// a VLAN that it is not in has lost its tag, and is somebody else's.
fn filter(ifindex: u32, types: Option<[u32; 2]>) -> Vec<libc::sock_filter> {
    fn ins(code: u32, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
        libc::sock_filter {
            code: code as u16,
            jt,
            jf,
            k,
        }
    }
    const LOAD_BYTE: u32 = libc::BPF_LD | libc::BPF_B | libc::BPF_ABS;
    const LOAD_WORD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    const IF_EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    const RETURN: u32 = libc::BPF_RET | libc::BPF_K;
    const ANCILLARY: u32 = libc::SKF_AD_OFF as u32;
    const KIND: u32 = ANCILLARY.wrapping_add(libc::SKF_AD_PKTTYPE as u32);
    const IFINDEX: u32 = ANCILLARY.wrapping_add(libc::SKF_AD_IFINDEX as u32);
    let refuse = || ins(RETURN, 0, 0, 0);
    let mut filter = vec![
        ins(LOAD_WORD, 0, 0, KIND),
        ins(IF_EQUAL, 2, 0, libc::PACKET_OTHERHOST as u32),
        ins(LOAD_WORD, 0, 0, IFINDEX),
        ins(IF_EQUAL, 1, 0, ifindex),
        refuse(),
    ];
    if let Some([one, other]) = types {
        filter.extend([
            ins(LOAD_BYTE, 0, 0, 6),
            ins(IF_EQUAL, 0, 3, 58),
            ins(LOAD_BYTE, 0, 0, 40),
            ins(IF_EQUAL, 2, 0, one),
            ins(IF_EQUAL, 1, 0, other),
            refuse(),
        ]);
    }
    filter.push(ins(RETURN, 0, 0, 0xffff));
    filter
}

impl DiscoverySocket {
    /// Opens the socket on one interface. Needs CAP_NET_RAW.
    pub fn open(ifindex: u32, hears: Hears) -> io::Result<DiscoverySocket> {
        let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // Protocol 0: nothing arrives before the filter stands and the socket is bound.
        // SAFETY: no pointers are passed; a descriptor that is returned is ours alone.
        let fd = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: as above.
        let owned = unsafe { OwnedFd::from_raw_fd(fd) };

        let mut filter = filter(ifindex, hears.types());
        let program = libc::sock_fprog {
            len: filter.len() as u16,
            filter: filter.as_mut_ptr(),
        };
        // SAFETY: the kernel copies the program, whose pointer and length are of `filter`.
        let set = unsafe {
            libc::setsockopt(
                fd,
                libc::SOL_SOCKET,
                libc::SO_ATTACH_FILTER,
                (&raw const program).cast(),
                size_of_val(&program) as libc::socklen_t,
            )
        };
        let address = link_layer(ifindex, hears, &[]);
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
        // SAFETY: an OwnedFd is open, and the same descriptor, for as long as it lives.
        let fd = unsafe { AsyncFd::register_with_interest(owned, Interest::READABLE) }?;
        Ok(DiscoverySocket { fd, ifindex, hears })
    }

    /// Has the network card pass on what is sent to any group, for as long as the socket is open.
    pub fn hear_all_groups(&self) -> io::Result<()> {
        let membership = libc::packet_mreq {
            mr_ifindex: self.ifindex as i32,
            mr_type: libc::PACKET_MR_ALLMULTI as u16,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        // SAFETY: the kernel copies the value, which is valid for its length.
        let set = unsafe {
            libc::setsockopt(
                self.fd.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_ADD_MEMBERSHIP,
                (&raw const membership).cast(),
                size_of_val(&membership) as libc::socklen_t,
            )
        };
        match set {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// The next packet and who sent it.
    pub async fn receive(&self, buffer: &mut [u8]) -> io::Result<(usize, LinkAddress)> {
        self.fd
            .async_io(Interest::READABLE, |fd| receive(fd, self, buffer))
            .await
    }

    /// Sends one packet to a link-layer address; the kernel writes the link-layer header.
    pub fn send(&self, packet: &[u8], to: &[u8]) -> io::Result<()> {
        let address = link_layer(self.ifindex, self.hears, to);
        // SAFETY: packet and address are valid for reading their lengths.
        let n = unsafe {
            libc::sendto(
                self.fd.as_raw_fd(),
                packet.as_ptr().cast(),
                packet.len(),
                0,
                (&raw const address).cast(),
                size_of_val(&address) as libc::socklen_t,
            )
        };
        if n < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }
}

fn receive(
    fd: &OwnedFd,
    socket: &DiscoverySocket,
    buffer: &mut [u8],
) -> io::Result<(usize, LinkAddress)> {
    let mut from = link_layer(socket.ifindex, socket.hears, &[]);
    let mut len = size_of_val(&from) as libc::socklen_t;
    // SAFETY: buffer, address and length are valid for writing for the call.
    let n = unsafe {
        libc::recvfrom(
            fd.as_raw_fd(),
            buffer.as_mut_ptr().cast(),
            buffer.len(),
            0,
            (&raw mut from).cast(),
            &mut len,
        )
    };
    let n = usize::try_from(n).map_err(|_| io::Error::last_os_error())?;
    let halen = usize::from(from.sll_halen).min(from.sll_addr.len());
    Ok((n, from.sll_addr[..halen].to_vec()))
}

fn link_layer(ifindex: u32, hears: Hears, to: &[u8]) -> libc::sockaddr_ll {
    // SAFETY: all zeros is a valid sockaddr_ll.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (hears.ethertype() as u16).to_be();
    address.sll_ifindex = ifindex as i32;
    address.sll_halen = to.len().min(address.sll_addr.len()) as u8;
    for (slot, byte) in address.sll_addr.iter_mut().zip(to) {
        *slot = *byte;
    }
    address
}
