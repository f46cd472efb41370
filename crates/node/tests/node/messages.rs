// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Messages and records: encoded ones are decoded again, and untrusted bytes do no harm.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use diolkos_nat64::config::{Binding, Endpoint4, Endpoint6, Protocol};
use diolkos_node::config::FORMAT;
use diolkos_node::message::{
    Beat, BindingChange, Mark, Message, Status, Tag, MAX_BYTES, MAX_CHANGES,
};
use diolkos_node::record::{Record, RecordRole};
use proptest::collection::vec;
use proptest::prelude::*;

/// Addresses that have much or little in common.
fn binding() -> impl Strategy<Value = Binding> {
    let hosts = prop_oneof![(0..3u128, 0..3u128), (any::<u128>(), any::<u128>())];
    (0..3usize, 0..3u32, any::<u16>(), hosts, any::<u16>()).prop_map(
        |(protocol, addr, port, (prefix, host), v6_port)| Binding {
            protocol: Protocol::ALL[protocol],
            v4: Endpoint4 {
                addr: Ipv4Addr::from_bits(addr),
                port,
            },
            v6: Endpoint6 {
                addr: Ipv6Addr::from_bits(prefix << 64 | host),
                port: v6_port,
            },
        },
    )
}

fn change() -> impl Strategy<Value = BindingChange> {
    prop_oneof![
        binding().prop_map(BindingChange::Opened),
        binding().prop_map(|b| BindingChange::Closed(b.protocol, b.v4)),
    ]
}

fn status() -> impl Strategy<Value = Status> {
    prop_oneof![
        Just(Status::Starting),
        Just(Status::Serving),
        Just(Status::Draining),
        Just(Status::Left),
    ]
}

fn tag() -> impl Strategy<Value = Tag> {
    any::<(u64, u64, u32)>().prop_map(|(engine, epoch, serial)| Tag {
        engine,
        mark: Mark { epoch, serial },
    })
}

fn message() -> impl Strategy<Value = Message> {
    let beat = (status(), any::<bool>(), any::<[u64; 6]>()).prop_map(|(status, confirms, n)| {
        Message::Beat(Beat {
            status,
            confirms,
            engine: n[0],
            epoch: n[1],
            echo: Duration::from_nanos(n[2]),
            clock: Duration::from_nanos(n[3]),
            applied: n[4],
            armed: n[5],
        })
    });
    // Of another format, nothing else is read.
    let digests = any::<[u64; 5]>().prop_map(|mut digests| {
        digests[0] = FORMAT.into();
        digests
    });
    let hello = (digests, status(), proptest::option::of(tag()));
    prop_oneof![
        beat,
        hello.prop_map(|(digests, status, holds)| Message::Hello {
            digests,
            status,
            holds
        }),
        any::<bool>().prop_map(Message::Ask),
        (any::<u64>(), vec(change(), 0..40))
            .prop_map(|(through, changes)| Message::Told { through, changes }),
        any::<(u32, u64)>().prop_map(|(serial, through)| Message::End { serial, through }),
        vec(binding(), 0..40).prop_map(Message::Given),
        Just(Message::GivenBack),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read_again(message in message()) {
        prop_assert_eq!(Message::decode(&message.encode()), Some(message));
    }

    /// A truncated message is no message, nor is a message with bytes after it.
    #[test]
    fn changed_bytes_are_refused_or_another_message(
        message in message(), cut in any::<prop::sample::Index>(), bit in 0..8u8, more in 1..9u8
    ) {
        let bytes = message.encode();
        let at = cut.index(bytes.len());
        if let Some(part) = Message::decode(&bytes[..at]) {
            // A list of changes may end after any of them.
            let is_list = matches!(part, Message::Told { .. } | Message::Given(_));
            prop_assert!(is_list);
        }
        let mut longer = bytes.clone();
        longer.extend(vec![0xff; more.into()]);
        prop_assert_eq!(Message::decode(&longer), None);
        let mut changed = bytes;
        changed[at] ^= 1 << bit;
        if let Some(other) = Message::decode(&changed) {
            prop_assert_eq!(Message::decode(&other.encode()), Some(other));
        }
    }

    #[test]
    fn strangers_bytes_do_no_harm(bytes in vec(any::<u8>(), 0..300)) {
        let _ = Message::decode(&bytes);
        let _ = Record::decode(&bytes);
    }

    #[test]
    fn a_record_is_read_again(
        incarnation: u64,
        epoch: u64,
        file: u64,
        part in 0..4usize,
        void in vec(any::<(u64, u32)>(), 0..64),
    ) {
        // Records of format 1 do not mention a file.
        let parts = [RecordRole::Serving, RecordRole::Starting, RecordRole::Serving, RecordRole::Left];
        let (file, part) = ((part > 0).then_some(file), parts[part]);
        let mut void: Vec<Mark> =
            void.into_iter().map(|(epoch, serial)| Mark { epoch, serial }).collect();
        void.resize(64, Mark::default());
        let record = Record { incarnation, epoch, file, part, void };
        prop_assert_eq!(Record::decode(&record.encode()), Some(record));
    }
}

#[test]
fn the_longest_message_fits_and_a_longer_one_is_refused() {
    let change = |n: usize| {
        let bits = (n as u128) << 64 | 1;
        BindingChange::Opened(Binding {
            protocol: Protocol::Tcp,
            v4: Endpoint4 {
                addr: Ipv4Addr::from_bits(n as u32 + 1),
                port: 1,
            },
            v6: Endpoint6 {
                addr: Ipv6Addr::from_bits(0x2001_0db8 << 96 | bits),
                port: 1,
            },
        })
    };
    let changes: Vec<BindingChange> = (0..MAX_CHANGES).map(change).collect();
    let through = u64::MAX;
    let longest = Message::Told { through, changes }.encode();
    assert!(longest.len() <= MAX_BYTES, "{}", longest.len());
    assert!(Message::decode(&longest).is_some());
    let mut longer = longest.clone();
    longer.extend(&longest[9..34]);
    assert_eq!(Message::decode(&longer), None);
}
