// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The maximum segment size of SYNs (RFC 9293 sections 3.2 and 3.7.1): lowered, and nothing else.
//!
//! Each expected segment is built anew, so that its checksum is summed over all bytes (RFC 9293 section 3.1).

use crate::common::*;
use diolkos_xlat::config::{mss_of, LEAST_MSS};
use diolkos_xlat::{
    Checksum, ClampedMss, Config, Eam, Gso, GsoKind, Offload, Outbox, Packet, Verdict,
};

pub const A4: &str = "192.0.2.1";
pub const B4: &str = "198.51.100.2";
pub const A6: &str = "2001:db8:64::192.0.2.1";
pub const B6: &str = "2001:db8:64::198.51.100.2";

pub const SYN: u8 = 0x02;
const SYN_ACK: u8 = 0x12;
const ACK: u8 = 0x10;

/// 1360 bytes.
const MOST: u16 = 0x0550;

fn clamping() -> diolkos_xlat::Translator {
    translator(|config| config.tcp_mss = Some(MOST))
}

/// A segment without its checksum. The options fill whole words of 32 bits.
pub fn segment(flags: u8, options: &[u8], data: &[u8]) -> Vec<u8> {
    let words = (5 + options.len() / 4) as u8;
    let mut bytes = vec![0x13, 0x88, 0x01, 0xbb, 0, 0, 0, 1, 0, 0, 0, 2];
    bytes.extend([words << 4, flags, 0xfa, 0xf0, 0, 0, 0, 0]);
    bytes.extend(options);
    bytes.extend(data);
    bytes
}

/// Translates the segment in both directions. Each must be the translation of `expected` by a translator that leaves the
/// option as it is.
fn becomes(sent: &[u8], expected: &[u8]) {
    let (clamping, plain) = (clamping(), translator(|_| ()));
    let four = |l4: &[u8]| packet4(A4, B4, 6, l4.to_vec()).bytes();
    let six = |l4: &[u8]| packet6(A6, B6, 6, l4.to_vec()).bytes();
    for packet in [&four as &dyn Fn(&[u8]) -> Vec<u8>, &six] {
        let got = run(&clamping, &packet(sent), Offload::default());
        let wanted = run(&plain, &packet(expected), Offload::default());
        assert_eq!(wanted.verdict, Verdict::Forward);
        assert_eq!(got, wanted, "{sent:02x?}");
    }
}

fn options_become(sent: &[u8], expected: &[u8]) {
    for flags in [SYN, SYN_ACK, SYN | 0xc0] {
        becomes(&segment(flags, sent, b""), &segment(flags, expected, b""));
        becomes(
            &segment(flags, sent, b"odd"),
            &segment(flags, expected, b"odd"),
        );
    }
}

/// Lists as systems send them first in a connection, from their documentation and RFC 7323 appendix A: MSS 1460.
#[test]
fn the_option_is_lowered_where_systems_send_it() {
    for (sent, expected) in [
        // MSS alone.
        ("020405b4", "02040550"),
        // Linux: MSS, SACK permitted, timestamps, no-operation, window scale.
        (
            "020405b40402080a000000010000000001030307",
            "020405500402080a000000010000000001030307",
        ),
        // Windows: MSS, no-operation, window scale, twice no-operation, SACK permitted.
        ("020405b40103030801010402", "020405500103030801010402"),
        // Others in front: twice no-operation and timestamps.
        (
            "0101080a0000000100000000020405b4",
            "0101080a000000010000000002040550",
        ),
        // At an odd byte, behind a no-operation and behind a window scale.
        ("01020405b4010101", "0102040550010101"),
        ("030307020405b400", "0303070204055000"),
        // Behind the end of the list it is no option.
        ("00020405b4000000", "00020405b4000000"),
        // The first one counts.
        ("020405b4020405b4", "02040550020405b4"),
        // It is not raised, nor touched if it is what it may be at most.
        ("02040550", "02040550"),
        ("0204054f", "0204054f"),
        ("02040000", "02040000"),
        ("0204ffff", "02040550"),
        // None: none is added.
        ("01010402", "01010402"),
    ] {
        options_become(&hex(sent), &hex(expected));
    }
    options_become(&[], &[]);
}

#[test]
fn what_does_not_parse_stays_as_it_is() {
    for list in [
        // A length of 0 or 1, which would go round for ever.
        "0500020405b40000",
        "0501020405b40000",
        // A length beyond the header.
        "08ff020405b40000",
        // The option itself with another length.
        "020305b4",
        "020505b400000000",
        "0200020405b40000",
        // Its length, or its value, lies behind the header.
        "01010102",
        "01010204",
        "010204b4",
    ] {
        options_become(&hex(list), &hex(list));
    }
    // A header that ends behind the packet.
    let mut cut = segment(SYN, &hex("020405b4"), b"");
    cut[12] = 0xf0;
    becomes(&cut, &cut);
    cut[12] = 0x40;
    becomes(&cut, &cut);
}

#[test]
fn only_syns_are_touched() {
    let options = hex("020405b4");
    for flags in [0, ACK, 0x01, 0x04, 0x18, 0xf9] {
        let sent = segment(flags, &options, b"x");
        becomes(&sent, &sent);
    }
    // The same bytes as data of another transport.
    let datagram = udp(&segment(SYN, &options, b""));
    let sent = packet4(A4, B4, 17, datagram).bytes();
    let plain = run(&translator(|_| ()), &sent, Offload::default());
    assert_eq!(run(&clamping(), &sent, Offload::default()), plain);
}

#[test]
fn a_packet_that_turns_back_is_lowered_too() {
    let eam = |v4: &str, v6: &str| Eam {
        v4: v4.parse().unwrap(),
        v6: v6.parse().unwrap(),
    };
    let with = |mss| {
        translator(|config: &mut Config| {
            config.eam = vec![
                eam("192.0.2.1/32", "2001:db8:e::1/128"),
                eam("192.0.2.2/32", "2001:db8:e::2/128"),
            ];
            config.tcp_mss = mss;
        })
    };
    let packet = |options: &str| {
        let l4 = segment(SYN, &hex(options), b"");
        packet6("2001:db8:e::1", "2001:db8:64::192.0.2.2", 6, l4).bytes()
    };
    let got = run(&with(Some(MOST)), &packet("020405b4"), Offload::default());
    let wanted = run(&with(None), &packet("02040550"), Offload::default());
    assert_eq!(wanted.packet[0] >> 4, 6);
    assert_eq!(got, wanted);
}

/// A quoted packet is what a router saw, and its sender must know it again.
#[test]
fn quoted_packets_stay_as_they_are() {
    let l4 = segment(SYN, &hex("020405b4"), b"");
    let four = packet4(B4, A4, 6, l4.clone()).bytes();
    let error = error4("203.0.113.1", B4, 3, 1, [0; 4], &four).bytes();
    let plain = run(&translator(|_| ()), &error, Offload::default());
    assert_eq!(plain.verdict, Verdict::Forward);
    assert_eq!(run(&clamping(), &error, Offload::default()), plain);

    let six = packet6(B6, A6, 6, l4).bytes();
    let error = error6("2001:db8::1", B6, 1, 0, [0; 4], &six).bytes();
    let plain = run(&translator(|_| ()), &error, Offload::default());
    assert_eq!(plain.verdict, Verdict::Forward);
    assert_eq!(run(&clamping(), &error, Offload::default()), plain);
}

#[test]
fn of_fragments_only_one_with_the_whole_header_is_changed() {
    let whole = |options: &str| packet4(A4, B4, 6, segment(SYN, &hex(options), &[7; 64]));
    let (sent, lowered) = (
        whole("0101010101020405b4010101"),
        whole("010101010102040550010101"),
    );
    let part = |of: &V4, from: usize, to: usize| {
        let mut part = of.clone();
        part.l4 = of.l4[from..to].to_vec();
        part.flags_and_offset = (from / 8) as u16 | if to < of.l4.len() { MF } else { 0 };
        part.bytes()
    };
    let plain = translator(|_| ());
    let of = |packet: &[u8], clamps: bool| {
        let outcome = match clamps {
            true => run(&clamping(), packet, Offload::default()),
            false => run(&plain, packet, Offload::default()),
        };
        assert_eq!(outcome.verdict, Verdict::Forward);
        outcome
    };
    // The header has 32 bytes.
    assert_eq!(
        of(&part(&sent, 0, 32), true),
        of(&part(&lowered, 0, 32), false)
    );
    assert_eq!(
        of(&part(&sent, 0, 24), true),
        of(&part(&sent, 0, 24), false)
    );
    assert_eq!(
        of(&part(&sent, 32, 96), true),
        of(&part(&sent, 32, 96), false)
    );
    // Bytes of a later fragment that look like the header of a SYN.
    let mut later = sent.clone();
    later.flags_and_offset = 100;
    assert_eq!(of(&later.bytes(), true), of(&later.bytes(), false));

    // The same of IPv6.
    let six = |of: &V4, from: usize, to: usize| {
        let l4 = packet6(A6, B6, 6, of.l4.clone()).payload;
        let mut payload = fragment_header(6, (from / 8) as u16, to < l4.len(), 9);
        payload.extend(&l4[from..to]);
        V6::new(A6, B6, 44, payload).bytes()
    };
    assert_eq!(
        of(&six(&sent, 0, 32), true),
        of(&six(&lowered, 0, 32), false)
    );
    assert_eq!(of(&six(&sent, 0, 24), true), of(&six(&sent, 0, 24), false));
    assert_eq!(
        of(&six(&sent, 32, 96), true),
        of(&six(&sent, 32, 96), false)
    );
}

/// A partial checksum is the sum of the pseudo-header alone, whatever the options are.
#[test]
fn a_partial_checksum_does_not_cover_the_option() {
    for gso in [
        None,
        Some(Gso {
            kind: GsoKind::Tcp,
            size: 1000,
        }),
    ] {
        for list in [
            ["020405b4", "02040550"],
            ["01020405b4010101", "0102040550010101"],
        ] {
            let [sent, expected] = list.map(|options| {
                let data = vec![7; if gso.is_some() { 2500 } else { 9 }];
                let mut packet = V4::new(A4, B4, 6, segment(SYN, &hex(options), &data));
                let seed = ones_sum(&packet.pseudo());
                packet.l4[16..18].copy_from_slice(&seed.to_be_bytes());
                packet.bytes()
            });
            let checksum = Checksum::Partial;
            let offload = Offload {
                checksum,
                gso,
                ..Offload::default()
            };
            let got = run(&clamping(), &sent, offload);
            assert_eq!(got.verdict, Verdict::Forward);
            assert_eq!(got, run(&translator(|_| ()), &expected, offload));
        }
    }
}

#[test]
fn the_outbox_hears_of_it() {
    struct Told(Vec<ClampedMss>);
    impl Outbox for Told {
        fn emit(&mut self, _: &[u8], _: Offload) {}
        fn clamped(&mut self, mss: ClampedMss) {
            self.0.push(mss);
        }
    }
    let mut told = Told(Vec::new());
    for (flags, options) in [
        (SYN, "020405b4"),
        (SYN, "02040550"),
        (ACK, "020405b4"),
        (SYN_ACK, "02042300"),
    ] {
        let bytes = packet4(A4, B4, 6, segment(flags, &hex(options), b"")).bytes();
        let mut buffer = [vec![0; diolkos_xlat::HEADROOM], bytes].concat();
        let end = buffer.len();
        let mut packet = Packet::new(&mut buffer, diolkos_xlat::HEADROOM, end, Offload::default());
        clamping().translate(&mut packet, &mut World::new().clock(), &mut told);
    }
    let lowered = |from| ClampedMss { from, to: MOST };
    assert_eq!(told.0, [lowered(1460), lowered(0x2300)]);
}

/// RFC 6691 section 2: the MTU less 40 of IPv4 and 60 of IPv6, headers without options.
#[test]
fn the_size_fits_both_families() {
    assert_eq!(mss_of(1500, 1500), 1440);
    assert_eq!(mss_of(1500, 1280), 1220);
    assert_eq!(mss_of(1400, 1500), 1360);
    assert_eq!(mss_of(1480, 1500), 1440);
    assert_eq!(mss_of(1479, 1500), 1439);
    assert_eq!(mss_of(65535, 65535), 65475);
    assert_eq!(mss_of(300, 1280), LEAST_MSS);
    assert_eq!(mss_of(576, 1280), 536);
    assert_eq!(mss_of(u32::MAX, u32::MAX), u16::MAX);
}

#[test]
fn a_size_below_what_peers_send_without_the_option_is_refused() {
    let config = |mss| Config {
        pref64: vec!["2001:db8:64::/96".parse().unwrap()],
        tcp_mss: Some(mss),
        ..Config::default()
    };
    assert!(config(536).check().is_ok());
    let error = config(535).check().unwrap_err();
    assert_eq!(error.problems[0].key, "tcp_mss");
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text
        .bytes()
        .map(|digit| (digit as char).to_digit(16).unwrap() as u8)
        .collect();
    digits
        .chunks(2)
        .map(|pair| pair[0] << 4 | pair[1])
        .collect()
}
