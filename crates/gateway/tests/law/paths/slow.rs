// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Calls the slow path with each packet, in an environment that the test controls.
//!
//! With state, its events are copied into the maps of the fast path as in the program (`mirror`), and what the fast
//! path has opened by itself is brought into the tables first (`leases`): the slow path must then make the same
//! choices.

use crate::input::{Input, Way};
use diolkos_fastpath::{Lending, Sessions};
use diolkos_gateway::fastpath::{FastPath, Kernel};
use diolkos_gateway::leases::Leases;
use diolkos_gateway::mirror::Mirror;
use diolkos_nat64::config::{Endpoint4, Endpoint6, Nat64Config, Protocol};
use diolkos_nat64::session::{Segment, SessionState, Side};
use diolkos_nat64::{Nat64, Random};
use diolkos_xlat::addr::rfc6052::Pref64;
use diolkos_xlat::{
    ClampedMss, Config, Env, Offload, Outbox, Packet, Translator, Verdict, HEADROOM,
};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Arc;
use std::time::Duration;

/// The slow path of one translator.
pub struct SlowPath {
    engine: Engine,
    /// Number of random numbers that it has drawn.
    drawn: u64,
}

enum Engine {
    Stateless(Box<Translator>),
    Stateful(Box<State>),
}

/// What the slow path did.
#[derive(Debug)]
pub enum Outcome {
    Done {
        verdict: Verdict,
        /// Number of packets of its own: fragments, ICMP errors.
        sent: usize,
        offload: Offload,
        packet: Vec<u8>,
        /// Number of IPv4 identifications that it used.
        ipv4_ids: u16,
        /// True if the maximum segment size of a SYN was lowered.
        clamped: bool,
        /// The effect of the fast path's report on the session of a TCP segment.
        moved: Option<Moved>,
    },
    Panicked,
}

/// The session of a segment before and after the tables learned of it from the fast path alone.
#[derive(Clone, Copy, Debug)]
pub struct Moved {
    pub before: Option<SessionState>,
    pub after: Option<SessionState>,
    /// The required state if the fast path has translated the segment.
    pub due: Option<SessionState>,
}

impl SlowPath {
    /// Creates the slow path of a stateless translator.
    pub fn stateless(config: &Config) -> SlowPath {
        let translator = Translator::new(config).unwrap();
        SlowPath {
            engine: Engine::Stateless(Box::new(translator)),
            drawn: 0,
        }
    }

    /// Creates the slow path of a NAT64, with the maps of the fast path.
    pub fn stateful(config: &Nat64Config, sessions: Sessions, lending: Lending) -> SlowPath {
        let fast: Arc<dyn FastPath> = Arc::new(Kernel::new(Arc::new(sessions), lending));
        let nat64 = Nat64::new(config, [1, 2, 3, 4]).unwrap();
        let mut mirror = Mirror::new(config, Some(fast.clone()));
        mirror.begin(nat64.state());
        mirror.tell_unbound(nat64.state());
        let state = State {
            mirror,
            leases: Leases::new(config, nat64.state().pool().pools(), Some(fast)),
            nat64,
            opened: [[0; 2]; 2],
        };
        SlowPath {
            engine: Engine::Stateful(Box::new(state)),
            drawn: 0,
        }
    }

    /// Returns the state of the NAT64.
    pub fn nat64(&self) -> &Nat64 {
        match &self.engine {
            Engine::Stateful(state) => &state.nat64,
            Engine::Stateless(_) => panic!("there is no state"),
        }
    }

    /// Returns the number of UDP and TCP sessions so far, and how many of them the fast path has opened by itself.
    pub fn opened(&self) -> [[u32; 2]; 2] {
        match &self.engine {
            Engine::Stateful(state) => state.opened,
            Engine::Stateless(_) => [[0; 2]; 2],
        }
    }

    /// Takes all leases back. Returns the number of lent ports after that, and before.
    pub fn end_leases(&mut self) -> [usize; 2] {
        let Engine::Stateful(state) = &mut self.engine else {
            return [0; 2];
        };
        let before = state.nat64.state().pool().leased_ports();
        state.leases.end_all(state.nat64.state_mut());
        [state.nat64.state().pool().leased_ports(), before]
    }

    /// Handles a packet; `ipv4_id` is the identification of the next IPv4 packet that the slow path originates.
    pub fn run(&mut self, given: &Input, ipv4_id: u16) -> Outcome {
        let mut buffer = vec![0xaa; HEADROOM];
        buffer.extend(&given.bytes);
        let end = buffer.len();
        let mut packet = Packet::new(&mut buffer, HEADROOM, end, given.offload());
        let mut world = World {
            ipv4_id,
            sent: 0,
            drawn: self.drawn,
        };
        let mut wire = Wire::default();
        let mut moved = None;
        if let Engine::Stateful(state) = &mut self.engine {
            let segment = state.segment(given);
            let before = segment.and_then(|(session, ..)| state.state_of(session));
            let held = state.nat64.state().counts().held_syns;
            state.settle(&mut world, segment.is_some());
            let is_awaited = state.nat64.state().counts().held_syns < held;
            moved = segment.map(|(session, side, segment)| Moved {
                before,
                after: state.state_of(session),
                due: match before {
                    Some(before) => Some(before.after(side, segment).0),
                    // RFC 6146 section 3.5.2.2: the SYN begins a session, or answers a SYN that is held.
                    None if (side, segment) == (Side::V6, Segment::Syn) && is_awaited => {
                        Some(SessionState::Established)
                    }
                    None if (side, segment) == (Side::V6, Segment::Syn) => {
                        Some(SessionState::V6Init)
                    }
                    None => None,
                },
            });
        }
        let verdict = catch_unwind(AssertUnwindSafe(|| match &mut self.engine {
            Engine::Stateless(translator) => {
                translator.translate(&mut packet, &mut world, &mut wire)
            }
            Engine::Stateful(state) => state.translate(&mut packet, &mut world, &mut wire),
        }));
        self.drawn = world.drawn;
        match verdict {
            Ok(verdict) => Outcome::Done {
                verdict,
                sent: wire.sent,
                clamped: wire.clamped,
                offload: packet.offload,
                ipv4_ids: world.sent,
                moved,
                packet: match verdict {
                    Verdict::Forward => packet.bytes().to_vec(),
                    _ => Vec::new(),
                },
            },
            Err(_) => Outcome::Panicked,
        }
    }
}

/// The state of a NAT64: the controller without its lock.
struct State {
    nat64: Nat64,
    mirror: Mirror,
    leases: Leases,
    /// Number of UDP and TCP sessions so far, and how many of them the fast path has opened.
    opened: [[u32; 2]; 2],
}

/// The two ends of a session.
type Ends = (Endpoint6, Endpoint4);

impl State {
    /// Returns the session that an undamaged TCP segment may belong to, its side, and its kind.
    fn segment(&self, given: &Input) -> Option<(Ends, Side, Segment)> {
        let bytes = &given.bytes;
        let (at, is_tcp) = match given.way {
            Way::SixToFour => (40, bytes.get(6) == Some(&6)),
            Way::FourToSix => (20, bytes.get(9) == Some(&6) && bytes.first() == Some(&0x45)),
        };
        if !is_tcp {
            return None;
        }
        let port = |at: usize| Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?));
        let segment = Segment::of(*bytes.get(at + 13)?);
        let (source, destination) = (port(at)?, port(at + 2)?);
        let state = self.nat64.state();
        let v4 = |at: usize| Some(Ipv4Addr::from(*bytes.get(at..)?.first_chunk::<4>()?));
        let v6 = |at: usize| Some(Ipv6Addr::from(*bytes.get(at..)?.first_chunk::<16>()?));
        match given.way {
            Way::SixToFour => {
                let to = v6(24)?;
                let prefixes = &self.nat64.config().translator.pref64;
                let addr = prefixes.iter().find_map(|&p| Pref64::new(p).extract(to))?;
                let node = Endpoint6 {
                    addr: v6(8)?,
                    port: source,
                };
                let port = destination;
                Some(((node, Endpoint4 { addr, port }), Side::V6, segment))
            }
            Way::FourToSix => {
                let peer = Endpoint4 {
                    addr: v4(12)?,
                    port: source,
                };
                let (addr, port) = (v4(16)?, destination);
                let ours = Endpoint4 { addr, port };
                let node = state.v6_of(Protocol::Tcp, ours, peer).ok()?.node;
                Some(((node, peer), Side::V4, segment))
            }
        }
    }

    fn state_of(&self, (node, peer): Ends) -> Option<SessionState> {
        let session = self.nat64.state().session(Protocol::Tcp, node, peer);
        session.map(|session| session.state)
    }

    /// Settles the leases. `is_tcp` is true if the packet is a TCP segment.
    fn settle(&mut self, world: &mut World, is_tcp: bool) {
        let before = self.nat64.state().counts().sessions;
        let state = self.nat64.state_mut();
        let random = || world.random();
        self.leases
            .settle(state, &mut self.mirror, || Duration::ZERO, random);
        let opened = self.nat64.state().counts().sessions - before;
        let its = &mut self.opened[usize::from(is_tcp)];
        *its = its.map(|n| n + opened);
    }

    fn translate(
        &mut self,
        packet: &mut Packet<'_>,
        world: &mut World,
        wire: &mut Wire,
    ) -> Verdict {
        let verdict = self.nat64.translate(packet, world, wire, &mut self.mirror);
        while let Some((protocol, node)) = self.mirror.take_opened() {
            match protocol {
                Protocol::Udp => self.opened[0][0] += 1,
                Protocol::Tcp => self.opened[1][0] += 1,
                Protocol::Icmp => {}
            }
            let (mirror, state) = (&mut self.mirror, self.nat64.state_mut());
            self.leases
                .consider(node, protocol, state, mirror, || world.random());
        }
        verdict
    }
}

/// An environment in which time stands still and identifications count up.
struct World {
    ipv4_id: u16,
    sent: u16,
    drawn: u64,
}

impl Random for World {
    fn random(&mut self) -> u64 {
        self.drawn += 1;
        self.drawn
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(29)
    }
}

impl Env for World {
    fn now(&mut self) -> Duration {
        Duration::ZERO
    }

    fn ipv4_id(&mut self) -> u16 {
        self.sent += 1;
        self.ipv4_id.wrapping_add(self.sent - 1)
    }
}

#[derive(Default)]
struct Wire {
    sent: usize,
    clamped: bool,
}

impl Outbox for Wire {
    fn emit(&mut self, _packet: &[u8], _offload: Offload) {
        self.sent += 1;
    }

    fn clamped(&mut self, _mss: ClampedMss) {
        self.clamped = true;
    }
}
