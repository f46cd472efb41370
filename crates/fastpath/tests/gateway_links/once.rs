// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Programs forward a packet once: packets from a link between gateways are not forwarded again.

use diolkos_fastpath::Attach;

use crate::world::*;

fn packets_go_once(attach: Attach) {
    let world = world(attach);
    let label = [&0xd101_c05f_u32.to_be_bytes()[..], &[0; 8]].concat();
    for packet in [ipv6, ipv4] {
        let [forwarded, returned] = world.counts();
        // The kernel takes one hop, the program another.
        world.hosts.send(&frame(HOSTS, &packet(64)));
        let seen = world.cable.next_to(OTHER_GATEWAY);
        assert_eq!(seen[14..], packet(62));
        assert_eq!(world.counts(), [forwarded + 1, returned]);

        let mut links = vec![(&world.cable, CABLE, "cable")];
        if world.has_macvlan {
            links.push((&world.hosts, MACVLAN, "gw"));
        }
        for (number, (wire, to, name)) in links.into_iter().enumerate() {
            wire.send(&frame(to, &packet(62)));
            let read = world.read();
            assert_eq!(read[16..], packet(61));
            assert_eq!(read[12..16], index(name).to_ne_bytes());
            assert_eq!(read[..8], label[..8]);
            assert_eq!(
                world.counts(),
                [forwarded + 1, returned + 1 + number as u64]
            );
        }
        // It cannot be read at the device, because it has been forwarded.
        world.hosts.send(&frame(HOSTS, &packet(64)));
        world.cable.next_to(OTHER_GATEWAY);
    }
}

#[test]
fn packets_are_forwarded_once() {
    in_own_namespace(|| packets_go_once(Attach::Auto));
}

#[test]
fn packets_are_forwarded_once_by_a_queueing_discipline() {
    in_own_namespace(|| packets_go_once(Attach::Clsact));
}
