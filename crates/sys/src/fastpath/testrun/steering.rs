// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The forwarding program of a cluster, asked to which node a packet belongs.

use std::io;
use std::os::fd::OwnedFd;

use super::frame::run_on_frame;
use super::{ETHERTYPE_IPV4, ETHERTYPE_IPV6};
use crate::fastpath::{steer, FastPathError, SteerRules, Steering};

/// The program (`bpf/steer.bpf.c`), attached nowhere.
#[derive(Debug)]
pub struct SteerRun {
    probe: OwnedFd,
    /// Whose the slices are.
    pub steering: Steering,
}

impl SteerRun {
    /// Loads the program, as the daemon does.
    pub fn load(rules: &SteerRules) -> Result<SteerRun, FastPathError> {
        let (probe, steering) = steer::load(rules, steer::Program::Probe)?;
        Ok(SteerRun { probe, steering })
    }

    /// The place of the node to which a packet belongs; 0: here.
    pub fn node(&self, packet: &[u8]) -> io::Result<u32> {
        let is_v6 = packet.first().is_some_and(|byte| byte >> 4 == 6);
        let ethertype = if is_v6 {
            ETHERTYPE_IPV6
        } else {
            ETHERTYPE_IPV4
        };
        let (node, _) = run_on_frame(&self.probe, ethertype, packet)?;
        Ok(node)
    }
}
