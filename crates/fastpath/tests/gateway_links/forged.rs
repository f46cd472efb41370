// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What looks as if a program had given it a label: nothing that a host sends gets to the slow path with one.

use diolkos_fastpath::Attach;

use crate::world::*;

const MAGIC: [u32; 2] = [0xd101_c05e, 0xd101_c05f];

/// A packet whose first bytes are those of a label.
fn forged(packet: &[u8], magic: u32) -> Vec<u8> {
    [&magic.to_be_bytes()[..], &packet[4..]].concat()
}

/// Neither the kernel takes them as IP, nor, from a socket that sends anything, does a program let them pass.
#[test]
fn no_label_comes_from_outside() {
    in_own_namespace(|| {
        let world = world(Attach::Auto);
        for packet in [ipv6(64), ipv4(64)] {
            for magic in MAGIC {
                let forged = forged(&packet, magic);
                for kind in [[0x86, 0xdd], [8, 0]] {
                    let frame = [&HOSTS[..], &[2, 0, 0, 0, 0, 0x99], &kind, &forged].concat();
                    world.hosts.send(&frame);
                }
            }
        }
        // What comes behind them has come, and they have not.
        world.hosts.send(&frame(HOSTS, &ipv6(64)));
        world.cable.next_to(OTHER_GATEWAY);
        assert_eq!(world.unread(), 0);
        let forged_of = || {
            let ours = world.forwarding().count(diolkos_fastpath::Owner::OURS);
            ours.expect("it is read").forged
        };
        assert_eq!(forged_of(), 0);

        let device = Wire::at("nat64");
        for packet in [ipv6(64), ipv4(64)] {
            for magic in MAGIC {
                device.send_as(&forged(&packet, magic), packet[0] >> 4);
            }
        }
        assert_eq!(world.unread(), 0);
        assert_eq!(forged_of(), 4);
    });
}

/// Where no program forwards, the one that gives labels looks.
#[test]
fn no_label_is_forged_without_a_cluster() {
    in_own_namespace(|| {
        let mut world = world(Attach::Auto);
        world.alone();
        let device = Wire::at("nat64");
        for packet in [ipv6(64), ipv4(64)] {
            for magic in MAGIC {
                device.send_as(&forged(&packet, magic), packet[0] >> 4);
            }
        }
        assert_eq!(world.unread(), 0);
        assert_eq!(world.labels().count().forged, 4);
        world.hosts.send(&frame(HOSTS, &ipv6(64)));
        assert_eq!(world.read(), ipv6(63));
    });
}

/// A flow table of nftables looks at addresses and ports, and not at the version of IPv6.
#[test]
fn no_label_comes_by_a_flow_table() {
    in_own_namespace(|| {
        let mut world = world(Attach::Auto);
        world.alone();
        let table = "nft 'table inet t { flowtable f { hook ingress priority 0; devices = { hosts, nat64 }; }; \
                     chain c { type filter hook forward priority 0; meta l4proto udp flow add @f; }; }'";
        if !shell(table) {
            println!("no `nft`, or a kernel without flow tables");
            return;
        }
        // A flow is established, and offloaded by a packet of each direction.
        lead_to_host();
        for _ in 0..3 {
            world.hosts.send(&frame(HOSTS, &ipv6(64)));
            assert_eq!(world.read(), ipv6(63));
            world.answer();
        }
        let before = world.labels().count().forged;
        for magic in MAGIC {
            let forged = forged(&ipv6(64), magic);
            let frame = [&HOSTS[..], &[2, 0, 0, 0, 0, 0x99, 0x86, 0xdd], &forged].concat();
            world.hosts.send(&frame);
        }
        world.hosts.send(&frame(HOSTS, &ipv6(64)));
        assert_eq!(world.read(), ipv6(63));
        // This kernel lets them pass to the device, where a program drops them; another one may not.
        let forged = world.labels().count().forged - before;
        println!("{forged} of 2 came by the flow table");
        assert_eq!(world.unread(), 0);
    });
}
