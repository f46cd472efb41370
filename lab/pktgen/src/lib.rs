// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The packet generator and sink.
//!
//! ```text
//!   cli ─► net (interface, next hop) ─► trial (frame, flow, pace) ─► send ─► … ─► sink ─► histogram ─► report
//!                                         ways: both ends in one program ─► measure: one direction, or both
//!                                                                        ─► connect: sessions are opened, then answered
//!                                                                        ─► converse: TCP connections from end to end
//! ```
//!
//! The time-critical part runs in the kernel (`bpf/`): it writes each frame and counts each frame that arrives. This crate
//! tells it what to send and when, and reads the counts.

pub mod cli;
mod connect;
mod converse;
pub mod failure;
pub mod flow;
pub mod frame;
pub mod histogram;
pub mod kernel;
mod measure;
mod net;
pub mod pace;
pub mod report;
mod send;
pub mod signature;
mod sink;
mod trial;
mod ways;
mod witness;

use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use clap::Parser;
use diolkos_sys::task::Signals;
use serde_json::json;

use cli::{Cli, Command};
use failure::Failure;
use send::Stop;
use trial::Trial;

/// Interval between checks for a signal.
const LOOK: Duration = Duration::from_millis(20);

/// The program.
pub fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("diolkos-pktgen: {failure}");
            ExitCode::from(failure.code)
        }
    }
}

fn run(cli: Cli) -> Result<(), Failure> {
    // Threads that are started later block the signals as well.
    let signals = Signals::hold().map_err(|e| Failure::refused("hold signals back", &e))?;
    match cli.command {
        Command::Send(options) => send(&options, &signals),
        Command::Sink(options) => sink(&options, &signals),
        Command::Measure(options) => {
            report::print_event("measured", measure::measure(&options, &signals)?)
        }
        Command::Connect(options) => {
            report::print_event("connected", connect::connect(&options, &signals)?)
        }
        Command::Converse(options) => {
            report::print_event("conversed", converse::converse(&options, &signals)?)
        }
    }
}

fn send(options: &cli::Send, signals: &Signals) -> Result<(), Failure> {
    if let Some(netns) = &options.netns {
        net::enter(netns)?;
    }
    let interface = net::interface(&options.interface)?;
    let dst_mac = match options.dst_mac {
        Some(mac) => mac.0,
        None => net::next_hop(&interface, options.dst.0.first)?,
    };
    let job = Trial {
        interface: &interface,
        macs: (options.src_mac.map_or(interface.mac, |mac| mac.0), dst_mac),
        addresses: (options.src, options.dst),
        looks: &options.looks,
        amount: &options.amount,
        stream: options.stream,
        key: options.common.key,
        cpu: options.amount.cpu,
        memory: None,
        whole: options.common.histogram,
    }
    .job(ways::RUN_UP)?;
    report::print_event("begun", json!({"interface": interface.name}))?;

    let stop = Stop::default();
    let sent = thread::scope(|scope| {
        let worker = scope.spawn(|| job.run(&stop));
        while !worker.is_finished() {
            if signals.wait(LOOK) {
                stop.ask()?;
            }
        }
        worker
            .join()
            .unwrap_or_else(|_| Err(Failure::run_time("the generating thread broke down")))
    })?;
    report::print_event("sent", sent)
}

fn sink(options: &cli::SinkOptions, signals: &Signals) -> Result<(), Failure> {
    if let Some(netns) = &options.netns {
        net::enter(netns)?;
    }
    let interface = net::interface(&options.interface)?;
    let watching = sink::watching(&options.counting, options.streams, options.common.key);
    let sink = sink::open(interface.index, &watching)?;
    report::print_event(
        "ready",
        json!({"interface": interface.name, "sink": sink::place(&sink)}),
    )?;
    let until = sink::Until {
        time: options.seconds.map(Duration::from_secs_f64),
        frames: options.expect.map(|n| n.0),
        idle: options.idle.map(Duration::from_secs_f64),
    };
    sink::wait(&sink, until, signals)?;
    let expected = options.expect.map(|n| n.0);
    report::print_event(
        "received",
        sink::report(&sink, expected, options.common.histogram)?,
    )
}
