// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Bindings that nodes ask for (PCP).

use crate::harness::*;
use diolkos_nat64::config::{Endpoint6, Filtering, Pool4, PortBlocks, Protocol};
use diolkos_nat64::session::{
    BindError, Event, GrantError, Granted, Inward, Origin, Segment, Wish,
};
use diolkos_xlat::Reason;

const UDP: Protocol = Protocol::Udp;
const TCP: Protocol = Protocol::Tcp;
const OTHER: Segment = Segment::Other;
const PEER: &str = "192.0.2.1:53";
const STRANGER: &str = "198.51.100.77:4444";

fn node() -> Endpoint6 {
    e6("2001:db8::5", 8080)
}

fn wish(text: &str, is_strict: bool) -> Wish {
    let v4 = e4(text);
    Wish {
        addr: Some(v4.addr).filter(|addr| !addr.is_unspecified()),
        port: Some(v4.port).filter(|port| *port != 0),
        is_strict,
    }
}

fn ask(
    t: &mut Tables,
    protocol: Protocol,
    v6: Endpoint6,
    wish: Wish,
) -> Result<Granted, GrantError> {
    let mut random = random();
    t.state.grant(protocol, v6, wish, &mut random, &mut t.watch)
}

fn origins(t: &Tables) -> Vec<Origin> {
    t.state.bindings().map(|view| view.origin).collect()
}

/// RFC 6887 section 11: the port is the node's, whoever sends to it.
#[test]
fn everybody_may_send_to_it_whatever_the_filtering_is() {
    for filtering in [Filtering::EndpointIndependent, Filtering::AddressDependent] {
        let mut config = config();
        config.filtering = filtering;
        let mut t = Tables::new(&config);
        let granted = ask(&mut t, TCP, node(), Wish::default()).unwrap();
        assert!(!granted.is_static);
        let opened = binding(TCP, &granted.v4.to_string(), node());
        assert_eq!(t.watch.events, [Event::BindingOpened(opened)]);
        let came = t.inward(TCP, granted.v4, STRANGER, Segment::Syn);
        assert_eq!(came, Ok(Inward::Node(node(), 0)));
        t.wait(10_000.0);
        assert_eq!(
            (t.sessions(), origins(&t)),
            (0, vec![Origin::Pcp]),
            "it does not end by itself"
        );
        assert!(t.state.is_granted(&opened));
        assert!(t.state.withdraw(&opened, usize::MAX, &mut t.watch));
        assert!(t.is_empty());
        assert!(!t.state.is_granted(&opened));
        assert_eq!(t.watch.events.last(), Some(&Event::BindingClosed(opened)));
    }
}

#[test]
fn the_wanted_port_is_given_if_it_is_free_and_of_the_nodes_address() {
    let mut t = Tables::new(&config());
    let first = ask(&mut t, UDP, node(), wish("203.0.113.1:6881", false)).unwrap();
    assert_eq!(first.v4, e4("203.0.113.1:6881"));
    let other = e6("2001:db8::6", 8080);
    let second = ask(&mut t, UDP, other, wish("0.0.0.0:6881", false)).unwrap();
    assert_ne!(second.v4.port, 6881, "it is taken");
    for (port, text) in [
        (1, "203.0.113.1:6881"),
        (2, "203.0.113.1:80"),
        (3, "198.51.100.1:7000"),
        (4, "198.51.100.1:0"),
    ] {
        let asked = e6("2001:db8::7", port);
        let strict = ask(&mut t, UDP, asked, wish(text, true));
        assert_eq!(strict, Err(GrantError::NotThisPort), "{text}");
        let v4 = ask(&mut t, UDP, asked, wish(text, false)).unwrap().v4;
        assert_eq!(v4.addr, e4("203.0.113.1:1").addr, "{text}");
        assert!(v4.port >= 1024, "{text}: {v4}");
    }
    let any_port = ask(
        &mut t,
        UDP,
        e6("2001:db8::8", 1),
        wish("203.0.113.1:0", true),
    )
    .unwrap();
    assert!(any_port.v4.port >= 1024);
}

/// RFC 6887 section 11.3: a mapping of a packet keeps its port. Its sessions go on when the grant ends.
#[test]
fn what_a_packet_has_opened_keeps_its_port_and_its_own_sessions() {
    let mut t = Tables::new(&config());
    let v4 = t.out(UDP, node(), PEER, OTHER).unwrap();
    assert_eq!(
        ask(&mut t, UDP, node(), wish("0.0.0.0:7777", true)),
        Err(GrantError::NotThisPort)
    );
    assert_eq!(origins(&t), [Origin::Dynamic]);
    assert_eq!(
        ask(&mut t, UDP, node(), wish("0.0.0.0:7777", false))
            .unwrap()
            .v4,
        v4
    );
    t.inward(UDP, v4, STRANGER, OTHER).unwrap();
    assert_eq!(t.sessions(), 2);
    let granted = binding(UDP, &v4.to_string(), node());
    assert!(t.state.withdraw(&granted, usize::MAX, &mut t.watch));
    assert_eq!(
        (t.sessions(), origins(&t)),
        (1, vec![Origin::Dynamic]),
        "that of the stranger has ended"
    );
    assert_eq!(t.out(UDP, node(), PEER, OTHER), Ok(v4));
    t.wait(10_000.0);
    assert!(t.is_empty());
}

#[test]
fn the_operators_binding_stays_the_operators() {
    let mut t = Tables::new(&config());
    let bound = binding(TCP, "203.0.113.1:443", node());
    t.state.bind(bound, &mut t.watch).unwrap();
    let granted = ask(&mut t, TCP, node(), Wish::default()).unwrap();
    assert_eq!((granted.v4, granted.is_static), (bound.v4, true));
    assert!(!t.state.is_granted(&bound));
    assert!(t.state.withdraw(&bound, usize::MAX, &mut t.watch));
    assert_eq!(origins(&t), [Origin::Operator]);
    // The other way round: the operator takes over what a node has asked for.
    let other = e6("2001:db8::6", 1);
    let v4 = ask(&mut t, UDP, other, Wish::default()).unwrap().v4;
    let taken = binding(UDP, &v4.to_string(), other);
    t.state.bind(taken, &mut t.watch).unwrap();
    assert!(t.state.withdraw(&taken, usize::MAX, &mut t.watch));
    assert_eq!(origins(&t), [Origin::Operator; 2]);
    let foreign = binding(UDP, &v4.to_string(), node());
    assert_eq!(t.state.bind(foreign, &mut ()), Err(BindError::Taken(other)));
}

#[test]
fn limits_shares_and_pools_are_those_of_packets() {
    let mut few = config();
    few.limits.bindings_per_source = 2;
    few.limits.bindings = 3;
    let mut t = Tables::new(&few);
    for (host, expected) in [
        ("2001:db8::5", None),
        ("2001:db8::6", None),
        ("2001:db8::7", Some(Reason::SourceBindingLimit)),
        ("2001:db8:1::5", None),
        ("2001:db8:2::5", Some(Reason::BindingLimit)),
    ] {
        let got = ask(&mut t, UDP, e6(host, 1), Wish::default()).err();
        assert_eq!(got, expected.map(GrantError::Refused), "{host}");
    }
    let mut by_source = config();
    by_source.pool4[0].sources = vec!["2001:db8:a::/48".parse().unwrap()];
    let mut t = Tables::new(&by_source);
    assert!(ask(&mut t, UDP, e6("2001:db8:a::1", 1), Wish::default()).is_ok());
    let stranger = ask(&mut t, UDP, e6("2001:db8:b::1", 1), Wish::default());
    assert_eq!(stranger, Err(GrantError::Refused(Reason::SourceUnmapped)));
    let peer = ask(&mut t, UDP, e6("2001:db8:64::1", 1), Wish::default()).err();
    assert!(
        matches!(peer, Some(GrantError::Refused(_))),
        "an address of an IPv4 host"
    );
    let mut t = Tables::new(&config());
    let peer = ask(&mut t, UDP, e6("2001:db8:64::1", 1), Wish::default());
    assert_eq!(peer, Err(GrantError::Refused(Reason::SourceIllegal)));
}

/// A node gets no port of a block of somebody else, so the log of blocks names the right one.
#[test]
fn ports_come_from_blocks_of_the_source() {
    let mut config = config();
    config.blocks = Some(PortBlocks {
        ports: 64,
        per_source: 2,
        source_prefix_len: 64,
    });
    let mut t = Tables::new(&config);
    let other = t.out(UDP, e6("2001:db8:9::1", 1), PEER, OTHER).unwrap();
    let beside = format!("0.0.0.0:{}", other.port ^ 1);
    let strict = ask(&mut t, UDP, node(), wish(&beside, true));
    assert_eq!(strict, Err(GrantError::NotThisPort));
    let v4 = ask(&mut t, UDP, node(), wish(&beside, false)).unwrap().v4;
    assert!(t.state.is_in_block(&binding(UDP, &v4.to_string(), node())));
    // In its own block, it may choose.
    let beside = format!("0.0.0.0:{}", v4.port ^ 1);
    let next = e6("2001:db8::6", 1);
    let chosen = ask(&mut t, UDP, next, wish(&beside, true)).unwrap();
    assert_eq!(chosen.v4.port, v4.port ^ 1);
}

/// A reload that takes the port away ends it, and one that does not leaves it.
#[test]
fn a_reload_keeps_what_the_pool_still_has() {
    let mut t = Tables::new(&config());
    let high = ask(&mut t, UDP, node(), wish("0.0.0.0:50000", true)).unwrap();
    let low = ask(&mut t, TCP, node(), wish("0.0.0.0:2000", true)).unwrap();
    let mut fewer = config();
    fewer.pool4 = vec![Pool4 {
        ports: 40_000..=65_535,
        ..fewer.pool4[0].clone()
    }];
    t.state.reconfigure(&fewer, &mut t.watch);
    assert!(t
        .state
        .is_granted(&binding(UDP, &high.v4.to_string(), node())));
    assert!(!t
        .state
        .is_granted(&binding(TCP, &low.v4.to_string(), node())));
    assert_eq!(t.state.counts().bindings, 1);
}

/// Otherwise a stranger would get the block, and the log of blocks would name the stranger.
#[test]
fn a_reload_leaves_its_block_to_its_source() {
    let mut config = config();
    config.blocks = Some(PortBlocks {
        ports: 64,
        per_source: 1,
        source_prefix_len: 64,
    });
    config.pool4[0].ports = 1024..=1151;
    let mut t = Tables::new(&config);
    let v4 = ask(&mut t, UDP, node(), Wish::default()).unwrap().v4;
    let granted = binding(UDP, &v4.to_string(), node());
    config.filtering = Filtering::AddressDependent;
    t.state.reconfigure(&config, &mut t.watch);
    assert!(t.state.is_granted(&granted) && t.state.is_in_block(&granted));
    let block = |port: u16| port / 64;
    let stranger = t.out(UDP, e6("2001:db8:9::1", 1), PEER, OTHER).unwrap();
    assert_ne!(block(stranger.port), block(v4.port));
    let third = t.out(UDP, e6("2001:db8:a::1", 1), PEER, OTHER);
    assert!(third.is_err(), "both blocks are taken: {third:?}");
}

/// A host that names its ports gets as many of its source's block as one that does not.
#[test]
fn named_ports_count_against_the_share_of_a_host() {
    let mut config = config();
    config.blocks = Some(PortBlocks {
        ports: 64,
        per_source: 1,
        source_prefix_len: 64,
    });
    config.limits.host_share = 50;
    let mut given = Vec::new();
    for is_named in [false, true] {
        let mut t = Tables::new(&config);
        let first = ask(&mut t, UDP, node(), Wish::default()).unwrap().v4;
        let begin = first.port / 64 * 64;
        let mut ports = 1;
        for port in (begin..begin + 64).filter(|port| *port != first.port) {
            let asked = e6("2001:db8::5", port);
            let named = wish(&format!("0.0.0.0:{port}"), true);
            let wish = if is_named { named } else { Wish::default() };
            match ask(&mut t, UDP, asked, wish) {
                Ok(_) => ports += 1,
                Err(error) => {
                    assert_eq!(error, GrantError::Refused(Reason::HostBindingLimit));
                    break;
                }
            }
        }
        given.push(ports);
    }
    assert_eq!(given, [32, 32]);
}

/// RFC 6887 section 13.2: PREFER_FAILURE with an address and any port of it.
#[test]
fn another_address_is_no_success_for_who_wants_this_one() {
    let mut config = config();
    config.pool4[0].net = "203.0.113.0/31".parse().unwrap();
    config.pool4[0].ports = 1024..=1031;
    let mut t = Tables::new(&config);
    let own = ask(&mut t, UDP, node(), Wish::default()).unwrap().v4.addr;
    let mut port = 1;
    loop {
        port += 1;
        let asked = e6("2001:db8::5", port);
        if ask(&mut t, UDP, asked, Wish::default()).unwrap().v4.addr != own {
            break;
        }
    }
    let bindings = t.state.counts().bindings;
    for _ in 0..100 {
        let strict = ask(
            &mut t,
            UDP,
            e6("2001:db8::5", 100),
            wish(&format!("{own}:0"), true),
        );
        assert_eq!(strict, Err(GrantError::NotThisPort));
    }
    assert_eq!(t.state.counts().bindings, bindings);
    let other = ask(&mut t, UDP, e6("2001:db8::5", 100), Wish::default());
    assert_ne!(other.unwrap().v4.addr, own, "its ports were given back");
}

/// Packets pass between the slices in which many sessions end.
#[test]
fn a_grant_ends_in_slices() {
    let mut t = Tables::new(&config());
    let v4 = ask(&mut t, UDP, node(), Wish::default()).unwrap().v4;
    let granted = binding(UDP, &v4.to_string(), node());
    t.out(UDP, node(), PEER, OTHER).unwrap();
    for port in 1..=25 {
        let peer = format!("198.51.100.77:{port}");
        t.inward(UDP, v4, &peer, OTHER).unwrap();
    }
    for left in [16, 6] {
        assert!(!t.state.withdraw(&granted, 10, &mut t.watch));
        assert_eq!((t.sessions(), t.state.is_granted(&granted)), (left, true));
    }
    assert!(t.state.withdraw(&granted, 10, &mut t.watch));
    assert_eq!((t.sessions(), origins(&t)), (1, vec![Origin::Dynamic]));
}
