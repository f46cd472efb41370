// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `diolkos bind`: a binding of the running NAT64.

use crate::cli;
use crate::config::nat64::Static;
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
        } => (device, Request::Bind(Static { protocol, v4, v6 })),
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
