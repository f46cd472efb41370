// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Words → packet. An error quotes the word at fault and says what may stand there.

use std::net::IpAddr;
use std::str::FromStr;

use diolkos_xlat::addr::rfc6052::Pref64;
use ipnet::Ipv6Net;

use super::ends::{different, end, is_ipv4_endpoint};
use super::icmp::{self, Field, Type};
use super::{Carried, Fragment, Header, Kind, Quoted, Transport, Words, FLAGS, GRAMMAR};

/// The flag of a segment of which nothing is said.
const SYN: u8 = 1 << 1;
/// Bytes of a unit in which offsets of fragments are counted (RFC 791 section 3.1).
const UNIT: u32 = 8;
/// The greatest offset of a fragment, in units: 13 bits.
const LAST_OFFSET: u32 = 0x1fff;

impl FromStr for Words {
    type Err = String;

    fn from_str(text: &str) -> Result<Words, String> {
        Words::read(text, &|| None)
    }
}

impl Words {
    /// Reads them, where the destination of an IPv6 node may be an IPv4 address: that is the peer of a session, and the node
    /// knows it by the translation prefix. `pref64` is asked only then.
    pub fn read(text: &str, pref64: &dyn Fn() -> Option<Ipv6Net>) -> Result<Words, String> {
        let rest = text;
        let mut words = Reader { text, rest, pref64 };
        let (transport, mut header) = words.beginning()?;
        let carried = match transport {
            Some(transport) => Carried::Transport(transport),
            None => words.error(&mut header)?,
        };
        if header.fragment.is_none() && words.take("fragment") {
            header.fragment = Some(words.fragment(header.src.is_ipv4())?);
        }
        words.end()?;
        Ok(Words { header, carried })
    }
}

impl FromStr for Quoted {
    type Err = String;

    fn from_str(text: &str) -> Result<Quoted, String> {
        let pref64 = &|| None;
        let rest = text;
        let mut words = Reader { text, rest, pref64 };
        let (transport, mut header) = words.beginning()?;
        let Some(transport) = transport else {
            return Err(format!(
                "`{text}` is an ICMP error, which no error quotes (RFC 1122 section 3.2.2)"
            ));
        };
        let mut length = None;
        loop {
            if header.fragment.is_none() && words.take("fragment") {
                header.fragment = Some(words.fragment(header.src.is_ipv4())?);
            } else if length.is_none() && words.take("length") {
                length = Some(number(words.next("the length")?, "length")?);
            } else {
                break;
            }
        }
        words.end()?;
        Ok(Quoted {
            header,
            transport,
            length,
        })
    }
}

/// What is still to be read of a text.
struct Reader<'a> {
    text: &'a str,
    rest: &'a str,
    /// The translation prefix, if it is known.
    pref64: &'a dyn Fn() -> Option<Ipv6Net>,
}

impl<'a> Reader<'a> {
    /// The word that comes next, if any. It is not taken.
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
            Some("length") => Err(
                "`length` belongs to a quoted packet: say that of the whole packet with --length"
                    .to_owned(),
            ),
            Some(more) => Err(format!("`{more}` is too much: write {GRAMMAR}")),
        }
    }

    /// From the protocol to the destination. No transport: an ICMP error, of which nothing else has been read.
    fn beginning(&mut self) -> Result<(Option<Transport>, Header), String> {
        let kind = self.next("the protocol")?;
        let mut source = None;
        // What stands between protocol and source.
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
            "icmp" => match self.next("`echo`, `reply` or the source")? {
                "echo" => {}
                "reply" => detail = 1,
                word if end(word).is_some() => source = Some(word),
                other => {
                    return Err(format!(
                        "`{other}` is neither `echo` nor `reply` nor the IP address of the source of an error"
                    ))
                }
            },
            "protocol" => detail = number(self.next("the number")?, "protocol")?,
            other => return Err(format!("`{other}` is no protocol: write {GRAMMAR}")),
        }
        // An endpoint of an echo has its identifier for a port, as `show sessions` prints it.
        let echo = source.and_then(end).and_then(|(_, port)| port);
        let is_error = kind == "icmp" && source.is_some() && echo.is_none();
        let id = match (kind, echo) {
            ("icmp", Some(id)) => id,
            ("icmp", None) if !is_error => number(self.next("the identifier")?, "identifier")?,
            _ => 0,
        };
        let has_ports = matches!(kind, "udp" | "tcp");
        let src = source.map_or_else(|| self.next("the source"), Ok)?;
        let (src, from) = self.host(src, has_ports || echo.is_some())?;
        let (dst, to) = self.destination(src, has_ports)?;
        let transport = match kind {
            "udp" => Some(Transport::Udp(from, to)),
            "tcp" => Some(Transport::Tcp(from, to, detail)),
            "protocol" => Some(Transport::Other(detail)),
            _ if is_error => None,
            _ => Some(Transport::Echo {
                id,
                is_reply: detail == 1,
            }),
        };
        let fragment = None;
        Ok((transport, Header { src, dst, fragment }))
    }

    /// An address that has been read, with its port, which may be the next word.
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

    /// Behind `to` or `>`, which may be left out. Of a session as `show sessions` prints it, the peer, behind the endpoint by
    /// which the node is seen.
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

    /// The state of a session, and in how many seconds it expires.
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

    /// Behind `fragment`, in any order: offset, identification, and whether other fragments follow.
    fn fragment(&mut self, is_v4: bool) -> Result<Fragment, String> {
        let (mut offset, mut id, mut more) = (None, None, false);
        loop {
            if offset.is_none() && self.take("offset") {
                let word = self.next("the offset")?;
                let bytes = word.parse::<u32>().ok();
                let bytes = bytes.filter(|n| n % UNIT == 0 && n / UNIT <= LAST_OFFSET);
                offset = Some(bytes.ok_or_else(|| {
                    format!(
                        "`{word}` is no offset of a fragment: write a multiple of {UNIT}, at most {}",
                        LAST_OFFSET * UNIT
                    )
                })?);
            } else if id.is_none() && self.take("id") {
                let word = self.next("the identification")?;
                let greatest = if is_v4 { u16::MAX.into() } else { u32::MAX };
                let value = word.parse().ok().filter(|id| *id <= greatest);
                id = Some(value.ok_or_else(|| {
                    format!("`{word}` is no identification: write a number, at most {greatest}")
                })?);
            } else if !more && self.take("more") {
                more = true;
            } else {
                break;
            }
        }
        let missing = |what| {
            let found = match self.peek() {
                Some(word) => format!("`{word}` stands where {what} should be"),
                None => format!("{what} is missing after `{}`", self.text),
            };
            format!("{found}: write `fragment offset BYTES id NUMBER`, and `more` if others follow")
        };
        let offset = offset.ok_or_else(|| missing("`offset`"))?;
        let id = id.ok_or_else(|| missing("`id`"))?;
        if is_v4 && offset == 0 && !more {
            return Err("`offset 0` without `more` is a whole IPv4 packet: write `more`, or leave `fragment` out".to_owned());
        }
        Ok(Fragment {
            offset: (offset / UNIT) as u16,
            id,
            more,
        })
    }

    /// Behind the destination of an ICMP error: what it says, which fragment it is, and what it quotes.
    fn error(&mut self, header: &mut Header) -> Result<Carried, String> {
        let is_v4 = header.src.is_ipv4();
        let kind = self.kind(is_v4)?;
        if self.take("fragment") {
            header.fragment = Some(self.fragment(is_v4)?);
        }
        match self.next("`quoting`")? {
            "quoting" => {}
            other => {
                return Err(format!(
                    "`{other}` stands where `quoting` should: write the packet that the error is about behind it"
                ))
            }
        }
        let quoted: Quoted = unquoted(std::mem::take(&mut self.rest).trim())?.parse()?;
        if quoted.header.src.is_ipv4() != is_v4 {
            return Err(format!(
                "{} and {} are of different families: write the quoted packet as the sender of the error saw it",
                header.src, quoted.header.src
            ));
        }
        Ok(Carried::Error(kind, quoted))
    }

    fn kind(&mut self, is_v4: bool) -> Result<Kind, String> {
        let types = icmp::types(is_v4);
        let word = self.next("what the error says")?;
        let found = types.iter().find(|found| found.name == word);
        let found = found.ok_or_else(|| {
            let names: Vec<_> = types.iter().map(|found| found.name).collect();
            let family = if is_v4 { "ICMP" } else { "ICMPv6" };
            format!(
                "`{word}` is no error of {family}: write {}",
                names.join(", ")
            )
        })?;
        let code = self.code(found)?;
        let field = icmp::field(is_v4, found.number, code);
        let value = match field {
            Field::Unused => 0,
            Field::Mtu => match self.next("`mtu`")? {
                "mtu" => self.field(is_v4, field, "MTU")?,
                other => {
                    return Err(format!(
                        "`{other}` stands where `mtu` should: write `mtu BYTES`"
                    ))
                }
            },
            Field::Pointer if self.take("pointer") => self.field(is_v4, field, "pointer")?,
            Field::Pointer => 0,
        };
        Ok(Kind {
            icmp_type: found.number,
            code,
            rest: value << icmp::shift(is_v4, field),
        })
    }

    /// The code by name or number. Where it is not said, it is 0, except of what is unreachable.
    fn code(&mut self, of: &Type) -> Result<u8, String> {
        let Some(names) = of.codes else {
            return Ok(0);
        };
        let word = match self.peek() {
            Some("pointer" | "fragment" | "quoting") if of.name != "unreachable" => return Ok(0),
            _ => self.next("the code")?,
        };
        let by_name = names.iter().position(|name| *name == word);
        let code = by_name.map_or_else(|| word.parse().ok(), |at| u8::try_from(at).ok());
        code.ok_or_else(|| {
            format!(
                "`{word}` is no code of `{}`: write {}, or its number",
                of.name,
                names.join(", ")
            )
        })
    }

    fn field(&mut self, is_v4: bool, field: Field, what: &str) -> Result<u32, String> {
        let word = self.next(&format!("the {what}"))?;
        let greatest = icmp::greatest(is_v4, field);
        let value = word.parse().ok().filter(|value| *value <= greatest);
        value.ok_or_else(|| format!("`{word}` is no {what}: write a number, at most {greatest}"))
    }
}

/// Without the quotation marks around it, if there are any.
fn unquoted(text: &str) -> Result<&str, String> {
    for mark in ['\'', '"'] {
        let Some(inner) = text.strip_prefix(mark) else {
            continue;
        };
        let missing = || format!("`{text}` has no {mark} at its end");
        return inner.strip_suffix(mark).ok_or_else(missing);
    }
    Ok(text)
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
