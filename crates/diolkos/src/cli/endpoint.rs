// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses addresses with a port in arguments: `192.0.2.1:80` and `[2001:db8::1]:80`, as `show` prints them.

use std::net::{SocketAddr, SocketAddrV4, SocketAddrV6};

use diolkos_nat64::config::{Endpoint4, Endpoint6};

/// Parses an address of either family. The error says what to write.
pub fn endpoint(text: &str) -> Result<SocketAddr, String> {
    let is_v6 = text.starts_with('[') || text.matches(':').count() > 1;
    text.parse().or_else(|_| match is_v6 {
        true => text
            .parse::<Endpoint6>()
            .map(|v6| SocketAddrV6::from(v6).into()),
        false => text
            .parse::<Endpoint4>()
            .map(|v4| SocketAddrV4::from(v4).into()),
    })
}
