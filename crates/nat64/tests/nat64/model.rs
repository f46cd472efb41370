// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A model of the tables that is too simple to be wrong: lists with linear search, no timer wheel,
//! no stored counts. Its limits are those of [`crate::agreement`].
//!
//! Tables and model share the TCP state machine, which has its own test. The choice of ports is
//! tested elsewhere too; the model only checks that an allocated port was free.

use crate::given_back_model::Cluster;
use diolkos_nat64::config::{Binding, Endpoint4, Endpoint6, Filtering, Nat64Config, Protocol};
use diolkos_nat64::session::{Origin, Segment, SessionState, Side};
use diolkos_xlat::Reason;
use std::collections::HashSet;
use std::time::Duration;

/// This port on the pool's only address.
pub fn outside(port: u16) -> Endpoint4 {
    Endpoint4 {
        addr: [203, 0, 113, 1].into(),
        port,
    }
}

#[derive(Debug)]
pub struct Session {
    pub binding: Binding,
    pub peer: Endpoint4,
    pub state: SessionState,
    pub last: Duration,
    /// For a connection joined in its middle: the only side that has been seen.
    pub one_sided: Option<Side>,
}

impl Session {
    pub fn deadline(&self) -> Duration {
        let seconds = match self.state {
            SessionState::Udp => 300,
            SessionState::Icmp => 60,
            SessionState::Established | SessionState::V4FinRcv | SessionState::V6FinRcv => 7440,
            _ => 240,
        };
        self.last + Duration::from_secs(seconds)
    }
}

/// A held SYN: its deadline, its endpoints, and whether it still waits.
pub type Syn = (Duration, (Endpoint4, Endpoint4), bool);

pub struct Model {
    pub config: Nat64Config,
    pub now: Duration,
    pub bindings: Vec<(Binding, Origin)>,
    pub sessions: Vec<Session>,
    pub syns: Vec<Syn>,
    pub cluster: Option<Cluster>,
}

impl Model {
    pub fn of(&self, protocol: Protocol, v6: Endpoint6) -> Option<Binding> {
        let mut all = self.bindings.iter().map(|(binding, _)| *binding);
        all.find(|binding| binding.protocol == protocol && binding.v6 == v6)
    }

    pub fn at(&self, protocol: Protocol, v4: Endpoint4) -> Option<Binding> {
        let mut all = self.bindings.iter().map(|(binding, _)| *binding);
        all.find(|binding| binding.protocol == protocol && binding.v4 == v4)
    }

    pub fn session(&mut self, binding: Binding, peer: Endpoint4) -> Option<&mut Session> {
        self.sessions
            .iter_mut()
            .find(|session| session.binding == binding && session.peer == peer)
    }

    pub fn of_source(&self, v6: Endpoint6) -> (usize, usize) {
        let same = |other: Endpoint6| other.addr.segments()[..4] == v6.addr.segments()[..4];
        let bindings = self.bindings.iter().filter(|(b, _)| same(b.v6)).count();
        let sessions = self.sessions.iter().filter(|s| same(s.binding.v6)).count();
        (bindings, sessions)
    }

    pub fn room_for_session(&self, v6: Endpoint6, side: Side) -> Result<(), Reason> {
        if self.sessions.len() >= 12 {
            return Err(Reason::SessionLimit);
        }
        let most = if side == Side::V6 { 5 } else { 3 };
        if self.of_source(v6).1 >= most {
            return Err(Reason::SourceSessionLimit);
        }
        Ok(())
    }

    pub fn room_for_binding(&self, protocol: Protocol, v6: Endpoint6) -> Result<(), Reason> {
        if self.sessions.len() >= 12 {
            return Err(Reason::SessionLimit);
        }
        let (bindings, sessions) = self.of_source(v6);
        if sessions >= 5 {
            return Err(Reason::SourceSessionLimit);
        }
        if self.bindings.len() >= 9 {
            return Err(Reason::BindingLimit);
        }
        if bindings >= 4 {
            return Err(Reason::SourceBindingLimit);
        }
        let mut ports = self.config.pool4[0].ports.clone();
        let free = ports.any(|port| self.at(protocol, outside(port)).is_none());
        free.then_some(()).ok_or(Reason::PoolExhausted)
    }

    pub fn permits(&self, binding: Binding, peer: Endpoint4) -> bool {
        self.config.filtering == Filtering::EndpointIndependent
            || self
                .sessions
                .iter()
                .any(|session| session.binding == binding && session.peer.addr == peer.addr)
    }

    pub fn open(&mut self, binding: Binding, peer: Endpoint4, state: SessionState) {
        let last = self.now;
        if let Some(cluster) = &mut self.cluster {
            cluster.waits.retain(|(waits, _)| *waits != binding);
        }
        self.sessions.push(Session {
            binding,
            peer,
            state,
            last,
            one_sided: None,
        });
    }

    pub fn pass(
        &mut self,
        binding: Binding,
        peer: Endpoint4,
        side: Side,
        segment: Segment,
    ) -> bool {
        let now = self.now;
        let Some(session) = self.session(binding, peer) else {
            return false;
        };
        let (state, renewed) = match session.one_sided {
            Some(seen) if seen == side => (
                SessionState::Trans,
                side == Side::V6 && segment != Segment::Rst,
            ),
            _ => session.state.after(side, segment),
        };
        if state != SessionState::Trans {
            session.one_sided = None;
        }
        session.state = state;
        if renewed {
            session.last = now;
        }
        true
    }

    /// `given` is the result of the tables, if any.
    pub fn out(
        &mut self,
        protocol: Protocol,
        v6: Endpoint6,
        peer: Endpoint4,
        segment: Segment,
        given: Option<Endpoint4>,
    ) -> Result<Endpoint4, Reason> {
        let opens = protocol != Protocol::Tcp || segment == Segment::Syn;
        let found = self.of(protocol, v6);
        let binding = match found {
            Some(binding) => binding,
            None if !opens => return Err(Reason::NoConnection),
            None if !self.serves() => return Err(Reason::NotServing),
            None => {
                self.room_for_binding(protocol, v6)?;
                let v4 = given.expect("there was room for a binding");
                assert!(self.at(protocol, v4).is_none(), "{v4} is another's");
                assert!(self.config.pool4[0].ports.contains(&v4.port));
                Binding { protocol, v4, v6 }
            }
        };
        if self.pass(binding, peer, Side::V6, segment) {
            return Ok(binding.v4);
        }
        if !opens {
            if self.goes_on(binding, segment) {
                self.open_in_the_middle(binding, peer, Side::V6);
            }
            return Ok(binding.v4);
        }
        let state = match protocol {
            Protocol::Udp => SessionState::Udp,
            Protocol::Icmp => SessionState::Icmp,
            Protocol::Tcp => {
                let kept = self
                    .syns
                    .iter()
                    .find(|syn| syn.2 && syn.1 == (binding.v4, peer));
                match kept {
                    Some(_) => SessionState::Established,
                    None => SessionState::V6Init,
                }
            }
        };
        self.room_for_session(v6, Side::V6)?;
        for syn in &mut self.syns {
            syn.2 &= state != SessionState::Established || syn.1 != (binding.v4, peer);
        }
        if found.is_none() {
            self.bindings.push((binding, Origin::Dynamic));
        }
        self.open(binding, peer, state);
        Ok(binding.v4)
    }

    pub fn keep_syn(&mut self, key: (Endpoint4, Endpoint4)) -> Result<Option<Endpoint6>, Reason> {
        if self.syns.iter().any(|syn| syn.2 && syn.1 == key) {
            return Ok(None);
        }
        if self.syns.len() >= 2 {
            return Err(Reason::SynLimit);
        }
        let deadline = self.now + Duration::from_secs(6);
        self.syns.push((deadline, key, true));
        Ok(None)
    }

    /// The node that receives the packet, or None if it is held.
    pub fn inward(
        &mut self,
        protocol: Protocol,
        v4: Endpoint4,
        peer: Endpoint4,
        segment: Segment,
    ) -> Result<Option<Endpoint6>, Reason> {
        let is_syn = protocol == Protocol::Tcp && segment == Segment::Syn;
        let Some(binding) = self.at(protocol, v4) else {
            return if is_syn && self.config.pool4[0].ports.contains(&v4.port) {
                self.keep_syn((v4, peer))
            } else {
                Err(Reason::NoBinding)
            };
        };
        if self.pass(binding, peer, Side::V4, segment) {
            return Ok(Some(binding.v6));
        }
        if !self.permits(binding, peer) {
            return if is_syn {
                self.keep_syn((v4, peer))
            } else {
                Err(Reason::Filtered)
            };
        }
        let state = match protocol {
            Protocol::Udp => SessionState::Udp,
            Protocol::Icmp => SessionState::Icmp,
            Protocol::Tcp if is_syn => SessionState::V4Init,
            Protocol::Tcp => {
                if self.goes_on(binding, segment) {
                    self.open_in_the_middle(binding, peer, Side::V4);
                }
                return Ok(Some(binding.v6));
            }
        };
        self.room_for_session(binding.v6, Side::V4)?;
        self.open(binding, peer, state);
        Ok(Some(binding.v6))
    }

    /// Number of SYNs that went unanswered, and of sessions that are probed.
    pub fn wait(&mut self, seconds: u32) -> (usize, usize) {
        self.now += Duration::from_secs(seconds.into());
        let now = self.now;
        let over = |syn: &Syn| syn.0 <= now;
        let unanswered = self.syns.iter().filter(|syn| over(syn) && syn.2).count();
        self.syns.retain(|syn| !over(syn));
        let mut probes = 0;
        for session in &mut self.sessions {
            if session.state == SessionState::Established && session.deadline() <= now {
                (session.state, session.last) = (SessionState::Trans, now);
                probes += 1;
            }
        }
        self.sessions.retain(|session| session.deadline() > now);
        self.forget_idle();
        (unanswered, probes)
    }

    pub fn forget_idle(&mut self) {
        let mut busy: HashSet<Binding> = self.sessions.iter().map(|s| s.binding).collect();
        let now = self.now;
        if let Some(cluster) = &mut self.cluster {
            cluster.waits.retain(|(_, until)| *until > now);
            busy.extend(cluster.waits.iter().map(|(binding, _)| binding));
        }
        self.bindings
            .retain(|(binding, origin)| !origin.is_of_packets() || busy.contains(binding));
    }

    pub fn bind(&mut self, wanted: Binding) -> bool {
        let by_v4 = self.at(wanted.protocol, wanted.v4);
        let by_v6 = self.of(wanted.protocol, wanted.v6);
        if by_v4.is_some() || by_v6.is_some() {
            if by_v4 != by_v6 {
                return false;
            }
            let entry = self.bindings.iter_mut().find(|(b, _)| *b == wanted);
            entry.expect("found just now").1 = Origin::Operator;
            return true;
        }
        let waits = self.cluster.as_ref().is_some_and(|its| !its.serves);
        if waits || self.bindings.len() >= 9 {
            return false;
        }
        self.bindings.push((wanted, Origin::Operator));
        true
    }

    pub fn unbind(&mut self, protocol: Protocol, v4: Endpoint4) -> bool {
        let Some(binding) = self.at(protocol, v4) else {
            return false;
        };
        self.bindings.retain(|(other, _)| *other != binding);
        self.forget_sessions();
        true
    }

    pub fn reload(&mut self, config: Nat64Config) {
        self.config = config;
        let ports = self.config.pool4[0].ports.clone();
        self.bindings.retain(|(binding, origin)| {
            !origin.is_of_packets() || ports.contains(&binding.v4.port)
        });
        self.forget_sessions();
    }
}
