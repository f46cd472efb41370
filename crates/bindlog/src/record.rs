// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A log record: time, event, source, and the address and port on the IPv4 side.

use std::fmt;
use std::net::Ipv6Addr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use diolkos_nat64::config::{Binding, Endpoint4, Endpoint6, Figures, PoolId, Protocol};
use diolkos_nat64::session::BlockView;
use ipnet::{Ipv4Net, Ipv6Net};

use diolkos_service::counted::{agreeing, counted};

/// A record of the binding log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    /// Milliseconds since 1970, UTC.
    pub at: u64,
    /// The event.
    pub what: What,
}

/// The event of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// The log starts: an entry from before is in force only if it is listed again from here on.
    Started,
    /// All existing entries have been listed; the number counts the bindings. An entry from before [`What::Started`] that is
    /// not listed has ended.
    Listed(u64),
    /// The log ends.
    Stopped,
    /// Records are missing here: their number, and the time of the first one. The last one is from the record's own time.
    Lost(u64, u64),
    /// Sources have fixed ports (RFC 7422 section 3), from here on unless they had them before.
    Mapping(Mapped),
    /// A source prefix of the mapping of a pool, with its index.
    MappedSources(PoolId, u32, Ipv6Net),
    /// A pool prefix of the mapping of a pool, with its index.
    MappedAddresses(PoolId, u32, Ipv4Net),
    /// A binding (RFC 6146 section 3.1).
    Binding(EntryChange, Binding),
    /// A block of ports that is allocated to a source (RFC 6888 REQ-14).
    Block(EntryChange, BlockView),
    /// A session of a binding with a peer; the last field is the peer's IPv6 address as the node knows it.
    Session(EntryChange, Binding, Endpoint4, Ipv6Addr),
}

/// A mapping without its prefixes; a record for each prefix follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mapped {
    /// The pool by source that is divided.
    pub pool: PoolId,
    /// The division of the ports. Ports outside of its ranges are reserved.
    pub figures: Figures,
    /// The most ports of a protocol that a source can have, including those of blocks.
    pub max_ports_per_source: u32,
    /// The number of source prefixes.
    pub sources: u32,
    /// The number of pool prefixes.
    pub addresses: u32,
}

/// The change of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EntryChange {
    /// It was created.
    Created,
    /// It existed already when the log, or a part of it, began.
    InForce,
    /// It was deleted.
    Deleted,
}

/// The value of a field.
#[derive(Clone, Copy, Debug)]
pub enum Field {
    /// A word, or an address.
    Text(Word),
    /// A number.
    Number(u64),
}

/// A value that is quoted in formats with quotation marks. It never needs an escape.
#[derive(Clone, Copy, Debug)]
pub enum Word {
    /// A name.
    Name(&'static str),
    /// An IPv4 address.
    V4(std::net::Ipv4Addr),
    /// An IPv6 address.
    V6(Ipv6Addr),
    /// Milliseconds since 1970.
    Time(u64),
}

impl Record {
    /// A record of the current time.
    pub fn now(what: What) -> Record {
        Record {
            at: millis_now(),
            what,
        }
    }

    /// The name of the event; scripts rely on it.
    pub fn event(&self) -> &'static str {
        use EntryChange::{Created, Deleted, InForce};
        match self.what {
            What::Started => "started",
            What::Listed(_) => "listed",
            What::Stopped => "stopped",
            What::Lost(..) => "lost",
            What::Mapping(..) => "mapping",
            What::MappedSources(..) => "mapping-sources",
            What::MappedAddresses(..) => "mapping-addresses",
            What::Binding(Created, _) => "binding-created",
            What::Binding(InForce, _) => "binding-in-force",
            What::Binding(Deleted, _) => "binding-deleted",
            What::Block(Created, _) => "block-allocated",
            What::Block(InForce, _) => "block-in-force",
            What::Block(Deleted, _) => "block-released",
            What::Session(Created, ..) => "session-created",
            What::Session(InForce, ..) => "session-in-force",
            What::Session(Deleted, ..) => "session-deleted",
        }
    }

    /// Calls `each` for every field except time, instance and event, with its name.
    pub fn fields(&self, mut each: impl FnMut(&'static str, Field)) {
        let mut binding = |binding: &Binding| {
            each(
                "protocol",
                Field::Text(Word::Name(protocol_name(binding.protocol))),
            );
            each("source", Field::Text(Word::V6(binding.v6.addr)));
            each("source_port", Field::Number(binding.v6.port.into()));
            each("address", Field::Text(Word::V4(binding.v4.addr)));
            each("port", Field::Number(binding.v4.port.into()));
        };
        match &self.what {
            What::Started | What::Stopped => {}
            What::Listed(bindings) => each("bindings", Field::Number(*bindings)),
            What::Lost(count, since) => {
                each("records", Field::Number(*count));
                each("since", Field::Text(Word::Time(*since)));
            }
            What::Mapping(of) => {
                let Mapped {
                    pool,
                    figures,
                    max_ports_per_source: most,
                    sources,
                    addresses,
                } = of;
                let Figures {
                    source_prefix_len,
                    first_port,
                    ports_per_source,
                    sources_per_address,
                    overflow_last,
                } = *figures;
                each("pool", Field::Number((*pool).into()));
                each("source_prefix_len", Field::Number(source_prefix_len.into()));
                each("first_port", Field::Number(first_port.into()));
                each("ports_per_source", Field::Number(ports_per_source.into()));
                each(
                    "sources_per_address",
                    Field::Number(sources_per_address.into()),
                );
                each("overflow_last_port", Field::Number(overflow_last.into()));
                each("max_ports_per_source", Field::Number((*most).into()));
                // RFC 7422 section 2 calls this algorithm 0.
                each("algorithm", Field::Text(Word::Name("sequential")));
                each("source_prefixes", Field::Number((*sources).into()));
                each("address_prefixes", Field::Number((*addresses).into()));
            }
            What::MappedSources(pool, number, net) => {
                each("pool", Field::Number((*pool).into()));
                each("number", Field::Number((*number).into()));
                each("source", Field::Text(Word::V6(net.addr())));
                each("prefix_len", Field::Number(net.prefix_len().into()));
            }
            What::MappedAddresses(pool, number, net) => {
                each("pool", Field::Number((*pool).into()));
                each("number", Field::Number((*number).into()));
                each("address", Field::Text(Word::V4(net.addr())));
                each("prefix_len", Field::Number(net.prefix_len().into()));
            }
            What::Binding(_, of) => binding(of),
            What::Block(_, of) => {
                each("source", Field::Text(Word::V6(of.source)));
                each(
                    "source_prefix_len",
                    Field::Number(of.source_prefix_len.into()),
                );
                each("address", Field::Text(Word::V4(of.addr)));
                each("first_port", Field::Number(of.first.into()));
                each("last_port", Field::Number(of.last.into()));
            }
            What::Session(_, of, peer, peer6) => {
                binding(of);
                each("destination", Field::Text(Word::V4(peer.addr)));
                each("destination_port", Field::Number(peer.port.into()));
                each("destination6", Field::Text(Word::V6(*peer6)));
            }
        }
    }

    /// Returns true for records of bindings, blocks and sessions. The others are about the log itself.
    pub fn is_of_entry(&self) -> bool {
        matches!(
            self.what,
            What::Binding(..) | What::Block(..) | What::Session(..)
        )
    }
}

/// A sentence for people.
impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.event())?;
        let seen = |f: &mut fmt::Formatter<'_>, of: &Binding| {
            let Binding { protocol, v4, v6 } = of;
            let Endpoint6 { addr, port } = v6;
            write!(f, " {} [{addr}]:{port} as {v4}", protocol_name(*protocol))
        };
        match &self.what {
            What::Started | What::Stopped => Ok(()),
            What::Listed(bindings) => {
                let are = agreeing(*bindings, "is", "are");
                write!(f, ": {} {are} in force", counted(*bindings, "binding"))
            }
            What::Lost(count, since) => {
                write!(
                    f,
                    ": {} {} missing since {}",
                    counted(*count, "record"),
                    agreeing(*count, "is", "are"),
                    Word::Time(*since)
                )
            }
            What::Mapping(Mapped { pool, figures, .. }) => {
                let (ports, first) = (figures.ports_per_source, figures.first_port);
                write!(
                    f,
                    ": each source of pool {pool} has {ports} ports, from port {first} on"
                )
            }
            What::MappedSources(pool, number, net) => {
                write!(f, " {number} of pool {pool}: {net}")
            }
            What::MappedAddresses(pool, number, net) => {
                write!(f, " {number} of pool {pool}: {net}")
            }
            What::Binding(_, of) => seen(f, of),
            What::Block(_, of) => {
                let BlockView {
                    source,
                    source_prefix_len: len,
                    addr,
                    first,
                    last,
                } = of;
                write!(f, " {source}/{len} as {addr}:{first}-{last}")
            }
            What::Session(_, of, peer, _) => {
                seen(f, of)?;
                write!(f, " to {peer}")
            }
        }
    }
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Word::Name(name) => f.write_str(name),
            Word::V4(addr) => addr.fmt(f),
            Word::V6(addr) => addr.fmt(f),
            Word::Time(millis) => {
                let at = UNIX_EPOCH + Duration::from_millis(*millis);
                humantime::format_rfc3339_millis(at).fmt(f)
            }
        }
    }
}

fn protocol_name(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Tcp => "tcp",
        Protocol::Udp => "udp",
        Protocol::Icmp => "icmp",
    }
}

/// Milliseconds since 1970.
pub fn millis_now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}
