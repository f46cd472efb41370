// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The driver program with VLANs on its card: a frame counts as one of a VLAN only with that VLAN's tag, and what is sent
//! out of a VLAN has its tag. Everything else is passed on, and not a byte of it is changed.

mod frames;
mod world;

use diolkos_fastpath::testrun::Action;

use frames::{datagram4, datagram6, parts, Frame, Random, Tag};
use world::{in_own_namespace, ip, make, world, Side, World, SIDES};

const FRAMES: usize = 20_000;

/// The packet as it goes on, in whichever frame it came.
fn sent(world: &World, frame: &[u8]) -> Option<Vec<u8>> {
    let (action, out) = world.program.frame(frame).expect("it runs");
    match action {
        Action::Back => Some(out),
        Action::Next => {
            assert_eq!(out, frame, "a frame is changed that is passed on");
            None
        }
        other => panic!("it is {other:?}"),
    }
}

/// Checks the frame that leaves by a side, and returns the packet in it.
fn left_by(side: &Side, frame: &[u8], is_ipv6: bool) -> Vec<u8> {
    let (to, from, tags, kind, packet) = parts(frame);
    assert_eq!((to, from), (side.neighbour(), side.address()));
    let expected: Vec<Tag> = side.vlan.map(Tag::vlan).into_iter().collect();
    assert_eq!(tags, expected, "a wrong tag: {frame:02x?}");
    assert_eq!(kind, if is_ipv6 { 0x86dd } else { 0x0800 });
    packet.to_vec()
}

/// From each side to each side, in both families: a tag comes, goes, changes and stays.
fn from_each_to_each() {
    let world = world();
    for size in [0, 1, 18, 400, 1300] {
        for (from, to) in SIDES.iter().flat_map(|a| SIDES.iter().map(move |b| (a, b))) {
            // The same packet in any frame becomes the same packet.
            let (there, back) = (datagram4(from, to, size), datagram6(from, to, size));
            for (packet, is_ipv6) in [(there, true), (back, false)] {
                let frame = Frame::at(from, packet);
                let out = sent(&world, &frame.bytes()).expect("it is translated");
                let got = left_by(to, &out, is_ipv6);
                frame.check(&got, is_ipv6);
            }
        }
    }
}

#[test]
fn tags_come_and_go_with_the_exit() {
    in_own_namespace(from_each_to_each);
}

/// For random frames, tags and address alone decide whether a frame is translated, and what leaves.
fn at_random() {
    let world = world();
    let mut random = Random(0x5eed);
    let mut translated = 0;
    for _ in 0..FRAMES {
        let (from, to) = (random.of(&SIDES), random.of(&SIDES));
        let is_ipv6 = random.below(2) == 0;
        let size = random.below(40) as usize;
        let packet = match is_ipv6 {
            true => datagram4(&from, &to, size),
            false => datagram6(&from, &to, size),
        };
        let mut frame = Frame::at(&from, packet);
        frame.worsen(&mut random);
        let bytes = frame.bytes();
        let out = sent(&world, &bytes);
        let at = frame.received_by();
        assert_eq!(out.is_some(), at.is_some(), "{frame:?}");
        if let Some(out) = out {
            frame.check(&left_by(&to, &out, is_ipv6), is_ipv6);
            translated += 1;
        }
    }
    assert!(
        (FRAMES / 10..FRAMES * 9 / 10).contains(&translated),
        "{translated}"
    );
}

#[test]
fn frames_of_other_networks_are_passed_untouched() {
    in_own_namespace(at_random);
}

/// Until the daemon has followed, no program sends there, and none takes what comes from there.
fn goes_and_comes() {
    let world = world();
    let [ten, twenty, plain] = SIDES;
    let frame = |from: &Side, to: &Side| Frame::at(from, datagram4(from, to, 8)).bytes();
    assert!(sent(&world, &frame(&ten, &twenty)).is_some());
    ip("link del twenty");
    // Answers of a moment ago are used for one tick.
    std::thread::sleep(std::time::Duration::from_millis(30));
    for (from, to) in [(&ten, &twenty), (&twenty, &ten), (&twenty, &plain)] {
        assert_eq!(sent(&world, &frame(from, to)), None);
    }
    assert!(sent(&world, &frame(&plain, &ten)).is_some());
    // The same, and with another index.
    make(&twenty);
    for (from, to) in [(&ten, &twenty), (&twenty, &ten), (&twenty, &plain)] {
        assert_eq!(sent(&world, &frame(from, to)), None);
    }
}

#[test]
fn a_vlan_that_goes_and_comes_is_left_to_the_kernel() {
    in_own_namespace(goes_and_comes);
}
