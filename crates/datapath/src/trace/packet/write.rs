// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A packet → the words of which it is read again.

use std::fmt;

use super::icmp::{self, Field};
use super::{Carried, Fragment, Header, Kind, Quoted, Transport, Words, FLAGS};

impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Header { src, dst, fragment } = self.header;
        let (kind, quoted) = match self.carried {
            Carried::Transport(transport) => return plain(f, &self.header, transport),
            Carried::Error(kind, quoted) => (kind, quoted),
        };
        write!(f, "icmp {src} > {dst} ")?;
        error(f, src.is_ipv4(), kind)?;
        part(f, fragment)?;
        write!(f, " quoting '{quoted}'")
    }
}

impl fmt::Display for Quoted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        plain(f, &self.header, self.transport)?;
        match self.length {
            Some(length) => write!(f, " length {length}"),
            None => Ok(()),
        }
    }
}

fn plain(f: &mut fmt::Formatter<'_>, header: &Header, transport: Transport) -> fmt::Result {
    let Header { src, dst, fragment } = *header;
    match transport {
        Transport::Udp(from, to) => write!(f, "udp {src} {from} > {dst} {to}")?,
        Transport::Tcp(from, to, flags) => {
            let names = FLAGS.iter().enumerate();
            let names = names.filter(|(at, _)| flags >> at & 1 == 1);
            let names: Vec<_> = names.map(|(_, name)| *name).collect();
            write!(f, "tcp {} {src} {from} > {dst} {to}", names.join(","))?;
        }
        Transport::Echo { id, is_reply } => {
            let kind = if is_reply { "reply" } else { "echo" };
            write!(f, "icmp {kind} {id} {src} > {dst}")?;
        }
        Transport::Other(number) => write!(f, "protocol {number} {src} > {dst}")?,
    }
    part(f, fragment)
}

fn part(f: &mut fmt::Formatter<'_>, fragment: Option<Fragment>) -> fmt::Result {
    let Some(Fragment { offset, id, more }) = fragment else {
        return Ok(());
    };
    let more = if more { " more" } else { "" };
    write!(
        f,
        " fragment offset {} id {id}{more}",
        u32::from(offset) * 8
    )
}

fn error(f: &mut fmt::Formatter<'_>, is_v4: bool, kind: Kind) -> fmt::Result {
    let known = icmp::types(is_v4);
    let known = known.iter().find(|known| known.number == kind.icmp_type);
    if let Some(known) = known {
        f.write_str(known.name)?;
        match known.codes.map(|names| names.get(usize::from(kind.code))) {
            Some(Some(name)) => write!(f, " {name}")?,
            Some(None) => write!(f, " {}", kind.code)?,
            None => {}
        }
    }
    let field = icmp::field(is_v4, kind.icmp_type, kind.code);
    let value = kind.rest >> icmp::shift(is_v4, field);
    match field {
        Field::Unused => Ok(()),
        Field::Mtu => write!(f, " mtu {value}"),
        Field::Pointer => write!(f, " pointer {value}"),
    }
}
