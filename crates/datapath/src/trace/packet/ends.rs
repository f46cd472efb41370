// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The ends of a packet in words.

use std::net::{IpAddr, SocketAddr};

/// An address, `ADDRESS:PORT`, or `[ADDRESS]:PORT`.
pub fn end(word: &str) -> Option<(IpAddr, Option<u16>)> {
    if let Ok(socket) = word.parse::<SocketAddr>() {
        return Some((socket.ip(), Some(socket.port())));
    }
    let bare = word
        .strip_prefix('[')
        .and_then(|word| word.strip_suffix(']'));
    Some((bare.unwrap_or(word).parse().ok()?, None))
}

/// `ADDRESS:PORT` of IPv4.
pub fn is_ipv4_endpoint(word: &str) -> bool {
    matches!(end(word), Some((IpAddr::V4(_), Some(_))))
}

/// Why there is no such packet.
pub fn different(src: IpAddr, dst: IpAddr) -> String {
    format!(
        "{src} and {dst} are of different families: name the destination as the sender knows it"
    )
}
