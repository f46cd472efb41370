// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `diolkos bind`: a binding of the running NAT64.

use diolkos_core::config::nat64::{Binding, Endpoint4, Endpoint6};

use crate::cli;
use crate::control::{self, Answer, Request};
use crate::failure::Failure;

/// Adds or deletes a binding of the running NAT64.
pub fn run(options: cli::Bind) -> Result<(), Failure> {
    let (device, request) = match options {
        cli::Bind::Add {
            protocol,
            v4,
            v6,
            device,
        } => {
            let (v4, v6) = both(&v4, &v6).map_err(Failure::usage)?;
            (device, Request::Bind(Binding { protocol, v4, v6 }))
        }
        cli::Bind::Del {
            protocol,
            v4,
            device,
        } => (device, Request::Unbind { protocol, v4 }),
    };
    match control::ask(&device, request)? {
        Answer::Done => Ok(()),
        other => Err(control::unexpected(&other)),
    }
}

/// Two endpoints, each of its family, in whichever order.
fn both(first: &str, second: &str) -> Result<(Endpoint4, Endpoint6), String> {
    let (v4, v6) = match first.starts_with('[') {
        true => (second, first),
        false => (first, second),
    };
    Ok((v4.parse()?, v6.parse()?))
}
