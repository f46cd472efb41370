// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Virtual time, reproducible random numbers, and a record of all events.

use diolkos_nat64::config::{
    Binding, Endpoint4, Endpoint6, Gateway, Limits, Nat64Config, Owners, Pool4, Pools, Protocol,
};
use diolkos_nat64::session::{
    Due, Event, Inbound, Inward, Missing, Outbound, Segment, SessionState, SessionView, State,
    Watcher, Way,
};
use diolkos_nat64::{Nat64, Nat64Trace, Random};
use diolkos_xlat::{Config, Env, Label, Offload, Outbox, Packet, Reason, Verdict, HEADROOM};
use std::collections::HashMap;
use std::time::Duration;

pub const SECRET: [u64; 4] = [1, 2, 3, 4];

pub fn config() -> Nat64Config {
    Nat64Config {
        translator: Config {
            pref64: vec![
                "2001:db8:64::/96".parse().unwrap(),
                "2001:db8:65::/96".parse().unwrap(),
            ],
            ..Config::default()
        },
        pool4: vec![Pool4 {
            interface: None,
            net: "203.0.113.1/32".parse().unwrap(),
            ports: 1024..=65535,
            protocols: Protocol::ALL.to_vec(),
            sources: vec![],
        }],
        limits: without_shares(Limits::default()),
        ..Nat64Config::default()
    }
}

/// The configuration of the first of two gateways, with two addresses.
pub fn owning_config() -> Nat64Config {
    let mut config = config();
    config.pool4[0].net = "203.0.113.0/31".parse().unwrap();
    config.owners = Some(Owners {
        me: 0,
        addresses: vec![
            ("203.0.113.0/31".parse().unwrap(), 0),
            ("203.0.113.2/31".parse().unwrap(), 1),
        ],
        pools: Pools::default(),
    });
    config
}

/// Disables shares, for tests of other limits.
pub fn without_shares(limits: Limits) -> Limits {
    Limits {
        host_share: 100,
        source_share: 100,
        site_share: 100,
        outside_share: 100,
        ..limits
    }
}

pub fn e4(text: &str) -> Endpoint4 {
    let (addr, port) = text.rsplit_once(':').unwrap();
    Endpoint4 {
        addr: addr.parse().unwrap(),
        port: port.parse().unwrap(),
    }
}

pub fn e6(addr: &str, port: u16) -> Endpoint6 {
    Endpoint6 {
        addr: addr.parse().unwrap(),
        port,
    }
}

pub fn binding(protocol: Protocol, v4: &str, v6: Endpoint6) -> Binding {
    Binding {
        protocol,
        v4: e4(v4),
        v6,
    }
}

pub fn random() -> impl FnMut() -> u64 {
    let mut random = Xorshift::default();
    move || random.next()
}

/// Reproducible numbers.
#[derive(Clone)]
struct Xorshift(u64);

impl Default for Xorshift {
    fn default() -> Xorshift {
        Xorshift(0x2545_f491_4f6c_dd1d)
    }
}

impl Xorshift {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// Records every event, and plays the role of the fast path.
pub struct Watch {
    pub events: Vec<Event>,
    pub dropped: Vec<Reason>,
    pub stamps: HashMap<(Binding, Endpoint4), Duration>,
    /// Bindings that another gateway has opened.
    pub standby: Vec<Binding>,
    /// The answer to every query, if set.
    pub lie: Option<Binding>,
    /// The answer if there is no binding.
    pub otherwise: Way,
    /// The recorded queries.
    pub asked: Vec<(Missing, bool)>,
    pub boottime: Duration,
}

impl Default for Watch {
    fn default() -> Watch {
        Watch {
            events: Vec::new(),
            dropped: Vec::new(),
            stamps: HashMap::new(),
            standby: Vec::new(),
            lie: None,
            otherwise: Way::Open,
            asked: Vec::new(),
            boottime: Duration::from_secs(1000),
        }
    }
}

impl Watcher for Watch {
    fn event(&mut self, event: Event) {
        self.events.push(event);
    }

    fn last_seen(&mut self, session: &SessionView) -> Option<Duration> {
        self.stamps.get(&(session.binding, session.peer)).copied()
    }

    fn missing(&mut self, missing: Missing, opens: bool) -> Way {
        self.asked.push((missing, opens));
        let is_it = |binding: &&Binding| missing.is_answered_by(binding);
        let found = self.lie;
        let found = found.or_else(|| self.standby.iter().find(is_it).copied());
        found.map_or(self.otherwise, Way::Copy)
    }

    fn boottime(&mut self) -> Duration {
        self.boottime
    }

    fn dropped(&mut self, reason: Reason) {
        self.dropped.push(reason);
    }
}

/// The packets that became due, as owned values.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Sent {
    Probe(Binding),
    Unanswered(Vec<u8>),
}

/// The tables and a clock.
pub struct Tables {
    pub state: State,
    pub now: Duration,
    pub watch: Watch,
    random: Box<dyn FnMut() -> u64>,
}

impl Tables {
    pub fn new(config: &Nat64Config) -> Tables {
        config.check().unwrap();
        Tables {
            state: State::new(config, SECRET),
            now: Duration::from_secs(1_000_000),
            watch: Watch::default(),
            random: Box::new(random()),
        }
    }

    pub fn out(
        &mut self,
        protocol: Protocol,
        v6: Endpoint6,
        peer: &str,
        segment: Segment,
    ) -> Result<Endpoint4, Reason> {
        let packet = Outbound {
            protocol,
            v6,
            peer: e4(peer),
            prefix: 0,
            segment,
        };
        self.state
            .outbound(self.now, &packet, &mut self.random, &mut self.watch)
    }

    pub fn inward(
        &mut self,
        protocol: Protocol,
        v4: Endpoint4,
        peer: &str,
        segment: Segment,
    ) -> Result<Inward, Reason> {
        let packet = Inbound {
            protocol,
            v4,
            peer: e4(peer),
            segment,
            bytes: b"the packet",
        };
        self.state.inbound(self.now, &packet, &mut self.watch)
    }

    pub fn wait(&mut self, seconds: f64) -> Vec<Sent> {
        self.now += Duration::from_secs_f64(seconds);
        self.expire(usize::MAX).1
    }

    pub fn expire(&mut self, budget: usize) -> (bool, Vec<Sent>) {
        let mut sent = vec![];
        let done = self.state.expire(self.now, budget, &mut self.watch, |due| {
            sent.push(match due {
                Due::Probe(view) => Sent::Probe(view.binding),
                Due::Unanswered(bytes) => Sent::Unanswered(bytes.to_vec()),
            })
        });
        (done, sent)
    }

    pub fn sessions(&self) -> u32 {
        self.state.counts().sessions
    }

    /// The state of the only session.
    pub fn only(&self) -> Option<SessionState> {
        let states: Vec<_> = self.state.sessions().map(|view| view.state).collect();
        assert!(states.len() <= 1);
        states.first().copied()
    }

    pub fn is_empty(&self) -> bool {
        let counts = self.state.counts();
        counts == Default::default()
    }
}

/// Opens sessions of every protocol, one each second. Also from port 0, which datagrams without a wanted answer have
/// (RFC 768).
pub fn some_sessions(t: &mut Tables) -> Vec<SessionView> {
    let peer = "192.0.2.1:53";
    for n in 0..50u16 {
        let node = e6("2001:db8::1", n);
        t.out(Protocol::Udp, node, peer, Segment::Other).unwrap();
        t.out(Protocol::Icmp, node, "192.0.2.1:0", Segment::Other)
            .unwrap();
        let v4 = t.out(Protocol::Tcp, node, peer, Segment::Syn).unwrap();
        if n % 2 == 0 {
            t.inward(Protocol::Tcp, v4, peer, Segment::Syn).unwrap();
        }
        t.wait(1.0);
    }
    sorted(t)
}

/// The current sessions in a reproducible order.
pub fn sorted(t: &Tables) -> Vec<SessionView> {
    let mut views: Vec<_> = t.state.sessions().collect();
    views.sort_by_key(|view| (view.binding.protocol, view.binding.v6, view.peer));
    views
}

/// A whole NAT64 and a clock.
pub struct Router {
    pub nat64: Nat64,
    pub now: Duration,
    pub watch: Watch,
    /// The labels of the packets sent last, in order.
    pub labels: Vec<Label>,
    /// Packets forwarded untranslated to other gateways.
    pub forwarded: Vec<(Gateway, Vec<u8>)>,
    env: Chance,
}

#[derive(Clone)]
struct Chance {
    now: Duration,
    next_id: u16,
    random: Xorshift,
}

impl Env for Chance {
    fn now(&mut self) -> Duration {
        self.now
    }
    fn ipv4_id(&mut self) -> u16 {
        self.next_id = self.next_id.wrapping_add(1);
        self.next_id
    }
}

impl Random for Chance {
    fn random(&mut self) -> u64 {
        self.random.next()
    }
}

/// An outbox for sent packets, their labels, and packets to other gateways.
struct Sink<'a>(
    &'a mut Vec<Vec<u8>>,
    &'a mut Vec<Label>,
    &'a mut Vec<(Gateway, Vec<u8>)>,
);

impl Outbox for Sink<'_> {
    fn emit(&mut self, packet: &[u8], offload: Offload) {
        self.0.push(packet.to_vec());
        self.1.push(offload.label);
    }

    fn forward(&mut self, to: Gateway, packet: &[u8], _: Offload) {
        self.2.push((to, packet.to_vec()));
    }
}

/// A packet to another gateway.
pub type Led = (Vec<u8>, Offload);

impl Router {
    pub fn new(change: impl FnOnce(&mut Nat64Config)) -> Router {
        let mut config = config();
        change(&mut config);
        Router {
            nat64: Nat64::new(&config, SECRET).unwrap(),
            now: Duration::from_secs(1_000_000),
            watch: Watch::default(),
            labels: Vec::new(),
            forwarded: Vec::new(),
            env: Chance {
                now: Duration::ZERO,
                next_id: 0,
                random: Xorshift::default(),
            },
        }
    }

    /// Traces a packet.
    pub fn trace(&mut self, bytes: &[u8]) -> Option<Nat64Trace> {
        self.env.now = self.now;
        self.nat64.trace(bytes, &mut self.env.clone())
    }

    /// The verdict, and all sent packets in order.
    pub fn give(&mut self, bytes: &[u8]) -> (Verdict, Vec<Vec<u8>>) {
        self.give_offloaded(bytes, Offload::default())
    }

    pub fn give_offloaded(&mut self, bytes: &[u8], offload: Offload) -> (Verdict, Vec<Vec<u8>>) {
        let mut buffer = vec![0xaa; HEADROOM];
        buffer.extend_from_slice(bytes);
        let mut packet = Packet::new(&mut buffer, HEADROOM, HEADROOM + bytes.len(), offload);
        let mut sent = Vec::new();
        self.labels.clear();
        self.env.now = self.now;
        let verdict = self.nat64.translate(
            &mut packet,
            &mut self.env,
            &mut Sink(&mut sent, &mut self.labels, &mut self.forwarded),
            &mut self.watch,
        );
        if let Verdict::Elsewhere(to) = verdict {
            self.forwarded.push((to, packet.bytes().to_vec()));
        }
        if verdict == Verdict::Forward {
            sent.push(packet.bytes().to_vec());
            self.labels.push(packet.offload.label);
        }
        (verdict, sent)
    }

    /// Prepares a packet for another gateway with this path MTU: returns the verdict, the packets for the gateway, and
    /// the errors sent.
    pub fn onward(
        &mut self,
        bytes: &[u8],
        offload: Offload,
        mtu: usize,
    ) -> (Verdict, Vec<Led>, Vec<Vec<u8>>) {
        let mut buffer = bytes.to_vec();
        let mut packet = Packet::new(&mut buffer, 0, bytes.len(), offload);
        let (mut there, mut errors) = (Vec::new(), Vec::new());
        self.labels.clear();
        self.env.now = self.now;
        let verdict = self.nat64.onward(
            &mut packet,
            mtu,
            &mut self.env,
            &mut Sink(&mut errors, &mut self.labels, &mut self.forwarded),
            |piece, offload| there.push((piece.to_vec(), offload)),
        );
        if verdict == Verdict::Forward {
            there.push((packet.bytes().to_vec(), packet.offload));
        }
        (verdict, there, errors)
    }

    /// The result of a packet that must be forwarded.
    pub fn pass(&mut self, bytes: &[u8]) -> Vec<u8> {
        let (verdict, mut sent) = self.give(bytes);
        assert_eq!((verdict, sent.len()), (Verdict::Forward, 1));
        sent.remove(0)
    }

    /// The reason of a refused packet, and the error in answer, if any.
    pub fn refuse(&mut self, bytes: &[u8]) -> (Reason, Option<Vec<u8>>) {
        let (verdict, mut sent) = self.give(bytes);
        match verdict {
            Verdict::Drop(reason) => (reason, sent.pop()),
            other => panic!("{other:?}"),
        }
    }

    pub fn wait(&mut self, seconds: f64) -> Vec<Vec<u8>> {
        self.now += Duration::from_secs_f64(seconds);
        self.env.now = self.now;
        let mut sent = Vec::new();
        let mut out = Sink(&mut sent, &mut self.labels, &mut self.forwarded);
        assert!(self
            .nat64
            .expire(usize::MAX, &mut self.env, &mut out, &mut self.watch));
        sent
    }
}
