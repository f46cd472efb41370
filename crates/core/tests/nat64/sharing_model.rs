// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the model ([`crate::model`]) knows of a pool that several gateways share.

use crate::model::Model;
use diolkos_core::config::nat64::{Binding, Endpoint4, Endpoint6, Protocol};
use diolkos_core::session::{Origin, Segment, SessionState, Side};
use diolkos_core::slice::{SliceId, Slices};
use diolkos_core::Reason;
use std::collections::HashSet;
use std::ops::RangeInclusive;
use std::time::Duration;

/// What several gateways share.
pub struct Cluster {
    pub slices: Slices,
    pub open: HashSet<SliceId>,
    /// What another gateway has opened.
    pub standby: Vec<Binding>,
    /// Inherited bindings without a session, and until when.
    pub waits: Vec<(Binding, Duration)>,
}

impl Model {
    /// The ports of which a node gets one.
    pub fn ports_for(&self, v6: Endpoint6) -> RangeInclusive<u16> {
        let slices = self.cluster.as_ref().map(|cluster| &cluster.slices);
        let slice = slices.and_then(|slices| slices.get(slices.of_source(v6.addr)));
        slice.map_or(self.config.pool4[0].ports.clone(), |slice| {
            slice.ports.clone()
        })
    }

    pub fn is_closed_for(&self, v6: Endpoint6) -> bool {
        let cluster = self.cluster.as_ref();
        cluster.is_some_and(|all| !all.open.contains(&all.slices.of_source(v6.addr)))
    }

    pub fn inherit(&mut self, binding: Binding) -> Result<(), Reason> {
        let by_v4 = self.at(binding.protocol, binding.v4);
        let by_v6 = self.of(binding.protocol, binding.v6);
        if by_v4.is_some() || by_v6.is_some() {
            let is_same = by_v4 == by_v6;
            return is_same.then_some(()).ok_or(Reason::NoBinding);
        }
        let cluster = self.cluster.as_mut().expect("there are slices");
        let Binding { v4, v6, .. } = binding;
        if cluster.slices.of_port(v4.addr, v4.port).is_none() {
            return Err(Reason::PoolExhausted);
        }
        if self.bindings.len() >= 9 {
            return Err(Reason::BindingLimit);
        }
        if self.of_source(v6).0 >= 4 {
            return Err(Reason::SourceBindingLimit);
        }
        let seconds = match binding.protocol {
            Protocol::Udp => 300,
            Protocol::Icmp => 60,
            Protocol::Tcp => 7440,
        };
        self.bindings.push((binding, Origin::Inherited));
        let until = self.now + Duration::from_secs(seconds);
        let cluster = self.cluster.as_mut().expect("there are slices");
        cluster.waits.push((binding, until));
        Ok(())
    }

    pub fn ask(&mut self, is_it: impl Fn(&Binding) -> bool) -> Option<Binding> {
        let cluster = self.cluster.as_ref()?;
        let binding = *cluster.standby.iter().find(|binding| is_it(binding))?;
        self.inherit(binding).is_ok().then_some(binding)
    }

    /// A connection of which the beginning was not seen.
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

    pub fn release(&mut self, id: SliceId) {
        let cluster = self.cluster.as_ref().expect("there are slices");
        let of = |v4: Endpoint4| cluster.slices.of_port(v4.addr, v4.port) == Some(id);
        self.bindings
            .retain(|(binding, origin)| !of(binding.v4) || !origin.is_of_packets());
        self.forget_sessions();
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
