// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests for bindings (PCP), against a second reader that goes through RFC 6887 sections 7 and 8 one sentence after the
//! other, and a server in front of a NAT64's tables, which must agree with each other whatever comes.
//!
//! (host | seconds | length | datagram)…

use std::net::Ipv6Addr;
use std::time::Duration;

use crate::input::Input;
use diolkos_nat64::config::{Binding, Endpoint6, Limits, Nat64Config, Pool4, Protocol};
use diolkos_nat64::session::{GrantError, Granted, Origin, State, Wish};
use diolkos_pcp::message::{read, Code, Request, Unfit};
use diolkos_pcp::{Server, Settings, Tables};

const MOST: u32 = 8;

/// The tables of a NAT64 with few ports.
struct Few {
    state: State,
    drawn: u64,
}

impl Tables for Few {
    fn grant(
        &mut self,
        protocol: Protocol,
        v6: Endpoint6,
        wish: Wish,
    ) -> Result<Granted, GrantError> {
        let drawn = &mut self.drawn;
        let random = || {
            *drawn = drawn
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            *drawn
        };
        self.state.grant(protocol, v6, wish, random, &mut ())
    }

    fn is_granted(&mut self, binding: &Binding) -> bool {
        self.state.is_granted(binding)
    }

    fn withdraw(&mut self, binding: &Binding) {
        self.state.withdraw(binding, usize::MAX, &mut ());
    }
}

/// The target.
pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let config = Nat64Config {
        translator: diolkos_xlat::Config {
            pref64: vec!["64:ff9b::/96".parse().expect("a prefix")],
            ..Default::default()
        },
        pool4: vec![Pool4 {
            interface: None,
            net: "192.0.2.1/32".parse().expect("a network"),
            ports: 1024..=1030,
            protocols: Protocol::ALL.to_vec(),
            sources: vec![],
        }],
        ..Nat64Config::default()
    };
    let settings = Settings {
        sources: vec!["::/0".parse().expect("a prefix")],
        own: Vec::new(),
        min_lifetime: 120,
        max_lifetime: 7200,
        max_mappings: MOST,
        max_mappings_per_source: 6,
        limits: Limits::default(),
    };
    let mut now = Duration::from_secs(1);
    let mut server = Server::new(settings, 7, now);
    let mut tables = Few {
        state: State::new(&config, [1, 2, 3, 4]),
        drawn: 1,
    };
    while !input.0.is_empty() {
        let from = host(input.byte());
        now += Duration::from_secs(u64::from(input.byte()) * 8);
        let datagram = input.block();
        assert_eq!(
            read(datagram, from).map(|request| matches!(request, Request::Map(_))),
            expect(datagram, from),
            "{datagram:x?}"
        );
        if let Some(answer) = server.answer(from, datagram, now, &mut tables) {
            assert!((24..=datagram.len()).contains(&answer.len()), "{answer:x?}");
            assert!(
                answer.len().is_multiple_of(4) && answer[0] == 2 && answer[1] == datagram[1] | 0x80
            );
        }
        let all: Vec<_> = tables.state.bindings().collect();
        assert!(all.iter().all(|view| view.origin == Origin::Pcp));
        assert_eq!(all.len(), server.mappings() as usize);
        assert!(server.mappings() <= MOST);
    }
    while !server.end_some(&mut tables) {}
    assert_eq!(tables.state.counts(), Default::default());
}

/// Hosts of some links, and an address of an IPv4 host.
fn host(number: u8) -> Ipv6Addr {
    let (link, host) = (u16::from(number >> 4), u16::from(number & 15));
    match number {
        255 => "64:ff9b::c000:201".parse().expect("an address"),
        _ => Ipv6Addr::new(0x2001, 0xdb8, 0, link, 0, 0, 0, host),
    }
}

/// Whether it asks for a mapping (or for an announcement), or what it is answered.
fn expect(message: &[u8], from: Ipv6Addr) -> Result<bool, Unfit> {
    let refused = |code| Err(Unfit::Refused(code));
    // No answer may be longer than its request, and every answer has a header of 24 octets.
    if message.len() < 24 {
        return Err(Unfit::Silent);
    }
    // "If the R bit is set, the packet is a response": "the request is silently dropped".
    if message[1] >> 7 == 1 {
        return Err(Unfit::Silent);
    }
    // "If the version is not supported".
    if message[0] != 2 {
        return refused(Code::UnsuppVersion);
    }
    // "Messages exceeding 1100 octets, and those that are not a multiple of 4 octets, are invalid".
    if message.len() > 1100 || !message.len().is_multiple_of(4) {
        return refused(Code::MalformedRequest);
    }
    // "The PCP Client's IP Address is compared with the source of the packet".
    if message[8..24] != from.octets() {
        return refused(Code::AddressMismatch);
    }
    let opcode = message[1];
    if opcode > 1 {
        return refused(Code::UnsuppOpcode);
    }
    let begin = if opcode == 1 { 60 } else { 24 };
    if message.len() < begin {
        return refused(Code::MalformedRequest);
    }
    let mut at = begin;
    let mut strict = 0;
    while at < message.len() {
        let (code, len) = (
            message[at],
            usize::from(message[at + 2]) << 8 | usize::from(message[at + 3]),
        );
        // "padded with zeros to a multiple of 4 octets".
        let end = at + 4 + len.next_multiple_of(4);
        if end > message.len() {
            return refused(Code::MalformedOption);
        }
        match code {
            2 if opcode == 1 => {
                strict += 1;
                // "Length: 0", "maximum occurrences: 1".
                if len != 0 || strict > 1 {
                    return refused(Code::MalformedOption);
                }
            }
            // "mandatory to process" and unknown, or not supported.
            0..=127 => return refused(Code::UnsuppOption),
            _ => {}
        }
        at = end;
    }
    let zeros = message.get(42..44) == Some(&[0, 0]);
    let any = message.get(44..60).is_some_and(|address| {
        address == [0; 16] || address == [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 0]
    });
    if strict == 1 && zeros && any {
        return refused(Code::MalformedOption);
    }
    Ok(opcode == 1)
}

/// Each kind of request, renewals, ends, and each rule broken once.
pub fn seeds() -> Vec<(String, Vec<u8>)> {
    let map = |number: u8, nonce: u8, lifetime: u16, internal: u8, port: u16| {
        let mut bytes = vec![2, 1, 0, 0, 0, 0];
        bytes.extend(lifetime.to_be_bytes());
        bytes.extend(host(number).octets());
        bytes.extend([nonce; 12]);
        bytes.extend([17, 0, 0, 0, 0, internal]);
        bytes.extend(port.to_be_bytes());
        bytes.extend(
            "::ffff:0.0.0.0"
                .parse::<Ipv6Addr>()
                .expect("an address")
                .octets(),
        );
        bytes
    };
    let sent = |number: u8, pause: u8, bytes: &[u8]| {
        let mut input = vec![number, pause];
        input.extend((bytes.len() as u16).to_be_bytes());
        input.extend(bytes);
        input
    };
    let life = [
        sent(1, 0, &map(1, 9, 600, 80, 0)),
        sent(1, 30, &map(1, 9, 600, 80, 0)),
        sent(1, 1, &map(1, 8, 600, 80, 0)),
        sent(1, 1, &map(1, 9, 0, 80, 0)),
        sent(2, 1, &map(2, 9, 600, 80, 1024)),
        sent(2, 255, &map(2, 9, 600, 81, 1025)),
    ];
    let crowd = (0..40).flat_map(|n| sent(n * 5, 0, &map(n * 5, n, 600, 7, 1024)));
    let mut strict = map(1, 9, 600, 80, 1024);
    strict.extend([2, 0, 0, 0]);
    let mut seeds = vec![
        ("life".to_owned(), life.concat()),
        ("crowd".to_owned(), crowd.collect()),
        ("strict".to_owned(), sent(1, 0, &strict)),
        (
            "announce".to_owned(),
            sent(1, 0, &map(1, 9, 600, 80, 0)[..24]),
        ),
        (
            "of-an-ipv4-host".to_owned(),
            sent(255, 0, &map(255, 9, 600, 80, 0)),
        ),
    ];
    for (name, at, value) in [
        ("another-version", 0, 0),
        ("an-answer", 1, 0x81),
        ("peer", 1, 2),
        ("another-address", 23, 7),
        ("another-option", 60, 3),
        ("an-option-beyond-the-end", 63, 4),
        ("no-protocol", 36, 0),
    ] {
        let mut bytes = strict.clone();
        bytes[at] = value;
        seeds.push((name.to_owned(), sent(1, 0, &bytes)));
    }
    seeds
}
