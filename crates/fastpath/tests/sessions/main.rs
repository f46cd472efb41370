// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The sessions of a NAT64 as its programs use them, at every place and in both directions. The kernel runs the programs on
//! synthetic packets.

mod copies;
mod known;
mod unbound;

use std::net::{Ipv4Addr, Ipv6Addr};

use diolkos_fastpath::testrun::{Run, TestRun};
use diolkos_fastpath::{
    Lending, Media, Nat64Rules, NodePort, Owner, Pref64, Rules, Sent, Session, Sessions,
};

const HOST: (Ipv6Addr, u16) = (Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, 0x64), 40_000);
const POOL: (Ipv4Addr, u16) = (Ipv4Addr::new(192, 0, 2, 7), 26_938);
const PEER: (Ipv4Addr, u16) = (Ipv4Addr::new(198, 51, 100, 2), 443);
/// Where a peer may be a node of this gateway.
const OWN: (Ipv4Addr, u8) = (Ipv4Addr::new(192, 0, 2, 0), 24);
/// Translation prefixes.
const PREFIXES: [Ipv6Addr; 2] = [
    Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0),
    Ipv6Addr::new(0x2001, 0xdb8, 0x64, 0, 0, 0, 0, 0),
];
const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const PROTOCOLS: [u8; 3] = [ICMP, TCP, UDP];

struct Programs {
    run: TestRun,
    sessions: Sessions,
    lending: Lending,
}

/// Loads programs with so many sessions; the fewer, the fewer places for known ones.
fn programs(max_sessions: u32) -> Programs {
    programs_that_hear(max_sessions, 0)
}

/// `heard`: so many unsolicited packets go on to the slow path.
fn programs_that_hear(max_sessions: u32, heard: u32) -> Programs {
    let (run, sessions, lending) = TestRun::nat64(&Nat64Rules {
        rules: Rules {
            tun_ifindex: 1,
            mtu4: 1500,
            mtu6: 1500,
            lowest_ipv6_mtu: 1280,
            traffic_class_zero: false,
            takes_hop: true,
            tcp_mss: None,
        },
        pref64: PREFIXES
            .map(|network| Pref64 {
                network,
                bits: 96,
                only_global: false,
            })
            .to_vec(),
        max_sessions,
        exits: vec![],
        media: Media::of(&[]),
        drivers: None,
        max_bindings: 100,
        own: vec![OWN],
        max_away: 0,
        heard,
    })
    .expect("the programs load: run the test as root");
    Programs {
        run,
        sessions,
        lending,
    }
}

fn session(protocol: u8, owner: Owner) -> Session {
    let is_query = protocol == ICMP;
    Session {
        protocol,
        node: HOST,
        v4: POOL,
        peer: (PEER.0, if is_query { 0 } else { PEER.1 }),
        prefix: 0,
        owner,
    }
}

/// TCP with ACK, UDP, or an echo (a request to the peer, a reply to the host).
fn transport(protocol: u8, from: u16, to: u16, is_v6: bool) -> Vec<u8> {
    let ports = [from.to_be_bytes(), to.to_be_bytes()].concat();
    match protocol {
        TCP => [&ports[..], &[0; 8], &[0x50, 0x10, 1, 0, 0x12, 0x34, 0, 0]].concat(),
        UDP => [&ports[..], &[0, 12, 0x12, 0x34], b"data"].concat(),
        _ if is_v6 => [&[128, 0, 0x12, 0x34], &from.to_be_bytes()[..], &[0, 1]].concat(),
        _ => [&[0, 0, 0x12, 0x34], &to.to_be_bytes()[..], &[0, 1]].concat(),
    }
}

/// The peer as the node of the session knows it.
fn peer6(session: &Session) -> Ipv6Addr {
    let prefix = PREFIXES[usize::from(session.prefix)].to_bits();
    Ipv6Addr::from_bits(prefix | u128::from(session.peer.0.to_bits()))
}

/// A packet from the node to the peer.
fn outward(session: &Session) -> Vec<u8> {
    let protocol = session.protocol;
    let inside = transport(protocol, session.node.1, session.peer.1, true);
    let number = if protocol == ICMP { 58 } else { protocol };
    let mut packet = vec![0x60, 0, 0, 0, 0, inside.len() as u8, number, 64];
    packet.extend(session.node.0.octets());
    packet.extend(peer6(session).octets());
    packet.extend(inside);
    packet
}

/// A packet from the peer to the node.
fn inward(session: &Session) -> Vec<u8> {
    let protocol = session.protocol;
    let inside = transport(protocol, session.peer.1, session.v4.1, false);
    let length = (20 + inside.len()) as u16;
    let mut packet = vec![0x45, 0];
    packet.extend(length.to_be_bytes());
    packet.extend([0, 0, 0x40, 0, 64, protocol, 0, 0]);
    packet.extend(session.peer.0.octets());
    packet.extend(session.v4.0.octets());
    let words = packet
        .chunks(2)
        .map(|w| u32::from(w[0]) << 8 | u32::from(w[1]));
    let sum: u32 = words.sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet.extend(inside);
    packet
}

fn port_of(session: &Session) -> NodePort {
    NodePort {
        protocol: session.protocol,
        addr: session.node.0,
        port: session.node.1,
    }
}

impl Programs {
    fn put(&self, session: &Session) {
        let protocol = session.protocol;
        let syns = if protocol == TCP { Sent::SYNS } else { 0 };
        self.sessions
            .put(session, Sent(syns))
            .expect("there is room");
        if protocol != ICMP {
            let bound = self
                .sessions
                .bind(port_of(session), session.v4, session.owner);
            bound.expect("there is room");
        }
    }

    /// Runs both directions at the device, at an interface and in a driver.
    fn everywhere(&mut self, session: &Session) -> Vec<Run> {
        let (out, back) = (outward(session), inward(session));
        let run = &mut self.run;
        let there =
            |run: std::io::Result<Option<Run>>| run.expect("it runs").expect("there is one");
        let mut runs = Vec::new();
        for place in 0..6 {
            // Each CPU has its own identification, and the thread may move.
            run.set_ipv4_id(7).expect("the map takes it");
            runs.push(match place {
                0 => run.from_ipv6(&out, 0).expect("it runs"),
                1 => there(run.inline_from_ipv6(&out, 0)),
                2 => there(run.driver_from_ipv6(&out)),
                3 => run.from_ipv4(&back, 0).expect("it runs"),
                4 => there(run.inline_from_ipv4(&back, 0)),
                _ => there(run.driver_from_ipv4(&back)),
            });
        }
        runs
    }
}

/// Checks that all runs have translated.
fn assert_translated(runs: &[Run], what: &str) {
    for (at, run) in runs.iter().enumerate() {
        let fate = if at < 3 {
            "translated_6to4"
        } else {
            "translated_4to6"
        };
        assert_eq!(run.fates[0].0, fate, "{what}, place {at}: {run:?}");
        assert_eq!(
            run.packet[0] >> 4,
            if at < 3 { 4 } else { 6 },
            "{what}, place {at}"
        );
    }
}
