// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Calls and replies survive writing and parsing.

use super::*;
use diolkos_figures::entries::Order;
use diolkos_nat64::config::{Endpoint4, Endpoint6, Protocol};

const EVERYTHING: Selection = Selection {
    protocol: None,
    node: None,
    peer: None,
    limit: None,
};
const ALL: [Request; 14] = [
    Request::Counters,
    Request::Figures,
    Request::Config,
    Request::Prefix,
    Request::Reload,
    Request::Stop,
    Request::Cluster,
    Request::Drain,
    Request::Join,
    Request::Roll { seconds: 60 },
    Request::CancelRoll,
    Request::Sessions(EVERYTHING),
    Request::Bindings(EVERYTHING),
    Request::Top {
        order: Order::Share,
        lines: 7,
    },
];

fn seen_at(port: u16) -> Endpoint4 {
    let addr = "192.0.2.1".parse().expect("it is an address");
    Endpoint4 { addr, port }
}

fn unbind() -> Request {
    Request::Unbind {
        protocol: Protocol::Udp,
        v4: seen_at(7),
    }
}

#[test]
fn a_call_says_what_was_asked_and_is_described() {
    let bind = Request::Bind(Binding {
        protocol: Protocol::Tcp,
        v4: seen_at(80),
        v6: Endpoint6 {
            addr: "2001:db8::1".parse().expect("it is an address"),
            port: 80,
        },
    });
    let plain = Details {
        length: None,
        dont_fragment: false,
        hop_limit: 64,
        mss: None,
    };
    let long = Details {
        length: Some(1500),
        dont_fragment: true,
        hop_limit: 1,
        mss: Some(1460),
    };
    let datagram = "udp 192.0.2.1 53 > 192.0.2.2 80";
    let echo = "icmp echo 7 192.0.2.2 > 192.0.2.1";
    let traces = [(plain, datagram), (long, echo)].map(|(details, text)| {
        let words = text.parse();
        let words = words.expect("it is a packet");
        Request::Trace(Imagined { words, details })
    });
    let some = Selection {
        protocol: Some(Protocol::Udp),
        node: "[2001:db8::2]:4711".parse().ok(),
        peer: None,
        limit: Some(7),
    };
    let peer = "198.51.100.0/24".parse().ok();
    let selections = [
        Request::Bindings(some),
        Request::Sessions(Selection { peer, ..some }),
    ];
    let end = |v4| Request::EndSession {
        protocol: Protocol::Tcp,
        v6: "[2001:db8::2]:4711".parse().expect("an endpoint"),
        v4,
        peer: seen_at(80),
    };
    let changes = [bind, unbind(), end(None), end(Some(seen_at(1024)))];
    let all = ALL.into_iter().chain(changes).chain(selections);
    for request in all.chain(traces) {
        let call = call(request);
        let described = format!("\nmethod {}(", call.target().1);
        assert!(INTERFACE.description.contains(&described), "{described}");
        assert_eq!(asked(call), Ok(Asked::Once(request)));
    }
    assert_eq!(asked(call_for_status(true)), Ok(Asked::Follow));
    assert_eq!(asked(call_for_status(false)), Ok(Asked::Status));
}

#[test]
fn a_wrong_call_names_what_is_wrong() {
    let asked_of = |method: &str, parameters| {
        let method = format!("{}.{method}", INTERFACE.name);
        asked(Call::new(method, parameters)).expect_err("it is wrong")
    };
    let unknown = asked_of("Frobnicate", json!({}));
    assert_eq!(
        unknown,
        Refusal::method_not_found("org.diolkos.Translator.Frobnicate")
    );
    assert_eq!(
        asked_of("Stop", json!({ "force": true })),
        Refusal::invalid_parameter("force")
    );
    assert_eq!(
        asked_of("Unbind", json!({ "protocol": "sctp", "v4": "192.0.2.1:7" })),
        Refusal::invalid_parameter("protocol")
    );
    assert_eq!(
        asked_of("Unbind", json!({ "protocol": "udp" })),
        Refusal::invalid_parameter("v4")
    );
    assert_eq!(
        asked_of("Sessions", json!({ "node": "192.0.2.1" })),
        Refusal::invalid_parameter("node")
    );
    // Bindings have no peer.
    assert_eq!(
        asked_of("Bindings", json!({ "peer": "192.0.2.1" })),
        Refusal::invalid_parameter("peer")
    );
}

#[test]
fn answers_come_back_as_they_were_given() {
    let answers = [
        (Request::Counters, Answer::Counters(Vec::new())),
        (Request::Figures, Answer::Figures(Box::default())),
        (Request::Config, Answer::Config("a = 1\n".to_owned())),
        (Request::Reload, Answer::Reloaded),
        (unbind(), Answer::Done),
    ];
    for (request, given) in answers {
        let reply = reply(&given).expect("it is no error");
        assert_eq!(
            answer(request, Vec::new(), reply).expect("it is one"),
            given
        );
    }
    for given in [
        Answer::Misconfigured("a".to_owned()),
        Answer::NotSupported("b".to_owned()),
        Answer::Failed("c".to_owned()),
    ] {
        let error = reply(&given).expect_err("it is an error");
        let described = format!("\nerror {} (reason: string)", error.target().1);
        assert!(INTERFACE.description.contains(&described), "{described}");
        assert_eq!(refusal(&error), given);
    }
}

#[test]
fn entries_are_joined() {
    let part = |entries: &[u32]| json!(EntriesPage { entries, total: 9 });
    let all: Entries<u32> = joined(vec![part(&[1, 2])], part(&[3])).expect("they are entries");
    assert_eq!((all.entries, all.total), (vec![1, 2, 3], 9));
}
