// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Labels of held packets: each packet is sent with its own label, a reassembled packet with that of its first
//! fragment.

use crate::common::*;
use crate::fragments::pieces6;
use crate::harness::*;
use crate::packets::*;
use diolkos_xlat::{Label, Offload, Reason, Verdict};

fn marked(mark: u32) -> Offload {
    Offload {
        label: label(mark),
        ..Offload::default()
    }
}

fn label(mark: u32) -> Label {
    Label {
        mark,
        priority: !mark,
        link: mark + 1,
    }
}

/// The first fragment arrives last, and the fragments before it are sent after it.
#[test]
fn fragments_that_wait_keep_their_labels() {
    let mut w = Router::new(|_| {});
    let pieces = pieces6(NODE, 7);
    for at in [2, 1] {
        let (verdict, sent) = w.give_offloaded(&pieces[at], marked(at as u32 + 1));
        assert_eq!((verdict, sent.len()), (Verdict::Held, 0));
    }
    assert_eq!(w.give_offloaded(&pieces[0], marked(1)).1.len(), 3);
    assert_eq!(w.labels, [1, 3, 2].map(label));
    // The next packet inherits none of them.
    w.give(&pieces6(NODE, 8)[0]);
    assert_eq!(w.labels, [Label::default()]);
}

/// The answer to a refused packet has no label of that packet.
#[test]
fn an_error_has_no_label() {
    let mut w = Router::new(|_| {});
    let last_hop = V6 {
        hop_limit: 1,
        ..packet6(NODE, PEER6, 17, udp_of(5000, 53, b"data"))
    };
    let (verdict, sent) = w.give_offloaded(&last_hop.bytes(), marked(5));
    assert_eq!((verdict, sent.len()), (Verdict::Drop(Reason::HopLimit), 1));
    assert_eq!(w.labels, [Label::default()]);
}
