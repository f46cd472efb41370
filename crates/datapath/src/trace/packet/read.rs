// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses words to a packet. An error quotes the wrong word and says what is allowed there.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use diolkos_xlat::addr::rfc6052::Pref64;
use ipnet::Ipv6Net;

use super::{Transport, Words, FLAGS, GRAMMAR};

/// The flag of a segment if none is given.
const SYN: u8 = 1 << 1;

impl FromStr for Words {
    type Err = String;

    fn from_str(text: &str) -> Result<Words, String> {
        Words::read(text, &|| None)
    }
}

impl Words {
    /// Parses a packet. The destination of an IPv6 node may be an IPv4 address: that is the peer of a session, which
    /// the node reaches by the translation prefix. `pref64` is called only in that case.
    pub fn read(text: &str, pref64: &dyn Fn() -> Option<Ipv6Net>) -> Result<Words, String> {
        let rest = text;
        let mut words = PacketParser { text, rest, pref64 };
        let packet = words.packet()?;
        words.end()?;
        Ok(packet)
    }
}

/// The unread rest of a text.
struct PacketParser<'a> {
    text: &'a str,
    rest: &'a str,
    /// The translation prefix, if it is known.
    pref64: &'a dyn Fn() -> Option<Ipv6Net>,
}

impl<'a> PacketParser<'a> {
    /// Returns the next word, if any, without taking it.
    fn peek(&self) -> Option<&'a str> {
        self.rest.split_whitespace().next()
    }

    fn next(&mut self, what: &str) -> Result<&'a str, String> {
        let word = self.peek();
        let word = word
            .ok_or_else(|| format!("{what} is missing after `{}`: write {GRAMMAR}", self.text))?;
        self.rest = &self.rest.trim_start()[word.len()..];
        Ok(word)
    }

    /// Takes the next word if it is this one.
    fn take(&mut self, word: &str) -> bool {
        let is_there = self.peek() == Some(word);
        if is_there {
            self.rest = &self.rest.trim_start()[word.len()..];
        }
        is_there
    }

    fn end(&self) -> Result<(), String> {
        match self.peek() {
            None => Ok(()),
            Some("length") => Err("say the length of the packet with --length".to_owned()),
            Some(more) => Err(format!("`{more}` is too much: write {GRAMMAR}")),
        }
    }

    /// Parses from the protocol to the destination.
    fn packet(&mut self) -> Result<Words, String> {
        let kind = self.next("the protocol")?;
        let mut source = None;
        // The words between protocol and source.
        let mut detail = 0;
        match kind {
            "udp" => {}
            "tcp" => match self.next("the source")? {
                word if end(word).is_some() => {
                    source = Some(word);
                    detail = SYN;
                }
                word => detail = flags(word)?,
            },
            "icmp" => match self.next("`echo` or `reply`")? {
                "echo" => {}
                "reply" => detail = 1,
                // An endpoint of an echo has its identifier for a port, as `show sessions` prints it.
                word if end(word).is_some_and(|(_, port)| port.is_some()) => source = Some(word),
                other => return Err(format!("`{other}` is neither `echo` nor `reply`")),
            },
            "protocol" => detail = number(self.next("the number")?, "protocol")?,
            other => return Err(format!("`{other}` is no protocol: write {GRAMMAR}")),
        }
        let echo = source.filter(|_| kind == "icmp").and_then(end);
        let id = match (kind, echo.and_then(|(_, port)| port)) {
            ("icmp", Some(id)) => id,
            ("icmp", None) => number(self.next("the identifier")?, "identifier")?,
            _ => 0,
        };
        let has_ports = matches!(kind, "udp" | "tcp");
        let src = source.map_or_else(|| self.next("the source"), Ok)?;
        let (src, from) = self.host(src, has_ports || echo.is_some())?;
        let (dst, to) = self.destination(src, has_ports)?;
        let transport = match kind {
            "udp" => Transport::Udp(from, to),
            "tcp" => Transport::Tcp(from, to, detail),
            "protocol" => Transport::Other(detail),
            _ => Transport::Echo {
                id,
                is_reply: detail == 1,
            },
        };
        Ok(Words {
            src,
            dst,
            transport,
        })
    }

    /// Returns an address that has been read, with its port, which may be the next word.
    fn host(&mut self, word: &str, has_port: bool) -> Result<(IpAddr, u16), String> {
        let found = end(word);
        let (address, port) = found.ok_or_else(|| format!("`{word}` is no IP address"))?;
        let port = match (port, has_port) {
            (Some(port), true) => port,
            (None, true) => number(self.next("the port")?, "port")?,
            // The peer of an echo, as `show sessions` prints it.
            (Some(0) | None, false) => 0,
            (Some(port), false) => {
                return Err(format!(
                    "`{word}` has the port {port}, and this packet has none: write `{address}`"
                ))
            }
        };
        Ok((address, port))
    }

    /// Parses the destination, with `to` or `>` before it, which may be omitted. Of a session as `show sessions` prints
    /// it, that is the peer, which follows the node's external endpoint.
    fn destination(&mut self, src: IpAddr, has_port: bool) -> Result<(IpAddr, u16), String> {
        let is_named = self.take(">") || self.take("to");
        let mut word = self.next("the destination")?;
        if !is_named && end(word).is_none() {
            return Err(format!(
                "`{word}` stands where the destination should: write {GRAMMAR}"
            ));
        }
        let peer = self.peek().filter(|_| !is_named && src.is_ipv6());
        if let Some(peer) = peer.filter(|peer| is_ipv4_endpoint(word) && is_ipv4_endpoint(peer)) {
            word = peer;
            self.next("the peer")?;
            self.skip_state();
        }
        let (dst, port) = self.host(word, has_port)?;
        match (src, dst) {
            (IpAddr::V6(_), IpAddr::V4(peer)) => match (self.pref64)() {
                Some(prefix) => Ok((Pref64::new(prefix).embed(peer).into(), port)),
                None => Err(different(src, dst)),
            },
            _ if src.is_ipv4() != dst.is_ipv4() => Err(different(src, dst)),
            _ => Ok((dst, port)),
        }
    }

    /// Skips the state of a session, and the seconds until it expires.
    fn skip_state(&mut self) {
        let mut words = self.rest.split_whitespace();
        let is_state = |word: &&str| {
            word.bytes()
                .all(|b| b.is_ascii_lowercase() || b == b'-' || b == b'_' || b.is_ascii_digit())
        };
        let state = words.next().filter(is_state);
        let seconds = words.next().filter(|word| word.parse::<u64>().is_ok());
        if state.is_some() && seconds.is_some() && words.next().is_none() {
            self.rest = "";
        }
    }
}

/// Parses an address, `ADDRESS:PORT`, or `[ADDRESS]:PORT`.
fn end(word: &str) -> Option<(IpAddr, Option<u16>)> {
    if let Ok(socket) = word.parse::<SocketAddr>() {
        return Some((socket.ip(), Some(socket.port())));
    }
    let bare = word
        .strip_prefix('[')
        .and_then(|word| word.strip_suffix(']'));
    Some((bare.unwrap_or(word).parse().ok()?, None))
}

/// Returns true if it is `ADDRESS:PORT` of IPv4.
fn is_ipv4_endpoint(word: &str) -> bool {
    matches!(end(word), Some((IpAddr::V4(_), Some(_))))
}

/// Explains why there is no such packet.
fn different(src: IpAddr, dst: IpAddr) -> String {
    format!(
        "{src} and {dst} are of different families: name the destination as the sender knows it"
    )
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
