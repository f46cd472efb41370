// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A packet in words, and the bytes of it: `read` words → `Words` → `write` the same words, or `bytes`. The names of ICMP
//! errors stand in `icmp`.

mod bytes;
mod ends;
mod icmp;
mod read;
mod write;

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// How packets are written.
const GRAMMAR: &str =
    "udp SOURCE:PORT to DESTINATION:PORT, tcp [FLAG,…] SOURCE:PORT to DESTINATION:PORT, \
     icmp echo|reply ID SOURCE to DESTINATION, protocol NUMBER SOURCE to DESTINATION, \
     or icmp SOURCE to DESTINATION ERROR quoting PACKET; \
     behind the destination or the error, `fragment offset BYTES id NUMBER [more]`";

/// Of TCP, from the lowest bit on (RFC 9293 section 3.1).
const FLAGS: [&str; 8] = ["fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr"];

/// What a packet carries that is no ICMP error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// A datagram between these ports.
    Udp(u16, u16),
    /// A segment between these ports, with these flags.
    Tcp(u16, u16, u8),
    /// An echo request with this identifier; or the reply.
    Echo {
        /// The identifier.
        id: u16,
        /// Whether it is the reply.
        is_reply: bool,
    },
    /// Another protocol, by its number; zeros.
    Other(u8),
}

/// Which part of its packet a fragment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fragment {
    /// In units of 8 bytes.
    offset: u16,
    id: u32,
    more: bool,
}

/// What the IP header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Header {
    /// Both of one family.
    src: IpAddr,
    dst: IpAddr,
    fragment: Option<Fragment>,
}

/// The packet that an ICMP error quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Quoted {
    header: Header,
    transport: Transport,
    /// Bytes that it had, from the IP header on; None: as few as it can have.
    length: Option<u16>,
}

/// An ICMP error: its type, its code, and the four bytes behind the checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kind {
    icmp_type: u8,
    code: u8,
    rest: u32,
}

/// What a packet carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Carried {
    Transport(Transport),
    Error(Kind, Quoted),
}

/// A packet that has not come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Words {
    header: Header,
    carried: Carried,
}

/// What else is said of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Details {
    /// Bytes, from the IP header on; None: as few as it can have. An ICMP error quotes what fits.
    pub length: Option<u16>,
    /// Don't Fragment, of IPv4 only.
    pub dont_fragment: bool,
    /// Hop limit or TTL.
    pub hop_limit: u8,
}

/// What a running program is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Imagined {
    /// The packet.
    pub words: Words,
    /// What else is said of it.
    pub details: Details,
}

impl Words {
    /// Where it goes.
    pub fn destination(&self) -> IpAddr {
        self.header.dst
    }

    /// Where it comes from.
    pub fn source(&self) -> IpAddr {
        self.header.src
    }

    /// What it carries; None: an ICMP error.
    pub fn transport(&self) -> Option<Transport> {
        match self.carried {
            Carried::Transport(transport) => Some(transport),
            Carried::Error(..) => None,
        }
    }

    /// Has it a Fragment header, or is it a part of an IPv4 packet?
    pub fn is_fragment(&self) -> bool {
        self.header.fragment.is_some()
    }
}

#[cfg(test)]
mod tests;
