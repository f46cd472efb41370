// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packets that imitate a label of a program: no packet of a host reaches the slow path with a label.

use diolkos_fastpath::Attach;

use crate::world::*;

const MAGIC: [u32; 2] = [0xd101_c05e, 0xd101_c05f];

/// A packet that begins with the bytes of a label.
fn forged(packet: &[u8], magic: u32) -> Vec<u8> {
    [&magic.to_be_bytes()[..], &packet[4..]].concat()
}

/// The kernel does not accept them as IP, and programs drop those from a socket that can send arbitrary
/// bytes.
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
        // Packets sent after them have arrived, and they have not.
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

/// Without a forwarding program, the program that adds labels checks for them.
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

/// An nftables flow table matches addresses and ports, but not the version field of IPv6.
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
        // A flow is established, and is offloaded after a packet in each direction.
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
        // This kernel passes them to the device, where a program drops them; another kernel may not.
        let forged = world.labels().count().forged - before;
        println!("{forged} of 2 came by the flow table");
        assert_eq!(world.unread(), 0);
    });
}
