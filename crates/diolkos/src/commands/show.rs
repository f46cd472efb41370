// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `diolkos show`: sends a request to the running program and prints its answer as a table or JSON.

use std::collections::BTreeMap;

use super::output::{json, print};
use crate::cli::{Show, What};
use crate::error;
use diolkos_control::translator::{self, Answer, Request};
use diolkos_figures::counters;
use diolkos_service::failure::Failure;

/// Sends the request, and prints the answer.
pub fn run(options: &Show) -> Result<(), Failure> {
    if let Some(option) = options.out_of_place() {
        return Err(error::usage(option));
    }
    match options.what {
        What::Status => status(options),
        _ => show(options).and_then(print),
    }
}

/// The exit code tells whether packets can pass, so that a script need not parse the text.
fn status(options: &Show) -> Result<(), Failure> {
    let status = translator::status(&options.device)?;
    print(match options.json {
        true => json(&status),
        false => status.table(),
    })?;
    match status.is_ready() {
        true => Ok(()),
        false => Err(error::not_ready()),
    }
}

fn show(options: &Show) -> Result<String, Failure> {
    let request = match options.what {
        What::Status => unreachable!("it has an exit code of its own"),
        What::Socket => {
            let socket = translator::socket(&options.device)?.display().to_string();
            return Ok(match options.json {
                true => json(&socket),
                false => socket + "\n",
            });
        }
        What::Counters => Request::Counters,
        What::Config => Request::Config,
        What::Prefix => Request::Prefix,
        What::Sessions => Request::Sessions(options.selection()),
        What::Bindings => Request::Bindings(options.selection()),
        What::Top => Request::Top {
            order: options.by,
            lines: options.lines,
        },
    };
    match translator::ask(&options.device, request)? {
        Answer::Counters(counters) if options.json => {
            let packets: BTreeMap<_, _> = counters.iter().map(|c| (&c.name, c.packets)).collect();
            let bytes: BTreeMap<_, _> = counters
                .iter()
                .filter_map(|c| Some((&c.name, c.bytes?)))
                .collect();
            Ok(format!(
                "{}\n",
                serde_json::json!({ "counters": packets, "bytes": bytes })
            ))
        }
        Answer::Counters(counters) => Ok(counters::table(&counters, options.all)),
        Answer::Prefix(prefixes) if options.json => Ok(json(&prefixes)),
        Answer::Prefix(prefixes) => Ok(prefixes.table()),
        Answer::Sessions(sessions) if options.json => Ok(json(&sessions)),
        Answer::Sessions(sessions) => Ok(sessions.table()),
        Answer::Bindings(bindings) if options.json => Ok(json(&bindings)),
        Answer::Bindings(bindings) => Ok(bindings.table()),
        Answer::Top(prefixes) if options.json => Ok(json(&prefixes)),
        Answer::Top(prefixes) => Ok(prefixes.table()),
        Answer::Config(text) if options.json => {
            let value: toml::Table = text.parse().map_err(|e| {
                error::run_time(format!(
                    "the running diolkos answered no configuration: {e}"
                ))
            })?;
            Ok(format!("{}\n", serde_json::json!(value)))
        }
        Answer::Config(text) => Ok(text),
        other => Err(translator::unexpected(&other).into()),
    }
}
