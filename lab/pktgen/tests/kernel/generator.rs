// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The generator writes the same bytes as `frame::write`.

use diolkos_pktgen::flow::flow_at;
use diolkos_pktgen::frame;
use diolkos_pktgen::kernel::testrun::Action;
use diolkos_pktgen::kernel::Generator;
use diolkos_pktgen::signature::Signature;
use proptest::prelude::*;

use crate::{cases, shapes::plans};

proptest! {
    #![proptest_config(cases(40))]

    #[test]
    fn both_write_the_same_bytes(plan in plans()) {
        let filler = vec![0; plan.filler_len as usize];
        let generator = Generator::load(&plan, &filler, None).expect("root, and Linux 5.18 or later");
        for seq in 0..20 {
            let (action, written) = generator.write_one().expect("the kernel runs it");
            prop_assert_eq!(action, Action::Redirect);
            let told = Signature::read(&written[plan.head_len as usize..], plan.key);
            let told = told.expect("a signature");
            prop_assert_eq!((told.seq, u32::from(told.stream)), (seq, plan.stream));
            let mut expected = vec![0; frame::length(&plan)];
            frame::write(&plan, told, flow_at(&plan, seq % plan.flows), &mut expected);
            prop_assert_eq!(written, expected);
        }
    }
}

#[test]
fn it_ends_with_the_last_frame() {
    let mut plan = one_plan();
    (plan.count, plan.burst) = (5, 3);
    let generator = Generator::load(&plan, &[], None).expect("root, and Linux 5.18 or later");
    let actions: Vec<Action> = (0..7)
        .map(|_| generator.write_one().expect("the kernel runs it").0)
        .collect();
    assert_eq!(actions[..5], [Action::Redirect; 5]);
    assert_eq!(actions[5..], [Action::Drop; 2]);
    let state = generator.state().expect("it can be read");
    assert_eq!((state.seq, state.bursts, state.done), (5, 2, 1));
}

#[test]
fn it_stops_when_asked_to_at_the_end_of_a_burst() {
    let mut plan = one_plan();
    plan.burst = 3;
    let generator = Generator::load(&plan, &[], None).expect("root, and Linux 5.18 or later");
    let write = || generator.write_one().expect("the kernel runs it").0;
    assert_eq!(write(), Action::Redirect);
    let stopper = generator.stopper().expect("a map");
    stopper.stop().expect("it can be written");
    assert_eq!([write(), write()], [Action::Redirect; 2]);
    assert_eq!(write(), Action::Drop);
}

pub fn one_plan() -> diolkos_pktgen::kernel::Plan {
    use diolkos_pktgen::frame::{Block, Ports, Shape, Transport};
    let block = |text: &str| Block {
        first: text.parse().expect("an address"),
        count: 1,
    };
    let ports = Ports { low: 7, high: 7 };
    let shape = Shape {
        macs: ([0; 6], [0; 6]),
        src: block("198.18.0.1"),
        dst: block("198.18.0.2"),
        transport: Transport::Udp,
        sport: ports,
        dport: ports,
        size: None,
    };
    shape.plan().expect("there is room")
}
