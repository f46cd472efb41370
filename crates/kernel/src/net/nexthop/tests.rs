// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;

const UPLINK: u32 = 7;
const VPN: u32 = 9;

fn address(text: &str) -> Ipv6Addr {
    text.parse().expect("an address")
}

fn route(to: &str, metric: u32, router: Option<&str>) -> Route {
    Route {
        to: to.parse().expect("a prefix"),
        metric,
        out: Some(UPLINK),
        router: router.map(address),
        plain: true,
        is_sourced: false,
        is_way: true,
    }
}

/// The decision on replies like those of `ip -6 route get` on Linux 6.18: first for the packet itself, then for the uplink
/// without a source, then for the host's addresses as sources.
fn decided(replies: &[Reply]) -> String {
    let uplink = Link {
        index: UPLINK,
        ..Link::ethernet(UPLINK, 1500)
    };
    let errand = Errand {
        uplink: &uplink,
        from: address("2001:db8::464"),
        to: "64:ff9b::/96".parse().expect("a prefix"),
        forwarded_from: None,
    };
    match decide(replies, &errand) {
        Ok(way) => way.router.map_or("on link".to_owned(), |r| r.to_string()),
        Err(obstacle) => obstacle.text,
    }
}

fn through(index: u32, router: &str) -> Reply {
    Reply::Through(index, Some(address(router)))
}

#[test]
fn the_first_answer_through_the_uplink_is_the_way() {
    assert_eq!(decided(&[through(UPLINK, "fe80::1")]), "fe80::1");
    assert_eq!(decided(&[Reply::Through(UPLINK, None)]), "on link");
    // A better default route leads elsewhere, as with the rules of wg-quick.
    let elsewhere = [through(VPN, "fe80::9"), through(UPLINK, "fe80::1")];
    assert_eq!(decided(&elsewhere), "fe80::1");
    // Only `from HOST/128` rules or routes exist.
    let host = [Reply::Nowhere, Reply::Nowhere, through(UPLINK, "fe80::1")];
    assert_eq!(decided(&host), "fe80::1");
    // A refusal of a later, strict question is not final: the next question may succeed.
    let refused_later = [
        Reply::Nowhere,
        Reply::Refused("unreachable"),
        through(UPLINK, "fe80::1"),
    ];
    assert_eq!(decided(&refused_later), "fe80::1");
}

#[test]
fn a_route_that_refuses_the_packet_is_obeyed() {
    for kind in ["blackhole", "unreachable", "prohibit"] {
        let said = decided(&[Reply::Refused(kind), through(UPLINK, "fe80::1")]);
        assert!(
            said.contains(&format!("refuses packets to 64:ff9b::/96 ({kind})")),
            "{said}"
        );
    }
}

#[test]
fn without_a_way_through_the_uplink_there_is_an_obstacle() {
    let none = "no IPv6 route to 64:ff9b::/96 through eth0";
    assert_eq!(decided(&[]), none);
    assert_eq!(decided(&[Reply::Nowhere; 3]), none);
    assert_eq!(decided(&[through(VPN, "fe80::9"), Reply::Here]), none);
}

#[test]
fn the_kernel_is_asked_for_the_packet_itself() {
    let uplink = Link::ethernet(UPLINK, 1500);
    let sent = Errand {
        uplink: &uplink,
        from: address("2001:db8::464"),
        to: "2001:db8:64::/96".parse().expect("a prefix"),
        forwarded_from: None,
    };
    let question = sent.itself();
    assert_eq!(question.to, address("2001:db8:64::192.0.0.170"));
    assert_eq!(question.from, Some(sent.from));
    assert_eq!((question.came_by, question.exit), (None, Some(UPLINK)));
    let forwarded = Errand {
        forwarded_from: Some(3),
        ..sent
    };
    let question = forwarded.itself();
    // The exit route applies to the CLAT's address only, so the question names the address beside it.
    assert_eq!(question.from, Some(address("2001:db8::465")));
    assert_eq!((question.came_by, question.exit), (Some(3), None));
}

#[test]
fn what_a_router_stands_before_is_not_on_the_link() {
    let default = route("::/0", 1024, Some("fe80::1"));
    let elsewhere = Route {
        out: Some(UPLINK + 1),
        ..route("2001:db8:f00::464/128", 1, None)
    };
    let unreachable = Route {
        out: None,
        is_way: false,
        ..route("2001:db8:f00::/56", 1, None)
    };
    let routed = [default.clone(), elsewhere, unreachable];
    assert!(!is_on_link(&routed, UPLINK));
    assert!(is_on_link(
        &[default, route("2001:db8::/64", 256, None)],
        UPLINK
    ));
    assert!(!is_on_link(&[], UPLINK));
}

fn is_varied(routes: &[Route]) -> bool {
    let prefix = "64:ff9b::/96".parse().expect("a prefix");
    varies(routes, prefix, UPLINK)
}

#[test]
fn one_next_hop_stands_for_the_prefix_where_one_route_leads_there() {
    assert!(!is_varied(&[route("::/0", 1024, Some("fe80::1"))]));
    // The longer prefix and then the lower metric wins.
    assert!(!is_varied(&[
        route("::/0", 10, Some("fe80::1")),
        route("64:ff9b::/96", 1024, Some("fe80::2")),
        route("64:ff9b::/96", 512, Some("fe80::3")),
    ]));
    assert!(!is_varied(&[]));
}

#[test]
fn the_kernel_chooses_among_routes_through_the_uplink() {
    let default = || route("::/0", 10, Some("fe80::1"));
    let part = route("64:ff9b::c000:0/112", 10, Some("fe80::2"));
    assert!(is_varied(&[default(), part.clone()]));
    assert!(is_varied(&[default(), route("::/0", 10, Some("fe80::2"))]));
    assert!(is_varied(&[Route {
        plain: false,
        ..default()
    }]));
    let refused = Route {
        out: Some(1),
        plain: false,
        is_way: false,
        ..part.clone()
    };
    assert!(is_varied(&[default(), refused]));
    // With a route through another link, its next hop would be taken for a neighbour on the uplink.
    let vpn = |to| Route {
        out: Some(VPN),
        ..route(to, 1, Some("fe80::9"))
    };
    assert!(!is_varied(&[default(), part.clone(), vpn("::/0")]));
    assert!(!is_varied(&[default(), vpn("64:ff9b::c000:0/112")]));
    // A route for certain sources only may not apply to the CLAT's source.
    let of_host = Route {
        is_sourced: true,
        ..default()
    };
    assert!(!is_varied(&[of_host]));
    // A route through a next hop object does not name its interface.
    let object = Route {
        out: None,
        ..route("::/0", 20, None)
    };
    assert!(!is_varied(&[default(), part, object]));
}
