// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Preserves a packet's mark (SO_MARK) and priority in the slow path. That needs two programs at the TUN device,
//! whatever the datapath is; without them, translated packets have neither.

use std::sync::Arc;

use diolkos_fastpath::{Forwarding, LabelCount, LabelPath, LabelSlots};

use crate::choice;
use crate::error::DatapathError;
use diolkos_config::Translator;
use diolkos_figures::counters::Counter;

/// The programs, or the reason why there are none.
pub struct Labels(Result<LabelPath, String>);

impl Labels {
    /// Attaches the programs to the device, behind those that translate there. `forwarding` is the program that
    /// forwards to other gateways of a cluster.
    pub fn start(
        t: &Translator,
        tun_ifindex: u32,
        queues: usize,
        forwarding: Option<&Forwarding>,
    ) -> Labels {
        let attach = choice::attach(t);
        let path = LabelPath::start(tun_ifindex, queues, forwarding, attach, &t.device);
        Labels(path.map_err(|error| {
            let why = DatapathError::from(error).to_string();
            tracing::info!("marks (SO_MARK) and priorities do not survive the slow path: {why}");
            why
        }))
    }

    /// Returns the slots, for threads that write packets.
    pub fn slots(&self) -> Option<Arc<LabelSlots>> {
        self.path().map(LabelPath::slots)
    }

    /// Returns the programs at the device.
    pub fn path(&self) -> Option<&LabelPath> {
        self.0.as_ref().ok()
    }

    /// Returns the counters of packets that could not get a label; like
    /// [`counters::read`](diolkos_figures::counters::read), none without the programs.
    pub fn counters(&self) -> Vec<Counter> {
        let count = self.path().map(LabelPath::count);
        let of = |count: LabelCount| {
            [
                ("slow.drop.no_memory", count.dropped),
                ("slow.mark_lost", count.lost),
                ("slow.drop.forged", count.forged),
                ("slow.drop.no_way", count.no_way),
            ]
        };
        let counter = |(name, packets): (&str, u64)| Counter {
            name: name.to_owned(),
            packets,
            bytes: None,
        };
        count.into_iter().flat_map(of).map(counter).collect()
    }

    /// Returns the reason why there are no programs.
    pub fn trouble(&self) -> Option<String> {
        self.0.as_ref().err().cloned()
    }
}
