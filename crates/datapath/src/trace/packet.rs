// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A packet in words, and the bytes of it: `read` words → `Words` → the same words, or `bytes`.

mod bytes;
mod read;

use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// How packets are written.
const GRAMMAR: &str =
    "udp SOURCE:PORT to DESTINATION:PORT, tcp [FLAG,…] SOURCE:PORT to DESTINATION:PORT, \
     icmp echo|reply ID SOURCE to DESTINATION, or protocol NUMBER SOURCE to DESTINATION";

/// Of TCP, from the lowest bit on (RFC 9293 section 3.1).
const FLAGS: [&str; 8] = ["fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr"];

/// What a packet carries.
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

/// A packet that has not come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Words {
    /// Where it comes from.
    pub src: IpAddr,
    /// Where it goes, of the same family.
    pub dst: IpAddr,
    /// What it carries.
    pub transport: Transport,
}

/// What else is said of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Details {
    /// Bytes, from the IP header on; None: as few as it can have.
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

impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Words { src, dst, .. } = self;
        match self.transport {
            Transport::Udp(from, to) => write!(f, "udp {src} {from} > {dst} {to}"),
            Transport::Tcp(from, to, flags) => {
                let names = FLAGS.iter().enumerate();
                let names = names.filter(|(at, _)| flags >> at & 1 == 1);
                let names: Vec<_> = names.map(|(_, name)| *name).collect();
                write!(f, "tcp {} {src} {from} > {dst} {to}", names.join(","))
            }
            Transport::Echo { id, is_reply } => {
                let kind = if is_reply { "reply" } else { "echo" };
                write!(f, "icmp {kind} {id} {src} > {dst}")
            }
            Transport::Other(number) => write!(f, "protocol {number} {src} > {dst}"),
        }
    }
}

#[cfg(test)]
mod tests;
