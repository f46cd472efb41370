// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Any list of options of a SYN, against a reference that reads it as RFC 9293 section 3.2 describes it, option by option.

use crate::common::*;
use crate::mss::{segment, A4, A6, B4, B6, SYN};
use diolkos_xlat::Offload;
use proptest::prelude::*;

/// The reference: the options of a header one by one, each with its length, until the list ends or makes no sense.
fn lowered(list: &[u8], most: u16) -> Vec<u8> {
    let mut rest = list;
    let mut done = Vec::new();
    loop {
        match rest {
            [1, more @ ..] => {
                done.push(1);
                rest = more;
            }
            [2, 4, high, low, more @ ..] => {
                let size = u16::from_be_bytes([*high, *low]).min(most);
                done.extend([2, 4]);
                done.extend(size.to_be_bytes());
                done.extend(more);
                return done;
            }
            [kind, len, ..]
                if *kind != 0 && *kind != 2 && *len >= 2 && usize::from(*len) <= rest.len() =>
            {
                let (option, more) = rest.split_at(usize::from(*len));
                done.extend(option);
                rest = more;
            }
            // The end, or nonsense.
            _ => return list.to_vec(),
        }
    }
}

/// Lists of up to 40 bytes: of whole options, and of any bytes.
fn list() -> impl Strategy<Value = Vec<u8>> {
    let option = prop_oneof![
        3 => Just(vec![1]),
        1 => Just(vec![0]),
        3 => any::<u16>().prop_map(|size| [vec![2, 4], size.to_be_bytes().to_vec()].concat()),
        2 => any::<u8>().prop_map(|shift| vec![3, 3, shift]),
        1 => Just(vec![4, 2]),
        2 => any::<[u8; 8]>().prop_map(|time| [vec![8, 10], time.to_vec()].concat()),
        1 => (any::<u8>(), 0u8..12).prop_map(|(kind, len)| vec![kind, len, 0, 0]),
    ];
    prop_oneof![
        3 => prop::collection::vec(option, 0..8).prop_map(|options| options.concat()),
        1 => prop::collection::vec(0u8..12, 0..40),
        1 => prop::collection::vec(any::<u8>(), 0..40),
    ]
    .prop_map(|mut list| {
        list.truncate(40);
        list.resize(list.len().next_multiple_of(4), 0);
        list
    })
}

proptest! {
    #[test]
    fn every_list_is_lowered_as_the_reference_does(
        list in list(),
        data in prop::collection::vec(any::<u8>(), 0..20),
        most in 536u16..,
        flags in any::<u8>(),
    ) {
        let (clamping, plain) = (translator(|config| config.tcp_mss = Some(most)), translator(|_| ()));
        let list_after = match flags & SYN {
            0 => list.clone(),
            _ => lowered(&list, most),
        };
        let (sent, expected) = (segment(flags, &list, &data), segment(flags, &list_after, &data));
        for six in [false, true] {
            let [sent, expected] = [&sent, &expected].map(|l4| match six {
                true => packet6(A6, B6, 6, l4.clone()).bytes(),
                false => packet4(A4, B4, 6, l4.clone()).bytes(),
            });
            let wanted = run(&plain, &expected, Offload::default());
            prop_assert_eq!(run(&clamping, &sent, Offload::default()), wanted);
        }
    }
}
