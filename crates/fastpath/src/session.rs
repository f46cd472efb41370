// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The sessions that the fast path of a NAT64 knows, in two hash maps, one for each direction (`bpf/session.h`); and
//! the bindings of UDP and TCP, with which outbound packets find or open their sessions.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::AsFd;
use std::time::Duration;

use libbpf_rs::{ErrorKind, MapCore, MapFlags, MapHandle};

use super::copies::Copies;
use super::known_sessions::{last_use, KnownSessions, INWARD, OUTWARD};
use super::mix::mix;
use super::removal::delete_all;
use super::Owner;

/// A session (RFC 6146 section 3.2). For ICMP, ports are query identifiers, and the port of the peer is 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Session {
    /// The IPv4 protocol number: 1 (ICMP), 6 (TCP) or 17 (UDP).
    pub protocol: u8,
    /// The node on the IPv6 side.
    pub node: (Ipv6Addr, u16),
    /// Its IPv4 transport address.
    pub v4: (Ipv4Addr, u16),
    /// The peer.
    pub peer: (Ipv4Addr, u16),
    /// Index of the translation prefix in which the node sees the peer.
    pub prefix: u8,
    /// The owner of its binding. Programs use sessions of another owner until the [deadline](Sessions::set_deadline).
    pub owner: Owner,
}

/// A node's port.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct NodePort {
    /// The IPv4 protocol number: 6 (TCP) or 17 (UDP).
    pub protocol: u8,
    /// The address of the node.
    pub addr: Ipv6Addr,
    /// Its port.
    pub port: u16,
}

/// The flags that each side of a TCP session has sent, as stored in its entry: `DIOLKOS_SENT_*` of `bpf/abi.h`. Empty
/// for other protocols.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Sent(pub u8);

impl Sent {
    /// A SYN of the node.
    pub const SYN6: u8 = 1;
    /// A SYN of the peer.
    pub const SYN4: u8 = 2;
    /// A FIN of the node.
    pub const FIN6: u8 = 4;
    /// A FIN of the peer.
    pub const FIN4: u8 = 8;
    /// SYNs of both.
    pub const SYNS: u8 = Sent::SYN6 | Sent::SYN4;
    /// FINs of both sides, which count once both have sent SYN.
    pub const FINS: u8 = Sent::FIN6 | Sent::FIN4;

    /// Returns true if all of these flags are set.
    pub fn has(self, all: u8) -> bool {
        self.0 & all == all
    }
}

/// The maps of sessions and bindings.
#[derive(Debug)]
pub struct Sessions {
    pub(super) outward: MapHandle,
    pub(super) inward: MapHandle,
    pub(super) bound: MapHandle,
    pub(super) copies: MapHandle,
    pub(super) known: MapHandle,
    deadlines: Copies,
    cache: KnownSessions,
}

impl Sessions {
    /// Creates the handle for programs with these maps and this key, which selects the places of known sessions.
    pub(super) fn of(
        [outward, inward, bound, copies, known]: [MapHandle; 5],
        key: u64,
    ) -> io::Result<Sessions> {
        Ok(Sessions {
            deadlines: Copies::of(copies.as_fd())?,
            cache: KnownSessions::of(known.as_fd(), known.max_entries(), key)?,
            outward,
            inward,
            bound,
            copies,
            known,
        })
    }

    /// Sets the time until which programs use sessions of another owner's bindings, in CLOCK_BOOTTIME as BPF programs
    /// read it ([`diolkos_sys::clock`]). Zero, the initial value, means never. A value for [`Owner::OURS`] has no
    /// effect.
    ///
    /// It applies to packets that a program starts to process after this call returns.
    pub fn set_deadline(&self, owner: Owner, moment: Duration) {
        self.deadlines.set(owner, moment);
    }

    /// Adds or changes a session. If only one direction fits, the session is not added.
    pub fn put(&self, session: &Session, sent: Sent) -> io::Result<()> {
        let put = self.put_into_tables(session, sent);
        self.forget(session);
        put
    }

    fn put_into_tables(&self, session: &Session, sent: Sent) -> io::Result<()> {
        let (outward, inward) = (session.outward_key(), session.inward_key());
        self.inward
            .update(&inward, &session.inward_to(sent), MapFlags::ANY)
            .map_err(io::Error::other)?;
        if session.is_udp() {
            return Ok(());
        }
        let put = self
            .outward
            .update(&outward, &session.outward_to(), MapFlags::ANY);
        if let Err(error) = put {
            let _ = self.inward.delete(&inward);
            return Err(io::Error::other(error));
        }
        Ok(())
    }

    /// Removes a session, if it exists.
    pub fn remove(&self, session: &Session) -> io::Result<()> {
        let both = [
            (&self.inward, &session.inward_key()[..]),
            (&self.outward, &session.outward_key()[..]),
        ];
        let its = if session.is_udp() { 1 } else { 2 };
        let removed = both[..its].iter().map(|(map, key)| match map.delete(key) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(io::Error::other(error)),
            _ => Ok(()),
        });
        // If one direction stays, the other one leaves nevertheless.
        let removed = removed.fold(Ok(()), io::Result::and);
        self.forget(session);
        removed
    }

    /// Removes the sessions that exist, many with each system call. After an error, those that could be removed are.
    pub fn remove_all(&self, sessions: &[Session]) -> io::Result<()> {
        let inward: Vec<_> = sessions.iter().map(Session::inward_key).collect();
        let removed = delete_all(&self.inward, inward.as_flattened());
        let two = sessions.iter().filter(|session| !session.is_udp());
        let outward: Vec<_> = two.map(Session::outward_key).collect();
        let removed = removed.and(delete_all(&self.outward, outward.as_flattened()));
        sessions.iter().for_each(|session| self.forget(session));
        removed
    }

    /// Makes programs forget what they have found of a session.
    fn forget(&self, session: &Session) {
        self.cache
            .forget(&session.outward_key(), &session.inward_key());
    }

    /// Removes the bindings that exist.
    pub fn unbind_all(&self, nodes: &[NodePort]) -> io::Result<()> {
        let keys: Vec<_> = nodes.iter().copied().map(bound).collect();
        delete_all(&self.bound, keys.as_flattened())
    }

    /// Adds or changes a binding. A binding must have the same owner as its sessions.
    pub fn bind(&self, node: NodePort, v4: (Ipv4Addr, u16), owner: Owner) -> io::Result<()> {
        self.bound
            .update(&bound(node), &bound_to(node, v4, owner), MapFlags::ANY)
            .map_err(io::Error::other)
    }

    /// Removes a binding, if it exists.
    pub fn unbind(&self, node: NodePort) -> io::Result<()> {
        match self.bound.delete(&bound(node)) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(io::Error::other(error)),
            _ => Ok(()),
        }
    }

    /// The time (CLOCK_MONOTONIC) at which the fast path last translated a packet of a session, or up to an eighth of a
    /// second later, which may be in the future. None if it never did.
    pub fn last_seen(&self, session: &Session) -> io::Result<Option<Duration>> {
        let stamp = |map: &MapHandle, key: &[u8]| -> io::Result<u64> {
            let value = map
                .lookup(key, MapFlags::ANY)
                .map_err(io::Error::other)?
                .unwrap_or_default();
            let first = value.first_chunk().copied();
            Ok(first.map_or(0, u64::from_ne_bytes))
        };
        let mut latest = stamp(&self.inward, &session.inward_key())?;
        if !session.is_udp() {
            latest = latest.max(stamp(&self.outward, &session.outward_key())?);
        }
        Ok(last_use(latest))
    }
}

/// `struct diolkos_bib_key`.
fn bound(node: NodePort) -> [u8; 20] {
    let mut key = [0; 20];
    key[..16].copy_from_slice(&node.addr.octets());
    key[16..18].copy_from_slice(&node.port.to_be_bytes());
    key[18] = node.protocol;
    key
}

/// `struct diolkos_bib_entry`.
fn bound_to(node: NodePort, v4: (Ipv4Addr, u16), owner: Owner) -> [u8; 12] {
    let mut value = [0; 12];
    value[..4].copy_from_slice(&v4.0.octets());
    value[4..6].copy_from_slice(&v4.1.to_be_bytes());
    value[6] = owner.byte();
    let ours = word(v4.0) << 32 | port(v4.1) << 16 | port(node.port);
    let [high, low] = words(node.addr);
    let first = u64::from(node.protocol) | u64::from(owner.byte()) << 8;
    let check = mix(mix(mix(first, ours), high), low) as u32;
    value[8..].copy_from_slice(&check.to_ne_bytes());
    value
}

/// Converts bytes in network order to the number that a program reads.
fn word(address: Ipv4Addr) -> u64 {
    u32::from_ne_bytes(address.octets()).into()
}

fn port(port: u16) -> u64 {
    u16::from_ne_bytes(port.to_be_bytes()).into()
}

fn words(address: Ipv6Addr) -> [u64; 2] {
    let part = |at: u32| {
        let bits = (address.to_bits() >> at) as u32;
        u64::from(u32::from_ne_bytes(bits.to_be_bytes()))
    };
    [part(96) << 32 | part(64), part(32) << 32 | part(0)]
}

impl Session {
    /// Returns true for a UDP session, which is in one map only.
    pub fn is_udp(&self) -> bool {
        self.protocol == 17
    }

    /// `struct diolkos_session6_key`.
    pub(super) fn outward_key(&self) -> [u8; OUTWARD] {
        let mut key = [0; OUTWARD];
        key[..16].copy_from_slice(&self.node.0.octets());
        key[16..20].copy_from_slice(&self.peer.0.octets());
        key[20..22].copy_from_slice(&self.node.1.to_be_bytes());
        key[22..24].copy_from_slice(&self.peer.1.to_be_bytes());
        key[24] = self.protocol;
        key
    }

    /// `struct diolkos_session6`, without a stamp.
    pub(super) fn outward_to(&self) -> [u8; 16] {
        let mut value = [0; 16];
        value[8..12].copy_from_slice(&self.v4.0.octets());
        value[12..14].copy_from_slice(&self.v4.1.to_be_bytes());
        value[14] = self.prefix;
        value[15] = self.owner.byte();
        value
    }

    /// `struct diolkos_session4_key`.
    pub(super) fn inward_key(&self) -> [u8; INWARD] {
        let mut key = [0; INWARD];
        key[..4].copy_from_slice(&self.v4.0.octets());
        key[4..8].copy_from_slice(&self.peer.0.octets());
        key[8..10].copy_from_slice(&self.v4.1.to_be_bytes());
        key[10..12].copy_from_slice(&self.peer.1.to_be_bytes());
        key[12] = self.protocol;
        key
    }

    /// `struct diolkos_session4`, without a stamp.
    pub(super) fn inward_to(&self, sent: Sent) -> [u8; 32] {
        let mut value = [0; 32];
        value[8..24].copy_from_slice(&self.node.0.octets());
        value[24..26].copy_from_slice(&self.node.1.to_be_bytes());
        value[26] = self.prefix;
        value[27] = sent.0;
        value[28..].copy_from_slice(&self.check().to_ne_bytes());
        value
    }

    /// `check_of_inward` in `bpf/session.h`.
    fn check(&self) -> u32 {
        let ports = port(self.v4.1) << 48
            | port(self.peer.1) << 32
            | port(self.node.1) << 16
            | u64::from(self.protocol) << 8
            | u64::from(self.prefix);
        let addresses = word(self.v4.0) << 32 | word(self.peer.0);
        let [high, low] = words(self.node.0);
        let check = mix(mix(mix(mix(1, addresses), ports), high), low) as u32;
        check & 0x00ff_ffff | u32::from(self.owner.byte()) << 24
    }
}
