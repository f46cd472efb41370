// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures one direction, or both at once: ends ─► ways ─► report.

use std::time::Duration;

use diolkos_sys::task::Signals;
use serde::Serialize;

use crate::cli::{Looks, Measure};
use crate::failure::Failure;
use crate::sink;
use crate::ways::{self, Common, Direction, Way};
use crate::witness::{self, Seen};

/// Streams: one for each direction.
const STREAMS: u32 = 2;

/// The report.
#[derive(Debug, Serialize)]
pub struct Measured {
    kept_up: bool,
    directions: Vec<Direction>,
    #[serde(flatten)]
    seen: Seen,
}

/// Measures one direction, or both at once.
pub fn measure(options: &Measure, signals: &Signals) -> Result<Measured, Failure> {
    let watching = sink::watching(&options.counting, STREAMS, options.common.key);
    let back = options.back_src.zip(options.back_dst);
    let a = ways::open(&options.ends.from, back.map(|_| &watching))?;
    let b = ways::open(&options.ends.to, Some(&watching))?;

    let mut ways = Vec::new();
    if let Some(sink) = &b.sink {
        ways.push(Way {
            name: "forth",
            stream: 0,
            from: &a,
            sink,
            addresses: (options.ends.src, options.ends.dst),
            looks: options.looks.clone(),
            amount: &options.amount,
            cpu: options.amount.cpu,
            memory: None,
        });
    }
    if let (Some(sink), Some(addresses)) = (&a.sink, back) {
        ways.push(Way {
            name: "back",
            stream: 1,
            from: &b,
            sink,
            addresses,
            looks: Looks {
                size: options.back_size.or(options.looks.size),
                sport: options.back_sport.or(options.looks.sport),
                dport: options.back_dport.or(options.looks.dport),
                ..options.looks.clone()
            },
            amount: &options.amount,
            cpu: options.back_cpu,
            memory: None,
        });
    }
    let common = Common {
        key: options.common.key,
        whole: options.common.histogram,
        patience: Duration::from_secs_f64(options.settle),
    };
    let run = || ways::run(&ways, common, signals);
    let (directions, seen) = witness::watch(&options.watch_cpu, run)?;
    Ok(Measured {
        kept_up: directions.iter().all(Direction::kept_up),
        directions,
        seen,
    })
}
