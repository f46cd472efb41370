// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The sink counts the same as `model`, whatever was lost, repeated, reordered, late, damaged or foreign.

use diolkos_pktgen::flow::flow_at;
use diolkos_pktgen::frame;
use diolkos_pktgen::histogram::Distribution;
use diolkos_pktgen::kernel::testrun::Action;
use diolkos_pktgen::kernel::{Plan, Sink, Stream, Watch, SIGNATURE};
use diolkos_pktgen::signature::{Signature, MAGIC};
use diolkos_sys::clock;
use proptest::prelude::*;

use crate::model::{Counts, Model};
use crate::{cases, shapes::plans};

const STREAMS: u32 = 2;
/// Four words: 128 sequence numbers, so that some are forgotten.
const SLOT_BITS: u32 = 2;
/// The limit for late frames, longer than any test takes, so no other frame is late.
const LATE_NS: u64 = 100_000_000_000;

/// The fate of a frame on its way.
#[derive(Clone, Debug)]
enum Fate {
    Arrives,
    Late,
    /// A bit of the transport header or the payload flips: offset after the network header, and bit.
    Damaged(prop::sample::Index, u8),
}

#[derive(Clone, Debug)]
struct Frame {
    stream: u8,
    seq: u64,
    fate: Fate,
}

/// Frames mostly in order (the sink of this test knows numbers below 2^39), with repetitions, steps back and leaps: the numbers
/// that are left out were lost.
fn frames() -> impl Strategy<Value = Vec<Frame>> {
    let step = prop_oneof![12 => Just(1i64), 2 => Just(0i64), 3 => -40i64..40, 1 => -300i64..600];
    let fate = prop_oneof![
        12 => Just(Fate::Arrives),
        1 => Just(Fate::Late),
        1 => (any::<prop::sample::Index>(), 0u8..8).prop_map(|(byte, bit)| Fate::Damaged(byte, bit)),
    ];
    let one = (0u8..STREAMS as u8, step, fate);
    let starts = prop_oneof![Just(0u64), Just(1u64 << 38)];
    (starts, prop::collection::vec(one, 1..300)).prop_map(|(start, steps)| {
        let mut next = [start; STREAMS as usize];
        let frames = steps.into_iter().map(|(stream, step, fate)| {
            let at = &mut next[usize::from(stream)];
            *at = at.saturating_add_signed(step);
            Frame {
                stream,
                seq: *at,
                fate,
            }
        });
        frames.collect()
    })
}

fn sink(key: u64) -> Sink {
    let watch = Watch {
        key,
        late_ns: LATE_NS,
        streams: STREAMS,
        slot_bits: SLOT_BITS,
        verify: 1,
        remembers: 0,
        converses: 0,
        pad: 0,
    };
    Sink::unattached(&watch).expect("root, and Linux 5.18 or later")
}

/// The frame as the generator would have written it `ago_ns` before.
fn written(plan: &Plan, stream: u8, seq: u64, ago_ns: u64) -> Vec<u8> {
    let signature = Signature {
        stream,
        seq,
        stamp_ns: (clock::monotonic().as_nanos() as u64).wrapping_sub(ago_ns),
    };
    let mut bytes = vec![0; frame::length(plan)];
    frame::write(plan, signature, flow_at(plan, seq % plan.flows), &mut bytes);
    bytes
}

fn counted(stream: &Stream) -> Counts {
    let [delay, longer, shorter] = &stream.histograms;
    assert_eq!(delay.iter().sum::<u64>(), stream.tally.received);
    let ipdv = Distribution::signed(longer, shorter);
    Counts {
        received: stream.tally.received,
        duplicate: stream.tally.duplicate,
        reordered: stream.tally.reordered,
        extent: stream.tally.extent,
        late: stream.tally.late,
        forgotten: stream.tally.forgotten,
        pairs: ipdv.count(),
        next: stream.next,
    }
}

proptest! {
    #![proptest_config(cases(40))]

    #[test]
    fn both_count_the_same(plan in plans(), frames in frames()) {
        let sink = sink(plan.key);
        let mut models = [(); STREAMS as usize].map(|()| Model::new(1 << SLOT_BITS));
        let (mut corrupted, mut foreign) = (0, 0);
        let l4 = match plan.ip_sum_at { 0 => 54, _ => 34 };
        let magic = plan.head_len as usize + 9;
        for Frame { stream, seq, fate } in frames {
            let ago = if matches!(fate, Fate::Late) { 2 * LATE_NS } else { 0 };
            let mut bytes = written(&plan, stream, seq, ago);
            match fate {
                Fate::Damaged(byte, bit) => {
                    let byte = l4 + byte.index(bytes.len() - l4);
                    // The bytes that decide where the payload begins, or whether there is a checksum, would make it another
                    // packet.
                    let decides = byte < plan.head_len as usize && byte != plan.ports_at as usize;
                    let byte = if decides { plan.ports_at as usize } else { byte };
                    bytes[byte] ^= 1 << bit;
                    if byte == magic { foreign += 1 } else { corrupted += 1 }
                    let pass = byte == magic;
                    let expected = if pass { Action::Pass } else { Action::Drop };
                    prop_assert_eq!(sink.feed(&bytes).expect("it runs"), expected);
                }
                Fate::Arrives | Fate::Late => {
                    models[usize::from(stream)].receive(seq, ago > 0);
                    prop_assert_eq!(sink.feed(&bytes).expect("it runs"), Action::Drop);
                }
            }
        }
        let (streams, rest) = sink.streams().expect("they can be read");
        for (stream, model) in streams.iter().zip(&models) {
            prop_assert_eq!(counted(stream), model.counts());
        }
        let attributed: u64 = streams.iter().map(|s| s.tally.corrupted).sum();
        prop_assert_eq!((attributed + rest.corrupted, rest.foreign), (corrupted, foreign));
    }

    #[test]
    fn a_delay_of_known_length_is_told(plan in plans(), delay_ns in 0u64..50_000_000_000) {
        let sink = sink(plan.key);
        let before = clock::monotonic();
        sink.feed(&written(&plan, 1, 0, delay_ns)).expect("it runs");
        let took = (clock::monotonic() - before).as_nanos() as f64;
        let (streams, _) = sink.streams().expect("they can be read");
        let [delay, ..] = &streams[1].histograms;
        let told = Distribution::new(delay).summary().expect("one frame").min;
        // Half a bucket is at most 1/2048 of the value.
        let (least, most) = (delay_ns as f64 * 0.9995, (delay_ns as f64 + took) * 1.0005);
        prop_assert!((least..=most).contains(&told), "{told} is not in {least}..{most}");
    }

    #[test]
    fn frames_of_others_go_on(plan in plans(), payload in prop::collection::vec(any::<u8>(), SIGNATURE)) {
        prop_assume!(payload[9] != MAGIC);
        let sink = sink(plan.key);
        let mut bytes = written(&plan, 0, 0, 0);
        let at = plan.head_len as usize;
        bytes[at..at + SIGNATURE].copy_from_slice(&payload);
        prop_assume!(Signature::read(&payload, plan.key).is_none());
        prop_assert_eq!(sink.feed(&bytes).expect("it runs"), Action::Pass);
        prop_assert_eq!(sink.tallies().expect("they can be read")[STREAMS as usize].foreign, 1);
    }

    #[test]
    fn any_bytes_are_foreign_and_go_on(bytes in prop::collection::vec(any::<u8>(), 14..200), ethertype in 0usize..4) {
        let sink = sink(0);
        let mut bytes = bytes;
        let types = [[0x08, 0x00], [0x86, 0xdd], [0x81, 0x00], [bytes[12], bytes[13]]];
        bytes[12..14].copy_from_slice(&types[ethertype]);
        if let Some(first) = bytes.get_mut(14) {
            *first = [0x45, 0x60, 0x4f, *first][ethertype];
        }
        sink.feed(&bytes).expect("it runs");
        let (streams, rest) = sink.streams().expect("they can be read");
        prop_assert_eq!(streams.iter().map(|s| s.tally.received).sum::<u64>(), 0);
        prop_assert_eq!(rest.foreign + rest.corrupted, 1);
    }
}

/// The checksum that an offload leaves to the next device: the sum of the pseudo-header, not inverted (CHECKSUM_PARTIAL).
#[test]
fn a_checksum_that_nobody_has_computed_yet_is_no_damage() {
    let mut bytes = vec![0; 60];
    let plan = crate::generator::one_plan();
    frame::write(
        &plan,
        Signature {
            stream: 0,
            seq: 0,
            stamp_ns: 0,
        },
        flow_at(&plan, 0),
        &mut bytes,
    );
    let pseudo: u32 = bytes[26..34]
        .chunks(2)
        .map(|w| u32::from(w[0]) << 8 | u32::from(w[1]))
        .sum::<u32>()
        + 17
        + 26;
    let folded = ((pseudo & 0xffff) + (pseudo >> 16)) as u16;
    bytes[40..42].copy_from_slice(&folded.to_be_bytes());
    let sink = sink(plan.key);
    sink.feed(&bytes).expect("it runs");
    bytes[41] ^= 1;
    sink.feed(&bytes).expect("it runs");
    let tally = &sink.tallies().expect("they can be read")[0];
    assert_eq!(
        (tally.received, tally.unfinished, tally.corrupted),
        (1, 1, 1)
    );
}
