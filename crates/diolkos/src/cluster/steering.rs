// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where packets of other nodes' slices are forwarded: owners and next hops → the program's maps.

use std::collections::BTreeMap;
use std::time::Duration;

use diolkos_cluster::NodeId;
use diolkos_core::slice::{SliceId, Slices};
use diolkos_sys::clock::kernel_boottime;
use diolkos_sys::fastpath::{Forwarded, NextHop, SteerPath, SteerRules};

use super::addresses::addresses;
use super::secret::Secret;
use crate::config::Settings;
use crate::datapath;
use crate::failure::Failure;

/// The forwarding program, and what it has been told.
#[derive(Debug)]
pub struct Steering {
    path: SteerPath,
    hops: BTreeMap<u16, NextHop>,
    /// Since when nodes are not reached.
    lost: BTreeMap<u16, Duration>,
    /// By slice: the place of its node in the program; 0: here.
    given: Vec<u32>,
}

impl Steering {
    /// Puts the program in front of the translation at the TUN device. All slices are this node's until it hears otherwise.
    pub fn start(
        settings: &Settings,
        slices: &Slices,
        secret: Secret,
        tun_index: u32,
    ) -> Result<Steering, Failure> {
        let t = &settings.translator;
        let pref64 = t.pref64.given().iter();
        let rules = SteerRules {
            key: secret.slices,
            slices: slices.len() as u32,
            source_prefix_len: settings.nat64.source_prefix_len,
            pref64: pref64
                .map(|net| (net.network(), net.prefix_len()))
                .collect(),
            addresses: addresses(slices),
        };
        let path = SteerPath::start(&rules, tun_index, datapath::attach(t), &t.device)
            .map_err(datapath::failure)?;
        Ok(Steering {
            path,
            hops: BTreeMap::new(),
            lost: BTreeMap::new(),
            given: vec![0; slices.len()],
        })
    }

    /// How a node is reached from now on. True if that is something new.
    pub fn reach(&mut self, id: u16, hop: Option<NextHop>) -> bool {
        if self.hops.get(&id).copied() == hop {
            return false;
        }
        match hop {
            Some(hop) => {
                self.hops.insert(id, hop);
                self.lost.remove(&id);
            }
            None => {
                self.hops.remove(&id);
                self.lost.insert(id, kernel_boottime());
            }
        }
        warn(self.path.steering().lead(id.into(), hop));
        true
    }

    /// Whether the kernel has a route to a node.
    pub fn is_reached(&self, node: NodeId) -> bool {
        self.hops.contains_key(&node.0)
    }

    /// Since when a node that was reached is not reached any more.
    pub fn lost_since(&self, node: NodeId) -> Option<Duration> {
        self.lost.get(&node.0).copied()
    }

    /// Gives the packets of a slice to a node, if it is reached; those of all others are for this one.
    pub fn give(&mut self, slice: SliceId, node: Option<NodeId>) {
        let node = node.filter(|node| self.is_reached(*node));
        let place = node.map_or(0, |node| u32::from(node.0));
        let Some(given) = self.given.get_mut(slice as usize) else {
            return;
        };
        if std::mem::replace(given, place) != place {
            warn(self.path.steering().give(slice, Some(place)));
        }
    }

    /// What became of packets that belong to a node.
    pub fn forwarded(&self, id: u16) -> Forwarded {
        let counts = self.path.steering().forwarded(id.into());
        counts.unwrap_or_default()
    }
}

fn warn(done: std::io::Result<()>) {
    if let Err(error) = done {
        tracing::warn!("the program that forwards to other nodes cannot be told: {error}");
    }
}
