// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Frames of every kind.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use diolkos_pktgen::frame::{Block, Ports, Shape, Transport};
use diolkos_pktgen::kernel::Plan;
use proptest::prelude::*;

/// A plan of one frame, with any family, transport and size that fits into a page.
pub fn plans() -> impl Strategy<Value = Plan> {
    let transport = prop_oneof![
        Just(Transport::Udp),
        any::<u8>().prop_map(Transport::Tcp),
        Just(Transport::Icmp)
    ];
    let more = prop_oneof![2 => Just(0usize), 1 => 1usize..40, 1 => 1usize..1500];
    (
        (any::<bool>(), any::<u32>(), any::<u32>()),
        transport,
        (ports(), ports()),
        (1u32..300, 1u32..300),
        more,
        (any::<u64>(), any::<u64>(), any::<u8>()),
    )
        .prop_map(|((v4, src, dst), transport, ports, counts, more, ids)| {
            let address = |low: u32| match v4 {
                true => IpAddr::V4(Ipv4Addr::from_bits(low)),
                false => {
                    let high = 0x2001_0002_0000_0000_0000_0000_u128 << 32;
                    IpAddr::V6(Ipv6Addr::from_bits(high | u128::from(low)))
                }
            };
            let block = |low: u32, count| Block {
                // A block must not exceed the last 32 bits.
                first: address(low & !0x1ff),
                count,
            };
            let mut shape = Shape {
                macs: ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]),
                src: block(src, counts.0),
                dst: block(dst, counts.1),
                transport,
                sport: ports.0,
                dport: ports.1,
                size: None,
            };
            shape.size = Some(shape.least_size() + more);
            let mut plan = shape.plan().expect("there is room");
            (plan.key, plan.scatter, plan.stream) = (ids.0, ids.1, ids.2.into());
            plan.flows = plan.space;
            plan
        })
}

fn ports() -> impl Strategy<Value = Ports> {
    (any::<u16>(), any::<u16>()).prop_map(|(a, b)| Ports {
        low: a.min(b),
        high: a.max(b),
    })
}
