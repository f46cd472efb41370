// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Two sinks that converse turn a SYN into a TCP connection, with the sequence numbers of RFC 9293 section 3.4 and correct
//! checksums.

use diolkos_pktgen::flow::flow_at;
use diolkos_pktgen::frame::{self, Block, Ports, Shape, Transport};
use diolkos_pktgen::kernel::testrun::Action;
use diolkos_pktgen::kernel::{Sink, Watch, SEGMENTS, SIGNATURE};
use diolkos_pktgen::signature::Signature;

const SYN: u8 = 0x02;
const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const ACK: u8 = 0x10;
const KEY: u64 = 7;

fn sink() -> Sink {
    let watch = Watch {
        key: KEY,
        late_ns: u64::MAX,
        streams: SEGMENTS,
        slot_bits: 2,
        verify: 1,
        remembers: 0,
        converses: 1,
        pad: 0,
    };
    Sink::unattached(&watch).expect("root, and Linux 5.18 or later")
}

/// The fields of a segment on which the next one depends.
#[derive(Clone, PartialEq, Debug)]
struct Segment {
    macs: [Vec<u8>; 2],
    addresses: [Vec<u8>; 2],
    ports: [Vec<u8>; 2],
    seq: u32,
    ack: u32,
    flags: u8,
    data: Vec<u8>,
}

fn read(frame: &[u8], is_ipv4: bool) -> Segment {
    let (source, len, tcp) = if is_ipv4 { (26, 4, 34) } else { (22, 16, 54) };
    let part = |at: usize, len: usize| frame[at..at + len].to_vec();
    let number = |at: usize| u32::from_be_bytes(*frame[at..].first_chunk().expect("4 bytes"));
    Segment {
        macs: [part(6, 6), part(0, 6)],
        addresses: [part(source, len), part(source + len, len)],
        ports: [part(tcp, 2), part(tcp + 2, 2)],
        seq: number(tcp + 4),
        ack: number(tcp + 8),
        flags: frame[tcp + 13],
        data: frame[tcp + 20..].to_vec(),
    }
}

fn turned<T: Clone>([a, b]: &[T; 2]) -> [T; 2] {
    [b.clone(), a.clone()]
}

fn a_syn_becomes_a_connection(src: &str, dst: &str) {
    let block = |text: &str| Block {
        first: text.parse().expect("an address"),
        count: 1,
    };
    let ports = Ports {
        low: 1024,
        high: 65535,
    };
    let shape = Shape {
        macs: ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]),
        src: block(src),
        dst: block(dst),
        transport: Transport::Tcp(SYN),
        sport: ports,
        dport: ports,
        size: Some(200),
    };
    let mut plan = shape.plan().expect("there is room");
    plan.key = KEY;
    plan.flows = plan.space;
    let ends = [sink(), sink()];
    for seq in 0..3 {
        let signature = Signature {
            stream: 0,
            seq,
            stamp_ns: 5,
        };
        let mut bytes = vec![0; frame::length(&plan)];
        frame::write(&plan, signature, flow_at(&plan, seq), &mut bytes);
        let mut last = read(&bytes, shape.src.first.is_ipv4());
        for (number, flags) in [SYN, SYN | ACK, PSH | ACK, FIN | ACK, FIN | ACK, ACK]
            .into_iter()
            .enumerate()
        {
            let segment = read(&bytes, shape.src.first.is_ipv4());
            assert_eq!(segment.flags, flags);
            let signed = Signature::read(&segment.data, KEY).expect("it is signed");
            assert_eq!((signed.stream as usize, signed.seq), (number, seq));
            if number > 0 {
                let takes = u32::from(last.flags & (SYN | FIN) != 0);
                let expected = Segment {
                    macs: turned(&last.macs),
                    addresses: turned(&last.addresses),
                    ports: turned(&last.ports),
                    seq: last.ack,
                    ack: last.seq + last.data.len() as u32 + takes,
                    flags,
                    data: segment.data.clone(),
                };
                assert_eq!(segment, expected);
                assert_eq!(segment.data[SIGNATURE..], last.data[SIGNATURE..]);
            }
            last = segment;
            // The first segment arrives at the far end.
            let (action, next) = ends[number % 2].answer(&bytes).expect("it runs");
            let is_last = number + 1 == SEGMENTS as usize;
            let expected = if is_last {
                Action::Drop
            } else {
                Action::Redirect
            };
            assert_eq!(action, expected);
            bytes = next;
        }
    }
    for (at, end) in ends.iter().enumerate() {
        let tallies = end.tallies().expect("counts");
        let received: Vec<u64> = tallies.iter().map(|tally| tally.received).collect();
        let expected = (0..=SEGMENTS as usize).map(|number| match number % 2 == at {
            true if number < SEGMENTS as usize => 3,
            _ => 0,
        });
        assert_eq!(received, expected.collect::<Vec<_>>());
        let harmed: u64 = tallies.iter().map(|t| t.corrupted + t.foreign).sum();
        assert_eq!(harmed, 0);
    }
}

#[test]
fn a_syn_becomes_a_connection_of_ipv4() {
    a_syn_becomes_a_connection("198.18.0.1", "198.18.1.1");
}

#[test]
fn a_syn_becomes_a_connection_of_ipv6() {
    a_syn_becomes_a_connection("2001:2::2", "64:ff9b::198.18.1.1");
}
