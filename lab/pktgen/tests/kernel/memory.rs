// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A generator that replays the memory of a sink: the 4-tuples of stream 0, reversed, in the order of their numbers.

use diolkos_pktgen::flow::{flow_at, Flow};
use diolkos_pktgen::frame::{self, Block, Ports, Shape, Transport};
use diolkos_pktgen::kernel::testrun::Action;
use diolkos_pktgen::kernel::{Generator, Plan, Sink, Watch};
use diolkos_pktgen::signature::Signature;

const SEEN: u64 = 20;
const REMEMBERED: u32 = 16;

fn plan(addresses: (&str, &str), transport: Transport) -> Plan {
    let block = |text: &str| Block {
        first: text.parse().expect("an address"),
        count: 200,
    };
    let ports = |low, high| Ports { low, high };
    let shape = Shape {
        macs: ([2; 6], [4; 6]),
        src: block(addresses.0),
        dst: block(addresses.1),
        transport,
        sport: ports(1024, 65535),
        dport: ports(1, 49151),
        size: None,
    };
    let mut plan = shape.plan().expect("there is room");
    plan.flows = plan.space;
    plan
}

fn written(plan: &Plan, stream: u8, seq: u64, flow: Flow) -> Vec<u8> {
    let signature = Signature {
        stream,
        seq,
        stamp_ns: 0,
    };
    let mut bytes = vec![0; frame::length(plan)];
    frame::write(plan, signature, flow, &mut bytes);
    bytes
}

fn answers_what_came(forth: &Plan, back: &Plan) {
    let watch = Watch {
        key: 0,
        late_ns: u64::MAX,
        streams: 2,
        slot_bits: 2,
        verify: 1,
        remembers: REMEMBERED,
        converses: 0,
        pad: 0,
    };
    let sink = Sink::unattached(&watch).expect("root, and Linux 5.18 or later");
    for seq in 0..SEEN {
        // The other stream has other 4-tuples, which the answers must not use.
        for (stream, number) in [(0, seq), (1, seq + SEEN)] {
            let frame = written(forth, stream, seq, flow_at(forth, number));
            assert_eq!(sink.feed(&frame).expect("it runs"), Action::Drop);
        }
    }
    let tallies = sink.tallies().expect("they can be read");
    assert_eq!([tallies[0].received, tallies[1].received], [SEEN; 2]);

    let memory = sink.memory().expect("a map");
    let mut back = *back;
    (back.flows, back.stream) = (REMEMBERED.into(), 1);
    let generator = Generator::load(&back, &[], Some(&memory)).expect("root");
    // After the last one, the generator starts again with the first.
    for seq in 0..u64::from(REMEMBERED) + 2 {
        let (action, bytes) = generator.write_one().expect("the kernel runs it");
        assert_eq!(action, Action::Redirect);
        let came = flow_at(forth, seq % u64::from(REMEMBERED));
        let answer = Flow {
            sport: came.dport,
            dport: came.sport,
            src: came.dst,
            dst: came.src,
        };
        let told = Signature::read(&bytes[back.head_len as usize..], back.key).expect("signed");
        assert_eq!((told.seq, told.stream), (seq, 1));
        let mut expected = vec![0; frame::length(&back)];
        frame::write(&back, told, answer, &mut expected);
        assert_eq!(bytes, expected, "frame {seq}");
    }
}

#[test]
fn ipv4_is_answered() {
    for transport in [Transport::Udp, Transport::Tcp(0x12)] {
        let forth = plan(("198.18.0.0", "198.19.0.0"), transport);
        let back = plan(("198.19.0.0", "198.18.0.0"), transport);
        answers_what_came(&forth, &back);
    }
}

#[test]
fn ipv6_is_answered() {
    let (near, far) = ("2001:2:0:1::", "2001:2:0:2::");
    answers_what_came(
        &plan((near, far), Transport::Udp),
        &plan((far, near), Transport::Udp),
    );
}
