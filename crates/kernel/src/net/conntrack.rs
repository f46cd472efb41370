// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Deletes single entries of conntrack (linux/netfilter/nfnetlink_conntrack.h): lists all IPv4 entries, and deletes those that
//! the caller chooses, each by its tuple and its identifier, so that no other entry is meant.

use std::io;
use std::net::Ipv4Addr;

use rtnetlink::sys::protocols::NETLINK_NETFILTER;
use rtnetlink::sys::{Socket, SocketAddr};

use super::nft::wire::{attribute, attributes, message, messages, NLM_F_ACK};

// linux/netfilter/nfnetlink.h, linux/netfilter/nfnetlink_conntrack.h
const NFNL_SUBSYS_CTNETLINK: u16 = 1;
const IPCTNL_MSG_CT_GET: u16 = 1;
const IPCTNL_MSG_CT_DELETE: u16 = 2;
const CTA_TUPLE_ORIG: u16 = 1;
const CTA_TUPLE_REPLY: u16 = 2;
const CTA_STATUS: u16 = 3;
const CTA_ID: u16 = 12;
const CTA_ZONE: u16 = 18;
const CTA_TUPLE_IP: u16 = 1;
const CTA_TUPLE_PROTO: u16 = 2;
const CTA_IP_V4_SRC: u16 = 1;
const CTA_IP_V4_DST: u16 = 2;
const CTA_PROTO_NUM: u16 = 1;
const CTA_PROTO_SRC_PORT: u16 = 2;
const CTA_PROTO_DST_PORT: u16 = 3;
/// linux/netfilter/nf_conntrack_common.h: packets were seen in both directions.
const IPS_SEEN_REPLY: u32 = 2;
const AF_INET: u8 = 2;
// linux/netlink.h
const NLM_F_DUMP: u16 = 0x300;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const ENOENT: i32 = 2;
/// struct nlmsghdr and struct nfgenmsg, bytes.
const HEADERS: usize = 20;
/// Entries that are deleted by one call. The kernel's replies fit the buffer of a socket, even if it refuses all.
const AT_ONCE: usize = 64;

/// What the packets of one direction have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Tuple {
    pub source: Ipv4Addr,
    pub destination: Ipv4Addr,
    pub protocol: u8,
    /// Ports; 0 for protocols without.
    pub source_port: u16,
    pub destination_port: u16,
}

/// An entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Flow {
    /// Of its first packet, as it arrived.
    pub original: Tuple,
    /// Of answers, as they arrive.
    pub reply: Tuple,
    pub has_reply: bool,
    /// The attributes that name it: its tuple, its zone and its identifier.
    name: Vec<u8>,
}

#[cfg(test)]
impl Flow {
    /// An entry without a name.
    pub fn of(original: Tuple, reply: Tuple, has_reply: bool) -> Flow {
        Flow {
            original,
            reply,
            has_reply,
            name: Vec::new(),
        }
    }
}

/// Deletes the entries for which `is_stale` is true, until there are no more or `goes_on` is false. Returns how many.
///
/// # Errors
///
/// The kernel has no ctnetlink (CONFIG_NF_CT_NETLINK), or refuses.
pub(super) fn delete(
    is_stale: impl Fn(&Flow) -> bool,
    goes_on: impl Fn() -> bool,
) -> io::Result<usize> {
    let (listing, deleting) = (open()?, open()?);
    let ask = message(kind(IPCTNL_MSG_CT_GET), NLM_F_DUMP, AF_INET, 1, &[]);
    send(&listing, &ask)?;
    let (mut deleted, mut bytes) = (0, Vec::with_capacity(1 << 16));
    while goes_on() {
        // The kernel lists the next ones while it is asked, so there is nothing to wait for.
        receive(&listing, &mut bytes)?;
        let mut stale = Vec::new();
        let mut is_last = false;
        for (kind, body) in messages(&bytes) {
            match kind {
                NLMSG_ERROR | NLMSG_DONE => {
                    is_last = true;
                    match code(body) {
                        0 => {}
                        code => return Err(io::Error::from_raw_os_error(code)),
                    }
                }
                _ => stale.extend(read(body).filter(|flow| is_stale(flow))),
            }
        }
        for stale in stale.chunks(AT_ONCE) {
            deleted += delete_all(&deleting, stale)?;
        }
        if is_last {
            break;
        }
    }
    Ok(deleted)
}

fn kind(of: u16) -> u16 {
    NFNL_SUBSYS_CTNETLINK << 8 | of
}

fn open() -> io::Result<Socket> {
    let mut socket = Socket::new(NETLINK_NETFILTER)?;
    socket.bind_auto()?;
    socket.set_non_blocking(true)?;
    Ok(socket)
}

fn send(socket: &Socket, bytes: &[u8]) -> io::Result<()> {
    socket.send_to(bytes, &SocketAddr::new(0, 0), 0).map(drop)
}

fn receive(socket: &Socket, bytes: &mut Vec<u8>) -> io::Result<()> {
    loop {
        bytes.clear();
        match socket.recv_from(bytes, 0) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            received => return received.map(drop),
        }
    }
}

/// Returns how many were there. The kernel answers the last request, and those that it refuses.
fn delete_all(socket: &Socket, flows: &[Flow]) -> io::Result<usize> {
    let mut bytes = Vec::new();
    for (at, flow) in flows.iter().enumerate() {
        let flags = if at + 1 == flows.len() { NLM_F_ACK } else { 0 };
        let its = kind(IPCTNL_MSG_CT_DELETE);
        bytes.extend(message(its, flags, AF_INET, at as u32, &flow.name));
    }
    send(socket, &bytes)?;
    let mut deleted = flows.len();
    loop {
        match receive(socket, &mut bytes) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(deleted),
            Err(error) => return Err(error),
        }
        for (kind, body) in messages(&bytes) {
            match (kind, code(body)) {
                (NLMSG_ERROR, 0) => {}
                // It ended by itself.
                (NLMSG_ERROR, ENOENT) => deleted = deleted.saturating_sub(1),
                (NLMSG_ERROR, code) => return Err(io::Error::from_raw_os_error(code)),
                _ => {}
            }
        }
    }
}

/// The error number of a reply.
fn code(body: &[u8]) -> i32 {
    let code = body.first_chunk().map(|code| i32::from_ne_bytes(*code));
    code.unwrap_or(0).wrapping_neg()
}

/// Reads an entry: struct nfgenmsg, attributes. None if it is not complete, or not of IPv4.
fn read(body: &[u8]) -> Option<Flow> {
    let (mut original, mut reply, mut has_reply) = (None, None, false);
    let (mut name, mut has_id) = (Vec::new(), false);
    for (kind, value) in attributes(body.get(HEADERS - 16..)?) {
        match kind {
            CTA_TUPLE_ORIG => original = tuple(value),
            CTA_TUPLE_REPLY => reply = tuple(value),
            CTA_STATUS => has_reply = number(value)? & IPS_SEEN_REPLY != 0,
            CTA_ID => has_id = true,
            _ => {}
        }
        if matches!(kind, CTA_TUPLE_ORIG | CTA_ID | CTA_ZONE) {
            let is_nested = kind == CTA_TUPLE_ORIG;
            attribute(&mut name, kind | u16::from(is_nested) << 15, value);
        }
    }
    // Without a tuple, a request would delete all entries.
    has_id.then_some(Flow {
        original: original?,
        reply: reply?,
        has_reply,
        name,
    })
}

fn tuple(value: &[u8]) -> Option<Tuple> {
    let find = |list, wanted| attributes(list).find_map(|(kind, v)| (kind == wanted).then_some(v));
    let (ip, proto) = (find(value, CTA_TUPLE_IP)?, find(value, CTA_TUPLE_PROTO)?);
    let address = |kind| Some(Ipv4Addr::from(*find(ip, kind)?.first_chunk::<4>()?));
    let port = |kind| find(proto, kind).and_then(|port| port.first_chunk().copied());
    Some(Tuple {
        source: address(CTA_IP_V4_SRC)?,
        destination: address(CTA_IP_V4_DST)?,
        protocol: *find(proto, CTA_PROTO_NUM)?.first()?,
        source_port: port(CTA_PROTO_SRC_PORT).map_or(0, u16::from_be_bytes),
        destination_port: port(CTA_PROTO_DST_PORT).map_or(0, u16::from_be_bytes),
    })
}

fn number(value: &[u8]) -> Option<u32> {
    value
        .first_chunk()
        .map(|number| u32::from_be_bytes(*number))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An entry in the layout of linux/netfilter/nfnetlink_conntrack.h, written by hand: UDP from
    /// 198.51.100.2:4000 to 198.51.100.1:40443, whose answers come from 192.168.64.1.
    fn entry() -> Vec<u8> {
        let head = |len: u16, kind: u16| [len.to_ne_bytes(), kind.to_ne_bytes()].concat();
        let nested = |len: u16, kind: u16| head(len, kind | 0x8000);
        let direction = |source: [u8; 4], destination: [u8; 4], ports: [u8; 4]| {
            let [a, b, c, d] = ports;
            [
                nested(20, 1),
                head(8, 1),
                source.to_vec(),
                head(8, 2),
                destination.to_vec(),
                nested(28, 2),
                head(5, 1),
                vec![17, 0, 0, 0],
                head(6, 2),
                vec![a, b, 0, 0],
                head(6, 3),
                vec![c, d, 0, 0],
            ]
            .concat()
        };
        let (peer, outside, inside) = ([198, 51, 100, 2], [198, 51, 100, 1], [192, 168, 64, 1]);
        // 40443 is 0x9dfb, 4000 is 0x0fa0.
        let original = direction(peer, outside, [0x0f, 0xa0, 0x9d, 0xfb]);
        let reply = direction(inside, peer, [0x9d, 0xfb, 0x0f, 0xa0]);
        [
            vec![2, 0, 0, 0],
            nested(52, 1),
            original,
            nested(52, 2),
            reply,
            head(8, 3),
            vec![0, 0, 0, 0xaa],
            head(8, 12),
            vec![1, 2, 3, 4],
            head(6, 18),
            vec![0, 7, 0, 0],
        ]
        .concat()
    }

    #[test]
    fn an_entry_is_read_and_named() {
        let flow = read(&entry()).expect("an entry");
        let tuple = |source: &str, destination: &str, source_port, destination_port| Tuple {
            source: source.parse().expect("an address"),
            destination: destination.parse().expect("an address"),
            protocol: 17,
            source_port,
            destination_port,
        };
        let original = tuple("198.51.100.2", "198.51.100.1", 4000, 40443);
        assert_eq!(flow.original, original);
        assert_eq!(
            flow.reply,
            tuple("192.168.64.1", "198.51.100.2", 40443, 4000)
        );
        assert!(flow.has_reply);
        let kinds: Vec<u16> = attributes(&flow.name).map(|(kind, _)| kind).collect();
        assert_eq!(kinds, [CTA_TUPLE_ORIG, CTA_ID, CTA_ZONE]);
        assert_eq!(flow.name[..52], entry()[4..56]);
    }

    #[test]
    fn what_is_not_whole_deletes_nothing() {
        let entry = entry();
        for cut in 0..entry.len() {
            if let Some(flow) = read(&entry[..cut]) {
                assert_eq!(flow.name[..52], entry[4..56]);
            }
        }
        // Without a tuple, or without an identifier.
        assert_eq!(read(&entry[..4]), None);
        assert_eq!(read(&entry[..116]), None);
    }
}
