// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `diolkos cluster`: a question or an order to a node of a cluster.

use std::thread::sleep;
use std::time::{Duration, Instant};

use super::output::{json, print};
use crate::cli;
use crate::cluster_status::{ClusterStatus, Part};
use crate::control::{self, Answer, Request};
use crate::failure::Failure;

/// Between two looks at a node that hands over.
const BREATH: Duration = Duration::from_millis(100);

/// Asks or tells, and prints the answer.
pub fn run(options: cli::Cluster) -> Result<(), Failure> {
    match options {
        cli::Cluster::Status {
            json: as_json,
            device,
        } => {
            let status = status(&device)?;
            print(match as_json {
                true => json(&status),
                false => status.table(),
            })
        }
        cli::Cluster::Drain { timeout, device } => drain(&device, Duration::from_secs(timeout)),
        cli::Cluster::Join { device } => order(&device, Request::Join),
    }
}

fn drain(device: &str, timeout: Duration) -> Result<(), Failure> {
    order(device, Request::Drain)?;
    let begun = Instant::now();
    loop {
        let status = status(device)?;
        if status.part == Part::Drained {
            return Ok(());
        }
        if begun.elapsed() > timeout {
            return Err(Failure::run_time(format!(
                "after {} s the node still has {} slices: {}; `diolkos cluster status` shows how it goes on",
                timeout.as_secs(),
                status.open + status.moving,
                status.trouble.as_deref().unwrap_or("it is handing them over")
            )));
        }
        sleep(BREATH);
    }
}

fn status(device: &str) -> Result<ClusterStatus, Failure> {
    match control::ask(device, Request::Cluster)? {
        Answer::Cluster(status) => Ok(*status),
        other => Err(control::unexpected(&other)),
    }
}

fn order(device: &str, request: Request) -> Result<(), Failure> {
    match control::ask(device, request)? {
        Answer::Done => Ok(()),
        other => Err(control::unexpected(&other)),
    }
}
