// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The probe of a silent TCP session (RFC 6146 section 3.5.2.2): "a TCP segment for the connection
//! with no data. The sequence number and the acknowledgment number are set to zero. All flags but
//! the ACK flag are set to zero."
//!
//! It is sent to the node. A node with the connection answers with an ACK, which makes the session
//! established again; any other node answers with RST.

use crate::session::SessionView;
use diolkos_xlat::csum;
use diolkos_xlat::map::Mapper;
use diolkos_xlat::packet::{Offload, Outbox};
use diolkos_xlat::wire::{protocol, Ipv6, IPV6_LEN};

const TCP_LEN: usize = 20;
const TCP_CHECKSUM_AT: usize = 16;
const ACK: u8 = 0x10;
/// Hop limit of originated packets (RFC 1700).
const HOPS: u8 = 64;

/// Sends the probe of a session, if its peer still has an IPv6 address.
pub fn send(mapper: &Mapper, session: &SessionView, out: &mut impl Outbox) {
    let Ok(src) = mapper.embed(session.prefix, session.peer.addr) else {
        return;
    };
    let node = session.binding.v6;
    let mut packet = [0; IPV6_LEN + TCP_LEN];
    let header = Ipv6 {
        traffic_class: 0,
        flow_label: 0,
        payload_len: TCP_LEN,
        next_header: protocol::TCP,
        hop_limit: HOPS,
        src,
        dst: node.addr,
    };
    header.emit(&mut packet);
    let tcp = &mut packet[IPV6_LEN..];
    tcp[..2].copy_from_slice(&session.peer.port.to_be_bytes());
    tcp[2..4].copy_from_slice(&node.port.to_be_bytes());
    tcp[12] = ((TCP_LEN / 4) << 4) as u8;
    tcp[13] = ACK;
    let pseudo = csum::pseudo_ipv6(src, node.addr, protocol::TCP, TCP_LEN);
    csum::fill_in(tcp, TCP_CHECKSUM_AT, pseudo);
    out.emit(&packet, Offload::default());
}
