// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Makes a job for the generator from options: looks → size → 4-tuples → pace → amount.

use std::time::Duration;

use crate::kernel::{Memory, Plan};
use diolkos_sys::clock;

use crate::cli::{Addresses, Amount, Flows, Looks, PathArgument};
use crate::failure::Failure;
use crate::frame::{self, Mac, Ports, Shape, Transport, FCS};
use crate::net::Interface;
use crate::pace::Pace;
use crate::send::{Job, Path};

/// Port ranges of RFC 4814 section 4.5.
const SPORTS: Ports = Ports {
    low: 1024,
    high: 65535,
};
const DPORTS: Ports = Ports {
    low: 1,
    high: 49151,
};
const IDENTIFIERS: Ports = Ports {
    low: 0,
    high: 65535,
};
const ETHERNET: usize = 14;

/// The parameters of one direction of a trial.
#[derive(Debug)]
pub struct Trial<'a> {
    /// The sending interface.
    pub interface: &'a Interface,
    /// Ethernet addresses, source and destination.
    pub macs: (Mac, Mac),
    /// Source and destination.
    pub addresses: (Addresses, Addresses),
    /// The properties of frames.
    pub looks: &'a Looks,
    /// The number, schedule and path of frames.
    pub amount: &'a Amount,
    /// The stream in the signature.
    pub stream: u8,
    /// The key of the signature.
    pub key: u64,
    /// The CPU to send from.
    pub cpu: Option<usize>,
    /// The remembered 4-tuples to use instead of generated ones.
    pub memory: Option<&'a Memory>,
    /// The report contains all buckets of the distributions.
    pub whole: bool,
}

impl<'a> Trial<'a> {
    /// The job, whose first frame is due after `run_up`.
    pub fn job(&self, run_up: Duration) -> Result<Job<'a>, Failure> {
        let pace = Pace {
            rate: self.amount.rate.0,
            burst: self.amount.burst,
        };
        let mut plan = self.shape()?.plan()?;
        self.fits(&plan)?;
        self.choose_flows(&mut plan)?;
        pace.fill(&mut plan);
        self.limit(&mut plan)?;
        plan.ifindex = self.interface.index;
        plan.stream = self.stream.into();
        plan.key = self.key;
        plan.begin_ns = (clock::monotonic() + run_up).as_nanos() as u64;
        Ok(Job {
            plan,
            pace,
            path: self.amount.path.map(|path| match path {
                PathArgument::Live => Path::Live,
                PathArgument::Packet => Path::Packet,
            }),
            cpu: self.cpu,
            whole: self.whole,
            memory: self.memory,
        })
    }

    fn shape(&self) -> Result<Shape, Failure> {
        let (src, dst) = (self.addresses.0 .0, self.addresses.1 .0);
        if src.first.is_ipv4() != dst.first.is_ipv4() {
            return Err(Failure::usage(format!(
                "{} and {} are of different families: a packet has two addresses of one",
                src.first, dst.first
            )));
        }
        let transport = match self.looks {
            Looks { tcp: true, .. } => Transport::Tcp(self.looks.tcp_flags.0),
            Looks { icmp: true, .. } => Transport::Icmp,
            _ => Transport::Udp,
        };
        let (sports, dports) = match transport {
            Transport::Icmp => (IDENTIFIERS, Ports { low: 1, high: 1 }),
            _ => (SPORTS, DPORTS),
        };
        Ok(Shape {
            macs: self.macs,
            src,
            dst,
            transport,
            sport: self.looks.sport.map_or(sports, |p| p.0),
            dport: self.looks.dport.map_or(dports, |p| p.0),
            size: self.looks.size,
        })
    }

    fn fits(&self, plan: &Plan) -> Result<(), Failure> {
        let interface = self.interface;
        if frame::length(plan) <= interface.mtu as usize + ETHERNET {
            return Ok(());
        }
        Err(Failure::usage(format!(
            "frames of {} bytes do not fit {}, whose MTU of {} lets them have {}",
            frame::length(plan) + FCS,
            interface.name,
            interface.mtu,
            interface.mtu as usize + ETHERNET + FCS,
        )))
    }

    fn choose_flows(&self, plan: &mut Plan) -> Result<(), Failure> {
        plan.scatter = self.looks.seed;
        plan.flows = match self.looks.flows {
            Flows::Unique => plan.space,
            Flows::Some(flows) if flows <= plan.space => flows,
            Flows::Some(flows) => {
                return Err(Failure::usage(format!(
                    "--flows {flows}: these addresses and ports give {} 4-tuples",
                    plan.space
                )))
            }
        };
        Ok(())
    }

    /// Sets the number of frames, or the duration.
    fn limit(&self, plan: &mut Plan) -> Result<(), Failure> {
        let amount = self.amount;
        match (amount.seconds, amount.rate.0) {
            (Some(seconds), Some(rate)) => plan.count = ((rate * seconds).round() as u64).max(1),
            (Some(seconds), None) => plan.duration_ns = (seconds * 1e9) as u64,
            (None, _) => {}
        }
        if let Some(count) = amount.count {
            plan.count = plan.count.min(count.0);
        }
        if self.looks.flows != Flows::Unique || plan.count <= plan.space {
            return Ok(());
        }
        if plan.count != u64::MAX {
            return Err(Failure::usage(format!(
                "{} packets need as many 4-tuples, and these addresses and ports give {}: give a prefix to --src",
                plan.count, plan.space
            )));
        }
        plan.count = plan.space;
        Ok(())
    }
}
