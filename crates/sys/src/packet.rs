// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A packet socket for one interface that receives Neighbour Discovery messages (RFC 4861: of neighbours, or of routers) or ARP
//! (RFC 826), and sends IPv6 or ARP.
//!
//! With it the program answers for an address that the host does not have: no address, proxy entry or sysctl stays behind when
//! it ends. It also receives the messages of routers whatever the kernel does with them.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::net::{bind, sendto, socket_with, AddressFamily, SendFlags, SocketFlags, SocketType};
use socket2::{SockFilter, SockRef};
use tokio::io::unix::AsyncFd;
use tokio::io::Interest;

use crate::link_layer::LinkLayer;
use crate::socket_option::{set, Writable};

/// A link-layer address, of the link's address length.
pub type LinkAddress = Vec<u8>;

/// The socket. Each read gives one packet, starting at its network header. It must be used in a tokio runtime.
#[derive(Debug)]
pub struct DiscoverySocket {
    fd: AsyncFd<OwnedFd>,
    ifindex: u32,
    hears: Hears,
}

/// The packets that the socket receives.
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
    /// The ICMPv6 types; `None` for ARP.
    fn types(self) -> Option<[u32; 2]> {
        match self {
            Hears::Neighbours => Some([135, 136]),
            Hears::Routers => Some([134, 134]),
            Hears::Arp => None,
        }
    }

    /// The EtherType, from linux/if_ether.h.
    fn ethertype(self) -> u16 {
        match self {
            Hears::Neighbours | Hears::Routers => libc::ETH_P_IPV6 as u16,
            Hears::Arp => libc::ETH_P_ARP as u16,
        }
    }
}

/// The filter accepts packets of the interface's own network; of IPv6, only those whose next header is ICMPv6 with one of two
/// types. Offsets count from the network header.
///
/// The kernel also delivers packets of VLANs. A packet in a VLAN that this host has joined belongs to that VLAN's interface. A
/// packet in another VLAN has lost its tag, and is meant for other hosts.
fn filter(ifindex: u32, types: Option<[u32; 2]>) -> Vec<SockFilter> {
    fn ins(code: u32, jt: u8, jf: u8, k: u32) -> SockFilter {
        SockFilter::new(code as u16, jt, jf, k)
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
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        // With protocol 0, no packet arrives before the filter is attached and the socket is bound.
        let socket = socket_with(AddressFamily::PACKET, SocketType::DGRAM, flags, None)?;
        SockRef::from(&socket).attach_filter(&filter(ifindex, hears.types()))?;
        bind(&socket, &LinkLayer::new(ifindex, hears.ethertype(), &[]))?;
        // SAFETY: an OwnedFd is open, and the same descriptor, for as long as it lives.
        let fd = unsafe { AsyncFd::register_with_interest(socket, Interest::READABLE) }?;
        Ok(DiscoverySocket { fd, ifindex, hears })
    }

    /// Makes the network card deliver all multicast packets while the socket is open.
    pub fn hear_all_groups(&self) -> io::Result<()> {
        // struct packet_mreq: interface, type, length of an address, the address.
        let mut membership = [0; size_of::<libc::packet_mreq>()];
        membership[..4].copy_from_slice(&self.ifindex.to_ne_bytes());
        membership[4..6].copy_from_slice(&(libc::PACKET_MR_ALLMULTI as u16).to_ne_bytes());
        set(&self.fd, Writable::PacketMembership, &membership)
    }

    /// Receives the next packet; returns its length and its sender.
    pub async fn receive(&self, buffer: &mut [u8]) -> io::Result<(usize, LinkAddress)> {
        self.fd
            .async_io(Interest::READABLE, |fd| receive(fd, buffer))
            .await
    }

    /// Sends one packet to a link-layer address; the kernel writes the link-layer header.
    pub fn send(&self, packet: &[u8], to: &[u8]) -> io::Result<()> {
        let to = LinkLayer::new(self.ifindex, self.hears.ethertype(), to);
        sendto(&self.fd, packet, SendFlags::empty(), &to)?;
        Ok(())
    }
}

fn receive(fd: &OwnedFd, buffer: &mut [u8]) -> io::Result<(usize, LinkAddress)> {
    let mut from = libc::sockaddr_ll {
        sll_family: 0,
        sll_protocol: 0,
        sll_ifindex: 0,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    let mut len = size_of_val(&from) as libc::socklen_t;
    // The function of rustix does not return the sender's address.
    // SAFETY: the kernel writes at most as many bytes to `buffer` and to `from` as it is told, and any bytes may fill them; all
    // outlive the call.
    let n = unsafe {
        libc::recvfrom(
            fd.as_raw_fd(),
            buffer.as_mut_ptr().cast(),
            buffer.len(),
            0,
            (&raw mut from).cast(),
            &raw mut len,
        )
    };
    let n = usize::try_from(n).map_err(|_| io::Error::last_os_error())?;
    let halen = usize::from(from.sll_halen).min(from.sll_addr.len());
    Ok((n, from.sll_addr[..halen].to_vec()))
}
