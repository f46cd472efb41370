// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What must hold for one gateway after each of its worker's steps, and for all gateways in the absence of
//! faults.

use std::time::Duration;

use diolkos_fastpath::Owner;
use diolkos_nat64::config::{Endpoint4, Endpoint6, Protocol};
use diolkos_node::message::Status;
use diolkos_node::NodeId;

use crate::machine::{hop, Machine, Process, AWAY};
use crate::maps::Maps;
use crate::world::{Seen, World, SUBSCRIBERS};

/// Maximum time for which programs know that another gateway has a port, including the time between two
/// ticks.
const AWAY_FOR: Duration = Duration::from_millis(20_020);

impl World {
    /// Returns the bucket of a host.
    pub fn bucket(&self, host: Endpoint6) -> usize {
        self.buckets.bucket(self.config.subscriber(host.addr))
    }

    /// Checks that the node's current decisions hold for the programs and routes of this gateway.
    pub fn check(&self, at: usize) -> Result<(), String> {
        let machine = &self.machines[at];
        let Some(process) = &machine.process else {
            return Ok(());
        };
        let (clock, maps) = (machine.clock(self.now), machine.model.maps());
        for other in (0..self.machines.len()).filter(|other| *other != at) {
            of_other(process, &maps, clock, other)?;
        }
        self.homes(process, &maps, clock)?;
        sessions(process, &maps)?;
        away(&maps, clock)?;
        if process.tables.look(|node| node.attracts()) != process.routes.attracts {
            return Err("the routes are not told what the node says".to_owned());
        }
        process.routes.check()
    }

    /// Checks that packets of hosts go where the node says, and that bindings are opened only where it says.
    fn homes(&self, process: &Process, maps: &Maps, clock: Duration) -> Result<(), String> {
        for flow in &self.flows[..SUBSCRIBERS] {
            let bucket = self.bucket(flow.host);
            let (home, opens, keeps_portless) = process.tables.look(|node| {
                (
                    node.leads_to(clock, bucket),
                    node.opens_alone(clock, bucket),
                    node.keeps_portless(clock, bucket),
                )
            });
            let expected = match (home, opens) {
                (_, true) => Owner::OURS,
                // Before the node has ever served, no ports are lent to programs.
                (None, false) if maps.homes[bucket] == Owner::OURS => Owner::OURS,
                (home, false) => {
                    let home = home.unwrap_or_else(|| process.tables.look(|node| node.me()));
                    Owner::node(home.0).expect("a few nodes")
                }
            };
            if maps.keeps_portless[bucket] != keeps_portless {
                return Err(format!("bucket {bucket}: fragments stay here, or do not"));
            }
            let is = maps.homes[bucket];
            if is != expected {
                return Err(format!(
                    "bucket {bucket} is led to {is:?}, not to {expected:?}"
                ));
            }
        }
        Ok(())
    }

    /// Checks that every gateway serves, attracts, and accepts the packets of the others.
    pub fn is_well(&self) -> Result<(), String> {
        for machine in &self.machines {
            let Some(process) = &machine.process else {
                return Err(format!("{:?} has not started", machine.id));
            };
            self.is_one_well(machine, process)?;
        }
        Ok(())
    }

    fn is_one_well(&self, machine: &Machine, process: &Process) -> Result<(), String> {
        let (clock, id) = (machine.clock(self.now), machine.id);
        let status = process.tables.look(|node| node.status(clock));
        if status != Status::Serving || process.routes.yields {
            let yields = process.routes.yields;
            return Err(format!("{id:?}: {status:?}, its routes yield: {yields}"));
        }
        for other in &self.machines {
            if other.id != id && !process.tables.look(|node| node.takes(other.id, clock)) {
                return Err(format!("{id:?} does not reach {:?}", other.id));
            }
        }
        Ok(())
    }

    /// Checks that a new flow opens within a second, wherever its first packet arrives.
    pub fn opens(&mut self) -> Result<(), String> {
        (self.load, self.is_restless) = (0, false);
        self.pass(8.0)?;
        for flow in &mut self.flows {
            (flow.is_active, flow.port) = (false, None);
        }
        for n in 0..SUBSCRIBERS {
            self.flows[n].at = n % self.machines.len();
            self.send_from_host(n);
        }
        self.pass(1.0)?;
        let closed = self.flows[..SUBSCRIBERS]
            .iter()
            .position(|flow| flow.port.is_none());
        match closed {
            Some(n) => Err(format!("flow {n} does not open")),
            None => Ok(()),
        }
    }

    pub fn seen(&self) -> Seen {
        let processes = self.machines.iter().filter_map(|its| its.process.as_ref());
        let mut seen = self.seen.clone();
        for process in processes {
            seen.changes_of_routes += process.routes.changed;
            seen.failures_of_routes += process.routes.failed;
        }
        Seen {
            translations: self.truth.translations,
            by_copy: self.truth.by_copy,
            reused: self.truth.reused,
            ..seen
        }
    }
}

/// Checks that packets go to another gateway only if it accepts them, and that copies of its bindings are
/// used only otherwise.
fn of_other(process: &Process, maps: &Maps, clock: Duration, other: usize) -> Result<(), String> {
    let node = NodeId(other as u8);
    let (takes, may_use) = process
        .tables
        .look(|its| (its.takes(node, clock), its.may_use(node, clock)));
    let way = maps.ways[other];
    if way.is_some_and(|way| !takes || way != hop(other)) {
        return Err(format!(
            "programs are led to {node:?}, which takes no packets"
        ));
    }
    if process.ways.mtu(node.0) != way.map(|way| way.mtu as usize) {
        return Err(format!("the slow path has another way to {node:?}"));
    }
    if clock < maps.until[other] && (takes || !may_use) {
        return Err(format!("programs use copies of {node:?}, and may not"));
    }
    Ok(())
}

/// Checks that the tables have every session that programs use.
fn sessions(process: &Process, maps: &Maps) -> Result<(), String> {
    let tables = process.tables.0.borrow();
    for session in maps.sessions() {
        let protocol = match session.protocol {
            1 => Protocol::Icmp,
            _ => Protocol::Udp,
        };
        let (v6, peer) = (session.node, session.peer);
        let v6 = Endpoint6 {
            addr: v6.0,
            port: v6.1,
        };
        let peer = Endpoint4 {
            addr: peer.0,
            port: peer.1,
        };
        let known = tables.state.session(protocol, v6, peer);
        let v4 = known.map(|known| (known.binding.v4.addr, known.binding.v4.port));
        if v4 != Some(session.v4) {
            return Err(format!("programs have {session:?}, and the tables do not"));
        }
    }
    Ok(())
}

/// Checks that programs know few ports of other gateways, and none for long.
fn away(maps: &Maps, clock: Duration) -> Result<(), String> {
    if maps.away.len() > AWAY {
        return Err(format!("programs know {} ports elsewhere", maps.away.len()));
    }
    let mut old = maps.away.iter();
    match old.find(|(.., since)| clock > *since + AWAY_FOR) {
        Some((port, ..)) => Err(format!("programs have known of {port:?} for too long")),
        None => Ok(()),
    }
}
