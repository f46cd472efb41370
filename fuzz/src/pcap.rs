// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Capture files: whatever they claim, what is read is what stands in them, and what is written reads back.

use crate::seeds;
use diolkos_offline::capture::Capture;
use diolkos_offline::link::network_layer;
use diolkos_offline::pcap::{PcapReader, PcapWriter, Record};
use std::time::Duration;

const HEADER: usize = 24;
const RECORD_HEADER: usize = 16;

/// The target: a file.
pub fn run(file: &[u8]) {
    any_format(file);
    classic(file);
}

/// Of either format: what is read stands in the file, in its order, and an error is one line.
fn any_format(file: &[u8]) {
    let mut capture = match Capture::new(file) {
        Ok(capture) => capture,
        Err(error) => return assert!(!error.to_string().contains('\n'), "{error}"),
    };
    let (mut record, mut bytes) = (Record::default(), 0);
    loop {
        match capture.next(&mut record) {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) => return assert!(!error.to_string().contains('\n'), "{error}"),
        }
        bytes += record.bytes.len();
        assert!(bytes <= file.len(), "more than the file has");
        assert!(record.since_epoch < Duration::from_secs(1 << 32));
        network_layer(record.link, &record.bytes);
    }
}

fn classic(file: &[u8]) {
    let Ok(mut reader) = PcapReader::new(file) else {
        return;
    };
    let (link, precision) = (reader.link(), reader.precision());
    let mut record = Record::default();
    let mut packets: Vec<(Duration, Vec<u8>)> = Vec::new();
    let mut at = HEADER;
    let end = loop {
        match reader.next(&mut record) {
            Ok(true) => {}
            end => break end,
        }
        at += RECORD_HEADER;
        let frame = &file[at..at + record.bytes.len()];
        assert_eq!(record.bytes, frame, "the bytes of the file");
        at += frame.len();
        if let Some(packet) = network_layer(link, frame) {
            assert!(frame.ends_with(packet));
            packets.push((record.since_epoch, packet.to_vec()));
        }
    };
    match end {
        Ok(_) => assert_eq!(at, file.len(), "all of the file"),
        Err(error) => assert!(
            at < file.len() && !error.to_string().contains('\n'),
            "{error}"
        ),
    }

    let mut copy = Vec::new();
    let mut writer = PcapWriter::new(&mut copy, precision).expect("memory takes all");
    for (since_epoch, packet) in &packets {
        writer.stamp(*since_epoch);
        writer.write(packet).expect("memory takes all");
    }
    writer.finish().expect("memory takes all");
    let mut reader = PcapReader::new(&copy[..]).expect("its own print");
    for (since_epoch, packet) in &packets {
        assert!(
            reader.next(&mut record).expect("its own print"),
            "all packets"
        );
        assert_eq!((record.since_epoch, &record.bytes), (*since_epoch, packet));
    }
    assert!(
        !reader.next(&mut record).expect("its own print"),
        "and no more"
    );
}

/// The first packets of the vectors in captures of each byte order, precision and kind of link, whole and cut off.
pub fn seeds() -> Vec<(String, Vec<u8>)> {
    let packets: Vec<_> = seeds::packets()
        .into_iter()
        .take(3)
        .map(|(_, _, packet)| packet)
        .collect();
    let mut seeds = Vec::new();
    for big_endian in [false, true] {
        for magic in [0xa1b2_c3d4, 0xa1b2_3c4du32] {
            for link in [101u32, 1] {
                let word = |word: u32| {
                    if big_endian {
                        word.to_be_bytes()
                    } else {
                        word.to_le_bytes()
                    }
                };
                let mut file = word(magic).to_vec();
                let version = if big_endian {
                    [0, 2, 0, 4]
                } else {
                    [2, 0, 4, 0]
                };
                file.extend(version);
                file.extend([0, 0, 65535, link].map(word).concat());
                for packet in &packets {
                    let ether_type = if packet[0] >> 4 == 4 {
                        [8, 0]
                    } else {
                        [0x86, 0xdd]
                    };
                    let ethernet = [&[2; 12][..], &[0x81, 0, 0, 5], &ether_type].concat();
                    let front = if link == 1 { ethernet } else { vec![] };
                    let len = (front.len() + packet.len()) as u32;
                    file.extend([1, 999_999, len, len].map(word).concat());
                    file.extend(front);
                    file.extend(packet);
                }
                let cut = file[..file.len() - 1].to_vec();
                let order = if big_endian { "big" } else { "little" };
                seeds.push((format!("{order}-{magic:x}-link-{link}"), file));
                seeds.push((format!("{order}-{magic:x}-link-{link}-cut-off"), cut));
            }
        }
        let order = if big_endian { "big" } else { "little" };
        seeds.push((format!("{order}-pcapng"), pcapng(&packets, big_endian)));
    }
    seeds
}

/// A section, an interface of raw IP with nanoseconds, and a packet in a block of each kind.
fn pcapng(packets: &[Vec<u8>], big_endian: bool) -> Vec<u8> {
    let word = |word: u32| match big_endian {
        true => word.to_be_bytes(),
        false => word.to_le_bytes(),
    };
    let short = |short: u16| match big_endian {
        true => short.to_be_bytes(),
        false => short.to_le_bytes(),
    };
    let block = |kind: u32, mut body: Vec<u8>| {
        body.resize(body.len().next_multiple_of(4), 0);
        let len = word(body.len() as u32 + 12);
        [&word(kind)[..], &len, &body, &len].concat()
    };
    let section = [&word(0x1a2b_3c4d)[..], &short(1), &short(0), &[0xff; 8]].concat();
    let resolution = [&short(9)[..], &short(1), &[9, 0, 0, 0]].concat();
    let interface = [&short(101)[..], &short(0), &word(65535), &resolution].concat();
    let mut file = [block(0x0a0d_0d0a, section), block(1, interface)].concat();
    for packet in packets {
        let len = packet.len() as u32;
        let front = [0, 5, 999, len, len].map(word).concat();
        file.extend(block(6, [&front[..], packet].concat()));
        file.extend(block(3, [&word(len)[..], packet].concat()));
    }
    file
}
