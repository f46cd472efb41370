// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The ICMP errors with which a refused packet may be answered (RFC 7915 sections 4.4 and 5.4).

/// The ICMP error sent in answer to a refused packet, if the packet may be answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// No error.
    Silence,
    /// Time Exceeded in transit.
    TimeExceeded,
    /// Communication administratively prohibited: the general answer (RFC 7915 sections 4.4 and
    /// 5.4).
    Prohibited,
    /// Fragmentation Needed or Packet Too Big, with this MTU in bytes.
    TooBig(usize),
    /// Source Route Failed, in IPv4 only.
    SourceRouteFailed,
    /// Parameter Problem, erroneous header field, at this byte.
    ErroneousField(u32),
    /// Network unreachable; in IPv6, no route to destination (RFC 792, RFC 4443 section 3.1).
    NetworkUnreachable,
    /// Host or address unreachable: there is no binding, or no room for a new one (RFC 6146 section
    /// 3.5).
    AddressUnreachable,
    /// Port unreachable: no node answered (RFC 6146 section 3.5.2.2).
    PortUnreachable,
    /// A transport that a NAT64 does not support (RFC 6146 section 3.4): protocol unreachable; in
    /// IPv6, port unreachable.
    TransportUnknown,
}
