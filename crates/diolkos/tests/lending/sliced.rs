// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A pool that several gateways share: what a source may be lent is a share of its slice, and not of the pool.
use diolkos_core::config::nat64::{Limits, Nat64Config, Protocol, SliceRules};

use crate::controller::{config, node, peer, run, Controller};
use crate::guide::Guide;
use crate::program::{Outcome, Packet};
use crate::twin::{self, Undone};

const SLICE: u16 = 512;

/// Eight slices, of which a source may have half of what is left over.
fn shared() -> Nat64Config {
    let config = config(1, 1024..=1024 + 8 * SLICE - 1);
    let mut shared = Nat64Config {
        slices: Some(SliceRules {
            ports: SLICE,
            ..SliceRules::default()
        }),
        limits: Limits {
            source_share: 50,
            ..config.limits
        },
        ..config
    };
    // A slice has all protocols.
    shared.pool4[0].protocols = Protocol::ALL.to_vec();
    shared.check().expect("it is right");
    shared
}

/// A node opens bindings with all its ports, by its lease where it can.
#[test]
fn what_a_source_has_and_is_lent_is_within_its_share_of_the_slice() {
    twin::begin(Undone::default(), Guide::search());
    let mut controller = Controller::new(&shared());
    for id in 0..8 {
        controller.state.open_slice(id);
    }
    let (mut by_lease, mut most, mut refused) = (0, 0, 0);
    for port in 2000..2000 + 2 * SLICE {
        let (node, peer) = (node(1, port), peer(1));
        match run(Packet::Out { node, peer }) {
            Outcome::Translated => by_lease += 1,
            Outcome::Declined if controller.outbound(node, peer).is_none() => refused += 1,
            Outcome::Declined => {}
        }
        controller.lock();
        let [_, ports] = controller.lent();
        most = most.max(controller.state.bindings().count() + ports as usize);
    }
    assert!(
        by_lease >= 64,
        "{by_lease} bindings were opened by the lease"
    );
    assert!(refused > 0, "the source wanted more than its share");
    // Half of the ports of the slice.
    assert!(
        most <= usize::from(SLICE / 2),
        "{most} ports bound and lent"
    );
    controller.finish();
    twin::end();
}
