// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `diolkos session`: ends a session of the running NAT64.

use std::net::Ipv4Addr;

use diolkos_nat64::config::{Endpoint4, Endpoint6, Protocol};

use crate::cli;
use crate::error;
use diolkos_control::translator::{self, Answer, Request};
use diolkos_service::failure::Failure;

/// Ends a session of the running NAT64.
pub fn run(options: cli::Session) -> Result<(), Failure> {
    let cli::Session::Del {
        protocol,
        ends,
        device,
    } = options;
    let ends: Vec<&str> = ends.iter().map(String::as_str).collect();
    let (v6, v4, peer) = named(protocol, &ends).map_err(error::usage)?;
    let request = Request::EndSession {
        protocol,
        v6,
        v4,
        peer,
    };
    match translator::ask(&device, request)? {
        Answer::Done => Ok(()),
        other => Err(translator::unexpected(&other).into()),
    }
}

/// The node, its binding if the words contain it, and the peer. Further columns of `show sessions` may follow.
fn named(
    protocol: Protocol,
    words: &[&str],
) -> Result<(Endpoint6, Option<Endpoint4>, Endpoint4), String> {
    let node = words[0].parse()?;
    match words {
        [_, peer] => Ok((node, None, self::peer(protocol, peer)?)),
        [_, v4, peer] => Ok((node, Some(v4.parse()?), self::peer(protocol, peer)?)),
        [_, v4, peer, _state, seconds] if seconds.parse::<u64>().is_ok() => {
            Ok((node, Some(v4.parse()?), self::peer(protocol, peer)?))
        }
        [_, _, _, more, ..] => Err(format!(
            "`{more}` is too much: write the node and its peer, or a whole line of `diolkos show sessions`"
        )),
        [] | [_] => Err("the peer is missing; write the node and its peer".to_owned()),
    }
}

/// ICMP queries have a single identifier, which belongs to the node, so their peer has no port.
fn peer(protocol: Protocol, word: &str) -> Result<Endpoint4, String> {
    match word.parse::<Ipv4Addr>() {
        Ok(addr) if protocol == Protocol::Icmp => Ok(Endpoint4 { addr, port: 0 }),
        _ => word.parse(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_named_as_it_is_shown() {
        let node = "[2001:db8::2]:4711";
        let tcp = |words: &[&str]| named(Protocol::Tcp, words);
        let short = tcp(&[node, "198.51.100.1:443"]).expect("a session");
        assert_eq!((short.0.to_string(), short.1), (node.to_owned(), None));
        let long = tcp(&[node, "192.0.2.1:1024", "198.51.100.1:443"]).expect("a session");
        assert_eq!((long.0, long.2), (short.0, short.2));
        let line = [
            node,
            "192.0.2.1:1024",
            "198.51.100.1:443",
            "established",
            "7440",
        ];
        assert_eq!(tcp(&line), Ok(long));
        let ping = named(Protocol::Icmp, &[node, "198.51.100.1"]);
        assert_eq!(ping, named(Protocol::Icmp, &[node, "198.51.100.1:0"]));
    }

    #[test]
    fn an_error_says_what_to_write() {
        let why = |words: &[&str]| named(Protocol::Tcp, words).expect_err("it is wrong");
        assert_eq!(
            why(&["[2001:db8::2]:4711", "198.51.100.1"]),
            "`198.51.100.1` has no port; write `198.51.100.1:PORT`"
        );
        assert!(why(&["2001:db8::2", "198.51.100.1:443"]).ends_with("write `[2001:db8::2]:PORT`"));
        let more = ["[2001:db8::2]:1", "192.0.2.1:1", "198.51.100.1:2", "and"];
        assert!(why(&more).starts_with("`and` is too much"));
    }
}
