// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A packet in words: `PROTOCOL SOURCE [PORT] > DESTINATION [PORT]`, and the bytes of it.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::{FromStr, SplitWhitespace};

use diolkos_core::csum::{self, Sum};
use diolkos_core::wire::{protocol, Ipv4, Ipv6, IPV4_LEN, IPV6_LEN};
use serde::{Deserialize, Serialize};

/// How packets are written.
const GRAMMAR: &str =
    "udp SOURCE PORT > DESTINATION PORT, tcp [FLAG,…] SOURCE PORT > DESTINATION PORT, \
     icmp echo|reply ID SOURCE > DESTINATION, or protocol NUMBER SOURCE > DESTINATION";

const UDP_LEN: usize = 8;
const TCP_LEN: usize = 20;
const ICMP_LEN: usize = 8;
/// Of TCP, from the lowest bit on (RFC 9293 section 3.1).
const FLAGS: [&str; 8] = ["fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr"];

/// The flag of a segment of which nothing is said.
const SYN: u8 = 1 << 1;

/// What a packet carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carried {
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
    carried: Carried,
    /// Both of one family.
    src: IpAddr,
    dst: IpAddr,
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

impl FromStr for Words {
    type Err = String;

    fn from_str(text: &str) -> Result<Words, String> {
        let mut words = Reader {
            text,
            words: text.split_whitespace(),
        };
        let kind = words.next("the protocol")?;
        let mut source = None;
        // What stands between protocol and source.
        let detail = match kind {
            "udp" => 0,
            "tcp" => match words.next("the source")? {
                word if word.parse::<IpAddr>().is_ok() => {
                    source = Some(word);
                    SYN
                }
                word => flags(word)?,
            },
            "icmp" => match words.next("`echo` or `reply`")? {
                "echo" => 0,
                "reply" => 1,
                other => return Err(format!("`{other}` is neither `echo` nor `reply`")),
            },
            "protocol" => number(words.next("the number")?, "protocol")?,
            other => return Err(format!("`{other}` is no protocol: write {GRAMMAR}")),
        };
        let id = match kind {
            "icmp" => number(words.next("the identifier")?, "identifier")?,
            _ => 0,
        };
        let has_ports = matches!(kind, "udp" | "tcp");
        let src = source.map_or_else(|| words.next("the source"), Ok)?;
        let (src, from) = words.end(src, has_ports)?;
        match words.next("`>`")? {
            ">" => {}
            other => {
                return Err(format!(
                    "`{other}` stands where `>` should: write {GRAMMAR}"
                ))
            }
        }
        let dst = words.next("the destination")?;
        let (dst, to) = words.end(dst, has_ports)?;
        let mut words = words.words;
        if let Some(more) = words.next() {
            return Err(format!("`{more}` is too much: write {GRAMMAR}"));
        }
        if src.is_ipv4() != dst.is_ipv4() {
            return Err(format!("{src} and {dst} are of different families: name the destination as the sender knows it"));
        }
        let carried = match kind {
            "udp" => Carried::Udp(from, to),
            "tcp" => Carried::Tcp(from, to, detail),
            "protocol" => Carried::Other(detail),
            _ => Carried::Echo {
                id,
                is_reply: detail == 1,
            },
        };
        Ok(Words { carried, src, dst })
    }
}

/// What is still to be read of a text.
struct Reader<'a> {
    text: &'a str,
    words: SplitWhitespace<'a>,
}

impl<'a> Reader<'a> {
    fn next(&mut self, what: &str) -> Result<&'a str, String> {
        let missing = || format!("{what} is missing after `{}`: write {GRAMMAR}", self.text);
        self.words.next().ok_or_else(missing)
    }

    /// An address that has been read, with the port behind it.
    fn end(&mut self, word: &str, has_port: bool) -> Result<(IpAddr, u16), String> {
        let address = word.parse();
        let address = address.map_err(|_| format!("`{word}` is no IP address"))?;
        let port = match has_port {
            true => number(self.next("the port")?, "port")?,
            false => 0,
        };
        Ok((address, port))
    }
}

fn number<T: FromStr>(word: &str, what: &str) -> Result<T, String> {
    word.parse()
        .map_err(|_| format!("`{word}` is no {what}: write a number"))
}

fn flags(word: &str) -> Result<u8, String> {
    let mut all = 0;
    for flag in word.split(',') {
        let at = FLAGS.iter().position(|name| *name == flag);
        let at = at.ok_or_else(|| {
            format!(
                "`{flag}` is neither an IP address nor a flag of TCP ({})",
                FLAGS.join(", ")
            )
        })?;
        all |= 1 << at;
    }
    Ok(all)
}

/// As it is read again.
impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (src, dst) = (self.src, self.dst);
        match self.carried {
            Carried::Udp(from, to) => write!(f, "udp {src} {from} > {dst} {to}"),
            Carried::Tcp(from, to, flags) => {
                let names = FLAGS.iter().enumerate();
                let names = names.filter(|(at, _)| flags >> at & 1 == 1);
                let names: Vec<_> = names.map(|(_, name)| *name).collect();
                write!(f, "tcp {} {src} {from} > {dst} {to}", names.join(","))
            }
            Carried::Echo { id, is_reply } => {
                let kind = if is_reply { "reply" } else { "echo" };
                write!(f, "icmp {kind} {id} {src} > {dst}")
            }
            Carried::Other(number) => write!(f, "protocol {number} {src} > {dst}"),
        }
    }
}

impl Words {
    /// Where it goes.
    pub fn destination(&self) -> IpAddr {
        self.dst
    }

    /// Where it comes from.
    pub fn source(&self) -> IpAddr {
        self.src
    }

    /// What it carries.
    pub fn carried(&self) -> Carried {
        self.carried
    }
}

impl Imagined {
    /// Its bytes, whole and with every checksum; an error if it cannot have its length.
    pub fn bytes(&self) -> Result<Vec<u8>, String> {
        let head = if self.words.src.is_ipv4() {
            IPV4_LEN
        } else {
            IPV6_LEN
        };
        let least = head
            + match self.words.carried {
                Carried::Udp(..) => UDP_LEN,
                Carried::Tcp(..) => TCP_LEN,
                Carried::Echo { .. } => ICMP_LEN,
                Carried::Other(_) => 0,
            };
        let length = self.details.length.map_or(least, usize::from);
        if length < least {
            return Err(format!(
                "{length} bytes are too few: `{}` has at least {least}",
                self.words
            ));
        }
        let mut bytes = vec![0; length];
        let protocol = self.fill_in_transport(&mut bytes[head..]);
        match (self.words.src, self.words.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => self.header4(protocol, src, dst, &mut bytes),
            (IpAddr::V6(src), IpAddr::V6(dst)) => self.header6(protocol, src, dst, &mut bytes),
            _ => return Err("source and destination are of different families".to_owned()),
        }
        Ok(bytes)
    }

    fn header4(&self, protocol: u8, src: Ipv4Addr, dst: Ipv4Addr, bytes: &mut [u8]) {
        let total_len = bytes.len();
        let header = Ipv4 {
            tos: 0,
            header_len: IPV4_LEN,
            total_len,
            id: 0,
            dont_fragment: self.details.dont_fragment,
            more_fragments: false,
            fragment_offset: 0,
            ttl: self.details.hop_limit,
            protocol,
            src,
            dst,
        };
        header.emit(bytes);
    }

    fn header6(&self, protocol: u8, src: Ipv6Addr, dst: Ipv6Addr, bytes: &mut [u8]) {
        let header = Ipv6 {
            traffic_class: 0,
            flow_label: 0,
            payload_len: bytes.len() - IPV6_LEN,
            next_header: protocol,
            hop_limit: self.details.hop_limit,
            src,
            dst,
        };
        header.emit(bytes);
    }

    /// Returns the protocol's number.
    fn fill_in_transport(&self, bytes: &mut [u8]) -> u8 {
        let len = bytes.len();
        let is_v4 = self.words.src.is_ipv4();
        let pseudo = |number| match (self.words.src, self.words.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => csum::pseudo_ipv4(src, dst, number, len),
            (IpAddr::V6(src), IpAddr::V6(dst)) => csum::pseudo_ipv6(src, dst, number, len),
            _ => Sum::default(),
        };
        let mut put =
            |at: usize, value: u16| bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
        let (number, at, pseudo) = match self.words.carried {
            Carried::Udp(from, to) => {
                put(0, from);
                put(2, to);
                put(4, len as u16);
                (protocol::UDP, 6, pseudo(protocol::UDP))
            }
            Carried::Tcp(from, to, flags) => {
                put(0, from);
                put(2, to);
                // The length of the header, in words, and the flags; a window.
                put(12, 5 << 12 | u16::from(flags));
                put(14, u16::MAX);
                (protocol::TCP, 16, pseudo(protocol::TCP))
            }
            Carried::Echo { id, is_reply } => {
                let kind: u8 = match (is_v4, is_reply) {
                    (true, false) => 8,
                    (true, true) => 0,
                    (false, false) => 128,
                    (false, true) => 129,
                };
                put(0, u16::from(kind) << 8);
                put(4, id);
                match is_v4 {
                    true => (protocol::ICMPV4, 2, Sum::default()),
                    false => (protocol::ICMPV6, 2, pseudo(protocol::ICMPV6)),
                }
            }
            Carried::Other(number) => return number,
        };
        csum::fill_in(bytes, at, pseudo);
        if number == protocol::UDP {
            let checksum = csum::never_zero(csum::field(bytes, at));
            csum::set_field(bytes, at, checksum);
        }
        number
    }
}

#[cfg(test)]
mod tests;
