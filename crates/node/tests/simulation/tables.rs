// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tables of a node, their watchers, and how the gateway changes them.

use std::time::Duration;

use diolkos_nat64::config::{
    Binding, Endpoint4, Limits, Nat64Config, Owners, Pool4, Pools, Protocol, Timeouts,
};
use diolkos_nat64::session::{self, Missing, SessionView, State, Watcher};
use diolkos_node::gateway::{Changed, Gateway, Lead, Tables};
use diolkos_node::{Asked, Config, NodeId, Via, Way};
use diolkos_xlat::Reason;

use crate::machine::{FIRST_PORT, PORTS, PROTOCOLS};
use crate::program::Program;
use crate::truth::key_of;

/// Number of requests after which the program ends sessions of copies.
const SLOWNESS: u32 = 6;

/// Returns the configuration of a node's tables.
pub fn configured(config: &Config) -> Nat64Config {
    let members = (0..).zip(&config.members);
    let addresses =
        members.flat_map(|(at, member): (u8, _)| member.pool4.iter().map(move |net| (*net, at)));
    let idle = Duration::from_secs(config.lifetimes_s[0].into());
    Nat64Config {
        translator: diolkos_xlat::Config {
            pref64: config.pref64.clone(),
            ..Default::default()
        },
        pool4: vec![Pool4 {
            interface: None,
            net: config.members[config.me.index()].pool4[0],
            ports: FIRST_PORT..=FIRST_PORT + PORTS - 1,
            protocols: PROTOCOLS.to_vec(),
            sources: vec![],
        }],
        owners: Some(Owners {
            me: config.me.0,
            addresses: addresses.collect(),
            pools: Pools::default(),
        }),
        limits: Limits {
            source_prefix_len: config.source_prefix_len,
            host_share: 100,
            source_share: 100,
            site_share: 100,
            outside_share: 100,
            ..Limits::default()
        },
        timeouts: Timeouts {
            udp: idle,
            icmp: idle,
            ..Timeouts::default()
        },
        ..Nat64Config::default()
    }
}

/// Watches changes of the tables: the program and the node follow them.
pub struct Eyes<'a> {
    pub program: &'a mut Program,
    /// None while the gateway itself changes the tables.
    pub gateway: Option<&'a mut Gateway>,
    pub clock: Duration,
    /// The origin of the packet that is being translated.
    pub via: Via,
    /// Bindings of this node that were opened and closed.
    pub changes: &'a mut Vec<Changed>,
    /// Set if a binding was opened that the node does not allow.
    pub error: Option<String>,
}

impl Watcher for Eyes<'_> {
    fn event(&mut self, event: session::Event) {
        match event {
            session::Event::BindingOpened(binding) => {
                self.program.own.insert(key_of(&binding), binding);
                self.changes.push(Changed::Opened(binding));
                if let Some(gateway) = &mut self.gateway {
                    if !gateway.node().may_open(self.clock, &binding) {
                        let status = gateway.node().status(self.clock);
                        self.error = Some(format!("{status:?}: {binding:?} may not be opened"));
                    }
                    let lead = gateway.opened(self.clock, binding);
                    lead.into_iter().for_each(|lead| self.program.lead(lead));
                }
            }
            session::Event::BindingClosed(binding) => {
                let (protocol, v4) = (binding.protocol, binding.v4);
                self.program.own.remove(&key_of(&binding));
                self.changes.push(Changed::Closed(protocol, v4));
                if let Some(gateway) = &mut self.gateway {
                    let lead = gateway.closed(self.clock, protocol, v4);
                    lead.into_iter().for_each(|lead| self.program.lead(lead));
                }
            }
            session::Event::CopyMade(binding, owner) => {
                let copies = &mut self.program.copies;
                copies.insert(key_of(&binding), (owner.into(), binding));
            }
            session::Event::CopyEnded(binding, _) => {
                self.program.copies.remove(&key_of(&binding));
            }
            _ => {}
        }
    }

    fn last_seen(&mut self, session: &SessionView) -> Option<Duration> {
        self.program.seen.get(&key_of(&session.binding)).copied()
    }

    fn missing(&mut self, missing: Missing, opens: bool) -> session::Way {
        let Some(gateway) = &mut self.gateway else {
            return session::Way::Drop(Reason::NoBinding);
        };
        let way = match missing {
            Missing::V6(protocol, host) => {
                let asked = Asked {
                    host,
                    protocol,
                    via: self.via,
                    opens,
                };
                gateway.who(self.clock, asked)
            }
            Missing::V4(protocol, v4) => gateway.who4(self.clock, v4, protocol, self.via),
        };
        match way {
            Way::Copy(binding) => session::Way::Copy(binding),
            Way::Forward(node) => session::Way::Forward(node.0),
            Way::Open => session::Way::Open,
            Way::Here => {
                self.error = Some(format!("the tables have lost {missing:?}"));
                session::Way::Drop(Reason::NoBinding)
            }
            Way::Drop(_) => session::Way::Drop(Reason::NoBinding),
        }
    }

    fn boottime(&mut self) -> Duration {
        self.clock
    }

    fn dropped(&mut self, _: Reason) {}
}

/// The tables and programs of a machine, as its gateway changes them.
pub struct Hands<'a> {
    pub state: &'a mut State,
    pub program: &'a mut Program,
    pub clock: Duration,
    /// True if there is no room for some bindings that others give back.
    pub is_tight: bool,
    /// The changes that the node has to be told, and how many it was told.
    pub changes: Vec<Changed>,
    pub heard: usize,
    pub error: Option<String>,
}

impl Hands<'_> {
    /// Changes the tables. The node knows these changes.
    fn quietly<T>(&mut self, act: impl FnOnce(&mut State, &mut Eyes<'_>) -> T) -> T {
        self.with(&mut Vec::new(), act)
    }

    /// The same, where a binding of the operator may get a port.
    fn aloud<T>(&mut self, act: impl FnOnce(&mut State, &mut Eyes<'_>) -> T) -> T {
        let mut changes = std::mem::take(&mut self.changes);
        let done = self.with(&mut changes, act);
        self.changes = changes;
        done
    }

    fn with<T>(
        &mut self,
        changes: &mut Vec<Changed>,
        act: impl FnOnce(&mut State, &mut Eyes<'_>) -> T,
    ) -> T {
        let mut eyes = Eyes {
            program: self.program,
            gateway: None,
            clock: self.clock,
            via: Via::Outside,
            changes,
            error: None,
        };
        act(self.state, &mut eyes)
    }
}

impl Tables for Hands<'_> {
    fn use_copies(&mut self, owner: NodeId, until: Duration) {
        self.state.set_deadline(owner.0, until);
        self.program.until[owner.index()] = until;
    }

    fn forget(&mut self, protocol: Protocol, v4: Endpoint4) {
        self.quietly(|state, eyes| state.forget(protocol, v4, usize::MAX, eyes));
    }

    fn forget_some(&mut self, owner: NodeId) -> bool {
        self.program.asked += 1;
        let budget = usize::from(self.program.asked.is_multiple_of(SLOWNESS));
        self.quietly(|state, eyes| state.forget_all(owner.0, budget, eyes))
    }

    fn install(&mut self, binding: Binding) -> bool {
        let clock = self.clock;
        let has_room = !self.is_tight || !binding.v4.port.is_multiple_of(3);
        has_room && self.quietly(|state, eyes| state.inherit(binding, clock, eyes).is_ok())
    }

    fn hold(&mut self, protocol: Protocol, v4: Endpoint4) {
        if !self.state.hold(protocol, v4) {
            self.error = Some(format!("{v4:?} cannot be held"));
        }
    }

    fn free(&mut self, protocol: Protocol, v4: Endpoint4) {
        self.aloud(|state, eyes| state.free(protocol, v4, eyes));
    }

    fn lead(&mut self, lead: Lead) {
        self.program.lead(lead);
    }

    fn reach(&mut self, owner: NodeId, takes: bool) {
        self.program.takes[owner.index()] = takes;
    }

    fn serve(&mut self, serves: bool) {
        self.aloud(|state, eyes| state.serve(serves, eyes));
    }

    fn changed(&mut self) -> Option<Changed> {
        let next = self.changes.get(self.heard).copied();
        self.heard += usize::from(next.is_some());
        next
    }
}
