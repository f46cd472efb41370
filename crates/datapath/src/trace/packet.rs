// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A packet in words, and its bytes: `read` words → `Words` → the same words, or `bytes`.

mod bytes;
mod read;

use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// The grammar of packets.
const GRAMMAR: &str =
    "udp SOURCE:PORT to DESTINATION:PORT, tcp [FLAG,…] SOURCE:PORT to DESTINATION:PORT, \
     icmp echo|reply ID SOURCE to DESTINATION, or protocol NUMBER SOURCE to DESTINATION";

/// TCP flags, from the lowest bit on (RFC 9293 section 3.1).
const FLAGS: [&str; 8] = ["fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr"];

/// The payload of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// A datagram between these ports.
    Udp(u16, u16),
    /// A segment between these ports, with these flags.
    Tcp(u16, u16, u8),
    /// An echo request with this identifier, or the reply.
    Echo {
        /// The identifier.
        id: u16,
        /// True if it is the reply.
        is_reply: bool,
    },
    /// Another protocol, by its number, with zeros as payload.
    Other(u8),
}

/// An imaginary packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Words {
    /// The source.
    pub src: IpAddr,
    /// The destination, of the same family.
    pub dst: IpAddr,
    /// The payload.
    pub transport: Transport,
}

/// Other properties of the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Details {
    /// Length in bytes from the IP header on; None: the shortest possible.
    pub length: Option<u16>,
    /// Don't Fragment, of IPv4 only.
    pub dont_fragment: bool,
    /// Hop limit or TTL.
    pub hop_limit: u8,
    /// Of a TCP SYN: the maximum segment size that it announces, in bytes; None: it has no such option.
    #[serde(default)]
    pub mss: Option<u16>,
}

/// A packet for a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Imagined {
    /// The packet.
    pub words: Words,
    /// Its other properties.
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
