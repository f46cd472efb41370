// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What others cannot do, however much they send and whatever they call themselves.

use std::collections::BTreeSet;
use std::net::Ipv6Addr;

use proptest::prelude::*;

use crate::world::*;

/// Counts those that got a mapping.
fn granted(world: &mut World, hosts: impl Iterator<Item = (Ipv6Addr, u16)>) -> usize {
    let mut mapped = 0;
    for (host, internal) in hosts {
        let client = &*host.to_string();
        let request = Map {
            client,
            internal,
            nonce: 9,
            ..MAP
        };
        let said = world.ask(client, &request.bytes());
        mapped += usize::from(matches!(said, Some((0, ..))));
    }
    mapped
}

fn address(link: u128, host: u128) -> Ipv6Addr {
    let base: Ipv6Addr = "2001:db8::".parse().unwrap();
    Ipv6Addr::from_bits(base.to_bits() + (link << 64) + host)
}

/// A host has its share of its source's, a source its number, a site its share of all; the next one finds room.
#[test]
fn nobody_gets_all_mappings() {
    let mut world = World::new(diolkos_pcp::Settings {
        max_mappings: 400,
        ..settings()
    });
    let mut patient = |hosts: &mut dyn Iterator<Item = (Ipv6Addr, u16)>| {
        let mut mapped = 0;
        for ask in hosts {
            // No faster than the rate of a link, which is another test's.
            world.now += std::time::Duration::from_millis(100);
            mapped += granted(&mut world, std::iter::once(ask));
        }
        mapped
    };
    assert_eq!(
        patient(&mut (1..=200).map(|port| (address(1, 1), port))),
        32,
        "half of 64"
    );
    let of_link = patient(&mut (2..=200).map(|host| (address(1, host), 1)));
    assert_eq!(of_link, 32, "what is left of 64");
    let of_site =
        patient(&mut (2..=250).flat_map(|link| (1..=3).map(move |host| (address(link, host), 1))));
    assert!((150..=300 - 64).contains(&of_site), "{of_site}");
    let elsewhere = patient(&mut std::iter::once((address(1 << 20, 1), 1)));
    assert_eq!(elsewhere, 1, "another site");
    assert!(world.server.mappings() <= 400);
    assert_eq!(world.server.mappings() as usize, world.tables.granted.len());
}

/// From the victim's own link, from all links, with the victim's address and without its nonce.
#[test]
fn a_flood_keeps_nobody_from_renewing() {
    let mut world = World::new(settings());
    let victim = "2001:db8:77::5";
    let own: Vec<Vec<u8>> = (1..=8)
        .map(|internal| {
            Map {
                client: victim,
                internal,
                ..MAP
            }
            .bytes()
        })
        .collect();
    own.iter()
        .for_each(|request| assert!(matches!(world.ask(victim, request), Some((0, ..)))));
    let link = victim.parse::<Ipv6Addr>().unwrap().to_bits() & u128::MAX << 64;
    for round in 0..3u128 {
        world.wait(300);
        for n in 0..5_000u128 {
            let host = match n % 3 {
                0 => Ipv6Addr::from_bits(link + 6 + n),
                1 => address(n * 7, n),
                _ => victim.parse().unwrap(),
            };
            let client = &*host.to_string();
            let forged = Map {
                client,
                internal: (n % 9) as u16 + 1,
                nonce: 200,
                lifetime: (n % 2) as u32 * 600,
                ..MAP
            };
            world.send(client, &forged.bytes());
        }
        let before = world.tables.asked;
        for request in &own {
            let said = world.ask(victim, request);
            assert!(
                matches!(said, Some((0, 3600, _))),
                "round {round}: {said:?}"
            );
        }
        assert!(world.tables.asked <= before + own.len());
        // It cannot use this to flood the tables itself: not twice in a second.
        let again = world.ask(victim, &own[0]);
        assert_eq!(again, None);
    }
    assert!(world.count("drop.rate") > 4_000);
    assert!(world.server.mappings() <= 1000);
    let kept = own.len();
    let of_victim = world
        .tables
        .granted
        .keys()
        .filter(|(_, v6)| v6.addr.to_string() == victim);
    assert!(of_victim.count() >= kept);
}

/// One link's requests reach the tables so often and no more.
#[test]
fn a_link_asks_the_tables_so_often() {
    let mut world = World::new(settings());
    for n in 0..100_000u128 {
        world.now += std::time::Duration::from_micros(100);
        granted(&mut world, std::iter::once((address(1, n), 1)));
    }
    // 200 at once, and 20 a second for ten seconds.
    let answered = 100_000 - world.count("drop.rate");
    assert!((395..=401).contains(&answered), "{answered}");
}

/// What a stranger may send: a request, changed somewhere.
fn datagram() -> impl Strategy<Value = (u8, Vec<u8>)> {
    // Often enough the end of a mapping.
    let lifetime = prop_oneof![1 => Just(0u32), 2 => 1u32..4000];
    let map = (
        0u8..4,
        lifetime,
        0u8..3,
        prop_oneof![Just(6u8), Just(17), any::<u8>()],
        0u16..4,
        0u16..9000,
    );
    let request = map.prop_map(|(host, lifetime, nonce, protocol, internal, port)| {
        let client = &*address(u128::from(host / 2), u128::from(host)).to_string();
        (
            host,
            Map {
                client,
                lifetime,
                nonce,
                protocol,
                internal,
                port,
                ..MAP
            }
            .bytes(),
        )
    });
    let changes = prop::collection::vec((0usize..80, any::<u8>()), 0..3);
    let behind = prop::collection::vec(any::<u8>(), 0..40);
    (
        request,
        changes,
        prop_oneof![Just(Vec::new()), behind],
        0usize..120,
    )
        .prop_map(|((host, mut bytes), changes, behind, len)| {
            bytes.extend(behind);
            for (at, value) in changes {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = value;
                }
            }
            if len < 60 {
                bytes.truncate(len * 2);
            }
            (host, bytes)
        })
}

proptest! {
    /// An answer is no longer than its request; a mapping is its asker's and changes by its nonce only; nothing stays behind.
    #[test]
    fn strangers(all in prop::collection::vec((datagram(), 0u64..400), 1..60)) {
        let mut world = World::new(diolkos_pcp::Settings { max_mappings: 6, max_mappings_per_source: 4, ..settings() });
        // The nonce of each mapping, as its request had it.
        let mut nonces = std::collections::BTreeMap::new();
        for ((host, bytes), pause) in all {
            world.wait(pause);
            let from = address(u128::from(host / 2), u128::from(host));
            let before: BTreeSet<_> = world.tables.granted.clone().into_iter().collect();
            world.tables.withdrawn.clear();
            if let Some(answer) = world.send(&from.to_string(), &bytes) {
                prop_assert!(answer.len() <= bytes.len() && answer.len() >= 24 && answer.len() % 4 == 0);
                prop_assert_eq!((answer[0], answer[1] & 0x80), (2, 0x80));
            }
            let after: BTreeSet<_> = world.tables.granted.clone().into_iter().collect();
            for ((_, v6), _) in after.symmetric_difference(&before) {
                prop_assert_eq!(v6.addr, from);
            }
            let nonce = bytes.get(24..36).map_or(Vec::new(), <[u8]>::to_vec);
            for (key, _) in before.difference(&after) {
                // Nothing has expired since the pause, so it was ended.
                prop_assert_eq!(nonces.remove(key), Some(nonce.clone()));
            }
            for (key, _) in after.difference(&before) {
                nonces.insert(*key, nonce.clone());
            }
            prop_assert!(after.len() <= 6);
            prop_assert_eq!(after.len(), world.server.mappings() as usize);
        }
        world.wait(7200);
        prop_assert_eq!((world.tables.granted.len(), world.server.mappings()), (0, 0));
    }
}
