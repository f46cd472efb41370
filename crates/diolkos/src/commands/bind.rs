// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `diolkos bind`: adds or deletes a binding of the running NAT64.

use std::net::SocketAddr;

use diolkos_nat64::config::{Binding, Endpoint4, Endpoint6};

use crate::cli;
use crate::error;
use diolkos_control::translator::{self, Answer, Request};
use diolkos_service::failure::Failure;

/// Adds or deletes a binding of the running NAT64.
pub fn run(options: cli::Bind) -> Result<(), Failure> {
    let (device, request) = match options {
        cli::Bind::Add {
            protocol,
            v4,
            v6,
            device,
        } => {
            let (v4, v6) = both(v4, v6).map_err(error::usage)?;
            (device, Request::Bind(Binding { protocol, v4, v6 }))
        }
        cli::Bind::Del {
            protocol,
            v4,
            device,
        } => (device, Request::Unbind { protocol, v4 }),
    };
    match translator::ask(&device, request)? {
        Answer::Done => Ok(()),
        other => Err(translator::unexpected(&other).into()),
    }
}

/// The two endpoints, one of each family, given in either order.
fn both(first: SocketAddr, second: SocketAddr) -> Result<(Endpoint4, Endpoint6), String> {
    match (first, second) {
        (SocketAddr::V4(v4), SocketAddr::V6(v6)) | (SocketAddr::V6(v6), SocketAddr::V4(v4)) => {
            Ok((v4.into(), v6.into()))
        }
        _ => Err(format!(
            "`{first}` and `{second}` are of one family: write an IPv4 and an IPv6 address, each with a port"
        )),
    }
}
