// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `diolkos trace`: a packet in words → the running program → its report.

use super::output::{json, print};
use crate::cli;
use crate::error;
use diolkos_control::translator::{self, Answer, Request};
use diolkos_datapath::trace;
use diolkos_service::failure::Failure;

/// Sends the packet, and prints the report.
pub fn run(options: &cli::Trace) -> Result<(), Failure> {
    report(options).and_then(print)
}

fn report(options: &cli::Trace) -> Result<String, Failure> {
    let words = options.packet.join(" ");
    // The peer of a session is given by its IPv4 address; the node knows it by the prefix in force.
    let pref64 = || {
        let status = translator::status(&options.device).ok()?;
        status.prefixes.first()?.parse().ok()
    };
    let words = trace::Words::read(&words, &pref64).map_err(error::usage)?;
    let imagined = trace::Imagined {
        words,
        details: trace::Details {
            length: options.length,
            dont_fragment: options.df,
            hop_limit: options.hop_limit,
            mss: options.mss,
        },
    };
    imagined.bytes().map_err(error::usage)?;
    match translator::ask(&options.device, Request::Trace(imagined))? {
        Answer::Trace(report) if options.json => Ok(json(&report)),
        Answer::Trace(report) => Ok(report.text()),
        other => Err(translator::unexpected(&other).into()),
    }
}
