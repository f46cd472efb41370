// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Neighbour Discovery for the CLAT's IPv6 address (RFC 4861, RFC 4862).
//!
//! The address is not an address of the host, since the kernel would then deliver its packets locally. So the program itself
//! does duplicate address detection for it and answers solicitations.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv6Addr, UdpSocket};
use std::time::Duration;

use diolkos_sys::packet::{DiscoverySocket, Hears};
use diolkos_xlat::csum;
use tokio::time::{timeout_at, Instant};

/// ICMPv6 type (RFC 4861 section 4.3).
pub const SOLICITATION: u8 = 135;
/// ICMPv6 type (RFC 4861 section 4.4).
pub const ADVERTISEMENT: u8 = 136;
const ICMPV6: u8 = 58;
const IPV6_HEADER: usize = 40;
/// Length of the ICMPv6 header and target of both messages (RFC 4861 sections 4.3 and 4.4), bytes.
const MESSAGE: usize = 24;
const OPTION_SOURCE: u8 = 1;
const OPTION_TARGET: u8 = 2;
const FLAG_SOLICITED: u8 = 0x40;
/// Neighbours shall replace the link-layer address that they have cached.
pub const FLAG_OVERRIDE: u8 = 0x20;
/// The multicast group of all nodes on a link.
pub const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
/// Retransmission interval (RetransTimer, RFC 4861 section 10).
pub const RETRANSMIT: Duration = Duration::from_secs(1);

/// Does Neighbour Discovery for one address on one Ethernet link.
pub struct Responder {
    socket: DiscoverySocket,
    address: Ipv6Addr,
    link_address: Vec<u8>,
    /// Keeps the solicited-node group joined, so that the network card receives the solicitations.
    _group: UdpSocket,
}

/// A Neighbour Solicitation or Advertisement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// ICMPv6 type.
    pub kind: u8,
    /// The sender's address.
    pub source: Ipv6Addr,
    /// The target: the address that the message is about.
    pub target: Ipv6Addr,
}

impl Responder {
    /// Opens the sockets.
    pub fn open(ifindex: u32, link_address: &[u8], address: Ipv6Addr) -> io::Result<Responder> {
        let group = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0))?;
        group.join_multicast_v6(&solicited_node(address), ifindex)?;
        Ok(Responder {
            socket: DiscoverySocket::open(ifindex, Hears::Neighbours)?,
            address,
            link_address: link_address.to_vec(),
            _group: group,
        })
    }

    /// Duplicate Address Detection (RFC 4862 section 5.4): true if no other node has the address. It takes one second.
    pub async fn is_unique(&self) -> io::Result<bool> {
        self.detect(false).await
    }

    /// Optimistic Duplicate Address Detection (RFC 4429): the address is in use meanwhile, and solicitations for it are
    /// answered. While the link is down it keeps trying, because no node can answer.
    pub async fn is_unique_in_use(&self) -> bool {
        loop {
            match self.detect(true).await {
                Ok(is_unique) => return is_unique,
                Err(error) => {
                    tracing::debug!("cannot run Duplicate Address Detection now: {error}");
                    tokio::time::sleep(RETRANSMIT).await;
                }
            }
        }
    }

    async fn detect(&self, is_in_use: bool) -> io::Result<bool> {
        let group = solicited_node(self.address);
        let probe = solicitation(self.address, group);
        let until = Instant::now() + RETRANSMIT;

        self.socket.send(&probe, &multicast_mac(group))?;
        loop {
            let Ok(received) = timeout_at(until, self.receive()).await else {
                return Ok(true);
            };
            let (message, from) = received?;
            let other_probe = message.kind == SOLICITATION && message.source.is_unspecified();
            if message.target == self.address && (message.kind == ADVERTISEMENT || other_probe) {
                return Ok(false);
            }
            let is_question = message.kind == SOLICITATION && message.target == self.address;
            if is_in_use && is_question {
                // Never set Override: another node may turn out to have the address (RFC 4429 section 3.3).
                self.advertise(message.source, &from, FLAG_SOLICITED)?;
            }
        }
    }

    /// Answers solicitations for the address without end: a link that is down may come up again.
    pub async fn answer(&self) -> Infallible {
        loop {
            if let Err(error) = self.answer_while_up().await {
                tracing::debug!("cannot receive or answer neighbour solicitations now: {error}");
            }
            tokio::time::sleep(RETRANSMIT).await;
        }
    }

    async fn answer_while_up(&self) -> io::Result<()> {
        // Neighbours may have cached another link-layer address from an earlier run.
        self.advertise(ALL_NODES, &multicast_mac(ALL_NODES), FLAG_OVERRIDE)?;
        loop {
            let (message, from) = self.receive().await?;
            if message.kind != SOLICITATION || message.target != self.address {
                continue;
            }
            // Another node does duplicate address detection for the address (RFC 4861 section 7.2.4): the answer goes to all
            // nodes.
            if message.source.is_unspecified() {
                self.advertise(ALL_NODES, &multicast_mac(ALL_NODES), FLAG_OVERRIDE)?;
            } else {
                self.advertise(message.source, &from, FLAG_SOLICITED | FLAG_OVERRIDE)?;
            }
        }
    }

    fn advertise(&self, to: Ipv6Addr, to_mac: &[u8], flags: u8) -> io::Result<()> {
        let packet = advertisement(self.address, to, flags, &self.link_address);
        self.socket.send(&packet, to_mac)
    }

    async fn receive(&self) -> io::Result<(Message, Vec<u8>)> {
        let mut buffer = [0; 1500];
        loop {
            let (len, from) = self.socket.receive(&mut buffer).await?;
            if let Some(message) = parse(&buffer[..len]) {
                return Ok((message, from));
            }
        }
    }
}

/// The solicited-node multicast group of an address (RFC 4291 section 2.7.1).
pub fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let [.., high, low] = address.segments();
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | (high & 0xff), low)
}

fn is_solicited_node(group: Ipv6Addr) -> bool {
    group == solicited_node(group)
}

/// The Ethernet address of a multicast group (RFC 2464 section 7).
pub fn multicast_mac(group: Ipv6Addr) -> [u8; 6] {
    let [.., a, b, c, d] = group.octets();
    [0x33, 0x33, a, b, c, d]
}

/// Parses an IPv6 packet, header included, with the checks of RFC 4861 sections 7.1.1 and 7.1.2.
pub fn parse(packet: &[u8]) -> Option<Message> {
    let (header, rest) = packet.split_at_checked(IPV6_HEADER)?;
    let payload_len = usize::from(u16::from_be_bytes([header[4], header[5]]));
    let body = rest.get(..payload_len)?;
    let address = |bytes: &[u8]| <[u8; 16]>::try_from(bytes).ok().map(Ipv6Addr::from);
    let (source, destination) = (address(&header[8..24])?, address(&header[24..40])?);

    if header[0] >> 4 != 6 || header[6] != ICMPV6 || header[7] != 255 || body.len() < MESSAGE {
        return None;
    }
    let sum = csum::pseudo_ipv6(source, destination, ICMPV6, body.len()).plus(csum::sum(body));
    if sum.fold() != 0xffff || body[1] != 0 {
        return None;
    }
    let message = Message {
        kind: body[0],
        source,
        target: address(&body[8..MESSAGE])?,
    };
    // An option has a type, a length in units of eight bytes, and a value; length 0 is an error.
    let mut names_source = false;
    let mut options = &body[MESSAGE..];
    while let [kind, len, ..] = *options {
        names_source |= kind == OPTION_SOURCE;
        options = options.get(usize::from(len).checked_mul(8).filter(|n| *n > 0)?..)?;
    }
    let believable = match message.kind {
        SOLICITATION if source.is_unspecified() => is_solicited_node(destination) && !names_source,
        SOLICITATION => true,
        ADVERTISEMENT => !destination.is_multicast() || body[4] & FLAG_SOLICITED == 0,
        _ => false,
    };
    (believable && !message.target.is_multicast()).then_some(message)
}

/// The solicitation of duplicate address detection (RFC 4862 section 5.4.2).
pub fn solicitation(target: Ipv6Addr, to: Ipv6Addr) -> Vec<u8> {
    // Its source is unspecified, and it has no source link-layer address option (RFC 4862 section 5.4.2).
    packet(Ipv6Addr::UNSPECIFIED, to, SOLICITATION, 0, target, None)
}

/// An advertisement with the link-layer address `mac`.
pub fn advertisement(target: Ipv6Addr, to: Ipv6Addr, flags: u8, mac: &[u8]) -> Vec<u8> {
    packet(
        target,
        to,
        ADVERTISEMENT,
        flags,
        target,
        Some((OPTION_TARGET, mac)),
    )
}

fn packet(
    source: Ipv6Addr,
    destination: Ipv6Addr,
    kind: u8,
    flags: u8,
    target: Ipv6Addr,
    option: Option<(u8, &[u8])>,
) -> Vec<u8> {
    let mut body = vec![kind, 0, 0, 0, flags, 0, 0, 0];
    body.extend(target.octets());
    if let Some((kind, mac)) = option {
        let len = (2 + mac.len()).div_ceil(8);
        body.extend([kind, len as u8]);
        body.extend(mac);
        body.resize(MESSAGE + len * 8, 0);
    }
    let sum = csum::pseudo_ipv6(source, destination, ICMPV6, body.len()).plus(csum::sum(&body));
    body[2..4].copy_from_slice(&(!sum.fold()).to_be_bytes());

    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend((body.len() as u16).to_be_bytes());
    packet.extend([ICMPV6, 255]);
    packet.extend(source.octets());
    packet.extend(destination.octets());
    packet.extend(body);
    packet
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0x1234, 0x5678, 0x9abc, 0xdef0);

    #[test]
    fn groups_and_their_macs() {
        let group: Ipv6Addr = "ff02::1:ffbc:def0".parse().expect("an address");
        assert_eq!(solicited_node(US), group);
        assert_eq!(multicast_mac(group), [0x33, 0x33, 0xff, 0xbc, 0xde, 0xf0]);
    }

    #[test]
    fn what_we_send_is_well_formed() {
        let probe = solicitation(US, solicited_node(US));
        let expected = Message {
            kind: SOLICITATION,
            source: Ipv6Addr::UNSPECIFIED,
            target: US,
        };
        assert_eq!(parse(&probe), Some(expected));

        let mac = [2, 0, 0, 0, 0, 1];
        let advert = advertisement(US, ALL_NODES, FLAG_OVERRIDE, &mac);
        assert_eq!(
            parse(&advert),
            Some(Message {
                kind: ADVERTISEMENT,
                source: US,
                target: US
            })
        );
        assert_eq!(&advert[64..], [OPTION_TARGET, 1, 2, 0, 0, 0, 0, 1]);
    }

    #[test]
    fn what_is_not_from_this_link_is_not_believed() {
        let good = advertisement(US, ALL_NODES, FLAG_OVERRIDE, &[2, 0, 0, 0, 0, 1]);
        for (at, value, why) in [
            (7, 254, "it was forwarded"),
            (0, 0x40, "another version"),
            (41, 1, "code and checksum"),
            (63, 1, "checksum"),
            (65, 0, "an option without length"),
            (65, 9, "an option longer than the packet"),
        ] {
            let mut bad = good.clone();
            bad[at] = value;
            if at == 65 {
                let body = &mut bad[IPV6_HEADER..];
                body[2..4].fill(0);
                let sum =
                    csum::pseudo_ipv6(US, ALL_NODES, ICMPV6, body.len()).plus(csum::sum(body));
                body[2..4].copy_from_slice(&(!sum.fold()).to_be_bytes());
            }
            assert_eq!(parse(&bad), None, "{why}");
        }
        for len in 0..good.len() {
            assert_eq!(parse(&good[..len]), None, "cut after {len} bytes");
        }
    }

    /// RFC 4861 sections 7.1.1 and 7.1.2: the source and destination decide which contents are valid.
    #[test]
    fn what_does_not_fit_its_addresses_is_not_believed() {
        const ANYONE: Ipv6Addr = Ipv6Addr::UNSPECIFIED;
        let source = Some((OPTION_SOURCE, &[2, 0, 0, 0, 0, 9][..]));
        let group = solicited_node(US);
        for (from, to, kind, flags, option, believed) in [
            (US, group, SOLICITATION, 0, source, true),
            (US, US, SOLICITATION, 0, None, true),
            (ANYONE, group, SOLICITATION, 0, None, true),
            (ANYONE, group, SOLICITATION, 0, source, false),
            (ANYONE, ALL_NODES, SOLICITATION, 0, None, false),
            (ANYONE, US, SOLICITATION, 0, None, false),
            (US, US, ADVERTISEMENT, FLAG_SOLICITED, None, true),
            (US, ALL_NODES, ADVERTISEMENT, FLAG_OVERRIDE, None, true),
            (US, ALL_NODES, ADVERTISEMENT, FLAG_SOLICITED, None, false),
            (US, ALL_NODES, ADVERTISEMENT + 1, 0, None, false),
        ] {
            let message = packet(from, to, kind, flags, US, option);
            let case = (from, to, kind, flags, option);
            assert_eq!(parse(&message).is_some(), believed, "{case:?}");
        }
    }
}
