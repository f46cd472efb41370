// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses the protocols of bindings in arguments.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use diolkos_nat64::config::Protocol;

/// Parses the name of a protocol as in the configuration and in output.
pub fn protocol() -> impl TypedValueParser<Value = Protocol> {
    let named = |protocol: Protocol| PossibleValue::new(protocol.name()).help(help(protocol));
    PossibleValuesParser::new(Protocol::ALL.map(named)).try_map(|name| {
        let mut all = Protocol::ALL.into_iter();
        all.find(|protocol| protocol.name() == name)
            .ok_or("no such protocol")
    })
}

fn help(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Tcp => "TCP",
        Protocol::Udp => "UDP",
        Protocol::Icmp => "ICMP queries; the identifier stands for the port",
    }
}
