// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Entries of the tables of `nat64.p4`: what each means, in the bytes of `p4/PROTOCOL.md`, "Tables of `nat64.p4`".

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use diolkos_fastpath::Session;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use crate::embedding::Embedding;
use crate::wire::{Field, Op, Request};

/// The number of ICMPv6 in IPv6 headers; the tables of sessions have the protocol of the packet's own family.
const ICMP: u8 = 1;
const ICMPV6: u8 = 58;

/// A link-layer address.
pub type Mac = [u8; 6];

/// Identifies an entry: an entry replaces one with the same table, key and mask. A default action has no key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct EntryKey {
    table: &'static str,
    key: Field,
    mask: Field,
}

/// An entry, or a default action.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Where it is.
    pub place: EntryKey,
    priority: u32,
    action: &'static str,
    data: Field,
}

impl Entry {
    fn exact(table: &'static str, key: Field, action: &'static str, data: Field) -> Entry {
        Entry {
            place: EntryKey {
                table,
                key,
                mask: Field::EMPTY,
            },
            priority: 0,
            action,
            data,
        }
    }

    /// An entry of a ternary table.
    fn ternary(
        table: &'static str,
        priority: u32,
        net: IpNet,
        Action { name: action, data }: Action,
    ) -> Entry {
        let (key, mask) = match net {
            IpNet::V4(net) => (octets4(net.network()), octets4(net.netmask())),
            IpNet::V6(net) => (octets6(net.network()), octets6(net.netmask())),
        };
        Entry {
            place: EntryKey { table, key, mask },
            priority,
            action,
            data,
        }
    }

    /// Returns true for a default action.
    pub fn is_default(&self) -> bool {
        self.place.key == Field::EMPTY
    }

    /// The request that writes it.
    pub fn insert(&self) -> Request {
        Request {
            op: match self.is_default() {
                true => Op::Default,
                false => Op::Insert,
            },
            priority: self.priority,
            table: self.place.table,
            action: self.action,
            key: self.place.key,
            mask: self.place.mask,
            data: self.data,
        }
    }

    /// The request that removes it. `None`: default actions are only replaced.
    pub fn delete(&self) -> Option<Request> {
        (!self.is_default()).then_some(Request {
            op: Op::Delete,
            priority: 0,
            table: self.place.table,
            action: "",
            key: self.place.key,
            mask: self.place.mask,
            data: Field::EMPTY,
        })
    }
}

fn octets4(address: Ipv4Addr) -> Field {
    Field::EMPTY.with(&address.octets())
}

fn octets6(address: Ipv6Addr) -> Field {
    Field::EMPTY.with(&address.octets())
}

/// How the program works.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// It declines everything.
    Off = 0,
    /// It translates without state.
    Stateless = 1,
    /// It translates by the sessions in its tables.
    Sessions = 2,
    /// It translates without state, and declines TCP with SYN.
    StatelessWithoutSyn = 4,
}

/// The settings of the program. Once they are written, it translates.
pub fn settings(mode: Mode, copies_traffic_class: bool, lowest_ipv6_mtu: u16) -> Entry {
    let traffic_class = if copies_traffic_class { 255 } else { 0 };
    // The pool is that of sessions which the program learns itself.
    let data = Field::EMPTY
        .with(&[mode as u8, traffic_class])
        .with(&lowest_ipv6_mtu.to_be_bytes())
        .with(&[0; 8]);
    Entry::exact("settings", Field::EMPTY, "set", data)
}

/// The program declines everything.
pub fn settings_off() -> Entry {
    settings(Mode::Off, true, 1280)
}

/// Frames to this address are for this host.
pub fn local_mac(mac: Mac) -> Entry {
    Entry::exact("local_mac", Field::EMPTY.with(&mac), "mine", Field::EMPTY)
}

/// The switch answers for this address of the host.
pub fn own(address: IpAddr, mac: Mac) -> Entry {
    let (table, key) = match address {
        IpAddr::V4(address) => ("own4", octets4(address)),
        IpAddr::V6(address) => ("own6", octets6(address)),
    };
    Entry::exact(table, key, "own", Field::EMPTY.with(&mac))
}

/// Where packets leave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Exit {
    /// The port of the switch.
    pub port: u32,
    /// The neighbour.
    pub to: Mac,
    /// The interface.
    pub from: Mac,
    /// MTU of the link, bytes.
    pub mtu: u16,
}

/// What happens to translated packets for these addresses; `None`: the slow path sends them. Longer prefixes win, and
/// `is_first` wins over every other.
pub fn hop(to: IpNet, exit: Option<Exit>, is_first: bool) -> Entry {
    let table = match to {
        IpNet::V4(_) => "hop4",
        IpNet::V6(_) => "hop6",
    };
    let priority = match is_first {
        true => 0,
        false => 1 + u32::from(to.max_prefix_len() - to.prefix_len()),
    };
    let action = match exit {
        None => DECLINE,
        Some(exit) => {
            let data = Field::EMPTY
                .with(&exit.port.to_be_bytes())
                .with(&exit.to)
                .with(&exit.from)
                .with(&exit.mtu.to_be_bytes());
            let name = "forward";
            Action { name, data }
        }
    };
    Entry::ternary(table, priority, to, action)
}

/// An action, and its parameters.
struct Action {
    name: &'static str,
    data: Field,
}

/// The action that leaves a packet to the slow path.
const DECLINE: Action = Action {
    name: "decline",
    data: Field::EMPTY,
};

/// Source or destination of packets without state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The source.
    Source,
    /// The destination.
    Destination,
}

/// Addresses of IPv6 packets, and their IPv4 addresses; `None` declines.
pub fn from6(end: End, priority: u32, net: Ipv6Net, by: Option<&Embedding>) -> Entry {
    let table = match end {
        End::Source => "src6",
        End::Destination => "dst6",
    };
    let action = by.map_or(DECLINE, |by| Action {
        name: "from6",
        data: by.from6(),
    });
    Entry::ternary(table, priority, net.into(), action)
}

/// Like [`from6`], for embedded IPv4 networks: only bits of the prefix and of the network are compared.
pub fn decline_embedded(
    end: End,
    priority: u32,
    prefix: Ipv6Net,
    by: &Embedding,
    net: Ipv4Net,
) -> Entry {
    let mut entry = from6(end, priority, prefix, None);
    // The base of a prefix has no bits there, so both are sums of disjoint bits.
    let key = by.embed(net.network().to_bits());
    let mask = prefix.netmask().to_bits() | (by.embed(net.netmask().to_bits()) ^ by.v6);
    entry.place.key = octets6(Ipv6Addr::from_bits(key));
    entry.place.mask = octets6(Ipv6Addr::from_bits(mask));
    entry
}

/// Addresses of IPv4 packets, and their IPv6 addresses; `None` declines.
pub fn from4(end: End, priority: u32, net: Ipv4Net, by: Option<&Embedding>) -> Entry {
    let table = match end {
        End::Source => "src4",
        End::Destination => "dst4",
    };
    let action = by.map_or(DECLINE, |by| Action {
        name: "from4",
        data: by.from4(),
    });
    Entry::ternary(table, priority, net.into(), action)
}

/// Both directions of a session. `peer6` is the peer as the node sees it, `slot` the index of the pair in `used`.
pub fn session(session: &Session, peer6: Ipv6Addr, slot: u32) -> [Entry; 2] {
    let Session {
        protocol,
        node,
        v4,
        peer,
        ..
    } = *session;
    let is_echo = protocol == ICMP;
    let protocol6 = if is_echo { ICMPV6 } else { protocol };
    let key6 = octets6(node.0)
        .with(&peer6.octets())
        .with(&[protocol6])
        .with(&node.1.to_be_bytes())
        .with(&peer.1.to_be_bytes());
    let to4 = octets4(v4.0)
        .with(&peer.0.octets())
        .with(&v4.1.to_be_bytes())
        .with(&slot.to_be_bytes());
    // The port of the peer of an echo is 0.
    let key4 = octets4(peer.0)
        .with(&v4.0.octets())
        .with(&[protocol])
        .with(&peer.1.to_be_bytes())
        .with(&v4.1.to_be_bytes());
    let to6 = octets6(peer6)
        .with(&node.0.octets())
        .with(&node.1.to_be_bytes())
        .with(&slot.to_be_bytes());
    [
        Entry::exact("session6", key6, "to4", to4),
        Entry::exact("session4", key4, "to6", to6),
    ]
}
