// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The operator changes a node's file at run time. On a reload, changes of what nodes compare are refused, and the
//! others apply to the tables, as in the program. All nodes change to another file together, in new processes.

use diolkos_nat64::config::{Endpoint4, Limits, Nat64Config, Pools, Timeouts};
use diolkos_node::config::PARTS;
use diolkos_node::message::Status;
use diolkos_node::Armed;
use ipnet::Ipv6Net;

use super::*;
use crate::machine::{FIRST_PORT, PORTS};
use crate::tables::configured;

impl World {
    pub fn reload(&mut self, at: usize) {
        let machine = &self.machines[at];
        let process = machine.process.as_ref();
        let Some(process) = process.filter(|_| machine.frozen_until <= self.now) else {
            return;
        };
        let mut file = process.config.clone();
        let expected = match self.random.below(12) {
            0 => {
                file = self.file(at, !machine.runs.has_other_file);
                Some("nodes")
            }
            1 => {
                file.members.truncate(1);
                Some("nodes")
            }
            2 => {
                file.pref64
                    .push("2001:db8:64::/96".parse().expect("a network"));
                Some("sources")
            }
            3 => {
                file.source_prefix_len = [48, 56, 128][self.random.below(3)];
                Some("sources")
            }
            4 => {
                file.lifetimes_s[0] = 60;
                Some("lifetimes")
            }
            _ => None,
        };
        let refused = process.config.differs(&file.digests());
        if refused.map(|part| PARTS[part]) != expected {
            self.error = Some(format!("node {at} reloads a file with other {expected:?}"));
            return;
        }
        self.reloads[usize::from(refused.is_some())] += 1;
        if refused.is_some() {
            return;
        }
        let tables = self.other_limits(&file);
        self.with_tables(at, Via::Outside, |state, _, _, eyes| {
            state.reconfigure(&tables, eyes);
        });
    }

    fn other_limits(&mut self, file: &Config) -> Nat64Config {
        let base = configured(file);
        let mut pool4 = base.pool4.clone();
        if self.random.chance(0.3) {
            // The address is that of a few subscribers now, and the bindings of all others end.
            pool4[0].sources = self.some_sources(file);
        }
        let pools = Pools::of(&pool4);
        let mut bindings = self.some_bindings(file);
        bindings.retain(|binding| pools.allows(binding.v4.addr, binding.v6.addr));
        self.machines[file.me.index()].bindings = bindings;
        let mut share = || [10, 50, 100][self.random.below(3)];
        let limits = Limits {
            host_share: share(),
            source_share: share(),
            site_share: share(),
            outside_share: share(),
            ..base.limits
        };
        let mut most = || [1, 4, u32::MAX][self.random.below(3)];
        let limits = Limits {
            bindings_per_source: most(),
            sessions_per_source: most(),
            ..limits
        };
        Nat64Config {
            bindings: self.machines[file.me.index()].bindings.clone(),
            limits,
            pool4,
            port_preservation: self.random.chance(0.5),
            timeouts: Timeouts {
                fragments: Duration::from_secs(2 + self.random.next() % 9),
                port_block: Duration::from_secs(1 + self.random.next() % 99),
                ..base.timeouts
            },
            ..base
        }
    }

    /// Returns the subscribers of some hosts.
    fn some_sources(&mut self, file: &Config) -> Vec<Ipv6Net> {
        let mut sources = Vec::new();
        for _ in 0..1 + self.random.below(3) {
            let host = self.flows[self.random.below(self.flows.len())].host.addr;
            let net = Ipv6Net::new(host, file.source_prefix_len).expect("a prefix length");
            sources.push(net.trunc());
        }
        sources
    }

    /// Returns bindings of the operator, some with ports and hosts that packets use.
    fn some_bindings(&mut self, file: &Config) -> Vec<Binding> {
        let mut bindings: Vec<Binding> = Vec::new();
        for _ in 0..self.random.below(4) {
            let flow = self.flows[self.random.below(self.flows.len())];
            let net = file.members[file.me.index()].pool4[0];
            let v4 = Endpoint4 {
                addr: net.addr(),
                port: FIRST_PORT + self.random.below(PORTS.into()) as u16,
            };
            let (protocol, v6) = (flow.protocol, flow.host);
            let is_free =
                |other: &Binding| other.protocol != protocol || (other.v4 != v4 && other.v6 != v6);
            if bindings.iter().all(is_free) {
                bindings.push(Binding { protocol, v4, v6 });
            }
        }
        bindings
    }

    /// Restores the limits that the node began with, without bindings of the operator.
    pub fn reload_first(&mut self, at: usize) {
        self.machines[at].bindings.clear();
        let Some(process) = &self.machines[at].process else {
            return;
        };
        let tables = configured(&process.config);
        self.with_tables(at, Via::Outside, |state, _, _, eyes| {
            state.reconfigure(&tables, eyes);
        });
    }

    /// Has the operator arm a node for the other file, for some time.
    pub fn arm(&mut self, at: usize, seconds: u64) {
        let machine = &self.machines[at];
        if !machine.runs.has_other_file && machine.frozen_until <= self.now {
            let until = machine.clock(self.now) + Duration::from_secs(seconds);
            let file = self.file(at, true).file();
            self.event(at, Event::Arm(Armed::new(file, until, Vec::new())));
        }
    }

    /// Has the process leave; the next one expects all others.
    pub(super) fn go_over(&mut self, at: usize, file: u64) {
        if file != self.file(at, true).file() {
            self.error = Some(format!("node {at} goes over to a file that nobody has"));
        }
        self.machines[at].goes_over = true;
        self.event(at, Event::Leave);
        let after = self.random.next() % (3 * SECOND);
        self.machines[at].starts = Some((self.now + after, false));
    }

    /// Checks that no two nodes serve by two files, and that none that has changed serves while another one runs by the
    /// old file.
    pub(super) fn is_one_file(&mut self) {
        let processes = |is_other: bool| {
            let machines = self.machines.iter();
            let its = machines.filter(move |machine| machine.runs.has_other_file == is_other);
            its.filter_map(|machine| Some((machine, machine.process.as_ref()?)))
        };
        let serves = |(machine, process): &(&Machine, &Process)| {
            let status = process.gateway.node().status(machine.clock(self.now));
            matches!(status, Status::Serving | Status::Draining)
        };
        let mut new = processes(true).filter(serves);
        let is_wrong =
            new.any(|(_, new)| processes(false).any(|old| new.went_over || serves(&old)));
        if is_wrong {
            self.error = Some("two files are in force".to_owned());
        }
    }

    /// Notes that a node reports another file or version of another node.
    pub(super) fn differs(&mut self, part: &'static str) {
        self.refused += 1;
        let speaks = self.newer.is_some_and(|newer| newer.messages);
        let is_right = match part {
            "format" => speaks,
            "nodes" => self.machines.iter().any(|m| m.next.has_other_file),
            _ => false,
        };
        if self.liar.is_none() && !is_right {
            self.error = Some(format!("a node says that others have other {part}"));
        }
    }

    /// Checks that no messages of a node with another format are accepted.
    pub(super) fn is_refused(&mut self, at: usize, peer: usize, connection: u64) {
        let [here, there] = [at, peer].map(|at| &self.machines[at]);
        let [Some(mine), Some(its)] = [&here.process, &there.process] else {
            return;
        };
        let between = self.net.connections.get(&connection);
        let ends = [(at, mine.number), (peer, its.number)];
        let is_theirs = between.is_some_and(|c| ends.iter().all(|end| c.ends.contains(end)));
        if is_theirs && here.runs.version.messages != there.runs.version.messages {
            let standing = mine.gateway.node().standing(there.id, here.clock(self.now));
            if standing.status.is_some() {
                self.error = Some(format!("node {at} understands {peer} of another version"));
            }
        }
    }
}
