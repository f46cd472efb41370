// SPDX-License-Identifier: Apache-2.0 OR MIT
//! While the maps lack something, programs do not know it: they open nothing until it is there.

use crate::controller::{config, node, peer, Controller};
use crate::guide::Guide;
use crate::twin::{self, Undone};

fn begin() -> Controller {
    twin::begin(Undone::default(), Guide::search());
    Controller::new(&config(1, 5000..=5063))
}

/// Has a node open sessions through the slow path, as many as are needed for a lease.
fn open(controller: &mut Controller, number: u16) {
    for n in 1..=6 {
        let opened = controller.outbound(node(number, 2000 + n), peer(n as u8));
        assert!(opened.is_some());
    }
}

/// Has the map of bindings refuse those of this node.
fn refuse(number: Option<u16>) {
    twin::with(|world| world.refused = number.map(|number| node(number, 0).0));
}

#[test]
fn without_a_binding_nothing_is_lent_whatever_is_reloaded() {
    let mut controller = begin();
    open(&mut controller, 1);
    assert_ne!(controller.lent(), [0, 0], "it would lend");
    refuse(Some(2));
    open(&mut controller, 2);
    assert_eq!(controller.lent(), [0, 0], "a binding is missing");
    controller.reload(&config(1, 5000..=5063));
    open(&mut controller, 3);
    assert_eq!(controller.lent(), [0, 0], "it is missing still");

    refuse(None);
    controller.reload(&config(1, 5000..=5063));
    open(&mut controller, 4);
    assert_ne!(controller.lent(), [0, 0], "nothing is missing any more");
    controller.finish();
    twin::end();
}

/// A change that is broken off has taken the sessions out of the maps; the next one puts them back.
#[test]
fn what_a_broken_change_leaves_is_mended_by_the_next() {
    let mut controller = begin();
    open(&mut controller, 1);
    controller.break_off_reload();
    twin::with(|world| assert!(world.inward.at.is_empty(), "it is in the middle"));
    open(&mut controller, 2);
    assert_eq!(
        controller.lent(),
        [0, 0],
        "the sessions of the first node are missing"
    );

    controller.reload(&config(1, 5000..=5063));
    open(&mut controller, 4);
    assert_ne!(controller.lent(), [0, 0], "nothing is missing any more");
    controller.finish();
    twin::end();
}

/// After the last change of the tables, sessions opened by programs would have no owner.
#[test]
fn nothing_is_lent_once_the_program_ends() {
    let mut controller = begin();
    open(&mut controller, 1);
    controller.leave();
    assert_eq!(controller.lent(), [0, 0], "it is taken back");
    open(&mut controller, 2);
    controller.reload(&config(1, 5000..=5063));
    open(&mut controller, 3);
    assert_eq!(controller.lent(), [0, 0], "and stays so");
    controller.finish();
    twin::end();
}
