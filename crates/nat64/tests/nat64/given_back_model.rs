// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The additional state of the model ([`crate::model`]) for a gateway to which others return its
//! bindings.

use crate::model::Model;
use diolkos_nat64::config::{Binding, Endpoint4, Protocol};
use diolkos_nat64::session::{Origin, Segment, SessionState, Side};
use diolkos_xlat::Reason;
use std::collections::HashSet;
use std::time::Duration;

/// The state of a gateway that is one of several.
#[derive(Default)]
pub struct Cluster {
    pub serves: bool,
    /// Inherited bindings without a session, and the end of their waiting time.
    pub waits: Vec<(Binding, Duration)>,
}

impl Model {
    pub fn serves(&self) -> bool {
        self.cluster.as_ref().is_none_or(|cluster| cluster.serves)
    }

    pub fn inherit(&mut self, binding: Binding) -> Result<(), Reason> {
        let by_v4 = self.at(binding.protocol, binding.v4);
        let by_v6 = self.of(binding.protocol, binding.v6);
        if by_v4.is_some() || by_v6.is_some() {
            let is_same = by_v4 == by_v6;
            return is_same.then_some(()).ok_or(Reason::NoBinding);
        }
        let Binding { v4, v6, .. } = binding;
        if self.bindings.len() >= 9 {
            return Err(Reason::BindingLimit);
        }
        if self.of_source(v6).0 >= 4 {
            return Err(Reason::SourceBindingLimit);
        }
        if !self.config.pool4[0].ports.contains(&v4.port) {
            return Err(Reason::PoolExhausted);
        }
        let seconds = match binding.protocol {
            Protocol::Udp => 300,
            Protocol::Icmp => 60,
            Protocol::Tcp => 7440,
        };
        self.bindings.push((binding, Origin::Inherited));
        let until = self.now + Duration::from_secs(seconds);
        let cluster = self.cluster.as_mut().expect("it is one of several");
        cluster.waits.push((binding, until));
        Ok(())
    }

    /// Returns true for a connection whose beginning was not seen.
    pub fn goes_on(&self, binding: Binding, segment: Segment) -> bool {
        binding.protocol == Protocol::Tcp
            && matches!(segment, Segment::Fin | Segment::Other)
            && self.bindings.contains(&(binding, Origin::Inherited))
    }

    pub fn open_in_the_middle(&mut self, binding: Binding, peer: Endpoint4, side: Side) {
        if self.room_for_session(binding.v6, side).is_ok() {
            self.open(binding, peer, SessionState::Trans);
            self.session(binding, peer).expect("just opened").one_sided = Some(side);
        }
    }

    pub fn forget_sessions(&mut self) {
        let left: HashSet<Binding> = self.bindings.iter().map(|(b, _)| *b).collect();
        self.sessions
            .retain(|session| left.contains(&session.binding));
        if let Some(cluster) = &mut self.cluster {
            cluster.waits.retain(|(binding, _)| left.contains(binding));
        }
    }
}
