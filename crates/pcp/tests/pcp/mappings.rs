// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a client may ask for, and what becomes of it (RFC 6887 sections 8, 11 and 15).

use diolkos_nat64::config::{Endpoint6, Protocol};
use diolkos_nat64::session::GrantError;
use diolkos_xlat::Reason;

use crate::world::*;

const SUCCESS: u8 = 0;
const NOT_AUTHORIZED: u8 = 2;
const MALFORMED_REQUEST: u8 = 3;
const NO_RESOURCES: u8 = 8;
const UNSUPP_PROTOCOL: u8 = 9;
const USER_EX_QUOTA: u8 = 10;
const CANNOT_PROVIDE_EXTERNAL: u8 = 11;

#[test]
fn a_mapping_lasts_until_its_end_and_no_longer() {
    let mut world = World::new(settings());
    assert_eq!(
        world.ask(MAP.client, &MAP.bytes()),
        Some((SUCCESS, 3600, 1024))
    );
    world.wait(3599);
    assert_eq!(world.tables.granted.len(), 1);
    world.wait(1);
    assert_eq!(
        (world.tables.granted.len(), world.server.mappings()),
        (0, 0)
    );
    assert_eq!((world.count("mapped"), world.count("expired")), (1, 1));
}

#[test]
fn the_nonce_renews_it_with_the_same_port() {
    let mut world = World::new(settings());
    world.ask(MAP.client, &MAP.bytes());
    for _ in 0..5 {
        world.wait(2000);
        let again = Map { port: 7777, ..MAP };
        assert_eq!(
            world.ask(MAP.client, &again.bytes()),
            Some((SUCCESS, 3600, 1024))
        );
    }
    assert_eq!((world.count("mapped"), world.count("renewed")), (1, 5));
    world.wait(3600);
    assert_eq!(world.server.mappings(), 0);
}

/// Section 11.3: for as long as the mapping lasts.
#[test]
fn another_nonce_neither_renews_nor_ends_it() {
    let mut world = World::new(settings());
    world.ask(MAP.client, &MAP.bytes());
    world.wait(600);
    for lifetime in [7200, 0] {
        let other = Map {
            nonce: 2,
            lifetime,
            ..MAP
        };
        let said = world.ask(MAP.client, &other.bytes());
        assert_eq!(
            said.map(|(code, left, _)| (code, left)),
            Some((NOT_AUTHORIZED, 3000))
        );
    }
    world.wait(3000);
    assert_eq!(world.server.mappings(), 0, "its end is where it was");
}

#[test]
fn its_client_ends_it_and_may_say_so_twice() {
    let mut world = World::new(settings());
    world.ask(MAP.client, &MAP.bytes());
    let end = Map { lifetime: 0, ..MAP };
    assert_eq!(world.ask(MAP.client, &end.bytes()), Some((SUCCESS, 0, 0)));
    assert!(world.tables.granted.is_empty());
    assert_eq!(world.ask(MAP.client, &end.bytes()), Some((SUCCESS, 0, 0)));
    assert_eq!(world.count("deleted"), 1);
}

#[test]
fn lifetimes_have_bounds() {
    let mut world = World::new(settings());
    for (asked, got) in [(1, 120), (120, 120), (7200, 7200), (u32::MAX, 7200)] {
        let request = Map {
            lifetime: asked,
            ..MAP
        };
        let said = world.ask(MAP.client, &request.bytes());
        assert_eq!(said, Some((SUCCESS, got, 1024)), "{asked}");
    }
    world.wait(7200);
    assert_eq!(world.server.mappings(), 0);
}

#[test]
fn what_has_no_ports_is_refused() {
    let mut world = World::new(settings());
    for (protocol, internal, code) in [
        (0, 0, UNSUPP_PROTOCOL),
        (0, 80, MALFORMED_REQUEST),
        (6, 0, UNSUPP_PROTOCOL),
        (58, 80, UNSUPP_PROTOCOL),
        (132, 80, UNSUPP_PROTOCOL),
    ] {
        for lifetime in [3600, 0] {
            let request = Map {
                protocol,
                internal,
                lifetime,
                ..MAP
            };
            let said = world.ask(MAP.client, &request.bytes());
            assert_eq!(
                said.map(|(code, life, _)| (code, life)),
                Some((code, 1800)),
                "{protocol} {internal}"
            );
        }
    }
    assert_eq!(world.tables.asked, 0);
}

/// Section 13.2.
#[test]
fn just_this_port_or_none() {
    let mut world = World::new(settings());
    let strict = |internal, port, address| {
        Map {
            internal,
            port,
            address,
            ..MAP
        }
        .and(2, &[])
    };
    let any = "::ffff:0.0.0.0";
    assert_eq!(
        world.ask(MAP.client, &strict(1, 7000, any)),
        Some((SUCCESS, 3600, 7000))
    );
    for (internal, port, address) in [
        (2, 7000, any),
        (3, 7001, "::ffff:192.0.2.9"),
        (4, 7001, "2001:db8:9::1"),
        (1, 7001, any),
    ] {
        let said = world.ask(MAP.client, &strict(internal, port, address));
        assert_eq!(
            said.map(|said| said.0),
            Some(CANNOT_PROVIDE_EXTERNAL),
            "{internal} {port} {address}"
        );
    }
    // Whoever does not insist gets another one; an IPv6 address can only be a mistake.
    let other = Map {
        internal: 5,
        port: 7000,
        address: "2001:db8:9::1",
        ..MAP
    };
    assert_eq!(
        world.ask(MAP.client, &other.bytes()),
        Some((SUCCESS, 3600, 1024))
    );
}

#[test]
fn only_those_that_may_ask() {
    let sources = vec!["2001:db8:a::/48".parse().unwrap()];
    let mut world = World::new(diolkos_pcp::Settings {
        sources,
        ..settings()
    });
    let said = world.ask(MAP.client, &MAP.bytes()).map(|said| said.0);
    assert_eq!(said, Some(NOT_AUTHORIZED));
    let client = "2001:db8:a::5";
    let said = world
        .ask(client, &Map { client, ..MAP }.bytes())
        .map(|said| said.0);
    assert_eq!(said, Some(SUCCESS));
}

#[test]
fn what_the_tables_refuse_has_its_code() {
    let mut world = World::new(settings());
    for (reason, code, lifetime) in [
        (Reason::SourceUnmapped, NOT_AUTHORIZED, 1800),
        (Reason::SourceIllegal, NOT_AUTHORIZED, 1800),
        (Reason::SourceBindingLimit, USER_EX_QUOTA, 30),
        (Reason::HostBindingLimit, USER_EX_QUOTA, 30),
        (Reason::SiteBindingLimit, USER_EX_QUOTA, 30),
        (Reason::BindingLimit, NO_RESOURCES, 30),
        (Reason::PoolExhausted, NO_RESOURCES, 30),
        (Reason::NotServing, NO_RESOURCES, 30),
    ] {
        world.tables.refuses = Some(reason);
        let said = world.ask(MAP.client, &MAP.bytes());
        assert_eq!(
            said.map(|(code, life, _)| (code, life)),
            Some((code, lifetime)),
            "{reason:?}"
        );
    }
    assert_eq!(world.server.mappings(), 0);
    assert_eq!(world.count("refused.user_ex_quota"), 3);
}

/// It has no end, so nothing is kept of it.
#[test]
fn the_operators_binding_is_told_and_left_alone() {
    let mut world = World::new(settings());
    let v6 = Endpoint6 {
        addr: MAP.client.parse().unwrap(),
        port: MAP.internal,
    };
    let v4 = "192.0.2.3:443".parse().unwrap();
    world.tables.fixed.insert((Protocol::Tcp, v6), v4);
    assert_eq!(
        world.ask(MAP.client, &MAP.bytes()),
        Some((SUCCESS, 3600, 443))
    );
    let end = Map { lifetime: 0, ..MAP };
    world.ask(MAP.client, &end.bytes());
    world.wait(10_000);
    assert_eq!(
        (world.server.mappings(), world.tables.withdrawn.len()),
        (0, 0)
    );
}

/// `bind del`: the next renewal makes it again, where its client wants it.
#[test]
fn what_the_operator_has_ended_is_asked_for_again() {
    let mut world = World::new(settings());
    world.ask(MAP.client, &Map { port: 7000, ..MAP }.bytes());
    world.tables.granted.clear();
    let again = Map { port: 7000, ..MAP };
    assert_eq!(
        world.ask(MAP.client, &again.bytes()),
        Some((SUCCESS, 3600, 7000))
    );
    assert_eq!((world.count("mapped"), world.server.mappings()), (2, 1));
}

/// Section 8.5: by an epoch that begins again, clients learn that their mappings are lost.
#[test]
fn the_epoch_begins_again_when_a_reload_has_ended_mappings() {
    let mut world = World::new(settings());
    let epoch = |world: &mut World| {
        let mut announce = MAP.bytes()[..24].to_vec();
        announce[1] = 0;
        let answer = world.send(MAP.client, &announce).unwrap();
        u32::from_be_bytes(answer[8..12].try_into().unwrap())
    };
    for internal in 1..=3 {
        world.ask(MAP.client, &Map { internal, ..MAP }.bytes());
    }
    world.wait(100);
    world.server.follow(settings());
    world.server.compare(world.now, &mut world.tables);
    assert_eq!(epoch(&mut world), 100, "nothing was lost");
    world.tables.granted.pop_first();
    world.server.compare(world.now, &mut world.tables);
    world.wait(1);
    assert_eq!(
        (
            epoch(&mut world),
            world.server.mappings(),
            world.count("lost")
        ),
        (1, 2, 1)
    );
}

#[test]
fn all_end_with_the_server() {
    let mut world = World::new(settings());
    for internal in 1..=20 {
        world.ask(MAP.client, &Map { internal, ..MAP }.bytes());
    }
    assert!(world.server.end_some(&mut world.tables));
    assert_eq!(
        (world.tables.granted.len(), world.server.mappings()),
        (0, 0)
    );
}

/// A wish is met by what has the same address and the same port, as far as it names them.
#[test]
fn a_strict_wish_is_met_by_itself_only() {
    let wish = |addr: Option<&str>, port, is_strict| diolkos_nat64::session::Wish {
        addr: addr.map(|addr| addr.parse().unwrap()),
        port,
        is_strict,
    };
    let v4 = "192.0.2.1:7000".parse().unwrap();
    for (addr, port, is_met) in [
        (None, None, true),
        (Some("192.0.2.1"), None, true),
        (Some("192.0.2.1"), Some(7000), true),
        (Some("192.0.2.2"), Some(7000), false),
        (None, Some(7001), false),
    ] {
        let expected = if is_met {
            Ok(())
        } else {
            Err(GrantError::NotThisPort)
        };
        assert_eq!(wish(addr, port, true).is_met_by(v4), expected);
        assert_eq!(wish(addr, port, false).is_met_by(v4), Ok(()));
    }
}

#[test]
fn without_sources_nobody_may_ask() {
    let mut world = World::new(diolkos_pcp::Settings {
        sources: Vec::new(),
        ..settings()
    });
    let said = world.ask(MAP.client, &MAP.bytes()).map(|said| said.0);
    assert_eq!((said, world.tables.asked), (Some(NOT_AUTHORIZED), 0));
}

#[test]
fn who_may_no_longer_ask_may_still_end_its_mapping() {
    let mut world = World::new(settings());
    world.ask(MAP.client, &MAP.bytes());
    world.server.follow(diolkos_pcp::Settings {
        sources: vec!["2001:db8:a::/48".parse().unwrap()],
        ..settings()
    });
    let mut said = |map: Map| world.ask(MAP.client, &map.bytes()).map(|said| said.0);
    let end = Map { lifetime: 0, ..MAP };
    assert_eq!(said(MAP), Some(NOT_AUTHORIZED));
    assert_eq!(said(Map { nonce: 2, ..end }), Some(NOT_AUTHORIZED));
    assert_eq!(said(end), Some(SUCCESS));
    assert!(world.tables.granted.is_empty());
    let again = world.ask(MAP.client, &end.bytes()).map(|said| said.0);
    assert_eq!(again, Some(NOT_AUTHORIZED), "there is nothing to end");
}

/// A host of the link may forge the router's address, and would open the router's ports.
#[test]
fn the_routers_own_address_does_not_ask() {
    let mut world = World::new(settings());
    let client = "2001:db8::1";
    assert_eq!(world.send(client, &Map { client, ..MAP }.bytes()), None);
    assert_eq!((world.count("drop.malformed"), world.tables.asked), (1, 0));
}

/// Others may have the server in between.
#[test]
fn many_mappings_end_some_at_a_time() {
    let mut world = World::new(settings());
    for n in 0..200u16 {
        let client = &*format!("2001:db8:{n:x}::5");
        world.ask(client, &Map { client, ..MAP }.bytes());
    }
    world.now += std::time::Duration::from_secs(7200);
    for left in [136, 72, 8] {
        assert!(!world.server.expire(world.now, &mut world.tables));
        assert_eq!(world.server.mappings(), left);
    }
    assert!(world.server.expire(world.now, &mut world.tables));
    assert_eq!((world.server.mappings(), world.count("expired")), (0, 200));
}
