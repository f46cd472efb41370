// SPDX-License-Identifier: Apache-2.0 OR MIT
//! ICMP errors with whatever stands behind their header: a quoted packet of any kind, and extensions (RFC 4884).
//!
//! setting | how | type | code | rest of the ICMP header | length and bytes of the quote | extensions
//!
//! Headers and checksum around it are right, so that every input gets as far as the quote.

use crate::common::{error4, error6, ones_sum, packet4, packet6, udp, v6};
use crate::input::Input;
use crate::{judge, seeds, setting};
use diolkos_xlat::{Offload, Translator, Verdict};
use std::net::Ipv4Addr;

/// Nodes behind us and beyond us, and some that are neither.
const NODES: [Ipv4Addr; 6] = [
    Ipv4Addr::new(198, 51, 100, 2),
    Ipv4Addr::new(192, 0, 2, 33),
    Ipv4Addr::new(8, 8, 8, 8),
    Ipv4Addr::new(192, 0, 0, 1),
    Ipv4Addr::new(10, 1, 2, 3),
    Ipv4Addr::new(127, 0, 0, 1),
];

/// From IPv6 to IPv4.
const SIX: u8 = 1;
/// The quote has the version and the addresses of a packet that the receiver sent through us.
const ABOUT_OURS: u8 = 2;
/// The length field says how long the quote is, rounded down.
const TRUE_LENGTH: u8 = 4;

/// The target.
pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let config = setting::config(&mut input);
    let Ok(translator) = Translator::new(&config) else {
        return;
    };
    let how = input.byte();
    let (from, to, about) = (
        input.one_of(&NODES),
        input.one_of(&NODES),
        input.one_of(&NODES),
    );
    let (icmp_type, code) = (input.byte(), input.byte());
    let mut rest: [u8; 4] = input.array();
    let mut quote = input.block().to_vec();
    let extensions = input.0;

    let six = how & SIX != 0;
    let node6 = |addr| {
        translator
            .mapper()
            .to_ipv6(addr)
            .map_or(v6("2001:db8:7::7"), |(addr, _)| addr)
    };
    if how & ABOUT_OURS != 0 {
        if six {
            put(&mut quote, 0, &[0x60]);
            put(&mut quote, 8, &node6(to).octets());
            put(&mut quote, 24, &node6(about).octets());
        } else {
            let version = 0x40 | quote.first().map_or(5, |byte| byte & 15);
            put(&mut quote, 0, &[version]);
            put(&mut quote, 12, &to.octets());
            put(&mut quote, 16, &about.octets());
        }
    }
    // RFC 4884 sections 4 and 5: where the length stands, and its unit.
    let (at, unit) = if six { (0, 8) } else { (1, 4) };
    if how & TRUE_LENGTH != 0 {
        quote.truncate(quote.len() / unit * unit);
        rest[at] = (quote.len() / unit).min(255) as u8;
    }
    let body = [&quote, extensions].concat();
    if body.len() > 60_000 {
        return;
    }
    let packet = if six {
        error6(
            &text(node6(from)),
            &text(node6(to)),
            icmp_type,
            code,
            rest,
            &body,
        )
        .bytes()
    } else {
        error4(&text(from), &text(to), icmp_type, code, rest, &body).bytes()
    };
    let outcome = judge::judge(&config, &translator, &packet, Offload::default());

    let of = |message: &[u8], six: bool| {
        let (types, at, unit): (&[u8], usize, usize) = if six {
            (&[1, 3], 4, 8)
        } else {
            (&[3, 11, 12], 5, 4)
        };
        let length = usize::from(message[at]) * unit;
        (types.contains(&message[0]) && length > 0).then_some(length)
    };
    if outcome.verdict == Verdict::Forward && is_error(icmp_type, six) {
        let to_six = outcome.packet[0] >> 4 == 6;
        let message = &outcome.packet[if to_six { 40 } else { 20 }..];
        let came = of(&packet[if six { 40 } else { 20 }..], six).map(|length| &body[length..]);
        if let Some(length) = of(message, to_six) {
            let behind = message[8..]
                .get(length..)
                .expect("the quote is as long as the length field says");
            assert!(length >= 128, "padded (RFC 4884 section 4)");
            assert!(
                outcome.packet.len() <= if to_six { 1280 } else { 576 },
                "RFC 4884 sections 5.3 and 7"
            );
            let came = came.unwrap_or_default();
            assert!(
                behind == came || (!to_six && names_router(behind, came, &packet[8..24])),
                "{behind:x?} of {came:x?}"
            );
        }
    }
}

/// Are these the extensions that came and, behind them, an object with the address of the router that sent the error (RFC
/// 5837 section 4)? Where their checksum was right, it is right again.
fn names_router(behind: &[u8], came: &[u8], router: &[u8]) -> bool {
    let Some((before, object)) = behind.split_last_chunk::<24>() else {
        return false;
    };
    object[..3] == [0, 24, 2]
        && object[8..] == *router
        && before.len() == came.len().max(4)
        && before[4..] == came[came.len().min(4)..]
        && (ones_sum(behind) == 0xffff || (!came.is_empty() && ones_sum(came) != 0xffff))
}

fn is_error(icmp_type: u8, six: bool) -> bool {
    if six {
        icmp_type < 128
    } else {
        [3, 11, 12].contains(&icmp_type)
    }
}

fn text(addr: impl ToString) -> String {
    addr.to_string()
}

/// Writes as much as there is room for.
fn put(bytes: &mut [u8], at: usize, what: &[u8]) {
    for (byte, new) in bytes.iter_mut().skip(at).zip(what) {
        *byte = *new;
    }
}

/// The errors of the vectors, taken apart; and one about a plain datagram, with an extension object, each way.
pub fn seeds() -> Vec<(String, Vec<u8>)> {
    let mut seeds = Vec::new();
    for (name, config, packet) in seeds::packets() {
        let six = packet[0] >> 4 == 6;
        let (protocol, at) = if six {
            (packet.get(6), 40)
        } else {
            (packet.get(9), 20)
        };
        let Some(message) = packet.get(at..).filter(|message| message.len() >= 8) else {
            continue;
        };
        if protocol != Some(&if six { 58 } else { 1 }) || !is_error(message[0], six) {
            continue;
        }
        let how = ABOUT_OURS | if six { SIX } else { 0 };
        seeds.push((
            name,
            seed(
                &setting::bytes(&config),
                how,
                &message[..8],
                &message[8..],
                &[],
            ),
        ));
    }
    let data = [7; 104];
    let four = packet4("192.0.2.33", "198.51.100.2", 17, udp(&data)).bytes();
    let six = packet6(
        "2001:db8:1c0:2:21::",
        "2001:db8:1c6:3364:2::",
        17,
        udp(&data),
    )
    .bytes();
    // RFC 4884 sections 7 and 8: version 2, and an object of 8 bytes.
    let extensions = [0x20, 0, 0, 0, 0, 8, 1, 1, 0, 1, 0, 1];
    for (name, how, icmp_type, quote) in [
        ("extensions-4to6", 0, 11, four),
        ("extensions-6to4", SIX, 3, six),
    ] {
        let how = how | ABOUT_OURS | TRUE_LENGTH;
        let head = [icmp_type, 0, 0, 0, 0, 0, 0, 0];
        seeds.push((
            name.to_owned(),
            seed(&[0; setting::LEN], how, &head, &quote, &extensions),
        ));
    }
    seeds
}

fn seed(setting: &[u8], how: u8, head: &[u8], quote: &[u8], extensions: &[u8]) -> Vec<u8> {
    let nodes = [0, 1, 0];
    let len = (quote.len() as u16).to_be_bytes();
    [
        setting,
        &[how],
        &nodes,
        &head[..2],
        &head[4..8],
        &len,
        quote,
        extensions,
    ]
    .concat()
}
