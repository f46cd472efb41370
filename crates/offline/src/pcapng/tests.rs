// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files of both byte orders, and malformed files.

use super::*;

fn block(kind: u32, body: &[u8], big: bool) -> Vec<u8> {
    let padding = vec![0; body.len().next_multiple_of(4) - body.len()];
    let len = (FRAME + body.len() + padding.len()) as u32;
    let word = |w: u32| {
        if big {
            w.to_be_bytes()
        } else {
            w.to_le_bytes()
        }
    };
    [&word(kind)[..], &word(len), body, &padding, &word(len)].concat()
}

fn words(words: &[u32], big: bool) -> Vec<u8> {
    let word = |w: &u32| {
        if big {
            w.to_be_bytes()
        } else {
            w.to_le_bytes()
        }
    };
    words.iter().flat_map(word).collect()
}

fn short(value: u16, big: bool) -> [u8; 2] {
    if big {
        value.to_be_bytes()
    } else {
        value.to_le_bytes()
    }
}

fn section(big: bool) -> Vec<u8> {
    let mut body = words(&[BYTE_ORDER], big);
    body.extend(short(1, big));
    body.extend(short(0, big));
    body.extend([0xff; 8]);
    block(SECTION, &body, big)
}

fn interface(link: u16, resolution: Option<u8>, offset: i64, big: bool) -> Vec<u8> {
    let mut body = [short(link, big), short(0, big)].concat();
    body.extend(words(&[4], big));
    let mut option = |code: u16, value: &[u8]| {
        body.extend([short(code, big), short(value.len() as u16, big)].concat());
        body.extend(value);
        body.extend(vec![0; value.len().next_multiple_of(4) - value.len()]);
    };
    if let Some(resolution) = resolution {
        option(9, &[resolution]);
        let offset = if big {
            offset.to_be_bytes()
        } else {
            offset.to_le_bytes()
        };
        option(14, &offset);
        option(0, &[]);
    }
    block(INTERFACE, &body, big)
}

fn enhanced(interface: u32, ticks: u64, frame: &[u8], big: bool) -> Vec<u8> {
    let len = frame.len() as u32;
    let mut body = words(
        &[interface, (ticks >> 32) as u32, ticks as u32, len, len],
        big,
    );
    body.extend(frame);
    block(ENHANCED_PACKET, &body, big)
}

fn simple(len: u32, frame: &[u8], big: bool) -> Vec<u8> {
    block(
        SIMPLE_PACKET,
        &[&words(&[len], big)[..], frame].concat(),
        big,
    )
}

type Packets = Vec<(Duration, Link, Vec<u8>)>;

fn read(bytes: &[u8]) -> Result<Packets, ReadError> {
    let mut reader = PcapngReader::new(bytes);
    let mut record = Record::default();
    let mut all = Vec::new();
    while reader.next(&mut record)? {
        all.push((record.since_epoch, record.link, record.bytes.clone()));
    }
    Ok(all)
}

#[test]
fn packets_of_sections_in_both_byte_orders() {
    for big in [false, true] {
        let file = [
            section(big),
            interface(101, None, 0, big),
            interface(1, Some(9), 5, big),
            block(0x0bad, b"whatever it is", big),
            enhanced(0, 7_000_001, b"abc", big),
            enhanced(1, 8_000_000_009, b"", big),
            simple(9, b"fourfour", big),
            // A new section discards the interfaces, and may have the other byte order.
            section(!big),
            interface(1, None, 0, !big),
            enhanced(0, 9_000_000, b"x", !big),
        ];
        let read = read(&file.concat()).expect("it is right");
        let micros = Duration::from_micros;
        let nanos = Duration::from_nanos;
        let expected = [
            (micros(7_000_001), Link::Raw, b"abc".to_vec()),
            (nanos(13_000_000_009), Link::Ethernet, Vec::new()),
            (nanos(13_000_000_009), Link::Raw, b"four".to_vec()),
            (micros(9_000_000), Link::Ethernet, b"x".to_vec()),
        ];
        assert_eq!(read, expected, "{big}");
    }
}

#[test]
fn times_of_every_resolution() {
    let time = |resolution, ticks, offset| {
        let interface = Interface {
            link_type: 1,
            snap_len: 0,
            resolution,
            offset,
        };
        interface.time(ticks)
    };
    let half = Some(Duration::from_millis(500));
    assert_eq!(time(0, 3, -2), Some(Duration::from_secs(1)));
    assert_eq!(time(6, 500_000, 0), half);
    assert_eq!(time(12, 500_000_000_000, 0), half);
    assert_eq!(time(0x8a, 512, 0), half);
    assert_eq!(time(0x7f, u64::MAX, 0), Some(Duration::ZERO));
    assert_eq!(time(0xff, u64::MAX, 0), Some(Duration::ZERO));
    assert_eq!(time(0, 1, -2), None);
    assert_eq!(time(0, u64::MAX, i64::MAX), None);
    assert_eq!(
        time(0, u32::MAX.into(), 0),
        Some(Duration::from_secs(u32::MAX.into()))
    );
    assert_eq!(time(0, 1 << 32, 0), None);
}

#[test]
fn every_cut_is_seen() {
    let begin = [section(false), interface(101, None, 0, false)].concat();
    let file = [&begin[..], &enhanced(0, 1, b"abc", false)].concat();
    for len in 0..file.len() {
        let read = read(&file[..len]);
        let ends = [0, section(false).len(), begin.len()];
        match ends.contains(&len) {
            true => assert_eq!(read.expect("no packet is no mistake"), [], "{len}"),
            false => assert!(matches!(read, Err(ReadError::BlockCutOff(_))), "{len}"),
        }
    }
}

#[test]
fn lies_are_named() {
    let begin = [section(false), interface(101, None, 0, false)].concat();
    let after = |block: Vec<u8>| read(&[&begin[..], &block].concat());
    let mut long = enhanced(0, 1, b"abc", false);
    long[4..8].copy_from_slice(&0x7fff_fffcu32.to_le_bytes());
    assert!(matches!(
        after(long),
        Err(ReadError::BlockLength { number: 3, .. })
    ));
    let mut short = enhanced(0, 1, b"abc", false);
    short[4..8].copy_from_slice(&8u32.to_le_bytes());
    assert!(matches!(
        after(short),
        Err(ReadError::BlockLength { number: 3, len: 8 })
    ));
    // A frame with more bytes than the block, and two lengths that differ.
    for (at, value) in [(20, 400u32), (32, 4)] {
        let mut lying = enhanced(0, 1, b"abc", false);
        lying[at..at + 4].copy_from_slice(&value.to_le_bytes());
        assert!(matches!(after(lying), Err(ReadError::Block(3))), "{at}");
    }
    assert!(matches!(
        after(enhanced(7, 1, b"abc", false)),
        Err(ReadError::NoInterface {
            number: 1,
            interface: 7
        })
    ));
    assert!(matches!(
        after(enhanced(0, u64::MAX, b"abc", false)),
        Err(ReadError::Epoch(1))
    ));
    assert!(matches!(
        after(block(OBSOLETE_PACKET, &[0; 20], false)),
        Err(ReadError::ObsoleteBlock(3))
    ));
    let cooked = [
        section(false),
        interface(113, None, 0, false),
        enhanced(0, 1, b"abc", false),
    ];
    assert!(matches!(
        read(&cooked.concat()),
        Err(ReadError::LinkType(113))
    ));
    let mut order = section(false);
    order[8] = 0;
    assert!(matches!(read(&order), Err(ReadError::Block(1))));
    let mut many = begin.clone();
    for _ in 0..MOST_INTERFACES {
        many.extend(interface(101, None, 0, false));
    }
    assert!(matches!(read(&many), Err(ReadError::Interfaces(_))));
}
